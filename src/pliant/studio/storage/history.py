"""The history: an append-only file of JSON lines that holds every change before any landmark file does.

A line is on the disk before its change is acknowledged. What a crash has torn off at the end is cut away when the
file is opened for writing, and kept aside. A change and what was there before stand in one line:

{"n": 7, "time": "2026-11-16T12:00:00.000Z", "image": "face2.jpg", "client": "tab 1", "id": "4f1c", "done": false,
 "marks": {"5": [101.5, 62.25, 2]}, "before": {"marks": {"5": [null, null, -1]}}}

Other lines say what landmarks there are ("object"), what somebody else changed in a landmark file ("outside"), and
which change a landmark file holds ("file", "holds", "signature").
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pliant.limits import parsed_json
from pliant.studio.storage.marks import (
    MOST_LANDMARKS,
    UNSEEN,
    VISIBLE,
    Change,
    Marks,
    Scale,
    reverse,
    same_mark,
)

Line = dict[str, Any]


class History:
    """The history of a collection in one file; only one process writes it at a time."""

    def __init__(self, path: Path, writable: bool) -> None:
        self.path = path
        self.number = 0
        """The number of the last change."""
        self._read = 0
        self._file: int | None = None
        if writable:
            fresh = not path.exists()
            self._file = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o666
            )
            if fresh:
                _sync_folder(path.parent)
            self._cut_torn_end()

    def lines(self) -> Iterator[tuple[int, Line]]:
        """The lines that were not read yet, each with where it begins; what is no line of ours is passed over."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self._read)
            for content in file:
                if not content.endswith(b"\n"):
                    return  # Another process is just writing it.
                at = self._read
                self._read += len(content)
                line = _parsed(content)
                if line is not None:
                    self.number = max(self.number, line.get("n", 0))
                    yield at, line

    def lines_of(self, key: str) -> list[Line]:
        """All lines about an image."""
        if not self.path.exists():
            return []
        named = json.dumps(key).encode()
        with open(self.path, "rb") as file:
            found = [_parsed(content) for content in file if named in content]
        return [line for line in found if line is not None and line.get("image") == key and "n" in line]

    def append(self, line: Line, sync: bool = True) -> int:
        """Put a line at the end, on the disk before this returns; gives where it begins.

        Without `sync`, the line may be lost by a loss of power: right for what can be found out again.
        """
        assert self._file is not None, "the history was opened for reading"
        content = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        start = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(content):
                written += os.write(self._file, content[written:])
            if sync:
                os.fsync(self._file)
        except OSError as error:
            # Half a line on a full disk would run into the next one.
            os.ftruncate(self._file, start)
            raise OSError(
                f"{self.path}: this change could not be saved ({error.strerror}). Make sure that the disk has room "
                "and can be written to, and try again."
            ) from error
        self._read = start + len(content)
        self.number = max(self.number, line.get("n", 0))
        return start

    def at(self, start: int) -> Line:
        """The line that begins there."""
        with open(self.path, "rb") as file:
            file.seek(start)
            line = _parsed(file.readline())
        if line is None:
            raise ValueError(f"{self.path}: the line of a change can no longer be read.")
        return line

    def close(self) -> None:
        """Close the file; all lines are on the disk already."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def _cut_torn_end(self) -> None:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        with open(self.path, "rb") as file:
            # A line has some kilobytes; the end of the last whole one is looked for in ever larger pieces.
            reach = 2**16
            while True:
                file.seek(max(0, size - reach))
                tail = file.read()
                whole = tail.rfind(b"\n") + 1
                if whole or reach >= size:
                    break
                reach *= 16
        torn = tail[whole:]
        if torn:
            aside = self.path.with_name(f"torn-{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
            with open(aside, "ab") as file:
                file.write(torn + b"\n")
            os.ftruncate(self._file, size - len(torn))
            os.fsync(self._file)


def now() -> str:
    """The time as lines have it: UTC, to a millisecond."""
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03}Z"


def patch_to_json(change: Change) -> Line:
    """What a change sets, as a line has it."""
    line: Line = {}
    if change.marks:
        line["marks"] = {str(landmark): list(mark) for landmark, mark in change.marks.items()}
    if change.finished is not None:
        line["finished"] = change.finished
    if change.scale is not None:
        line["scale"] = scale_to_json(change.scale) if change.scale else False
    return line


def change_line(number: int, key: str, change: Change, before: Marks) -> Line:
    """The line of a change of an image that had other marks before."""
    done = before.finished if change.finished is None else change.finished
    line: Line = {"n": number, "time": now(), "image": key, "client": change.client}
    line |= {"id": change.id} if change.id else {}
    line |= {"done": done} | patch_to_json(change)
    return line | {"before": patch_to_json(reverse(before, change))}


def taken_back(line: Line, marks: Marks, id: str, client: str) -> Change:
    """What takes the change of a line back: of landmarks that were changed since, nothing."""
    made, back = patch_from_json(line), patch_from_json(line["before"])
    still = {
        landmark: mark
        for landmark, mark in back.marks.items()
        if same_mark(marks.mark(landmark), made.marks[landmark])
    }
    return replace(back, id=id, client=client, marks=still)


def patch_from_json(line: Mapping[str, Any], id: str = "", client: str = "") -> Change:
    """The change that a line, or what was there before it, describes."""
    marks = {int(landmark): (x, y, state) for landmark, (x, y, state) in line.get("marks", {}).items()}
    scale = line.get("scale")
    return Change(id, client, marks, line.get("finished"), scale_from_json(scale) if scale else scale)


def scale_to_json(scale: Scale) -> Line:
    """A scale bar as a line has it."""
    return {
        "start": list(scale.start),
        "end": list(scale.end),
        "length": scale.length,
        "unit": scale.unit,
    }


def scale_from_json(line: Mapping[str, Any]) -> Scale:
    """The scale bar in a line."""
    (left, top), (right, bottom) = line["start"], line["end"]
    return Scale((left, top), (right, bottom), line["length"], line["unit"])


def _parsed(content: bytes) -> Line | None:
    try:
        line = parsed_json(content)
    except ValueError:
        return None
    return line if isinstance(line, dict) and _is_ours(line) else None


def _is_ours(line: Line) -> bool:
    """Whether all that is in a line is what we write: a folder may come from anywhere, with a history in it."""
    texts = all(isinstance(line.get(key, ""), str) for key in ("image", "client", "id", "time"))
    numbers = all(_is_count(line.get(key, 0)) for key in ("n", "holds", "undoes", "redoes"))
    flags = all(isinstance(line.get(key, False), bool) for key in ("done", "outside", "created"))
    known = "n" not in line or "object" in line or ("image" in line and "done" in line)
    rest = line.get("rest", UNSEEN)
    state = type(rest) is int and UNSEEN <= rest <= VISIBLE
    before = line.get("before", {})
    patches = isinstance(before, dict) and _is_patch(line) and _is_patch(before)
    return texts and numbers and flags and known and state and patches and _is_object(line.get("object"))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_patch(line: Mapping[str, Any]) -> bool:
    marks, finished, scale = line.get("marks", {}), line.get("finished"), line.get("scale")
    if not isinstance(marks, dict) or not (finished is None or isinstance(finished, bool)):
        return False
    if scale not in (None, False):
        try:
            scale_from_json(scale)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return False
    return all(_is_landmark(key) and _is_mark(mark) for key, mark in marks.items())


def _is_landmark(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= 9 and int(key) < MOST_LANDMARKS


def _is_mark(mark: object) -> bool:
    if not isinstance(mark, list) or len(mark) != 3 or type(mark[2]) is not int:
        return False
    places = all(value is None or (type(value) in (int, float) and abs(value) < 1e9) for value in mark[:2])
    return places and UNSEEN <= mark[2] <= VISIBLE


def _is_object(said: object) -> bool:
    if said is None:
        return True
    if not isinstance(said, dict) or not isinstance(said.get("names"), list):
        return False
    names, curves = said["names"], said.get("curves")
    if not _is_count(said.get("had", 0)):
        return False
    if not 0 < len(names) <= MOST_LANDMARKS or not all(isinstance(name, str) for name in names):
        return False
    return isinstance(curves, list) and all(_is_curve(curve, len(names)) for curve in curves)


def _is_curve(curve: object, count: int) -> bool:
    return (
        isinstance(curve, dict)
        and isinstance(curve.get("name"), str)
        and isinstance(curve.get("closed"), bool)
        and isinstance(curve.get("points"), list)
        and all(type(point) is int and 0 <= point < count for point in curve["points"])
    )


def _sync_folder(folder: Path) -> None:
    """A new file is found after a loss of power only if its folder is on the disk too."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders.
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
