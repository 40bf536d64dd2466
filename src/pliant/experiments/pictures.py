"""Pictures that need images or a model, where all else is drawn from rows: starts, sampled pixels, and fits.

They are drawn when an experiment has been fitted and kept as files, each named after the rows that it shows, so
that a report can be drawn again without the images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pliant import report
from pliant.arrays import Float64
from pliant.crew import Crew
from pliant.experiments.findings import Photograph
from pliant.experiments.rows import read_points
from pliant.experiments.run import Data
from pliant.experiments.trial import Trial
from pliant.experiments.units import Named
from pliant.files import replaced
from pliant.metrics import normalised_error, point_subset
from pliant.plots import plot_exemplars, plot_sampling, plot_starts
from pliant.starts.noise import random_start

FOLDER = "pictures"
_ROWS = 2
"""Images that starts are shown on."""
_EXEMPLARS = 6
"""Images that fits are shown on."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A file in the folder of pictures, what it shows, and how it is drawn; None if that cannot be had.

    Those of `fits` need rows of all shards and the images; the others need a model and the images.
    """

    file: str
    caption: str
    draw: Callable[[Path, Data, Crew], Figure | None]
    fits: bool = False


def planned(experiment: str, named: Named) -> list[Picture]:
    """The pictures of an experiment with the trials and the names of their rows."""
    if experiment == "sampling":
        return _of_sampling(named)
    if experiment in ("transfer", "objects"):
        groups: dict[str, list[tuple[Trial, str]]] = {}
        for trial, name in named:
            groups.setdefault(trial.group, []).append((trial, name))
        return [_of_fits(group, some) for group, some in groups.items()]
    return []


def draw_missing(folder: Path, wanted: Sequence[Picture], data: Data, crew: Crew) -> None:
    """Draw what is not there yet."""
    for picture in wanted:
        path = folder / FOLDER / picture.file
        if path.is_file():
            continue
        figure = picture.draw(folder, data, crew)
        if figure is not None:
            path.parent.mkdir(exist_ok=True)
            with replaced(path) as partial:
                partial.write_bytes(report.rendered(figure, "png"))


def drawn(folder: Path, listed: Sequence[Mapping[str, str]]) -> list[Photograph]:
    """The pictures of a plan that are there."""
    paths = [(folder / FOLDER / Path(one["file"]).name, one["caption"]) for one in listed]
    return [Photograph(path.read_bytes(), caption) for path, caption in paths if path.is_file()]


def _of_sampling(named: Named) -> list[Picture]:
    trial, name = named[0]
    noises = sorted({one.noise for one, _ in named})
    samplings = sorted({one.fitting.sampling for one, _ in named}, reverse=True)

    def starts(folder: Path, data: Data, crew: Crew) -> Figure:
        model, tested = data.model(trial, crew), data.test(trial).spread(_ROWS)
        every = list(zip(tested.truths, tested.numbers, strict=True))
        begun = {
            f"{noise:.1%}": [
                random_start(model, truth, noise, trial.fitting.seed, int(number), 0)
                for truth, number in every
            ]
            for noise in noises
        }
        return plot_starts(list(tested.samples), begun, list(tested.truths))

    def pixels(folder: Path, data: Data, crew: Crew) -> Figure:
        frame = data.model(trial, crew).levels[-1].motion.frame
        return plot_sampling(frame, {f"{share:.0%}": frame.sample(share) for share in samplings})

    return [
        Picture(
            f"{name}-starts-{'-'.join(f'{noise:g}' for noise in noises)}.png",
            "Starts: the first start of some images for each noise level.",
            starts,
        ),
        Picture(
            f"{name}-pixels-{'-'.join(f'{share:g}' for share in samplings)}.png",
            "Pixels of the finest reference frame that are used (white), for each share.",
            pixels,
        ),
    ]


def _of_fits(group: str, named: Named) -> Picture:
    """Fits of every label to the same images; a label of several folds has several trials."""
    labels: dict[str, list[tuple[Trial, str]]] = {}
    for trial, name in named:
        labels.setdefault(trial.label, []).append((trial, name))

    def fits(folder: Path, data: Data, crew: Crew) -> Figure | None:
        found = {label: read_points(folder, some) for label, some in labels.items()}
        first = next(iter(labels))
        samples, truths = {}, {}
        for trial, _ in labels[first]:
            tested = data.test(trial)
            for sample, number, truth in zip(tested.samples, tested.numbers, tested.truths, strict=True):
                samples[int(number)], truths[int(number)] = sample, truth
        points = named[0][0].points
        errors = {label: _errors(some, truths, points) for label, some in found.items()}
        if not all(errors.values()):
            return None
        # Evenly from the best to the worst of the first label: nothing is picked by hand.
        order = sorted(errors[first], key=lambda number: errors[first][number])
        chosen = [order[k] for k in np.unique(np.linspace(0, len(order) - 1, _EXEMPLARS).round().astype(int))]
        short = {label: label.removeprefix(f"{group}: ").replace(", ", "\n") for label in labels}
        return plot_exemplars(
            [samples[number] for number in chosen],
            {short[label]: [some[number] for number in chosen] for label, some in found.items()},
            [truths[number] for number in chosen],
            {short[label]: [f"{some[number]:.4f}" for number in chosen] for label, some in errors.items()},
        )

    caption = (
        f"{group}: fits from the first start with their errors, evenly spaced from the smallest to the "
        "largest error of the first row."
    )
    return Picture(f"{named[0][1]}-fits.png", caption, fits, fits=True)


def _errors(found: Mapping[int, Float64], truths: Mapping[int, Float64], points: str) -> dict[int, float]:
    return {
        number: normalised_error(shape, truths[number], point_subset(points, len(shape)))
        for number, shape in found.items()
    }
