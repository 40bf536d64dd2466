"""Journals with lines whose checks are right: what an unfinished run, and the studio, left in a folder."""

import json
from pathlib import Path
from random import Random

from pliant.bulk import Task
from pliant.bulk.files import look, refusal
from pliant.bulk.journal import JOURNAL, Journal, read_rows
from pliant.studio.storage.history import History, patch_from_json, patch_to_json
from pliant.studio.storage.known import Memory
from pliant.studio.storage.landmarks import landmarks_in
from pliant.table.columns import COLUMNS, columns_of

from .mutations import of_text, value_somewhere
from .target import Target, refused, written

_IMAGES = ("one.png", "two.png", "three.png")
_CHANGE = {"n": 1, "time": "2026-11-16T12:00:00.000Z", "image": "one.png", "client": "tab 1", "done": False}
_CHANGE |= {"marks": {"5": [101.5, 62.25, 2]}, "before": {"marks": {"5": [None, None, -1]}}}
_CURVE = {"name": "edge", "points": [0, 1], "closed": False}
_OBJECT = {"object": {"names": ["a", "b"], "curves": [_CURVE]}, "time": "2026-11-16T12:00:00.000Z"}


def targets() -> list[Target]:
    return [
        Target("journal", _journal, _read_journal, _mutate, ("pliant.bulk", "pliant.table")),
        Target("history", _history, _read_history, of_text, ("pliant.studio.storage",)),
    ]


def _task(folder: Path) -> Task:
    return Task(_IMAGES, folder, {"n": 1})


def _journal() -> list[bytes]:
    """Lines without their checks: `_read_journal` adds them."""
    row = {name: "" if COLUMNS[name].type == "string" else None for name in columns_of("fits")}
    row |= {"object": 0, "status": "converged", "x": [1.5, 2.0], "y": [3.0, 4.0], "cost": 0.5}
    lines = [_task(Path()).head(), *({"rows": [{**row, "image": name}]} for name in _IMAGES)]
    return [b"".join(json.dumps(line).encode() + b"\n" for line in lines)]


def _mutate(content: bytes, chance: Random) -> bytes:
    lines = content.split(b"\n")
    here = chance.randrange(len(lines))
    try:
        line = json.loads(lines[here])
        if chance.random() < 0.6 and value_somewhere(line, chance):
            lines[here] = json.dumps(line).encode()
            return b"\n".join(lines)
    except (ValueError, RecursionError):
        pass
    return of_text(content, chance)


def _sealed(content: bytes, path: Path) -> Path:
    """The lines with the checks that they should have, where they are JSON objects; others as they are."""
    path.unlink(missing_ok=True)
    head, *lines = content.split(b"\n")
    try:
        first = json.loads(head)
        with Journal(path, first if isinstance(first, dict) else {"head": first}) as journal:
            for line in lines:
                some = json.loads(line)
                journal._write([some if isinstance(some, dict) else {"rows": some}])
    except (ValueError, RecursionError):
        with open(path, "ab") as file:
            file.write(content)
    return path


def _read_journal(content: bytes, folder: Path) -> bool:
    path = _sealed(content, folder / JOURNAL)
    try:
        earlier = look(_task(folder))
    except ValueError as error:
        return refused(error, path, folder)
    assert 0 <= earlier.done <= len(_IMAGES)
    assert earlier.length <= path.stat().st_size
    if not earlier.done or refusal(_task(folder), earlier, resume=True):
        return False
    with Journal(path, None, earlier.length):  # as a run that goes on opens it
        assert all(isinstance(row, dict) for row in read_rows(path))
    return True


def _history() -> list[bytes]:
    return [b"".join(json.dumps(line).encode() + b"\n" for line in (_OBJECT, _CHANGE))]


def _read_history(content: bytes, folder: Path) -> bool:
    path = written(content, folder / "history.jsonl")
    lines = [line for _, line in History(path, writable=False).lines()]
    History(path, writable=False).lines_of("one.png")
    memory = Memory()
    for line in lines:
        try:
            memory.fold(0, line)
        except (KeyError, TypeError, ValueError):  # as a collection passes over such a line
            continue
        if "n" in line:
            json.dumps(patch_to_json(patch_from_json(line.get("before", line))))
    if memory.object is not None:
        landmarks_in(memory.object)
    return bool(lines)
