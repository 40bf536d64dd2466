"""Where the points are: similarities, mean shapes, and the point distribution model."""

from pliant.shape.pdm import SIMILARITY, ShapeModel, train_shape_model
from pliant.shape.procrustes import Similarity, align, generalised_procrustes, shape_size

__all__ = [
    "SIMILARITY",
    "ShapeModel",
    "Similarity",
    "align",
    "generalised_procrustes",
    "shape_size",
    "train_shape_model",
]
