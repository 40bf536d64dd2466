"""A run in parts, which many processes do at once: what each part is, where it is kept, and which of them count.

A part is a range of the images. Whoever has fitted one writes its rows to a file of its own, with a name that no
other has, and then a marker that names this file. The marker is the commit: rows count when it is there, and as it
names one file, they count once, however often the part was tried. Nothing is appended to, or renamed in a store.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pliant.bulk.files import Task, names_of
from pliant.data.addresses import (
    Source,
    fetched,
    join,
    make_folder,
    remove,
    remove_folder,
    size_in_bytes,
    sizes_in,
    written,
)
from pliant.limits import parsed_json
from pliant.table import Row, write_table

FOLDER = "fits.parts"
_PLAN = "plan.json"

_FEW, _MANY = 64, 2000
"""About how many parts there are of few images, for some workers to share, and of many."""

_WORTHWHILE, _LARGEST = 32, 4096
"""Images of a part that are worth its way to a worker, and the most of one."""

_FILE = re.compile(r"[0-9]{6,}-[0-9a-f]{8}\.parquet")
"""What the files of parts are called. A marker is a file that somebody may have written: it leads nowhere else."""

_READERS = 16
"""Threads that read markers: a store answers many as soon as one."""


@dataclass(frozen=True)
class Part:
    """Images that are fitted by one process; `files` is what the landmark files and pictures of each are called."""

    number: int
    images: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What messages call it."""
        first, last = self.images[0], self.images[-1]
        return f"{self.number} ({first if first == last else f'{first} to {last}'})"


@dataclass(frozen=True)
class Plan:
    """What all who work on a run must agree on, so that their parts belong together.

    `head` is that of the table, `landmarks` and `names` are how many landmarks there are and what they are called.
    """

    head: Mapping[str, Any]
    images: int
    parts: int
    landmarks: int
    names: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Sixteen digits that stand for what decides the rows."""
        decisive = [self.head["settings"], self.images, self.parts]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Marker:
    """That a part is done: `file` has its rows, of which `failed` have no fit, and `shard` says who did it."""

    part: int
    plan: str
    file: str
    images: int
    rows: int
    failed: int
    size: int
    digest: str
    shard: str = ""


def size_of_parts(images: int, block: int) -> int:
    """Images of a part: whole blocks, so that rows are those of a run on one machine, bit by bit.

    It depends on the number of images alone: a run goes on with other workers, or other shards.
    """
    size = max(images // _MANY, min(_WORTHWHILE, images // _FEW))
    return block * max(1, min(_LARGEST, size) // block)


def parts_of(task: Task) -> list[Part]:
    """The parts of a task, in order."""
    size, images = size_of_parts(len(task.images), task.block), tuple(task.images)
    files = tuple(names_of(images)) if task.landmarks or task.draw is not None else ()
    return [
        Part(number, images[first : first + size], files[first : first + size])
        for number, first in enumerate(range(0, len(images), size))
    ]


def plan_of(task: Task, landmarks: int, names: Sequence[str]) -> Plan:
    """The plan of a task with a model of so many landmarks."""
    size = size_of_parts(len(task.images), task.block)
    return Plan(task.head(), len(task.images), -(-len(task.images) // size), landmarks, tuple(names))


def read_plan(folder: Source) -> Plan | None:
    """The plan of the run that is under way in a folder of parts, if there is one."""
    if _PLAN not in sizes_in(folder):
        return None
    try:
        plain = parsed_json(_content(join(folder, _PLAN)))
        return Plan(**{**plain, "names": tuple(plain["names"])})
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{join(folder, _PLAN)}: this plan is damaged, so its run cannot continue: remove {folder}, or "
            "write to another folder."
        ) from None


def is_begun(output: Source) -> bool:
    """Whether a run in parts is under way in this folder."""
    return _PLAN in sizes_in(join(output, FOLDER))


def write_plan(folder: Source, plan: Plan) -> None:
    """Begin a run; two who begin the same run at once write the same."""
    make_folder(folder)
    with written(join(folder, _PLAN)) as path:
        path.write_text(json.dumps(asdict(plan), indent=1) + "\n", encoding="utf-8")


def markers_in(folder: Source, plan: Plan) -> dict[int, Marker]:
    """The parts of a plan that are done, by their numbers; those whose file is not there as a whole are not."""
    sizes = sizes_in(folder)
    names = [name for name in sizes if name.endswith(".json") and name != _PLAN]
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(lambda name: read_marker(folder, name), names))
    own = [one for one in found if one is not None and one.plan == plan.digest]
    # Somebody may have done a part once more since the files were listed: then it has another file.
    late = {one.part: committed(folder, one.part, plan) for one in own if one.file not in sizes}
    done = [late.get(one.part, one) for one in own]
    return {
        one.part: one for one in done if one is not None and (one.part in late or sizes[one.file] == one.size)
    }


def read_marker(folder: Source, name: str) -> Marker | None:
    """A marker; None if it is not there, or damaged: then the part is not done."""
    try:
        marker = Marker(**parsed_json(_content(join(folder, name))))
        own = marker_name(marker.part) == name and bool(_FILE.fullmatch(marker.file))
    except (ValueError, TypeError, OSError):
        return None
    return marker if own else None


def committed(folder: Source, part: int, plan: Plan) -> Marker | None:
    """The marker of one part, if that is done by now."""
    marker = read_marker(folder, marker_name(part))
    if marker is None or marker.plan != plan.digest:
        return None
    try:
        return marker if size_in_bytes(join(folder, marker.file)) == marker.size else None
    except OSError:
        return None


def marker_name(part: int) -> str:
    return f"{part:06d}.json"


def commit(
    folder: Source, part: Part, rows: Sequence[Row], plan: Plan, failed: int, shard: str = ""
) -> Marker:
    """Write the rows of a part, and then that they count."""
    name = f"{part.number:06d}-{secrets.token_hex(4)}.parquet"
    head = {**plan.head, "part": part.number}
    with written(join(folder, name)) as path:
        write_table(path, rows, head, plan.names)
        content = path.read_bytes()
    marker = Marker(
        part=part.number,
        plan=plan.digest,
        file=name,
        images=len(part.images),
        rows=len(rows),
        failed=failed,
        size=len(content),
        digest=_digest(content),
        shard=shard,
    )
    with written(join(folder, marker_name(part.number))) as path:
        path.write_text(json.dumps(asdict(marker)) + "\n", encoding="utf-8")
    return marker


def content_of(folder: Source, marker: Marker) -> bytes | None:
    """The file of a part that is done, as it was written; None if it is gone, or damaged."""
    try:
        content = _content(join(folder, marker.file))
    except OSError:
        return None
    return content if _digest(content) == marker.digest else None


def undo(folder: Source, parts: Iterable[int]) -> None:
    """Have parts count no longer, so that they are fitted again."""
    for part in parts:
        remove(join(folder, marker_name(part)))


def remove_parts(folder: Source) -> None:
    """Remove a folder of parts, the plan first: who finds a plan finds all parts that were done."""
    if isinstance(folder, str) or folder.is_dir():
        remove(join(folder, _PLAN))
        remove_folder(folder)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _content(file: Source) -> bytes:
    return file.read_bytes() if isinstance(file, Path) else fetched(file)
