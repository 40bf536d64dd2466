"""Endpoints of the page Results: what there is, curves, tables, a gallery, and fits that a person will correct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from starlette.responses import Response

from pliant.arrays import Float64
from pliant.data.images import ImageError
from pliant.data.names import readable
from pliant.studio.desk import Studio
from pliant.studio.results.curves import (
    Courses,
    Curves,
    Sweep,
    courses_of,
    curves_of,
    figures_of,
    measures_of,
    sentences_of,
    sweep_of,
)
from pliant.studio.results.experiments import ResultTable, read_table, tables_of
from pliant.studio.results.found import Found
from pliant.studio.results.images import Box, box_around
from pliant.studio.results.links import (
    gallery_of,
    index_of,
    landmarks_of,
    look,
    obstacle_to,
    offer,
    open_by_id,
)
from pliant.studio.results.opened import Opened
from pliant.studio.results.sheet import Sheet, Wanted
from pliant.studio.results.views import (
    Choice,
    OpenResult,
    Result,
    ResultColumn,
    ResultFit,
    ResultList,
    ResultRow,
    ResultRows,
    Taken,
)
from pliant.studio.web.endpoints import Endpoints, Refused
from pliant.table import COLUMNS

endpoints = Endpoints("results")

_MOST_ROWS = 500
_WIDEST = 4096
"""Rows of one answer, and pixels of a picture."""

_FACETS = 60
"""Different texts that a column may have to be chosen from."""


@endpoints.get("/api/results")
def results(studio: Studio) -> ResultList:
    """Evaluations, bulk fits, tracks and experiments in the open folder and in the --results folder."""
    found = look(studio)
    return ResultList([_as_result(one) for one in found.results], found.sentences)


@endpoints.get("/api/results/{id}")
def result(studio: Studio, id: str) -> OpenResult:
    """Summary and contents of a result."""
    opened = open_by_id(studio, id)
    sheet, found = opened.sheet, opened.found
    names = sheet.shown()
    few = {name: sheet.counts(name) for name in ("status", opened.label, "event") if name in names}
    return OpenResult(
        id=found.id,
        kind=found.kind,
        name=found.name,
        place=found.place,
        sentences=sentences_of(opened),
        count=sheet.count,
        columns=[_column(sheet, name) for name in names],
        label=opened.label,
        measures=measures_of(opened),
        choices={
            name: [Choice(value, count) for value, count in counts.items()][:_FACETS]
            for name, counts in few.items()
        },
        figures=figures_of(opened),
        settings=_settings(opened.head),
        tables=tables_of(opened),
        sweeps=sweep_of(opened) is not None,
        landmark_names=list(opened.landmark_names),
    )


@endpoints.get("/api/results/{id}/rows")
def result_rows(
    studio: Studio,
    id: str,
    first: int = 0,
    count: int = 100,
    sort: str = "",
    descending: bool = False,
    status: str = "",
    label: str = "",
    event: str = "",
    name: str = "",
    measure: str = "",
    above: float | None = None,
    below: float | None = None,
    points: bool = False,
) -> ResultRows:
    """Sorted and filtered rows, with their landmarks if requested."""
    sheet = open_by_id(studio, id).sheet
    shown = sheet.shown()
    for column in filter(None, (sort, measure)):
        if column not in shown:
            raise ValueError(f"there is no column '{column}' here. Known columns: {', '.join(shown)}.")
    if measure and not sheet.is_number(measure):
        raise ValueError(f"'{measure}' has no numbers, so it cannot be above or below one.")
    wanted = Wanted(sort, descending, status, label, event, name, measure, above, below)
    order = sheet.order(wanted)
    first = max(first, 0)
    some = order[first : first + min(max(count, 0), _MOST_ROWS)]
    cells = sheet.cells(shown, some)
    rows = [_row(sheet, int(number), values, points) for number, values in zip(some, cells, strict=True)]
    return ResultRows(len(order), first, rows)


@endpoints.get("/api/results/{id}/rows/{number}")
def result_fit(studio: Studio, id: str, number: int) -> ResultFit:
    """Everything about one fit."""
    opened = open_by_id(studio, id)
    sheet = _with_row(opened, number)
    points = sheet.points(number)
    lists = sheet.lists(number, ("distances", "spread", "hidden"))
    size, trouble, index, obstacle = sheet.size(number), "", None, ""
    try:
        path = gallery_of(studio, opened).find(sheet.image(number), size)
        index = index_of(studio, path, sheet.cell("object", number) or 0)
        obstacle = obstacle_to(studio, points, index)
    except ImageError as error:
        trouble = str(error)
        obstacle = "its image does not exist."
    return ResultFit(
        number=number,
        image=readable(sheet.image(number)),
        width=size and size[0],
        height=size and size[1],
        cells=sheet.cells(sheet.shown(), np.array([number], dtype=np.int32))[0],
        points=_rounded(points),
        box=_box(points, size),
        distances=_plain(lists["distances"]),
        spread=_plain(lists["spread"]),
        hidden=_plain(lists["hidden"]),
        trouble=trouble,
        index=index,
        obstacle=obstacle,
    )


@endpoints.get("/api/results/{id}/picture")
def result_picture(
    studio: Studio, id: str, row: int, width: int | None = None, around: bool = False
) -> Response:
    """The image of a row, or only the part `around` its landmarks, at most `width` wide."""
    opened = open_by_id(studio, id)
    sheet = _with_row(opened, row)
    if width is not None and not 1 <= width <= _WIDEST:
        raise ValueError(f"width must be between 1 and {_WIDEST}.")
    size, frame = sheet.size(row), sheet.cell("frame", row)
    width = width or _WIDEST
    box = _box(sheet.points(row), size) if around else None
    try:
        content = gallery_of(studio, opened).picture(sheet.image(row), size, frame, box, width)
    except ImageError as error:
        raise LookupError(str(error)) from None
    return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=600"})


@endpoints.get("/api/results/{id}/curves")
def result_curves(studio: Studio, id: str, measure: str = "") -> Curves:
    """The share of fits below each value of a measure, one curve per label."""
    opened = open_by_id(studio, id)
    return curves_of(opened, _measure(opened, measure))


@endpoints.get("/api/results/{id}/course")
def result_course(studio: Studio, id: str, measure: str = "") -> Courses:
    """A measure over the frames of a video, for each object."""
    opened = open_by_id(studio, id)
    if "frame" not in opened.sheet.names:
        raise Refused("this result has no frames.")
    return courses_of(opened, _measure(opened, measure))


@endpoints.get("/api/results/{id}/sweep")
def result_sweep(studio: Studio, id: str) -> Sweep | None:
    """Shares and means against the number that an experiment varies; empty if it varies none."""
    return sweep_of(open_by_id(studio, id))


@endpoints.get("/api/results/{id}/tables/{number}")
def result_table(studio: Studio, id: str, number: int) -> ResultTable:
    """A table of an experiment's report, by its position in the list of tables."""
    return read_table(open_by_id(studio, id), number)


@endpoints.post("/api/results/{id}/rows/{number}/take")
def take_fit(studio: Studio, id: str, number: int) -> Taken:
    """Propose the landmarks of a fit for the image in the open collection, to be corrected there."""
    opened = open_by_id(studio, id)
    sheet = _with_row(opened, number)
    points = sheet.points(number)
    try:
        path = gallery_of(studio, opened).find(sheet.image(number), sheet.size(number))
    except ImageError as error:
        raise Refused(str(error)) from None
    index = index_of(studio, path, sheet.cell("object", number) or 0)
    obstacle = obstacle_to(studio, points, index)
    if obstacle or index is None or points is None:
        raise Refused(f"this fit cannot be corrected here: {obstacle}")
    if not studio.collection.names:
        studio.describe(landmarks_of(opened, len(points)))
    studio.offered[index] = offer(
        points, sheet.lists(number), sheet.cell("confidence", number), opened.found.name
    )
    return Taken(index)


def _as_result(found: Found) -> Result:
    return Result(
        found.id,
        found.kind,
        found.name,
        found.place,
        found.time,
        found.bytes,
        found.rows,
        found.whole,
        found.sentence,
    )


def _with_row(opened: Opened, number: int) -> Sheet:
    if not 0 <= number < opened.sheet.count:
        raise LookupError(f"there is no row {number}: rows are numbered from 0 to {opened.sheet.count - 1}.")
    return opened.sheet


def _measure(opened: Opened, measure: str) -> str:
    known = measures_of(opened)
    if not known:
        raise Refused("this result has no numbers to draw a curve of.")
    if measure and measure not in known:
        raise ValueError(f"there is no curve of '{measure}'. Known: {', '.join(known)}.")
    return measure or known[0]


def _column(sheet: Sheet, name: str) -> ResultColumn:
    known = COLUMNS.get(name)
    return ResultColumn(
        name, known.unit if known else "", known.meaning if known else "", sheet.is_number(name)
    )


def _row(sheet: Sheet, number: int, cells: list[Any], with_points: bool) -> ResultRow:
    if not with_points:
        return ResultRow(number, cells)
    points = sheet.points(number)
    return ResultRow(number, cells, _rounded(points), _box(points, sheet.size(number)))


def _box(points: Float64 | None, size: tuple[int, int] | None) -> Box | None:
    return None if points is None or size is None else box_around(points, size)


def _rounded(points: Float64 | None) -> list[tuple[float, float]] | None:
    return None if points is None else np.round(points, 2).tolist()


def _plain(values: Float64 | None) -> list[float] | None:
    return None if values is None else np.round(values, 5).tolist()


def _settings(head: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """What was written about a run, as names and texts; settings within settings have both names."""
    told: list[tuple[str, str]] = []
    for name, value in head.items():
        if isinstance(value, dict):
            told += _settings(value, f"{name}: ")
        elif value not in (None, "", [], False):
            told.append((f"{before}{str(name).replace('_', ' ')}", readable(_in_words(value))[:300]))
    return told


def _in_words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    return "yes" if value is True else str(value)
