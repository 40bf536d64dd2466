"""Work in the background: its progress is streamed to the pages, and it can be stopped."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any, Literal

from pliant.studio.web.events import Events

_KEPT = 50
"""Jobs that have ended and are still listed."""

_OFTEN = 0.1
"""Least seconds between two reports of progress."""

State = Literal["running", "done", "stopped", "failed"]


class Stopped(Exception):
    """Raised inside of work that a user has stopped."""


@dataclass(frozen=True)
class JobState:
    """How far a piece of background work is; `sentence` says what it came to, or what went wrong."""

    id: int
    title: str
    done: int
    total: int
    state: State
    sentence: str


class Job:
    """One piece of work, done by a thread of its own, which calls `advance`; that raises `Stopped` if need be."""

    def __init__(self, number: int, title: str, events: Events) -> None:
        self.id, self.title = number, title
        self.result: Any = None
        self._done, self._total, self._state, self._sentence = 0, 0, "running", ""
        self._events, self._stop, self._told = events, Event(), 0.0

    def advance(self, done: int, total: int) -> None:
        """Say how many of all parts are done."""
        if self._stop.is_set():
            raise Stopped
        self._done, self._total = done, total
        if time.monotonic() - self._told > _OFTEN:
            self.tell()

    def stop(self) -> None:
        """Ask the work to end at the next part."""
        self._stop.set()

    @property
    def state(self) -> JobState:
        """As pages see it."""
        return JobState(self.id, self.title, self._done, self._total, self._state, self._sentence)  # type: ignore[arg-type]

    def tell(self) -> None:
        """Report the state to the pages."""
        self._told = time.monotonic()
        self._events.tell("job", **vars(self.state))

    def run(self, work: Callable[[Job], str]) -> None:
        """Do the work; it returns a sentence that says what it came to."""
        self.tell()
        try:
            self._sentence, self._state = work(self), "done"
        except Stopped:
            self._sentence, self._state = "stopped; finished results are kept.", "stopped"
        except Exception as error:
            # Whatever happens in the background must reach the person, and never end the server.
            self._sentence = str(error) or type(error).__name__
            self._state = "failed"
        self.tell()


class Jobs:
    """All background work of a studio."""

    def __init__(self, events: Events) -> None:
        self._events, self._lock = events, Lock()
        self._numbers = itertools.count(1)
        self._jobs: dict[int, Job] = {}

    def start(self, title: str, work: Callable[[Job], str]) -> Job:
        """Begin work in a thread of its own."""
        job = Job(next(self._numbers), title, self._events)
        with self._lock:
            self._jobs[job.id] = job
            ended = [one for one in self._jobs.values() if one.state.state != "running"]
            for old in ended[:-_KEPT]:
                del self._jobs[old.id]
        Thread(target=job.run, args=(work,), name=f"job {job.id}", daemon=True).start()
        return job

    def find(self, number: int) -> Job:
        """The job of this number; a LookupError if there is none."""
        with self._lock:
            if number not in self._jobs:
                raise LookupError(f"there is no background job {number}.")
            return self._jobs[number]

    def states(self) -> list[JobState]:
        """All jobs, the newest first."""
        with self._lock:
            return [job.state for job in reversed(self._jobs.values())]

    def stop_all(self) -> None:
        """Ask all work to end."""
        with self._lock:
            for job in self._jobs.values():
                job.stop()
