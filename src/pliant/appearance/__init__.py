"""What the pixels look like: features, views at the scale of a level, and the texture that is drawn.

Nothing is imported here, so that a model can be read where Numba and OpenCV are not installed.
"""
