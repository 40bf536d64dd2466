"""Training, as users have it: settings are chosen, a model is built, and it learns how far to trust its fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pliant.building.build import checked_samples, model_of
from pliant.data.addresses import Source
from pliant.data.dataset import Dataset, Sample
from pliant.data.loading import as_dataset
from pliant.model import Model
from pliant.settings import Training
from pliant.settings.presets import searches
from pliant.trust.calibration import FEWEST, Trial, calibrate, judged_by
from pliant.tuning import search
from pliant.tuning.experts import kinds_to_try, teach


class NotCalibrated(UserWarning):
    r"""A model was trained, and how far its fits can be trusted could not be learned.

    Examples
    --------
    Calibration holds out five parts in turn, and images of four people cannot be parted so. Who does not want a
    model without it makes the warning an error:

    >>> import pliant, warnings
    >>> faces = pliant.load_dataset("faces/").grouped(r"(person\d+)_")
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", pliant.NotCalibrated)
    ...     pliant.train(faces, size=30, shape_modes=(1, 3), progress=False)
    Traceback (most recent call last):
    pliant.training.NotCalibrated: how far fits can be trusted is not learned: ... there are 4; ...

    """


def train(
    dataset: Dataset | Source | Iterable[Sample],
    settings: Training | None = None,
    *,
    jobs: int | None = None,
    progress: bool | None = None,
    **changes: Any,
) -> Model:
    """Train a model of the object in annotated images.

    Parameters
    ----------
    dataset
        Samples with landmarks, or a folder or file to load them from.
    settings
        What to train with, `Training()` if not given.
    jobs
        Threads; all cores if not given.
    progress
        Whether to show progress; on a terminal if not given.
    **changes
        Settings by their names, in place of those in `settings`: `train(faces, size=100)`.

    Returns
    -------
    Model
        With placements of the object in its images and, unless `confidence` is off or there are fewer than ten
        samples, with the confidence that its fits deserve.

    Raises
    ------
    InvalidDataset
        If samples cannot be used, with a list of what is wrong; `skip_invalid` leaves them out instead, and warns.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.synthetic.faces(12, seed=1, image_size=64)
    >>> pliant.train(faces, size=30, shape_modes=(1, 3), confidence=False, progress=False)
    Model(68 landmarks, 2 levels, 3 modes of shape, dsift, 12 samples)

    """
    dataset = as_dataset(dataset)
    settings = (settings or Training()).changed(**changes)
    valid = checked_samples(dataset, settings, jobs=jobs, progress=progress)
    kinds = kinds_to_try(settings, len(valid.dataset))
    chosen: dict[str, Any] = {}
    if searches(settings) and len(valid.dataset) >= search.FEWEST:
        settings, chosen = search.search(valid.dataset, settings, jobs=jobs, progress=progress)
    model = model_of(valid, settings, jobs=jobs, progress=progress)
    if chosen:
        model = replace(model, provenance={**model.provenance, "choice": chosen})
    taught = teach(model, valid.dataset, settings, kinds, jobs=jobs, progress=progress)
    if taught is not None:
        known = {**chosen, "experts": taught.known}
        model = replace(taught.model, provenance={**taught.model.provenance, "choice": known})
    if not settings.confidence or len(valid.dataset) < FEWEST:
        return model
    rest: dict[str, Any] = {"seed": settings.seed, "jobs": jobs, "progress": progress}
    try:
        if taught is not None and len(taught.held) >= FEWEST:
            partial = taught.partial
            return judged_by(model, valid.dataset, [Trial(lambda: partial, taught.held)], **rest)
        return calibrate(model, valid.dataset, **rest)
    except ValueError as error:
        # The model is there, and fits as well as any.
        warnings.warn(f"how far fits can be trusted is not learned: {error}", NotCalibrated, stacklevel=2)
        return model
