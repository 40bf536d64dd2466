"""Varied, exactly annotated faces, wings and chests, made by a program: what demos, examples and tests train on."""

from pliant.synthetic.chest import chest
from pliant.synthetic.chest_anatomy import CHEST_LANDMARKS, HEART, LEFT_LUNG, RIGHT_LUNG
from pliant.synthetic.dataset import faces, write_faces
from pliant.synthetic.portrait import face
from pliant.synthetic.specimens import chests, wings, write_chests, write_wings
from pliant.synthetic.video import FaceFrame, face_video, write_video
from pliant.synthetic.wing import wing
from pliant.synthetic.wing_anatomy import WING_LANDMARKS

__all__ = [
    "CHEST_LANDMARKS",
    "HEART",
    "LEFT_LUNG",
    "RIGHT_LUNG",
    "WING_LANDMARKS",
    "FaceFrame",
    "chest",
    "chests",
    "face",
    "face_video",
    "faces",
    "wing",
    "wings",
    "write_chests",
    "write_faces",
    "write_video",
    "write_wings",
]
