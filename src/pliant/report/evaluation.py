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
from pliant.terminal import counted

_ABOUT_ERRORS = (
    "An error is the mean distance between points, divided by the size of the object: the mean of the width "
    "and the height of the box around its landmarks. Means in pixels are in pixels of the images. An object "
    "that was not found fails every bound. In mean, std and median, it counts as an error of 1, and so does "
    "every error above 1. The area is the area under the curve of the next figure, which ends at an error of "
    "{limit:g}; > {limit:g} is the share of fits with a larger error, found or not."
)

_WIDEST = 0.1
"""Errors beyond this are not told apart: what is farther away is not on the object."""


@dataclass(frozen=True)
class Evaluated:
    """The k fits of one algorithm, for `evaluation_page`.

    Parameters
    ----------
    errors : array, shape (k,)
        The errors over the size of the object.
    landmark_errors : array, shape (k, v), or None
        The same for every landmark.
    points : sequence of array, shape (v, 2), or None
        The landmarks of the k fits.
    milliseconds : float or None
        How long one fit takes.
    pixels : array, shape (k,), or None
        The errors in pixels.
    units : array, shape (k,), or None
        The errors in the units of the landmark files; nan where the length of a pixel is not known.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> fits = pliant.report.Evaluated(np.array([0.01, 0.03]), milliseconds=12.0)
    >>> "po-asy-gn" in pliant.report.evaluation_page({"po-asy-gn": fits})
    True

    """

    errors: Floats
    landmark_errors: Floats | None = None
    points: Sequence[Floats] | None = None
    milliseconds: float | None = None
    pixels: Floats | None = None
    units: Floats | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """The object and its k images, for `evaluation_page`. What you leave out is not drawn.

    Parameters
    ----------
    mean : array, shape (v, 2), or None
        The mean shape, on which errors of landmarks are drawn.
    landmark_names : sequence of str
        The names of the landmarks, if they have any.
    images : sequence of str, Path, Sample or array, length k
        The images on which points are drawn. An image that was fitted from several starts appears several times.
    names : sequence of str, length k, or None
        The names of the images.
    truths : sequence of array, shape (v, 2), or None
        The true landmarks of each image.

    Examples
    --------
    >>> import pliant
    >>> faces = pliant.load_dataset("photographs/")[:2]
    >>> subject = pliant.report.Subject(images=list(faces), truths=[face.points() for face in faces])
    >>> len(subject.images)
    2

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
    """Make a page about the fits of each label (an algorithm, or "start").

    It shows errors in numbers and as curves, the errors of each landmark, and the best, median and worst fits.
    What you do not give is left out: a label without points has no pictures.

    Parameters
    ----------
    fits : mapping of str to Evaluated
        The fits by label.
    subject : Subject
        What was fitted.
    title : str
        The title of the page.
    lead : str
        A line below the title.
    settings : mapping of str to object, or None
        Names and values to list at the end.
    limit : float or None
        The error up to which curves are drawn; the table has the share of fits beyond it.
    style : Style
        Colours and sizes.

    Returns
    -------
    str
        The content of an HTML file.

    Examples
    --------
    >>> import numpy as np, pliant
    >>> fits = {"po-asy-gn": pliant.report.Evaluated(np.array([0.01, 0.03]))}
    >>> html = pliant.report.evaluation_page(fits, title="Two faces")
    >>> html.startswith("<!doctype html>"), "Two faces" in html
    (True, True)

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
    """Make the page about an evaluation of a model.

    Parameters
    ----------
    done : Evaluation
        What `pliant.evaluate` returned.
    dataset : Dataset
        The samples that were evaluated. They appear in the pictures.
    model : Model
        The model that was fitted.
    title : str
        The title of the page.
    source : str
        The name of the data set.
    settings : mapping of str to object
        Names and values to list at the end.

    Returns
    -------
    str
        The content of an HTML file.

    Examples
    --------
    >>> import pliant
    >>> model, faces = pliant.load("faces.pliant"), pliant.load_dataset("annotated/")
    >>> done = pliant.evaluate(model, faces, start="noise", starts=1, iterations=2, progress=False)
    >>> html = pliant.report.evaluation_report(done, faces, model, "Faces", "annotated", {"starts": 1})
    >>> html.startswith("<!doctype html>")
    True

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
    many = f"{counted(len(shown), 'fit')} to {counted(done.images, 'image')}"
    lead = " ".join([f"{many} of {source}.", *done.sentences])
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
    # A space at which a title is not broken.
    below, above = [f"<\N{NO-BREAK SPACE}{bound:g}" for bound in BOUNDS], f">\N{NO-BREAK SPACE}{limit:g}"
    header = ["", "fits", *below, "mean", "std", "median", "area", above]
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
    return {name: found for name, found in (("pixels", pixels), ("scale units", units)) if found}
