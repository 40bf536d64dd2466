"""The columns of tables of fits. A name has one type and one meaning, whichever table it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

VERSION = 4
"""Of the columns. A file has it in its metadata; the first ones, from before 0.1.0, have none: version 1."""

Kind = Literal["fits", "track", "evaluation", "experiment"]
"""What wrote a table: `pliant fit`, `track`, `evaluate` or `experiment`."""

_ALL: tuple[Kind, ...] = ("fits", "track", "evaluation", "experiment")
_JUDGED: tuple[Kind, ...] = ("evaluation", "experiment")

TYPES = ("string", "bool", "int32", "float64", "landmarks", "levels")
"""`landmarks` is a list with one float64 for each landmark, and `levels` has a list of float64 for each level."""


@dataclass(frozen=True)
class Column:
    """A column: its type, the unit of its numbers, what it means, and the tables that have it."""

    name: str
    type: str
    unit: str
    meaning: str
    tables: tuple[Kind, ...] = _ALL


_EVERY = (
    Column(
        "image", "string", "", "name of the image as given; for a video, the video or the file of the frame"
    ),
    Column("object", "int32", "", "number of the object in the image, from 0"),
    Column("status", "string", "", "how the fit ended; `failed` if there is none"),
    Column("reason", "string", "", "a sentence that says why there is no fit; otherwise empty"),
    Column("confidence", "float64", "", "probability that the error is below a bound, if it is known"),
    Column("cost", "float64", "", "value of the minimised cost at the finest level"),
    Column("iterations", "int32", "", "number of iterations at all levels together"),
    Column("seconds", "float64", "s", "how long the fit took, without reading the image"),
    Column("width", "int32", "px", "width of the image"),
    Column("height", "int32", "px", "height of the image"),
    Column("x", "landmarks", "px", "from left to right; the centre of the first pixel is 0"),
    Column("y", "landmarks", "px", "from top to bottom; the centre of the first pixel is 0"),
    Column(
        "spread",
        "landmarks",
        "px",
        "standard deviation of a landmark along each axis, if the model was calibrated",
    ),
    Column(
        "hidden", "landmarks", "", "1 if an expert does not see the landmark, otherwise 0, if it can tell"
    ),
    Column("frame", "int32", "", "number of the frame in the video, from 0", ("track",)),
    Column("time", "float64", "s", "when the frame is shown", ("track",)),
    Column("event", "string", "", "`tracked`, `restarted` or `lost`", ("track",)),
    Column("mismatch", "float64", "", "what the model cannot explain, relative to what it sees", ("track",)),
    Column("algorithm", "string", "", "name of the algorithm", _JUDGED),
    Column("start", "int32", "", "number of the start of this image, from 0", _JUDGED),
    Column("error", "float64", "size", "mean distance over the measured landmarks", _JUDGED),
    Column("distances", "landmarks", "size", "distance of each landmark from where it should be", _JUDGED),
    Column("pixels", "float64", "px", "`error` in pixels of the image", ("evaluation",)),
    Column(
        "units", "float64", "", "`error` in the unit of the landmark file, if it has one", ("evaluation",)
    ),
    Column("found", "bool", "", "whether the fit is on the object", ("evaluation",)),
    Column(
        "trial", "string", "", "name of a set of settings: all fits of one trial share it", ("experiment",)
    ),
    Column("number", "int32", "", "number of the image in its set, from 0", ("experiment",)),
    Column("train", "string", "", "sets that were trained on", ("experiment",)),
    Column("test", "string", "", "sets that were tested on", ("experiment",)),
    Column("fold", "int32", "", "part of the set that was held out, if there are folds", ("experiment",)),
    Column("noise", "float64", "", "how far off the starts are", ("experiment",)),
    Column("sampling", "float64", "", "share of the pixels that was used", ("experiment",)),
    Column("start_error", "float64", "size", "`error` of the start", ("experiment",)),
    Column("costs", "levels", "", "`cost` before each iteration and after the last", ("experiment",)),
    Column("errors", "levels", "size", "`error` before each iteration and after the last", ("experiment",)),
)

COLUMNS = {column.name: column for column in _EVERY}
"""All columns by their names, in the order that files have them in."""


def columns_of(kind: Kind) -> list[str]:
    """The names of a table's columns, in order."""
    return [column.name for column in _EVERY if kind in column.tables]


def has_type(value: Any, name: str) -> bool:
    """Whether a value from a file is one that the column can have."""
    type_ = COLUMNS[name].type
    if type_ == "string":
        return isinstance(value, str)
    if value is None:
        return True
    if type_ == "landmarks":
        return isinstance(value, list) and all(type(number) is float for number in value)
    return type(value) is {"int32": int, "float64": float, "bool": bool}.get(type_)


def schema_of(kind: Kind) -> Any:
    """The columns of a table as pyarrow has them."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "landmarks": pa.list_(pa.float64()),
        "levels": pa.list_(pa.list_(pa.float64())),
    }
    return pa.schema([(name, types[COLUMNS[name].type]) for name in columns_of(kind)])
