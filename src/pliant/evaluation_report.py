"""An evaluation as an HTML page that stands alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pliant.data.dataset import Dataset
from pliant.data.names import readable
from pliant.evaluation import Evaluation
from pliant.model import Model
from pliant.records import errors_by_algorithm
from pliant.report import Evaluated, evaluation_page


def evaluation_report(
    done: Evaluation, dataset: Dataset, model: Model, title: str, source: str, about: Mapping[str, object]
) -> str:
    """Curves, errors of every landmark, best and worst fits.

    `source` is what people call the data set, and `about` what the page says of the settings.
    """
    samples = {sample.name: sample for sample in dataset}
    milliseconds = {row["algorithm"]: row["ms"] for row in done.rows}
    fits, shown = {}, []
    for algorithm, errors in errors_by_algorithm(done.records).items():
        shown = [record for record in done.records if record.algorithm == algorithm and record.found]
        fits[algorithm] = Evaluated(
            errors,
            np.array([record.distances for record in shown]),
            [record.points for record in shown],
            milliseconds[algorithm],
            np.array([record.pixels for record in shown]),
            np.array([record.units for record in shown]),
        )
    lead = f"{len(shown)} fits of {len({record.image for record in shown})} images of {source}."
    return evaluation_page(
        fits,
        title=title,
        lead=lead if done.search is None else f"{lead} {done.search.sentence}",
        mean=model.levels[-1].shape.mean,
        images=[samples[record.image] for record in shown],
        names=[readable(Path(record.image).name) for record in shown],
        landmark_names=model.landmark_names,
        truths=[samples[record.image].points() for record in shown],
        settings=about,
    )
