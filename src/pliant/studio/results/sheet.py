"""A result's rows: columns with one value each are sorted and filtered; lists are read where they are looked at.

A table of fits may have more rows than anybody wants in memory, most of it landmarks. So columns with one
value a row are read when the first is asked for, and of lists a block of rows at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pliant.arrays import Float64
from pliant.data.names import from_text
from pliant.table import COLUMNS

_BLOCK = 512
"""Rows of a table in memory that are looked at together, as those of a file are."""

_BLOCK_BYTES = 48 * 2**20
_ORDERS = 24
"""What is kept of blocks with lists, and how many ways to sort and filter."""

_LISTS = ("x", "y", "spread", "hidden", "distances")

_FIRST = ("image", "label", "algorithm", "frame", "time", "object", "start", "event", "status", "error", "pixels",
          "units", "confidence", "mismatch", "found", "iterations", "seconds", "cost", "start_error")  # fmt: skip
"""The order that columns are shown in; the others follow, and the reason is last."""

Order = NDArray[np.int32]


@dataclass(frozen=True)
class Rows:
    """Parquet files one after the other, or a table in memory, as one table; `labels` are those of the files."""

    paths: tuple[Path, ...] = ()
    table: Any = None
    labels: tuple[str, ...] = ()

    def heads(self) -> list[Any]:
        """The metadata of each file."""
        from pyarrow import parquet

        return [parquet.read_metadata(path) for path in self.paths]


@dataclass(frozen=True)
class Wanted:
    """Which rows, and in which order: by a column, and those without a value last.

    `status`, `label` and `event` are texts that a row must have, `name` is part of the image's name; the `measure`
    must be above and below bounds. What is empty or None is not looked at.
    """

    sort: str = ""
    descending: bool = False
    status: str = ""
    label: str = ""
    event: str = ""
    name: str = ""
    measure: str = ""
    above: float | None = None
    below: float | None = None


@dataclass(eq=False)
class Sheet:
    """The rows of a result; any number of threads may ask."""

    rows: Rows
    label: str = "algorithm"
    _columns: dict[str, Any] = field(default_factory=dict)
    _orders: OrderedDict[Wanted, Order] = field(default_factory=OrderedDict)
    _blocks: OrderedDict[int, Any] = field(default_factory=OrderedDict)
    _empty: dict[str, bool] = field(default_factory=dict)
    _shown: list[str] | None = None
    _bytes: int = 0

    def __post_init__(self) -> None:
        self._lock = RLock()
        if self.rows.table is not None:
            self.schema = self.rows.table.schema
            count = self.rows.table.num_rows
            self._heads: list[Any] = []
            self._starts = np.arange(0, max(count, 1), _BLOCK)
            self._places = [(0, k) for k in range(len(self._starts))]
        else:
            self._heads = self.rows.heads()
            self.schema = self._heads[0].schema.to_arrow_schema()
            places = [
                (file, group, head.row_group(group).num_rows)
                for file, head in enumerate(self._heads)
                for group in range(head.num_row_groups)
            ]
            self._places = [(file, group) for file, group, _ in places]
            self._starts = np.cumsum([0, *(number for _, _, number in places)])[:-1]
            count = sum(head.num_rows for head in self._heads)
        self.count: int = count
        self.labels = [self.label] if self.rows.labels else []
        self.names: list[str] = [*self.labels, *self.schema.names]

    def column(self, name: str) -> Any:
        """A column with one value a row, as pyarrow has it; texts are by their number."""
        with self._lock:
            if not self._columns:
                self._columns = self._read()
            return self._columns[name]

    def numbers(self, name: str) -> Float64:
        """A column of numbers `(n,)`; nan where there is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.column(name)
        if pa.types.is_boolean(column.type):
            column = pc.cast(column, pa.int8())
        numbers = pc.fill_null(pc.cast(column, pa.float64()), np.nan)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)

    def is_number(self, name: str) -> bool:
        """Whether a column has numbers, one a row."""
        import pyarrow as pa

        if name in self.labels:
            return False
        kind = self.schema.field(name).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))

    def is_text(self, name: str) -> bool:
        """Whether a column has texts."""
        import pyarrow as pa

        if name in self.labels:
            return True
        kind = self.schema.field(name).type
        return bool(
            pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
        )

    def is_list(self, name: str) -> bool:
        """Whether a row has many values in a column."""
        import pyarrow as pa

        return name not in self.labels and bool(pa.types.is_nested(self.schema.field(name).type))

    def is_empty(self, name: str) -> bool:
        """Whether no row has a value in a column, or a text that is not empty."""
        if name not in self._empty:
            column = self.column(name)
            texts = column.dictionary if self.is_text(name) else None
            nothing = texts is not None and (not len(texts) or (len(texts) == 1 and texts[0].as_py() == ""))
            self._empty[name] = column.null_count == len(column) or nothing
        return self._empty[name]

    def shown(self) -> list[str]:
        """The columns with one value a row that have any, in the order that people want to see them in."""
        with self._lock:
            if self._shown is None:
                single = [
                    name for name in self.names if not self.is_list(name) and not self._says_nothing(name)
                ]
                rest = [name for name in single if name not in _FIRST and name != "reason"]
                last = ["reason"] if "reason" in single else []
                self._shown = [name for name in _FIRST if name in single] + rest + last
            return self._shown

    def _says_nothing(self, name: str) -> bool:
        """Whether a column is empty, or has the number 0 of the only object or start of each image."""
        if name in ("object", "start"):
            return not np.any(self.numbers(name) > 0)
        return name != "image" and self.is_empty(name)

    def distinct(self, name: str) -> int:
        """How many different texts a column has."""
        return len(self.column(name).dictionary)

    def counts(self, name: str) -> dict[str, int]:
        """How many rows have each text of a column, the most first."""
        import pyarrow.compute as pc

        found = pc.value_counts(self.column(name)).to_pylist()
        return {one["values"] or "": one["counts"] for one in sorted(found, key=lambda one: -one["counts"])}

    def order(self, wanted: Wanted) -> Order:
        """The numbers `(k,)` of the rows that are wanted, in their order."""
        with self._lock:
            if wanted in self._orders:
                self._orders.move_to_end(wanted)
                return self._orders[wanted]
        found = self._filtered(wanted)
        with self._lock:
            self._orders[wanted] = found
            while len(self._orders) > _ORDERS:
                self._orders.popitem(last=False)
        return found

    def cells(self, names: Sequence[str], numbers: Order) -> list[list[Any]]:
        """The values of some columns in some rows, a list for each row."""
        chosen = np.asarray(numbers, dtype=np.int64)
        columns = [self.column(name).take(chosen).to_pylist() for name in names]
        return [list(values) for values in zip(*columns, strict=True)] if columns else [[] for _ in chosen]

    def cell(self, name: str, number: int) -> Any:
        """The value of a column in a row; None if there is no such column."""
        if name not in self.names or self.is_list(name):
            return None
        return self.column(name)[number].as_py()

    def image(self, number: int) -> str:
        """The image of a row as it was named."""
        return from_text(str(self.cell("image", number) or ""))

    def size(self, number: int) -> tuple[int, int] | None:
        """Width and height of the image of a row, if they are known."""
        width, height = self.cell("width", number), self.cell("height", number)
        return (int(width), int(height)) if width and height and width > 0 and height > 0 else None

    def lists(self, number: int, names: Sequence[str] = _LISTS) -> dict[str, Float64 | None]:
        """The lists of a row, `(v,)` each; None where there is none."""
        first, block = self._block(number)
        found: dict[str, Float64 | None] = {}
        for name in names:
            value = block.column(name)[number - first].values if name in block.column_names else None
            found[name] = (
                None if value is None else np.asarray(value.to_numpy(zero_copy_only=False), dtype=np.float64)
            )
        return found

    def points(self, number: int) -> Float64 | None:
        """The landmarks `(v, 2)` of a row; None if there is no fit."""
        lists = self.lists(number, ("x", "y"))
        x, y = lists["x"], lists["y"]
        if x is None or y is None or len(x) != len(y) or not np.isfinite(x).any():
            return None
        return np.stack([x, y], axis=-1)

    def _read(self) -> dict[str, Any]:
        """All columns but lists, each in one piece: together they are smaller than the lists by far."""
        import pyarrow as pa

        single = [name for name in self.schema.names if not self.is_list(name)]
        if self.rows.table is not None:
            whole = self.rows.table.select(single)
        else:
            parts = [self._table(file, None, single) for file in range(len(self._heads))]
            whole = pa.concat_tables(parts, promote_options="permissive")
        columns = {name: _in_one_piece(whole.column(name), self.is_text(name)) for name in single}
        if self.labels:
            sizes = [head.num_rows for head in self._heads]
            every = list(dict.fromkeys(self.rows.labels))
            indices = np.repeat([every.index(label) for label in self.rows.labels], sizes).astype(np.int32)
            columns[self.label] = pa.DictionaryArray.from_arrays(
                pa.array(indices), pa.array(every, pa.string())
            )
        return columns

    def _table(self, file: int, groups: Sequence[int] | None, names: Sequence[str]) -> Any:
        from pyarrow import parquet

        with parquet.ParquetFile(self.rows.paths[file], metadata=self._heads[file]) as opened:
            there = [name for name in names if name in opened.schema_arrow.names]
            table = opened.read(there) if groups is None else opened.read_row_groups(list(groups), there)
            return table.replace_schema_metadata(None)

    def _block(self, number: int) -> tuple[int, Any]:
        """The rows about one, with their lists, and the number of the first of them."""
        place = int(np.searchsorted(self._starts, number, side="right")) - 1
        first = int(self._starts[place])
        with self._lock:
            if place in self._blocks:
                self._blocks.move_to_end(place)
                return first, self._blocks[place]
            names = [name for name in _LISTS if name in self.schema.names]
            if self.rows.table is not None:
                return first, self.rows.table.select(names).slice(first, _BLOCK)
            file, group = self._places[place]
            block = self._table(file, [group], names)
            self._blocks[place] = block
            self._bytes += block.nbytes
            while self._bytes > _BLOCK_BYTES and len(self._blocks) > 1:
                self._bytes -= self._blocks.popitem(last=False)[1].nbytes
            return first, block

    def _filtered(self, wanted: Wanted) -> Order:
        order = self._sorted(wanted)
        keep = self._kept(wanted)
        return order if keep is None else order[keep[order]]

    def _sorted(self, wanted: Wanted) -> Order:
        import pyarrow.compute as pc

        if not wanted.sort:
            return np.arange(self.count, dtype=np.int32)
        column = self.column(wanted.sort)
        if self.is_text(wanted.sort):
            # By the place of each text among all texts: there are few of most, and numbers sort faster.
            encoded = column
            ranks = np.asarray(pc.rank(encoded.dictionary, tiebreaker="dense"))
            indices = np.asarray(pc.fill_null(encoded.indices, -1))
            values = np.where(indices < 0, np.nan, ranks[indices] if len(ranks) else np.nan)
        else:
            values = self.numbers(wanted.sort)
        if wanted.descending:
            values = -values
        # Nan is last whichever way: numpy sorts it so. Stable, so that what is alike stays in its order.
        return np.argsort(values, kind="stable").astype(np.int32)

    def _kept(self, wanted: Wanted) -> NDArray[np.bool_] | None:
        import pyarrow.compute as pc

        masks: list[NDArray[np.bool_]] = []
        for name, text in {"status": wanted.status, self.label: wanted.label, "event": wanted.event}.items():
            if text and name in self.names:
                masks.append(_mask(pc.equal(self.column(name), text)))
        if wanted.name and "image" in self.names:
            encoded = self.column("image")
            matching = pc.match_substring(encoded.dictionary, wanted.name, ignore_case=True)
            masks.append(_mask(matching)[np.asarray(pc.fill_null(encoded.indices, 0))])
        if wanted.measure and (wanted.above is not None or wanted.below is not None):
            values = self.numbers(wanted.measure)
            with np.errstate(invalid="ignore"):
                masks += [values > wanted.above] if wanted.above is not None else []
                masks += [values < wanted.below] if wanted.below is not None else []
        return np.logical_and.reduce(masks) if masks else None


def _in_one_piece(column: Any, text: bool) -> Any:
    """An array of a column's pieces; texts are by their number."""
    whole = column.combine_chunks()
    if text and not hasattr(whole, "dictionary"):
        whole = whole.dictionary_encode()
    return whole.chunk(0) if hasattr(whole, "num_chunks") else whole


def _mask(values: Any) -> NDArray[np.bool_]:
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(values, False).to_numpy(zero_copy_only=False), dtype=np.bool_)


def wrong_column(sheet: Sheet) -> str:
    """What is wrong with the columns of a table that says it is one of fits, as a sentence; empty if nothing is."""
    tests: Mapping[str, Callable[[str], bool]] = {
        "string": sheet.is_text,
        "int32": sheet.is_number,
        "float64": sheet.is_number,
        "landmarks": sheet.is_list,
    }
    for name in sheet.schema.names:
        known = COLUMNS.get(name)
        test = tests.get(known.type) if known is not None else None
        empty = str(sheet.schema.field(name).type) == "null"
        if known is not None and test is not None and not empty and not test(name):
            holds = sheet.schema.field(name).type
            return f"the column '{name}' should hold {_PLAIN[known.type]}, but it holds {holds}."
    return ""


_PLAIN = {"string": "texts", "int32": "numbers", "float64": "numbers", "landmarks": "lists of numbers"}
