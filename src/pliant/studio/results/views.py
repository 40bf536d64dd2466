"""What the page Results is told: results, their rows and fits, as values on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pliant.studio.results.curves import Figures
from pliant.studio.results.images import Box


@dataclass(frozen=True)
class Result:
    """A result in the list. `whole` is false while a run is under way; `sentence` says why it cannot be opened, or
    what there is to know; `time` is when it was written, in seconds since 1970.
    """

    id: str
    kind: Literal["fits", "track", "evaluation", "experiment", "unknown"]
    name: str
    place: str
    time: float
    bytes: int
    rows: int | None
    whole: bool
    sentence: str


@dataclass(frozen=True)
class ResultList:
    """All results that were found, the newest first; `sentences` are about what was not looked at."""

    results: list[Result]
    sentences: list[str]


@dataclass(frozen=True)
class ResultColumn:
    """A column with one value a row."""

    name: str
    unit: str
    meaning: str
    numeric: bool


@dataclass(frozen=True)
class Choice:
    """A text of a column, and how many rows have it."""

    value: str
    count: int


@dataclass(frozen=True)
class OpenResult:
    """What a result has. `label` is the column that curves are told apart by, `measures` those that they can be of.

    `choices` are the texts of columns with few of them, `settings` names and values of the run.
    """

    id: str
    kind: str
    name: str
    place: str
    sentences: list[str]
    count: int
    columns: list[ResultColumn]
    label: str
    measures: list[str]
    choices: dict[str, list[Choice]]
    figures: list[Figures]
    settings: list[tuple[str, str]]
    tables: list[str]
    sweeps: bool
    landmark_names: list[str]


@dataclass(frozen=True)
class ResultRow:
    """A row: its number in the table, values in the order of the columns, landmarks and the box that shows them."""

    number: int
    cells: list[Any]
    points: list[tuple[float, float]] | None = None
    box: Box | None = None


@dataclass(frozen=True)
class ResultRows:
    """Some of the `total` rows that are wanted."""

    total: int
    first: int
    rows: list[ResultRow]


@dataclass(frozen=True)
class ResultFit:
    """All about one row. `trouble` says why its image cannot be shown; `index` is its image in the open collection.

    `obstacle` says why it cannot be corrected in Annotate.
    """

    number: int
    image: str
    width: int | None
    height: int | None
    cells: list[Any]
    points: list[tuple[float, float]] | None
    box: Box | None
    distances: list[float] | None
    spread: list[float] | None
    hidden: list[float] | None
    trouble: str
    index: int | None
    obstacle: str


@dataclass(frozen=True)
class Taken:
    """The image in which points are now proposed."""

    index: int
