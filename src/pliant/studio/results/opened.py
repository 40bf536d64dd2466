"""Results that are open: their rows, what was written about the run, and the few that are kept in memory."""

from __future__ import annotations

import csv
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any

from pliant.bulk.journal import JOURNAL, ROWS, whole_lines
from pliant.data.formats.parquet import names_in
from pliant.data.names import readable, to_text
from pliant.limits import parsed_json
from pliant.records import ENDINGS
from pliant.studio.results.found import Finder, Found, Search, read_plan
from pliant.studio.results.sheet import Rows, Sheet, wrong_column
from pliant.studio.web.endpoints import Refused
from pliant.table.columns import COLUMNS, Kind, columns_of
from pliant.table.reading import ROWS as ROWS_FOLDER
from pliant.table.writing import HEAD

_KEPT = 6
"""Results that are in memory at once."""

_LARGEST_TEXT = 256 * 2**20
"""Bytes of a JSON or CSV file, or of a run under way, that are read as a whole."""

LABEL = "label"
"""The column that tells the trials of an experiment apart."""


@dataclass(frozen=True)
class Part:
    """A trial of an experiment's plan: how it is called, and the number that it varies."""

    label: str
    group: str
    value: float | None


@dataclass(frozen=True, eq=False)
class Opened:
    """A result in memory. `head` is what was written about the run; `sources` are names of places with its images.

    `parts` are an experiment's trials by their labels, and `missing` counts files of rows that are not there yet.
    """

    found: Found
    sheet: Sheet
    head: Mapping[str, Any]
    landmark_names: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    parts: Mapping[str, Part] = field(default_factory=dict)
    missing: int = 0
    sentence: str = ""

    @property
    def kind(self) -> str:
        return self.found.kind

    @property
    def label(self) -> str:
        """The column that curves are told apart by; empty if there is none."""
        return self.sheet.label if self.sheet.label in self.sheet.names else ""


class Shelf:
    """The results of a studio: found when asked for, opened by their ids, and a few kept open."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._finder = Finder()
        self._found: dict[str, Found] = {}
        self._open: OrderedDict[str, Opened] = OrderedDict()

    def search(self, places: Iterable[Path]) -> Search:
        """What there is now."""
        with self._lock:
            found = self._finder.search(places)
            self._found = {one.id: one for one in found.results}
            return found

    def open(self, key: str, places: Iterable[Path]) -> Opened:
        """The result of an id, as it is on disk now; a LookupError if there is none."""
        if key not in self._found or not _is_as_found(self._found[key]):
            self.search(places)
        with self._lock:
            if key not in self._found:
                raise LookupError("this result no longer exists: reload the list.")
            found = self._found[key]
            kept = self._open.get(key)
            if kept is None or kept.found.stamp != found.stamp:
                self._open[key] = kept = open_result(found)
            self._open.move_to_end(key)
            while len(self._open) > _KEPT:
                self._open.popitem(last=False)
            return kept


def _is_as_found(found: Found) -> bool:
    """Whether a result's file is the one that was found; of an experiment only its search can tell."""
    try:
        facts = found.path.stat()
    except OSError:
        return False
    return found.kind == "experiment" or found.stamp == (facts.st_mtime_ns, facts.st_size, facts.st_ino)


def open_result(found: Found) -> Opened:
    """Read a result; a refusal says in a sentence why it cannot be."""
    import pyarrow as pa

    if found.kind == "unknown":
        raise Refused(found.sentence)
    try:
        if found.kind == "experiment" and found.path.is_dir():
            opened = _experiment(found)
        elif found.path.name == JOURNAL:
            opened = _under_way(found)
        elif found.path.suffix == ".parquet":
            opened = _table(found)
        else:
            opened = _records(found)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        name = readable(found.path.name)
        raise Refused(
            f"{name}: this file is damaged, or is being written right now ({type(error).__name__})."
        ) from None
    wrong = wrong_column(opened.sheet)
    if wrong:
        raise Refused(f"{readable(found.path.name)}: {wrong}")
    return opened


def _table(found: Found) -> Opened:
    sheet = Sheet(Rows((found.path,)))
    about = sheet.schema.metadata or {}
    return Opened(found, sheet, _head(about), names_in(about))


def _head(about: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    try:
        head = parsed_json(about[HEAD])
    except (KeyError, ValueError):
        return {}
    return head if isinstance(head, dict) else {}


def _experiment(found: Found) -> Opened:
    """All rows of an experiment that are there, by the labels of its plan."""
    folder = found.path / ROWS_FOLDER
    plan = None if found.plan is None else read_plan(found.plan)
    if plan is None:
        if found.plan is not None:
            raise Refused(f"{readable(found.plan.name)}: the plan of this experiment cannot be read.")
        paths = sorted(path for path in folder.glob("[!.]*.parquet") if path.is_file())
        sheet = Sheet(Rows(tuple(paths)))
        return Opened(found, sheet, {}, names_in(sheet.schema.metadata or {}))
    paths, labels, missing = [], [], 0
    parts: dict[str, Part] = {}
    for trial in plan["trials"]:
        label = trial["label"]
        value = trial.get("value")
        parts.setdefault(
            label, Part(label, str(trial.get("group") or ""), value if isinstance(value, float) else None)
        )
        for start in range(_count(trial.get("starts"))):
            # A name from a file must not lead out of the folder.
            path = folder / f"{Path(trial['rows']).name}-{start}.parquet"
            if path.is_file():
                paths.append(path)
                labels.append(label)
            else:
                missing += 1
    if not paths:
        raise Refused(f"{found.name}: it has no fits yet. Run the experiment again to continue it.")
    sheet = Sheet(Rows(tuple(paths), labels=tuple(labels)), LABEL)
    sources = {text for trial in plan["trials"] for text in (*_texts(trial.get("test")), *_sources(trial))}
    settings = plan.get("settings") if isinstance(plan.get("settings"), dict) else {}
    head = {"experiment": plan["experiment"], "settings": settings}
    names = names_in(sheet.schema.metadata or {})
    return Opened(found, sheet, head, names, tuple(sorted(sources)), parts, missing)


def _count(starts: object) -> int:
    return min(max(starts, 0), 1000) if isinstance(starts, int) else 1


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _sources(trial: Mapping[str, Any]) -> list[str]:
    sets = trial.get("sets")
    if not isinstance(sets, dict):
        return []
    images = sets.get("images")
    return [*_texts(sets.get("sources")), *([images] if isinstance(images, str) and images else [])]


def _under_way(found: Found) -> Opened:
    """What a run that has not finished has written so far."""
    import pyarrow as pa

    lines = whole_lines(found.path)
    head = next(lines, ({}, 0))[0]
    rows: list[Mapping[str, Any]] = []
    sentence = found.sentence
    for line, end in lines:
        rows += [
            row for row in line.get(ROWS, ()) if isinstance(row, dict) and isinstance(row.get("image"), str)
        ]
        if end > _LARGEST_TEXT:
            sentence += f" The first {len(rows):,} rows are shown."
            break
    if not rows:
        raise Refused(f"{found.name}: this run has not fitted anything yet.")
    try:
        table = _as_table(rows, "fits")
    except (pa.ArrowException, TypeError):
        raise Refused(f"{readable(found.path.name)}: this is not the journal of a run.") from None
    return Opened(found, Sheet(Rows(table=table)), head if isinstance(head, dict) else {}, sentence=sentence)


def _records(found: Found) -> Opened:
    """An evaluation as CSV or JSON."""
    import pyarrow as pa

    if found.bytes > _LARGEST_TEXT:
        raise Refused(
            f"{readable(found.path.name)} has {found.bytes // 2**20} MB: write large evaluations as {ENDINGS[0]}."
        )
    if found.path.suffix.lower() == ".json":
        rows, names = _from_json(found.path), tuple[str, ...]()
    else:
        rows, names = _from_csv(found.path)
    try:
        table = _as_table(rows, "evaluation")
    except (pa.ArrowException, TypeError, ValueError):
        rows = []
    if not rows:
        raise Refused(
            f"{readable(found.path.name)}: this is not an evaluation that pliant wrote, or it is empty."
        )
    return Opened(found, Sheet(Rows(table=table)), {}, tuple(names))


def _as_table(rows: Sequence[Mapping[str, Any]], kind: Kind) -> Any:
    import pyarrow as pa

    from pliant.table.columns import schema_of

    there = [name for name in columns_of(kind) if any(name in row for row in islice(rows, 100))]
    schema = pa.schema([schema_of(kind).field(name) for name in there])
    plain = [{**row, "image": to_text(row["image"])} for row in rows]
    return pa.Table.from_pylist(plain, schema)


def _from_json(path: Path) -> list[dict[str, Any]]:
    try:
        content = parsed_json(path.read_text(encoding="utf-8"))
    except ValueError:
        raise Refused(f"{readable(path.name)}: this file is incomplete, or is not JSON.") from None
    rows = []
    for row in content if isinstance(content, list) else ():
        if not isinstance(row, dict) or not isinstance(row.get("image"), str):
            return []
        points = row.pop("points", None)
        known = isinstance(points, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in points)
        x, y = zip(*points, strict=True) if known and points else ((), ())
        # An error that was infinite is null in JSON: the object was not found.
        missed = {"error": float("inf")} if row.get("error") is None else {}
        rows.append({**row, **missed, "x": list(x), "y": list(y)})
    return rows


def _from_csv(path: Path) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Rows with x, y and distance of each landmark in columns of their own, behind those that say the rest."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        plain = [(k, name) for k, name in enumerate(header) if name in COLUMNS and name not in ("x", "y")]
        wide = list(range(len(plain), len(header)))
        rows = []
        for line in lines:
            if len(line) != len(header):
                continue  # The last line of a file that is being written.
            row: dict[str, Any] = {name: _value(name, line[k]) for k, name in plain}
            numbers = [_number(line[k]) for k in wide]
            rows.append({**row, "x": numbers[0::3], "y": numbers[1::3], "distances": numbers[2::3]})
    titles = [header[k] for k in wide[0::3]]
    ends = [title.rpartition("_") for title in titles]
    names = tuple(before for before, sign, end in ends if sign and end == "x")
    return rows, names if len(names) == len(titles) else ()


def _value(name: str, text: str) -> Any:
    kind = COLUMNS[name].type
    if kind == "string":
        return text
    if kind == "bool":
        return text == "True"
    number = _number(text)
    return int(number) if number is not None and kind == "int32" and number == int(number) else number


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
