"""The files that a run writes for each image: its landmarks in a format of their own, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from pliant.arrays import Image
from pliant.bulk.files import PICTURE_SIZE, Drawing, landmark_file, path_of, picture_file
from pliant.data.annotation import Annotation, Size
from pliant.files import named_in_errors
from pliant.fitting.fitter import Fitter
from pliant.fitting.result import FitResult
from pliant.fitting.status import Status
from pliant.trust.confidence import DEFAULT_BOUND

FOLDERS = ("landmarks", "pictures")

Write = Callable[[str, str, FitResult, Image], None]
"""Writes the files of an image, given what they are called, the image's name, its fits and its pixels."""


def writer_to(
    folder: Path, fitter: Fitter, landmarks: str, draw: Drawing | None, bound: float = DEFAULT_BOUND
) -> Write:
    """The function that writes what was asked for about an image; one without a fit has no files.

    Pictures say the confidence about an error of `bound`.
    """
    if not landmarks and draw is None:
        return lambda name, image_name, result, image: None
    model, least = fitter.model, fitter.settings.trusted
    from pliant.data.formats import write_annotations

    texts: Sequence[str] = ()
    if draw is not None and draw.labels:
        texts = [str(k) for k in range(model.landmarks)] if draw.labels == "numbers" else model.landmark_names

    def write(name: str, image_name: str, result: FitResult, image: Image) -> None:
        fits = [(which, fit) for which, fit in enumerate(result.objects) if fit.status is not Status.FAILED]
        if not fits:
            return
        for which, fit in fits if landmarks else ():
            file = folder / landmark_file(name, landmarks, which)
            file.parent.mkdir(exist_ok=True)
            annotation = Annotation(
                path_of(image_name).name,
                fit.points,
                model.landmark_names,
                size=size_of(image),
                hidden=fit.hidden,
            )
            with named_in_errors(file):
                write_annotations(file, [annotation], landmarks)
        if draw is not None:
            from pliant.plots import write_overlay
            from pliant.plots.captions import caption_of, colour_of
            from pliant.plots.style import STYLE

            drawn = [fit for _, fit in fits]
            doubtful = [fit.doubtful for fit in drawn]
            hollow = [np.zeros(model.landmarks, bool) if one is None else one for one in doubtful]
            picture = folder / picture_file(name)
            picture.parent.mkdir(exist_ok=True)
            write_overlay(
                picture,
                image,
                np.array([fit.points for fit in drawn]),
                labels=texts,
                crop=draw.crop,
                longest=None if draw.full else PICTURE_SIZE,
                hollow=np.array(hollow),
                colours=[colour_of(fit, STYLE, least) for fit in drawn],
                caption=caption_of(drawn, bound, least),
            )

    return write


def size_of(image: Image | None) -> Size | None:
    """Width and height of an image, if it could be read."""
    return None if image is None else (image.shape[1], image.shape[0])
