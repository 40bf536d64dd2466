"""Models that are trained in a second, after every image that a person finishes."""
