"""Fitting: algorithms as three orthogonal values over one record of inner products."""
