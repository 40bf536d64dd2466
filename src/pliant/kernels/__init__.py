"""Kernels: they touch the pixels, fill Systems, and know no algorithm."""
