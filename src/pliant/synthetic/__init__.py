"""Varied, exactly annotated faces, made by a program: the data set that demos and tests train on."""

from pliant.synthetic.dataset import faces, write_faces
from pliant.synthetic.portrait import face

__all__ = ["face", "faces", "write_faces"]
