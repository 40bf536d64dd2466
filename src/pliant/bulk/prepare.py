"""What a run needs before it begins: a fitter, the way to its starts, and all that decides its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pliant.arrays import Floats, Image
from pliant.bulk.files import Task, fingerprint
from pliant.data.addresses import Source, ending, plain_name
from pliant.data.formats import find_format, format_for_ending
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.model import Model, load
from pliant.settings import Fitting
from pliant.starts.choice import Chain, described_way, find_chain
from pliant.starts.known import boxes_in, known_landmarks
from pliant.trust.confidence import DEFAULT_BOUND, require_bound, require_confidence
from pliant.version import __version__

Where = Callable[[str, Image], Floats] | Chain
"""From an image's name and pixels to its starts, which threads ask side by side, or ways of finding them."""


@dataclass(frozen=True)
class Prepared:
    """A task with what does it."""

    task: Task
    fitter: Fitter
    where: Where


def prepare(
    model: Source,
    images: Sequence[str],
    output: Source,
    settings: Fitting,
    *,
    boxes: Path | None = None,
    jobs: int | None = None,
    **written: Any,
) -> Prepared:
    """A run of a model file on images by their names, to a folder; `written` are the other fields of `Task`.

    `boxes` is a table that says where the object is, in place of `settings.start`.
    """
    if boxes is not None and settings.start != "auto":
        raise ValueError(
            f"boxes={boxes} and start={settings.start} both set where to start: give only one of them."
        )
    _check_formats(written.get("landmarks", ""), written.get("annotations"), output)
    require_bound(written.get("bound", DEFAULT_BOUND))
    below = written.get("flag_below")
    if below is not None:
        require_confidence("flag_below", below)
    loaded = load(model)
    if below is not None and loaded.confidence is None:
        raise ValueError(
            f"flag_below={below}: {model} has no confidence: train it again with confidence=True."
        )
    where = starts_by_name(loaded, settings, boxes)
    fitter = make_fitter(loaded, settings, jobs=jobs, trace=False)
    decisive = {
        **settings.to_dict(),
        "model": f"{plain_name(model)} with the fingerprint {fingerprint(model)}",
        "start": described_way(loaded, settings)
        if boxes is None
        else f"boxes with the fingerprint {fingerprint(boxes)}",
        "algorithm": str(fitter.algorithm),
        "iterations": fitter.iterations,
        "pliant": __version__,
    }
    return Prepared(Task(images, output, decisive, **written), fitter, where)


def _check_formats(landmarks: str, annotations: Source | None, output: Source) -> None:
    """Before hours are spent: can these be written?"""
    if landmarks and find_format(landmarks)[0].MANY:
        raise ValueError(
            f"landmarks={landmarks}: a file of this format holds many images: use annotations=FILE."
        )
    if annotations is None:
        return
    if not find_format(format_for_ending(Path(plain_name(annotations))))[0].MANY:
        raise ValueError(
            f"annotations={annotations}: a {ending(annotations)} file holds the landmarks of one image only."
        )
    # The output folder itself is made by the run.
    if isinstance(annotations, Path) and annotations.parent != output and not annotations.parent.is_dir():
        raise ValueError(f"{annotations}: the folder {annotations.parent} does not exist.")


def starts_by_name(model: Model, settings: Fitting, boxes: Path | None) -> Where:
    """Where the fits of an image begin, by its name if it is known: each box is one of an object of its own."""
    if boxes is not None:
        known = boxes_in(boxes)
        return lambda name, image: known(name)[:, None]
    if settings.start == "landmarks":
        return known_landmarks
    return find_chain(model, settings)
