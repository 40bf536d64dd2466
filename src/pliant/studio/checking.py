"""Endpoints of the page Check: annotations that look wrong, and what a person has said about them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal
from uuid import uuid4
from weakref import WeakKeyDictionary

import numpy as np

from pliant.arrays import Float64
from pliant.data.images import ImageError, image_size, read_image
from pliant.data.suspects import FEWEST, Suspect, about_numbers, from_another_edge, suspicious_points
from pliant.files import open_plain, replaced
from pliant.limits import parsed_json
from pliant.studio.annotating import as_points
from pliant.studio.desk import Studio
from pliant.studio.storage.marks import ABSENT, UNSEEN, VISIBLE, Change, Mark, Marks
from pliant.studio.web.endpoints import Endpoints, Refused
from pliant.studio.web.jobs import Job, JobState

endpoints = Endpoints("check")

State = Literal["open", "accepted", "mended", "changed"]


@dataclass(frozen=True)
class Found:
    """A suspicious annotation: what looks wrong with which landmarks of which image, all of them if none is named.

    `state` is "open"; "accepted" once a person has said that it is right; "mended"; or "changed" in another way
    since the check.
    """

    number: int
    index: int
    name: str
    kind: str
    reason: str
    severity: float
    landmarks: list[int]
    mendable: bool
    state: State


@dataclass(frozen=True)
class Check:
    """What the last check found, the worst first. `sentence` says what was compared, or why nothing was."""

    checked: int
    sentence: str
    suspects: list[Found]


@dataclass(frozen=True)
class Closely:
    """A suspect with its points: as they were checked, as they are now, and as they would be once mended."""

    suspect: Found
    width: int
    height: int
    points: list[tuple[float, float] | None]
    now: list[tuple[float, float] | None]
    mend: list[tuple[float, float] | None] | None


@dataclass(frozen=True)
class Verdict:
    """Whether an annotation that looks wrong is right."""

    accepted: bool = True


@dataclass(frozen=True)
class ByWhom:
    """Which page mends."""

    client: str


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Suspects of the last check: for each its image and the points `(v, 2)` that were judged."""

    checked: int = 0
    sentence: str = "Nothing has been checked yet."
    suspects: tuple[Suspect, ...] = ()
    images: tuple[int, ...] = ()
    points: tuple[Float64, ...] = ()


@dataclass(eq=False)
class _Desk:
    """What Check keeps for a studio; `accepted` has fingerprints of what is right, by the key of the image."""

    file: Path
    outcome: _Outcome = field(default_factory=_Outcome)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.accepted: dict[str, list[str]] = _read(self.file)

    def accept(self, key: str, fingerprint: str, accepted: bool) -> None:
        with self.lock:
            known = [one for one in self.accepted.get(key, []) if one != fingerprint]
            said = {**self.accepted, key: [*known, fingerprint] if accepted else known}
            said = {name: some for name, some in said.items() if some}
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with replaced(self.file, alone=True) as passing:
                passing.write_text(json.dumps(said, indent=1), encoding="utf-8")
            self.accepted = said


_desks: WeakKeyDictionary[Studio, _Desk] = WeakKeyDictionary()
_making = Lock()


def _desk(studio: Studio) -> _Desk:
    with _making:
        if studio not in _desks:
            _desks[studio] = _Desk(studio.collection.side_folder / "accepted.json")
        return _desks[studio]


@endpoints.post("/api/check")
def start_check(studio: Studio) -> JobState:
    """Search for annotations that look wrong, in the background."""
    if any(job.state == "running" and job.title == _TITLE for job in studio.jobs.states()):
        raise Refused("a check is already running.")

    def work(job: Job) -> str:
        desk = _desk(studio)
        desk.outcome = _searched(studio, job)
        studio.events.tell("checked")
        return desk.outcome.sentence

    return studio.jobs.start(_TITLE, work).state


_TITLE = "checking annotations"


@endpoints.get("/api/check")
def check(studio: Studio) -> Check:
    """What the last check found."""
    outcome = _desk(studio).outcome
    numbers = range(len(outcome.suspects))
    return Check(outcome.checked, outcome.sentence, [_found(studio, outcome, number) for number in numbers])


@endpoints.get("/api/check/{number}")
def suspect(studio: Studio, number: int) -> Closely:
    """One suspect of the last check with its points."""
    outcome = _desk(studio).outcome
    one = _suspect(outcome, number)
    index = outcome.images[number]
    size = (0, 0)
    with suppress(ImageError):  # The page shows that there is no picture.
        size = image_size(studio.entry(index).source)
    return Closely(
        _found(studio, outcome, number),
        *size,
        as_points(outcome.points[number]),
        as_points(studio.collection.marks(index).points),
        None if one.mend is None else as_points(one.mend),
    )


@endpoints.post("/api/check/{number}/accept")
def accept(studio: Studio, number: int, body: Verdict) -> Found:
    """Accept an annotation as correct, until its points are changed."""
    desk = _desk(studio)
    outcome = desk.outcome
    one = _suspect(outcome, number)
    if studio.collection.read_only:
        raise Refused(studio.collection.read_only)
    key = studio.entry(outcome.images[number]).key
    desk.accept(key, _fingerprint(one, outcome.points[number]), body.accepted)
    return _found(studio, outcome, number)


@endpoints.post("/api/check/{number}/mend")
def mend(studio: Studio, number: int, body: ByWhom) -> Found:
    """Move the points to where they should be; this can be undone like any other change."""
    outcome = _desk(studio).outcome
    one = _suspect(outcome, number)
    index = outcome.images[number]
    marks = studio.collection.marks(index)
    if one.mend is None:
        raise Refused("nothing is known about where these points should be: open the image in Annotate.")
    if _state(studio, outcome, number) == "mended":
        return _found(studio, outcome, number)
    moved = _moved(one, outcome.points[number])
    if not _same(marks.points[moved], outcome.points[number][moved]):
        raise Refused("these points have changed since the check: check again.")
    changes = {int(landmark): _mended(marks, int(landmark), one.mend[landmark]) for landmark in moved}
    studio.apply(index, Change(uuid4().hex, body.client, changes))
    return _found(studio, outcome, number)


def _searched(studio: Studio, job: Job) -> _Outcome:
    """Compare all images in which landmarks are placed."""
    collection = studio.collection
    begun = np.flatnonzero(collection.begun).tolist()
    images: list[int] = []
    points: list[Float64] = []
    sizes: list[tuple[int, int]] = []
    total, done = 2 * len(begun), 0
    for index in begun:
        done += 1
        job.advance(done, total)
        try:
            marks = collection.marks(index)
            size = image_size(studio.entry(index).source)
        except (ValueError, OSError):
            continue  # Said where the image is opened.
        images.append(index)
        points.append(marks.points)
        sizes.append(size)
    if len(images) < FEWEST:
        said = f"{len(images)} images have landmarks: fewer than {FEWEST} are too few to compare."
        return _Outcome(len(images), said)

    def advance() -> None:
        nonlocal done
        done = min(done + 1, total - 1)
        job.advance(done, total)

    names = [studio.entry(index).key for index in images]
    found = suspicious_points(np.array(points), sizes, collection.own_names, names, advance=advance)
    found = list(
        from_another_edge(
            found, np.array(points), lambda number: read_image(studio.entry(images[number]).source)
        )
    )
    where = len({one.number for one in found})
    said = f"{len(images)} images were compared: " + (
        "nothing looks wrong." if not where else f"{where} of them may be wrong."
    )
    said = f"{said} {about_numbers(one.reason for one in found)}".rstrip()
    return _Outcome(
        len(images),
        said,
        tuple(found),
        tuple(images[one.number] for one in found),
        tuple(points[one.number] for one in found),
    )


def _suspect(outcome: _Outcome, number: int) -> Suspect:
    if not 0 <= number < len(outcome.suspects):
        raise LookupError(f"the last check has no suspect {number}.")
    return outcome.suspects[number]


def _found(studio: Studio, outcome: _Outcome, number: int) -> Found:
    one = outcome.suspects[number]
    reason = one.reason[0].upper() + one.reason[1:]
    return Found(
        number,
        outcome.images[number],
        one.name,
        one.kind,
        reason,
        round(one.severity, 3),
        list(one.landmarks),
        one.mend is not None,
        _state(studio, outcome, number),
    )


def _state(studio: Studio, outcome: _Outcome, number: int) -> State:
    """What has become of a suspect, by the points that are there now."""
    one, judged, index = outcome.suspects[number], outcome.points[number], outcome.images[number]
    try:
        points = studio.collection.marks(index).points
    except (ValueError, OSError):
        return "changed"
    if one.mend is not None:
        moved = _moved(one, judged)
        if len(moved) and _same(points[moved], one.mend[moved]):
            return "mended"
    some = list(one.landmarks) or slice(None)
    if not _same(points[some], judged[some]):
        return "changed"
    accepted = _desk(studio).accepted.get(studio.entry(index).key, [])
    return "accepted" if _fingerprint(one, judged) in accepted else "open"


def _fingerprint(one: Suspect, points: Float64) -> str:
    """What stands for the points of a suspect: it changes if they do."""
    some = list(one.landmarks) or slice(None)
    text = json.dumps([one.kind, list(one.landmarks), as_points(points[some])])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _moved(one: Suspect, points: Float64) -> Sequence[int]:
    """The landmarks that a mend puts elsewhere."""
    assert one.mend is not None
    return [k for k in range(len(points)) if not _same(one.mend[k], points[k])]


def _same(one: Float64, other: Float64) -> bool:
    return bool(np.allclose(one, other, rtol=0, atol=1e-3, equal_nan=True))


def _mended(marks: Marks, landmark: int, place: Float64) -> Mark:
    """A landmark at another place; nobody has looked at one whose place is taken away."""
    if np.isnan(place).any():
        return None, None, UNSEEN
    state = int(marks.states[landmark])
    return float(place[0]), float(place[1]), state if state > ABSENT else VISIBLE


def _read(file: Path) -> dict[str, list[str]]:
    """What was accepted before; nothing, if the file is not there or not ours."""
    try:
        with open_plain(file) as content:
            said = parsed_json(content.read())
    except (OSError, ValueError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {str(key): [str(one) for one in some] for key, some in said.items() if isinstance(some, list)}
