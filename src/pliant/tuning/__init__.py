"""Choosing the settings of a model by fits of samples that were held out."""
