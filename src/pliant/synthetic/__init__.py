"""Varied, exactly annotated faces, made by a program: the data set that demos and tests train on."""

from pliant.synthetic.dataset import faces, write_faces
from pliant.synthetic.portrait import face
from pliant.synthetic.video import FaceFrame, face_video, write_video

__all__ = ["FaceFrame", "face", "face_video", "faces", "write_faces", "write_video"]
