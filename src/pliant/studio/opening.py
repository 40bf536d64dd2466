"""Putting a studio together: what is named on the command line, or synthetic faces to try it on."""

from __future__ import annotations

from pathlib import Path

from pliant.studio.desk import Studio
from pliant.studio.storage.collection import open_collection
from pliant.studio.web.events import Events

_FACES, _BARE = 48, 24
"""Synthetic faces with landmarks, of which a model is made, and those without, to annotate."""


def open_studio(
    source: Path,
    model: Path | None = None,
    results: Path | None = None,
    *,
    read_only: bool = False,
    demo: bool = False,
    images: Path | None = None,
) -> Studio:
    """A studio of a folder, a manifest or an annotation file, with an apprentice that learns what is finished.

    `images` is the folder of the images, if they are not beside their landmarks.
    """
    from pliant.model import load

    if model is not None:
        load(model)  # what is wrong with it is said before anything opens
    collection = open_collection(source, read_only=read_only, images=images)
    return Studio(collection, Events(), model, results, demo)


def demonstration(folder: Path, model: Path | None) -> tuple[Path, Path]:
    """Synthetic faces, some with landmarks and some without, and a model of the former."""
    import pliant
    from pliant.synthetic import write_faces

    faces = folder / "faces"
    write_faces(faces, _FACES + _BARE, seed=0)
    if model is None:
        model = folder / "faces.pliant"
        known = pliant.load_dataset(faces)[:_FACES]
        training = pliant.Training(
            preset="quick", licence="synthetic faces, free of rights", confidence=False
        )
        pliant.train(known, training, progress=False).save(model)
    for sample in pliant.load_dataset(faces)[_FACES:]:
        if isinstance(sample.points_source, Path):
            sample.points_source.unlink()
    return faces, model
