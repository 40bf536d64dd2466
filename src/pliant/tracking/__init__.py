"""Following objects through the frames of a video: from one frame to the next, and found again when lost.

A frame starts where the last two say that an object will be, at the finest level alone and with few iterations. A
fit is believed if the model, by its calibration, trusts it. Where no fit from the frame before is believed, the
object is looked for in the same frame with all that `pliant.fit` has, so that it is found if a fit would find it.
docs/explanation/tracking.md has the measurements behind the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pliant.arrays import Floats
from pliant.data.video import RATE, Video, read_video
from pliant.fitting.fitter import Fitter, make_fitter
from pliant.inputs import ImageSource
from pliant.model import Model, as_model
from pliant.settings import Tracking
from pliant.starts.choice import Chain, find_chain
from pliant.tracking.belief import belief_of
from pliant.tracking.follow import Follower
from pliant.tracking.frames import Event, TrackedFrame, TrackedObject
from pliant.tracking.search import Find as Find
from pliant.tracking.search import Search, given

__all__ = ["Event", "TrackedFrame", "TrackedObject", "Video", "read_video", "track"]


def track(
    model: Model | Path | str,
    frames: Iterable[ImageSource] | Path | str,
    find: Find | Floats | None = None,
    settings: Tracking | None = None,
    *,
    rate: float | None = None,
    jobs: int | None = None,
    **changes: Any,
) -> Iterator[TrackedFrame]:
    """Follow objects through a video, or through images in order.

    Parameters
    ----------
    model : Model, str or Path
        The model of the objects, or its file.
    frames : str, Path or iterable of str, Path, Sample or array, shape (h, w) or (h, w, 3)
        The name of a video, or images in their order.
    find : array, shape (4,), (k, 4) or (v, 2), callable or None
        Where objects are. None: look for them as `settings.start` says. A box, boxes of k objects or a shape:
        start there in the first frame, and find objects again as the settings say; no others are followed unless
        `settings.objects` is a larger number. A function from an image to these: it is called in the first frame,
        after a loss, and now and then to find further objects.
    settings : Tracking or None
        How to follow; `Tracking()` by default. A lost object is looked for in every `look_every`-th frame: raise
        that if looking is slow. From frame to frame there are at most `iterations` iterations, at the finest
        level.
    rate : float or None
        Frames per second. A video knows its own.
    jobs : int or None
        Threads that work on a frame; all cores by default.
    **changes
        Settings by their names, in place of those in `settings`.

    Yields
    ------
    TrackedFrame
        One for each frame, as it comes, with all `objects` in it.

    Raises
    ------
    ValueError
        If a setting is wrong, or the algorithm cannot follow an object.

    Examples
    --------
    >>> import pliant
    >>> model, sample = pliant.load("faces.pliant"), pliant.load_dataset("photographs/")[0]
    >>> still = [sample.image()] * 3
    >>> [str(frame.event) for frame in pliant.track(model, still, sample.points())]
    ['restarted', 'tracked', 'tracked']

    """
    model = as_model(model)
    settings = (settings or Tracking()).changed(**changes)
    fitter = make_fitter(model, algorithm=settings.algorithm, jobs=jobs, trace=False)
    if not fitter.prepared[-1][2].weights.residual > 0:
        raise ValueError(
            f"{fitter.algorithm}: this cost ignores what the model cannot explain, so it cannot follow an "
            "object. Use project-out with a rho below 1."
        )
    if isinstance(frames, (str, Path)):
        frames = read_video(frames)
    if rate is None:
        rate = frames.rate if isinstance(frames, Video) else RATE
    first = None if find is None or callable(find) else np.asarray(find, dtype=np.float64)
    chain = Chain((given(find),)) if callable(find) else find_chain(model, settings)
    belief = belief_of(model, settings)
    near = _near(fitter, settings)
    follower = Follower(
        fitter=fitter,
        quick=_quick(near, settings),
        search=Search(fitter, near, chain, belief),
        belief=belief,
        settings=settings,
        most=_most(settings, first),
        first=first,
    )
    return follower.follow(frames, rate)


def _near(fitter: Fitter, settings: Tracking) -> Fitter:
    """The fitter for places where an object was: on some of the pixels."""
    fewer = fitter.settings.changed(sampling=settings.sampling)
    return fitter if fewer == fitter.settings else replace(fitter, settings=fewer)


def _quick(near: Fitter, settings: Tracking) -> Fitter:
    """The same at its finest level alone, with few iterations."""
    alone = replace(near.model, levels=near.model.levels[-1:])
    return near.alike(model=alone, settings=near.settings.changed(iterations=settings.iterations))


def _most(settings: Tracking, first: Floats | None) -> int | None:
    """How many objects are followed; None: all that are trusted."""
    if settings.objects != "all":
        return settings.objects
    return None if first is None else len(np.atleast_2d(first)) if first.shape[-1] == 4 else 1
