"""The page about the errors of fits, by algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pliant import plots
from pliant.arrays import Floats
from pliant.data.dataset import Dataset
from pliant.data.names import readable
from pliant.evaluation import Evaluation
from pliant.inputs import ImageSource
from pliant.metrics import BOUNDS, capped, summarise
from pliant.model import Model
from pliant.plots.errors import round_limit
from pliant.plots.style import STYLE, Style
from pliant.records import errors_by_algorithm, object_names
from pliant.report.parts import Html, Section, page, paragraph, picture, table, value_table

_ABOUT_ERRORS = (
    "An error is the mean distance between points, divided by the size of the object: the mean of the width "
    "and the height of the box around its landmarks. Means in pixels are in pixels of the images. An object "
    "that was not found fails every bound. In mean, std and median, it counts as an error of 1, and so does "
    "every error above 1. The area is the area under the curve of the next figure, up to an error of "
    "{limit:g}; fits beyond it have failed."
)

_WIDEST = 0.1
"""Errors beyond this are not told apart: what is farther away is not on the object."""


@dataclass(frozen=True)
class Evaluated:
    """The k fits of one algorithm: errors over the size `(k,)`, and what else is known.

    `landmark_errors (k, v)` are those of every landmark, `points` are k shapes `(v, 2)`, and `milliseconds` is what
    one fit takes. `pixels (k,)` are the errors in pixels, and `units (k,)` in those of the landmark files, nan
    where nobody knows how long a pixel is.
    """

    errors: Floats
    landmark_errors: Floats | None = None
    points: Sequence[Floats] | None = None
    milliseconds: float | None = None
    pixels: Floats | None = None
    units: Floats | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """What was fitted: the object, and the k images that it is in. What is not given is not drawn.

    Errors of landmarks are drawn on the `mean (v, 2)`, with `landmark_names` if there are any. Points are drawn on
    `images`, k of them (a file that was fitted from several starts comes several times) with their `names` and
    `truths (v, 2)`.
    """

    mean: Floats | None = None
    landmark_names: Sequence[str] = ()
    images: Sequence[ImageSource] = ()
    names: Sequence[str] | None = None
    truths: Sequence[Floats] | None = None


_UNSEEN = Subject()


def evaluation_page(
    fits: Mapping[str, Evaluated],
    subject: Subject = _UNSEEN,
    *,
    title: str = "Evaluation",
    lead: str = "",
    settings: Mapping[str, object] | None = None,
    limit: float | None = None,
    style: Style = STYLE,
) -> str:
    """A page about the fits of each label (an algorithm, or "start") to the images of a subject.

    It has errors in numbers and as curves, the errors of each landmark, and the best, median and worst fits. What
    is not given is left out, so that a label without points has no such pictures.

    Parameters
    ----------
    fits
        Errors of k fits and what else is known about them, by label.
    subject
        What was fitted.
    title, lead
        What stands above, and a line below it.
    settings
        Names and values to be listed at the end.
    limit
        The error up to which curves are drawn, and beyond which a fit has failed.
    style
        Colours and sizes.

    Returns
    -------
    str
        The content of an HTML file.

    """
    errors = {label: some.errors for label, some in fits.items()}
    bound = limit or error_limit(errors)
    sections = [
        Section("Summary", [_error_table(fits, bound), paragraph(_ABOUT_ERRORS.format(limit=bound))]),
        Section(
            "Cumulative errors",
            [picture(plots.plot_ced(errors, bound, style), "cumulative errors", vector=True)],
        ),
    ]
    for label, some in fits.items():
        sections += _pictures(label, some, subject, style)
    if settings:
        sections.append(Section("Settings", [value_table(settings)]))
    return page(title, lead, sections)


def error_limit(errors: Mapping[str, Floats]) -> float:
    """Up to where curves of errors `(k,)` are drawn, by label: not so far that failures fill the picture."""
    return min(round_limit(errors), _WIDEST)


def evaluation_report(
    done: Evaluation, dataset: Dataset, model: Model, title: str, source: str, settings: Mapping[str, object]
) -> str:
    """The page about an evaluation of a model, as HTML that stands alone.

    Parameters
    ----------
    done
        What `evaluate` gave.
    dataset
        What was evaluated; the pictures are of its samples.
    model
        What was fitted.
    title
        The page's.
    source
        What people call the data set.
    settings
        What to list below, by name.

    Returns
    -------
    str
        The text of the page.

    """
    names = object_names(dataset)
    samples = {names[sample.name]: sample for sample in reversed(dataset)}
    milliseconds = {row["algorithm"]: row["ms"] for row in done.rows}
    fits, shown = {}, []
    for algorithm, errors in errors_by_algorithm(done.records).items():
        shown = [record for record in done.records if record.algorithm == algorithm]
        fits[algorithm] = Evaluated(
            errors,
            np.array([record.distances for record in shown]),
            [record.points for record in shown],
            milliseconds[algorithm],
            np.array([record.pixels for record in shown]),
            np.array([record.units for record in shown]),
        )
    lead = " ".join([f"{len(shown)} fits to {done.images} images of {source}.", *done.sentences])
    subject = Subject(
        model.levels[-1].shape.mean,
        model.landmark_names,
        images=[samples[record.image, record.object] for record in shown],
        names=[readable(Path(record.image).name) for record in shown],
        truths=[samples[record.image, record.object].points() for record in shown],
    )
    return evaluation_page(fits, subject, title=title, lead=lead, settings=settings)


def _pictures(label: str, fits: Evaluated, subject: Subject, style: Style) -> list[Section]:
    """Where the errors of one label are, and which of its fits are the best and the worst."""
    sections = []
    if subject.mean is not None and fits.landmark_errors is not None:
        figure = plots.plot_landmark_errors(
            subject.mean, fits.landmark_errors, names=subject.landmark_names, style=style
        )
        shown = picture(figure, f"{label}: mean error of every landmark", vector=True)
        sections.append(Section(f"Where the errors are: {label}", [shown]))
    if len(subject.images) and fits.points is not None:
        figure = plots.plot_best_median_worst(
            subject.images, fits.points, subject.truths, fits.errors, names=subject.names, style=style
        )
        shown = picture(figure, f"{label}: fits with the smallest, middle and largest errors")
        sections.append(Section(f"Best, median and worst: {label}", [shown]))
    return sections


def _error_table(fits: Mapping[str, Evaluated], limit: float) -> Html:
    measured = _lengths(fits)
    timed = any(some.milliseconds is not None for some in fits.values())
    header = ["", "fits", *(f"< {bound:g}" for bound in BOUNDS), "mean", "std", "median", "area", "failed"]
    rows = []
    for label, some in fits.items():
        summed = summarise(capped(some.errors))
        row: list[object] = [label, len(some.errors), *(f"{summed[f'lt_{bound}']:.1%}" for bound in BOUNDS)]
        row += [summed[key] for key in ("mean", "std", "median")]
        row += [plots.ced_area(some.errors, limit), f"{1 - np.mean(np.asarray(some.errors) <= limit):.1%}"]
        for lengths in measured.values():
            values = np.asarray(lengths.get(label, []), dtype=np.float64)
            row.append(f"{np.mean(values[np.isfinite(values)]):.3g}" if np.isfinite(values).any() else "")
        if timed:
            row.append("" if some.milliseconds is None else f"{some.milliseconds:.1f}")
        rows.append(row)
    header += measured
    return table([*header, "ms"] if timed else header, rows)


def _lengths(fits: Mapping[str, Evaluated]) -> dict[str, dict[str, Floats]]:
    """Errors in pixels and in units, by label; units only where all of them are known."""
    pixels = {label: some.pixels for label, some in fits.items() if some.pixels is not None}
    units = {
        label: some.units
        for label, some in fits.items()
        if some.units is not None and np.isfinite(some.units).all()
    }
    return {name: found for name, found in (("pixels", pixels), ("units", units)) if found}
