"""Which results there are: evaluations, bulk fits, tracks and experiments, known by ids and not by paths."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pliant.bulk.journal import JOURNAL
from pliant.data.names import readable
from pliant.limits import parsed_json
from pliant.table import TABLE, VERSION
from pliant.table.reading import ROWS, TRACK
from pliant.table.writing import KIND, NUMBER

Kind = Literal["fits", "track", "evaluation", "experiment", "unknown"]

_DEEPEST = 6
_MOST = 500
_SECONDS = 2.0
"""How far below a folder, how many, and how long is looked for results."""

_ASIDE = ("fits.unfinished", "landmarks", "pictures", "node_modules", "__pycache__")
"""Folders that have no results: those of a run beside its table, and of others."""

_REMEMBERED = 5000
"""Files that are known, and not opened again for the list."""

_FEW = 50
"""In a folder with more CSV or JSON files than this, these are annotations: they are not opened one by one."""

EVALUATED = "image,object,algorithm,start,status,error,"
"""How an evaluation in CSV begins."""

_SNIFFED = 4096


@dataclass(frozen=True)
class Found:
    """A result that can be opened, or a file that cannot, with the reason as its `sentence`.

    `path` is its file, or the folder of an experiment, whose `plan` is a file there; `stamp` changes with it.
    """

    id: str
    kind: Kind
    name: str
    place: str
    time: float
    bytes: int
    rows: int | None
    whole: bool
    sentence: str
    path: Path
    plan: Path | None = None
    stamp: tuple[int, ...] = ()


@dataclass(frozen=True)
class Search:
    """Results, the newest first, and sentences about what was not looked at."""

    results: list[Found]
    sentences: list[str]


class Finder:
    """Looks for results; what a file is is found out again only when the file has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, tuple[int, ...]], Found | None] = {}

    def search(self, places: Iterable[Path]) -> Search:
        """All results in folders, and in files that were named; each once."""
        found: dict[str, Found] = {}
        sentences: list[str] = []
        roots = [Path(os.path.realpath(place)) for place in places]
        for root in dict.fromkeys(roots):
            if root.is_file():
                named = self._file(root, root.parent, named=True)
                some: Iterable[Found] = [named] if named is not None else []
            elif root.is_dir():
                some = self._below(root, sentences)
            else:
                sentences.append(
                    f"{readable(str(root))} does not exist: there are no results to show from it."
                )
                continue
            for one in some:
                found.setdefault(one.id, one)
        return Search(sorted(found.values(), key=lambda one: -one.time), sentences)

    def _below(self, root: Path, sentences: list[str]) -> Iterator[Found]:
        until, count = time.monotonic() + _SECONDS, 0
        for folder, folders, files in os.walk(root):
            here = Path(folder)
            depth = len(here.relative_to(root).parts)
            beside = ROWS in folders
            folders[:] = sorted(
                name
                for name in folders
                if depth < _DEEPEST
                and not name.startswith(".")
                and name not in _ASIDE
                and not (beside and name == ROWS)
            )
            if beside:
                yield from self._experiments(here, root, files)
            for one in self._in_folder(here, root, files):
                count += 1
                yield one
            if count >= _MOST or time.monotonic() > until:
                sentences.append(
                    f"Not everything in {readable(root.name)} is listed: start the studio with --results and "
                    "the folder that you want."
                )
                return

    def _in_folder(self, here: Path, root: Path, files: list[str]) -> Iterator[Found]:
        texts = [name for name in files if name.endswith((".csv", ".json"))]
        tables = [name for name in files if name.endswith(".parquet")]
        for name in sorted([*tables, *(texts if len(texts) <= _FEW else ())]):
            under_way = name.startswith(".part-")
            if name.startswith(".") and not under_way:
                continue
            if under_way and JOURNAL in files:
                continue  # The journal says more.
            if (one := self._file(here / name, root)) is not None:
                yield one
        if JOURNAL in files and (one := self._file(here / JOURNAL, root)) is not None:
            yield one

    def _file(self, path: Path, root: Path, named: bool = False) -> Found | None:
        """What a file is; None if it is nothing that anybody would look for here, unless it was `named`."""
        try:
            facts = path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None  # To open a pipe would wait for its other end.
        stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        key = (path, (*stamp, named))
        if key not in self._known:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            kind, rows, whole, sentence = _looked_at(path)
            keep = named or path.suffix == ".parquet" or kind != "unknown"
            self._known[key] = (
                Found(
                    _id(path), kind, _name(path), _place(path, root), facts.st_mtime, facts.st_size, rows,
                    whole, sentence, path, stamp=stamp,
                )
                if keep
                else None
            )  # fmt: skip
        return self._known[key]

    def _experiments(self, folder: Path, root: Path, files: list[str]) -> Iterator[Found]:
        """The experiments of a folder, one for each plan; rows without a plan are one as well."""
        facts = [one.stat() for one in os.scandir(folder / ROWS) if _is_table(one.name)]
        if not facts:
            return
        last, size = max(one.st_mtime for one in facts), sum(one.st_size for one in facts)
        stamp = (int(last * 1e6), size, len(facts))
        plans = [
            folder / name for name in sorted(files) if name.endswith(".json") and _is_plan(folder / name)
        ]
        place = _place(folder / ROWS, root)
        every: list[Path | None] = [*plans] or [None]
        for plan in every:
            name = folder.name if plan is None or plan.stem == folder.name else f"{plan.stem}, {folder.name}"
            about = plan or folder
            yield Found(
                _id(about), "experiment", readable(name), place, last, size, None, True, "", folder, plan,
                (*stamp, about.stat().st_mtime_ns),
            )  # fmt: skip


def _looked_at(path: Path) -> tuple[Kind, int | None, bool, str]:
    """What a file is, its rows, whether it is whole, and a sentence if it cannot be opened."""
    if path.name == JOURNAL:
        return (
            "fits",
            None,
            False,
            "This run is still running, or was stopped. Continue it with pliant fit --resume.",
        )
    if path.name.startswith(".part-"):
        return (
            "unknown",
            None,
            False,
            f"{path.name.removeprefix('.part-')} is being written, or writing was stopped: it opens once it "
            "is complete.",
        )
    try:
        if path.suffix.lower() in (".csv", ".json"):
            with open(path, "rb") as file:
                begin = file.read(_SNIFFED).decode("utf-8", "replace")
            if path.suffix.lower() == ".csv" and begin.startswith(EVALUATED):
                return "evaluation", None, True, ""
            words = ('"image"', '"algorithm"', '"status"', '"error"')
            if begin.lstrip().startswith("[") and all(word in begin for word in words):
                return "evaluation", None, True, ""
            return "unknown", None, True, f"{readable(path.name)}: this is not a result that pliant wrote."
        return _table_kind(path)
    except OSError as error:
        return "unknown", None, True, f"{readable(path.name)}: it cannot be read ({error.strerror or error})."


def _table_kind(path: Path) -> tuple[Kind, int | None, bool, str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
    except (pa.ArrowException, OSError):
        sentence = f"{readable(path.name)}: this is not a Parquet file, or it is damaged or incomplete."
        return "unknown", None, True, sentence
    said = about.metadata or {}
    version = said.get(NUMBER, b"1")
    if version.isdigit() and int(version) > VERSION:
        return (
            "unknown",
            about.num_rows,
            True,
            f"{readable(path.name)}: this was written by a newer version: update pliant.",
        )
    columns = set(about.schema.to_arrow_schema().names)
    if not {"image", "status", "x", "y"} <= columns:
        return (
            "unknown",
            about.num_rows,
            True,
            f"{readable(path.name)}: this is not a table of fits that pliant wrote.",
        )
    guessed: Kind = "track" if "frame" in columns else "evaluation" if "error" in columns else "fits"
    kind = said.get(KIND, b"").decode("utf-8", "replace")
    return (
        (kind if kind in ("fits", "track", "evaluation", "experiment") else guessed),
        about.num_rows,
        True,
        "",
    )


def read_plan(path: Path) -> dict[str, Any] | None:
    """What an experiment consists of; None if the file is something else."""
    try:
        content = parsed_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if (
        not isinstance(content, dict)
        or not isinstance(content.get("trials"), list)
        or "experiment" not in content
    ):
        return None
    known = all(
        isinstance(trial, dict) and isinstance(trial.get("rows"), str) and isinstance(trial.get("label"), str)
        for trial in content["trials"]
    )
    return content if known and content["trials"] else None


def _is_plan(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return b'"experiment"' in file.read(200)
    except OSError:
        return False


def _is_table(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def _name(path: Path) -> str:
    """What people call a result: its folder, where all files are called the same."""
    plain = path.parent.name if path.name in (TABLE, TRACK, JOURNAL) else path.name.removeprefix(".part-")
    return readable(plain)


def _place(path: Path, root: Path) -> str:
    """The folder of a result, as seen from where the search began."""
    below = path.parent.relative_to(root) if path.parent.is_relative_to(root) else path.parent
    return readable(str(Path(root.name) / below))


def _id(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=8).hexdigest()
