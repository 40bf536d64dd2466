"""Putting a studio together: what is named on the command line, or synthetic faces to try it on."""

from __future__ import annotations

from pathlib import Path

from pliant.studio.desk import Studio
from pliant.studio.results.links import landmarks_from_results
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

    `images` is the folder of the images, if they are not beside their landmarks. Where there are no landmarks yet,
    they are those of the results, or else of the model: nobody has to name what is known.
    """
    from pliant.model import load

    # What is wrong with the model is said before anything opens.
    given = None if model is None else load(model)
    collection = open_collection(source, read_only=read_only, images=images)
    studio = Studio(collection, Events(), model, results, demo)
    if not collection.names and not collection.read_only:
        known = () if given is None else given.landmark_names or tuple(map(str, range(given.landmarks)))
        names = landmarks_from_results(studio) or known
        if names:
            studio.describe(names)
    return studio


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
