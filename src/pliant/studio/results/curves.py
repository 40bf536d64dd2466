"""What results come to: sentences, figures for each label, cumulative curves, courses over frames, and sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.fitting.status import Status
from pliant.metrics import BOUNDS, capped, summarise
from pliant.studio.results.opened import Opened
from pliant.studio.results.sheet import Sheet
from pliant.table import COLUMNS

_STEPS = 400
"""Points of a curve; more cannot be told apart on a screen."""

_FRAMES = 1200
"""Points of a course."""

_LEAST_TRUST = 0.5

_MEASURES = (
    "error",
    "pixels",
    "units",
    "confidence",
    "mismatch",
    "seconds",
    "iterations",
    "cost",
    "start_error",
)


@dataclass(frozen=True)
class Curve:
    """The share of fits with a value of at most `x`: it rises to `shares` there. Fits without one never count."""

    label: str
    count: int
    missing: int
    x: Float64
    shares: Float64


@dataclass(frozen=True)
class Curves:
    """Cumulative curves of one measure."""

    measure: str
    unit: str
    curves: list[Curve]


@dataclass(frozen=True)
class Course:
    """A measure of one object over the frames of a video; nan in frames in which it is lost."""

    object: int
    frames: Float64
    values: Float64
    lost: list[tuple[int, int]]
    restarted: list[int]


@dataclass(frozen=True)
class Courses:
    """How a measure goes over the frames of a video."""

    measure: str
    courses: list[Course]


@dataclass(frozen=True)
class Line:
    """Figures against the number that a group of trials varies."""

    group: str
    values: Float64
    figures: dict[str, Float64]


@dataclass(frozen=True)
class Sweep:
    """What an experiment varies, and what comes of it."""

    name: str
    lines: list[Line]


@dataclass(frozen=True)
class Figures:
    """What is said of the errors of a label; shares are those below the bounds of the paper's tables."""

    label: str
    fits: int
    failed: int
    shares: list[float]
    mean: float
    std: float
    median: float
    pixels: float
    milliseconds: float


def measures_of(opened: Opened) -> list[str]:
    """Columns of numbers that curves can be drawn of, the one that says most first."""
    sheet = opened.sheet
    there = [name for name in _MEASURES if name in sheet.names and sheet.is_number(name)]
    return [name for name in there if not sheet.is_empty(name)]


def groups_of(opened: Opened) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The labels of a result, each with the numbers of its rows; all rows are one group if there are no labels."""
    sheet = opened.sheet
    if not opened.label:
        yield "", np.arange(sheet.count)
        return
    encoded = sheet.column(opened.label)
    numbers = np.asarray(encoded.indices.fill_null(-1))
    for number, label in enumerate(encoded.dictionary.to_pylist()):
        yield label, np.flatnonzero(numbers == number)


def curves_of(opened: Opened, measure: str) -> Curves:
    """The cumulative curve of each label."""
    values = opened.sheet.numbers(measure)
    curves = [_curve(label, values[rows]) for label, rows in groups_of(opened) if len(rows)]
    known = COLUMNS.get(measure)
    return Curves(measure, known.unit if known else "", curves)


def _curve(label: str, values: Float64) -> Curve:
    known = np.sort(values[np.isfinite(values)])
    ranks = np.arange(1, len(known) + 1)
    if len(known) > _STEPS:
        ranks = np.unique(np.linspace(1, len(known), _STEPS).round().astype(int))
    return Curve(label, len(values), len(values) - len(known), known[ranks - 1], ranks / max(len(values), 1))


def courses_of(opened: Opened, measure: str) -> Courses:
    """A measure over the frames, for each object."""
    sheet = opened.sheet
    frames, values = sheet.numbers("frame"), sheet.numbers(measure)
    objects = sheet.numbers("object") if "object" in sheet.names else np.zeros(sheet.count)
    events = _events(sheet)
    courses = []
    for number in np.unique(objects[np.isfinite(objects)]):
        rows = np.flatnonzero(objects == number)
        rows = rows[np.argsort(frames[rows], kind="stable")]
        lost = events[rows] == "lost"
        shown = np.where(lost, np.nan, values[rows])
        kept = _thinned(shown)
        restarted = frames[rows][events[rows] == "restarted"].astype(int)[:_FRAMES].tolist()
        courses.append(
            Course(
                int(number), frames[rows][kept], shown[kept], _spans(frames[rows], lost)[:_FRAMES], restarted
            )
        )
    return Courses(measure, courses)


def _thinned(values: Float64) -> NDArray[np.int64]:
    """Which of many values to draw: the least and the largest of each stretch, so that no dip is lost."""
    if len(values) <= _FRAMES:
        return np.arange(len(values))
    kept: set[int] = set()
    for part in np.array_split(np.arange(len(values)), _FRAMES // 3):
        some = values[part]
        known = part[np.isfinite(some)]
        if len(known):
            kept |= {int(known[np.argmin(values[known])]), int(known[np.argmax(values[known])])}
        if len(known) < len(part):
            kept.add(int(part[~np.isfinite(some)][0]))
    return np.array(sorted(kept))


def _spans(frames: Float64, lost: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last frame of each stretch in which an object is lost."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], lost, [False]]).astype(int)))
    return [(int(frames[a]), int(frames[b - 1])) for a, b in zip(edges[0::2], edges[1::2], strict=True)]


def sweep_of(opened: Opened) -> Sweep | None:
    """Figures against the value that trials vary; None if they vary none."""
    values = {label: part.value for label, part in opened.parts.items() if part.value is not None}
    if len(set(values.values())) < 2 or "error" not in opened.sheet.names:
        return None
    errors = opened.sheet.numbers("error")
    figures = {label: summarise(capped(errors[rows])) for label, rows in groups_of(opened) if len(rows)}
    groups: dict[str, list[str]] = {}
    for label, part in opened.parts.items():
        if label in values and label in figures:
            groups.setdefault(part.group, []).append(label)
    names = [*(f"lt_{bound}" for bound in BOUNDS), "mean", "median"]
    lines = []
    for group, labels in groups.items():
        ordered = sorted(labels, key=lambda label: values[label] or 0.0)
        lines.append(
            Line(
                group,
                np.array([values[label] for label in ordered], dtype=np.float64),
                {name: np.array([figures[label][name] for label in ordered]) for name in names},
            )
        )
    return Sweep(str(opened.head.get("experiment", "")), lines)


def figures_of(opened: Opened) -> list[Figures]:
    """What is said of the errors of each label; nothing where there are none."""
    sheet = opened.sheet
    if "error" not in sheet.names:
        return []
    errors = sheet.numbers("error")
    pixels = sheet.numbers("pixels") if "pixels" in sheet.names else np.full(sheet.count, np.nan)
    seconds = sheet.numbers("seconds") if "seconds" in sheet.names else np.full(sheet.count, np.nan)
    failed = _failed(sheet)
    found = []
    for label, rows in groups_of(opened):
        if not len(rows):
            continue
        said = summarise(capped(errors[rows]))
        shares = [said[f"lt_{bound}"] for bound in BOUNDS]
        found.append(
            Figures(
                label, len(rows), int(failed[rows].sum()), shares, said["mean"], said["std"], said["median"],
                _mean(pixels[rows]), 1000 * _mean(seconds[rows]),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: one.mean)


def _mean(values: Float64) -> float:
    known = values[np.isfinite(values)]
    return float(np.mean(known)) if len(known) else float("nan")


def _failed(sheet: Sheet) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    column = sheet.column("status")
    return np.asarray(
        pc.fill_null(pc.equal(column, str(Status.FAILED)), False).to_numpy(zero_copy_only=False),
        dtype=np.bool_,
    )


def sentences_of(opened: Opened) -> list[str]:
    """What a result comes to, in plain words."""
    about = [opened.sentence] if opened.sentence else []
    if opened.missing:
        files = "1 file of rows is" if opened.missing == 1 else f"{opened.missing} files of rows are"
        about.append(f"{files} missing: run the experiment again to continue it.")
    if not opened.sheet.count:
        return [*about, "The table has no rows."]
    said = {"track": _about_track, "fits": _about_fits}.get(opened.kind, _about_errors)
    return [*said(opened), *about]


def _about_fits(opened: Opened) -> list[str]:
    sheet = opened.sheet
    statuses = Counter(sheet.counts("status"))
    images, fits = sheet.distinct("image"), sheet.count - statuses[Status.FAILED]
    many = "1 image" if images == 1 else f"{images:,} images"
    said = [f"{fits:,} {'fit' if fits == 1 else 'fits'} in {many}; {_none(statuses[Status.FAILED])}."]
    if "confidence" in sheet.names and not sheet.is_empty("confidence"):
        trust = sheet.numbers("confidence")
        known = trust[np.isfinite(trust) & ~_failed(sheet)]
        low = int((known < _LEAST_TRUST).sum())
        doubtful = "no fit has" if not low else "1 fit has" if low == 1 else f"{low:,} fits have"
        said.append(
            f"The median confidence is {np.median(known):.2f}; {doubtful} less than {_LEAST_TRUST:g}."
        )
    return said


def _none(failed: int) -> str:
    if not failed:
        return "every image could be fitted"
    return f"{failed:,} could not be fitted"


def _about_track(opened: Opened) -> list[str]:
    sheet = opened.sheet
    frames = sheet.numbers("frame")
    events = sheet.counts("event") if "event" in sheet.names else {}
    lost = _events(sheet) == "lost"
    found, every = len(np.unique(frames[~lost])), len(np.unique(frames))
    objects = len(np.unique(sheet.numbers("object"))) if "object" in sheet.names else 1
    what = "The object was" if objects == 1 else f"{objects} objects were"
    said = [f"{what} found in {found:,} of {every:,} frames."]
    started, times = events.get("restarted", 0), events.get("lost", 0)
    if started > 1 or times:
        where = "1 frame" if times == 1 else f"{times:,} frames"
        said.append(
            f"Tracking was started {'once' if started == 1 else f'{started:,} times'}, and lost in {where}."
        )
    return said


def _events(sheet: Sheet) -> NDArray[np.object_]:
    events = sheet.column("event").to_pylist() if "event" in sheet.names else [""] * sheet.count
    return np.array(events, dtype=np.object_)


def _about_errors(opened: Opened) -> list[str]:
    figures = figures_of(opened)
    if not figures:
        return _about_fits(opened)
    best = figures[0]
    sheet = opened.sheet
    images = sheet.distinct("image")
    by = f"{best.label}: " if best.label else ""
    pixels = f" ({best.pixels:.2g} px)" if np.isfinite(best.pixels) else ""
    things = "trials" if opened.kind == "experiment" else "algorithms"
    several = f" {len(figures)} {things} are compared; {best.label} has the smallest mean error."
    first = f"{sheet.count:,} fits to {images:,} images.{several if len(figures) > 1 else ''}"
    second = (
        f"{by}mean error {best.mean:.4f} of the object's size{pixels}, median {best.median:.4f}; "
        f"{100 * best.shares[0]:.0f} % are below {BOUNDS[0]:g}, and {_none_found(best.failed)}."
    )
    return [first, second[0].upper() + second[1:] if not by else second]


def _none_found(failed: int) -> str:
    return "none failed" if not failed else "1 failed" if failed == 1 else f"{failed:,} failed"
