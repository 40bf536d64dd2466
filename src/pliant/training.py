"""Training, as users have it: settings are chosen, a model is built, and it learns how far to trust its fits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pliant.building.build import checked_samples, model_of
from pliant.crew import Crew, Jobs, crew_of, in_this_process
from pliant.data.addresses import Source
from pliant.data.dataset import Dataset, Sample, evenly
from pliant.data.loading import as_dataset
from pliant.experts.network import NetworkExpert
from pliant.model import Model
from pliant.progress import Progress
from pliant.settings import Training
from pliant.settings.presets import searches
from pliant.threads import one_blas_thread
from pliant.trust.calibration import FEWEST, Trial, calibrate, judged_by
from pliant.tuning import search
from pliant.tuning.experts import Kind, Taught, kinds_to_try, teach

Result = TypeVar("Result")

_MOST_SEEN = 3000
"""Samples, evenly spread over all, that settings, experts and confidence are learned from: all that grows with the
number of images is to look at each of them once or twice."""

_ENOUGH = 60
"""Samples held out for a linear expert from which confidence is learned well: docs/explanation/confidence.md."""


class NotCalibrated(UserWarning):
    r"""Warns that a model was trained, but could not learn how far its fits can be trusted.

    Examples
    --------
    Calibration holds out five parts in turn, and images of four people cannot be divided like that. If you do not
    want a model without calibration, turn the warning into an error:

    >>> import pliant, warnings
    >>> faces = pliant.load_dataset("faces/").grouped(r"(person\d+)_")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pliant.NotCalibrated)
    ...     pliant.train(faces, size=30, shape_modes=(1, 3), progress=False)
    Traceback (most recent call last):
    pliant.training.NotCalibrated: how far fits can be trusted is not learned: ...

    """


@one_blas_thread()  # With several, sums have another order, and the model other last digits.
def train(
    dataset: Dataset | Source | Iterable[Sample],
    settings: Training | None = None,
    *,
    jobs: Jobs = None,
    progress: bool | None = None,
    **changes: Any,
) -> Model:
    """Train a model of the object in annotated images.

    Parameters
    ----------
    dataset : Dataset, str, Path or iterable of Sample
        Samples with landmarks, or a folder or file to load them from.
    settings : Training or None
        How to train; `Training()` by default.
    jobs : int, Crew or None
        Threads, all cores by default; or a cluster from `pliant.connect`, which then reads all images. The number
        of workers does not change the model. It equals that of one machine but for rounding, or, beyond some
        hundred images, within the tolerance given in `docs/how-to/use-many-machines.md`.
    progress : bool or None
        Show progress: by default a bar in a terminal, and otherwise a line every half minute. False shows nothing.
    **changes
        Settings by their names, in place of those in `settings`: `train(faces, size=100)`.

    Returns
    -------
    Model
        The model knows where the object was in its images. It is calibrated, unless `confidence` is off or there
        are fewer than ten samples.

    Raises
    ------
    InvalidDataset
        If samples cannot be used. It lists all problems. With `skip_invalid`, such samples are left out with a
        warning.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.synthetic.faces(12, seed=1, image_size=64)
    >>> pliant.train(faces, size=30, shape_modes=(1, 3), confidence=False, progress=False)
    Model(68 landmarks, 2 levels, 3 modes of shape, dsift, 12 samples)

    """
    dataset = as_dataset(dataset)
    settings = (settings or Training()).changed(**changes)
    crew = crew_of(jobs)
    valid = checked_samples(dataset, settings, jobs=crew, progress=progress)
    kinds = crew.one(_kinds, settings, len(valid.dataset))
    some = evenly(valid.dataset, _MOST_SEEN)
    chosen: dict[str, Any] = {}
    if searches(settings) and len(valid.dataset) >= search.FEWEST:
        settings, chosen = _by_one(crew, progress, "trying settings", _searched, some, settings)
    model = model_of(valid, settings, jobs=crew, progress=progress)
    if chosen:
        model = replace(model, provenance={**model.provenance, "choice": chosen})
    taught = None
    if tuple(kinds) != ("none",):
        taught = _by_one(crew, progress, "training experts", _taught, model, some, settings, kinds)
    if taught is not None:
        known = {**chosen, "experts": taught.known}
        model = replace(taught.model, provenance={**taught.model.provenance, "choice": known})
    if not settings.confidence or len(valid.dataset) < FEWEST:
        return model
    rest: dict[str, Any] = {"seed": settings.seed, "jobs": crew, "progress": progress}
    try:
        if taught is not None and len(taught.held) >= _enough(taught.model):
            return judged_by(model, some, [Trial(taught.partial, taught.held)], **rest)
        return calibrate(model, some, **rest)
    except ValueError as error:
        # The model is there, and fits as well as any.
        warnings.warn(f"how far fits can be trusted is not learned: {error}", NotCalibrated, stacklevel=2)
        return model


def _enough(model: Model) -> int:
    """How many samples that were held out to try experts are enough to learn confidence from too.

    With fewer, all samples are held out in turn. A network would take minutes each time.
    """
    return FEWEST if isinstance(model.expert, NetworkExpert) else _ENOUGH


def _by_one(
    crew: Crew, progress: bool | None, what: str, work: Callable[..., Result], *arguments: Any
) -> Result:
    """What one of the crew makes; from elsewhere no progress is heard, and all that is shown is `what` is done."""
    if in_this_process(crew):
        return crew.one(work, *arguments, progress)
    with Progress(progress) as bar:
        step = bar.start(what, 1)
        made = crew.one(work, *arguments, False)
        step()
    return made


def _kinds(settings: Training, samples: int, *, threads: int) -> tuple[Kind, ...]:
    """Asked where experts are trained: there may be a GPU, or no PyTorch."""
    return kinds_to_try(settings, samples)


def _searched(
    dataset: Dataset, settings: Training, progress: bool | None, *, threads: int
) -> tuple[Training, dict[str, Any]]:
    return search.search(dataset, settings, jobs=threads, progress=progress)


def _taught(
    model: Model,
    dataset: Dataset,
    settings: Training,
    kinds: Sequence[Kind],
    progress: bool | None,
    *,
    threads: int,
) -> Taught | None:
    return teach(model, dataset, settings, kinds, jobs=threads, progress=progress)
