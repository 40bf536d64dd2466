"""The process that learns: images that are finished become a model, and open ones are looked at when it is idle.

It has the only copy of all that learning keeps, and does one thing after the other. Between any two images it looks
whether there is a newer wish. What it finds out it sends back, and nobody waits for it.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.arrays import Float32, Float64, Image
from pliant.data.images import read_image
from pliant.studio.proposing.next_image import Doubt, thumbnail
from pliant.studio.proposing.proposals import doubt_of, proposal

if TYPE_CHECKING:
    from pliant.quick.model import QuickModel

_NICE = 5
"""Pages and proposals come first."""

_FIRST = 24
"""Images that the first model is learned from, at the most."""

_PARENT = 2.0
"""Seconds between looks at whether the studio is still there."""

Key = tuple[str, int]
"""An image, and the how-manieth of its objects."""


@dataclass(frozen=True)
class Learn:
    """Learn from these images: where they are, and their points `(v, 2)`, nan where one is absent."""

    samples: tuple[tuple[Path | str, Float64], ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Look:
    """Look at these images, which are open: by their numbers."""

    pool: tuple[tuple[int, Path | str], ...]


@dataclass(frozen=True)
class NewModel:
    """A model was learned; `seconds` is what it took, and `pictures` are of the images that were read for it."""

    number: int
    model: QuickModel
    seconds: float
    pictures: dict[str, Float32]


@dataclass(frozen=True)
class Glance:
    """What an open image looks like, and what the model of this number thinks of it, if there is one."""

    index: int
    picture: Float32 | None
    number: int
    doubt: Doubt | None


@dataclass(frozen=True)
class Trouble:
    """Something went wrong, in a sentence."""

    sentence: str


class _Unreadable(Exception):
    def __init__(self, key: Key, sentence: str) -> None:
        super().__init__(sentence)
        self.key, self.sentence = key, sentence


@dataclass
class _State:
    """What the process has in mind."""

    answers: Connection
    first_number: int
    number: int = 0
    model: QuickModel | None = None
    judge: bool = False
    names: tuple[str, ...] = ()
    samples: dict[Key, tuple[Path | str, Float64]] | None = None
    pool: dict[int, Path | str] = field(default_factory=dict)
    looked: dict[int, int] = field(default_factory=dict)
    unreadable: set[Key] = field(default_factory=set)
    pictures: dict[str, Float32] = field(default_factory=dict)


def work(wishes: Any, answers: Connection, first_number: int, jobs: int) -> None:
    """Learn whatever is wished for, until the studio ends or sends None."""
    if hasattr(os, "nice"):
        os.nice(_NICE)
    from pliant.quick.learning import Learner

    learner, state = Learner(jobs), _State(answers, first_number, first_number)
    try:
        while True:
            idle = state.samples is None and not _still_to_see(state)
            wish = _next_wish(wishes, wait=idle)
            if wish == "end":
                return
            if isinstance(wish, Learn):
                state.samples, state.names, state.judge = _by_key(wish), wish.names, False
            elif isinstance(wish, Look):
                state.pool = dict(wish.pool)
                state.looked = {k: seen for k, seen in state.looked.items() if k in state.pool}
            elif state.samples is not None:
                _learn(learner, state)
            else:
                _look(state)
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        return


def _next_wish(wishes: Any, wait: bool) -> Learn | Look | str | None:
    """The next wish, None if there is none yet, or "end" if there will be no more."""
    while True:
        try:
            wish = wishes.get(timeout=_PARENT) if wait else wishes.get_nowait()
        except queue.Empty:
            parent = multiprocessing.parent_process()
            if parent is not None and not parent.is_alive():
                return "end"
            if wait:
                continue
            return None
        return "end" if wish is None else wish


def _by_key(wish: Learn) -> dict[Key, tuple[Path | str, Float64]]:
    """Samples by image and object: an image may have several."""
    out: dict[Key, tuple[Path | str, Float64]] = {}
    counts: dict[str, int] = {}
    for source, points in wish.samples:
        counts[str(source)] = counts.get(str(source), -1) + 1
        out[str(source), counts[str(source)]] = source, points
    return out


def _learn(learner: Any, state: _State) -> None:
    """A model of the newest wish; an image that cannot be read is left out, and said."""
    from pliant.quick.learning import Finished

    wanted = {key: one for key, one in (state.samples or {}).items() if key not in state.unreadable}
    # Of many images that were finished before, a part is enough for a first model; the others come next.
    part = state.model is None and len(wanted) > _FIRST
    wanted = some_of(wanted, _FIRST) if part else wanted
    finished: dict[Hashable, Any] = {
        key: Finished(_reader(key, source, state.pictures), points)
        for key, (source, points) in wanted.items()
    }
    begin = time.perf_counter()
    try:
        model = learner.learn(finished, state.judge)
    except _Unreadable as error:
        state.unreadable.add(error.key)
        state.answers.send(Trouble(error.sentence))
        return
    except ValueError as error:
        state.samples = None
        state.answers.send(Trouble(str(error)))
        return
    # A person waits for the model, and nobody for how far it can be trusted: that is learned once it was sent.
    state.judge = not part and learner.outdated
    state.samples, state.model = state.samples if part or state.judge else None, model
    state.number += 1
    state.answers.send(NewModel(state.number, model, time.perf_counter() - begin, state.pictures))
    state.pictures = {}


def some_of(samples: dict[Key, Any], count: int) -> dict[Key, Any]:
    """So many samples, spread evenly over all of them."""
    keys = list(samples)
    return {keys[k * len(keys) // count]: samples[keys[k * len(keys) // count]] for k in range(count)}


def _reader(key: Key, source: Path | str, pictures: dict[str, Float32]) -> Any:
    def read() -> Image:
        try:
            image = read_image(source)
            pictures[str(source)] = thumbnail(image)
            return image
        except (ValueError, OSError) as error:
            raise _Unreadable(key, f"cannot learn from a finished image: {error}") from error

    return read


def _still_to_see(state: _State) -> list[int]:
    """Open images that the newest model has not looked at."""
    return [index for index in state.pool if state.looked.get(index, -1) < state.number]


def _look(state: _State) -> None:
    """Look at the next open image."""
    waiting = _still_to_see(state)
    if not waiting:
        return
    index = min(waiting, key=lambda k: state.looked.get(k, -1))
    picture, doubt = None, None
    try:
        image = read_image(state.pool[index])
        picture = thumbnail(image)
        if state.model is not None:
            doubt = doubt_of(proposal(state.model, state.number, image), state.names)
    except (ValueError, OSError):
        # Whoever opens it is told; here it is only not proposed.
        pass
    state.looked[index] = state.number
    state.answers.send(Glance(index, picture, state.number, doubt))
