"""The thread that brings landmark files up to date, at its ease: the history has all changes already."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from pliant.data.rewriting import CannotHold
from pliant.studio.storage.saving import Beside, Edit, Saved, Together

Outcome = Mapping[int, Saved | ValueError | OSError]
"""For each image that it was written, or what was in the way."""

_SLOWEST = 10.0
_AGAIN = 2.0
_SIGN_OF_LIFE = 20.0


class Writer:
    """Writes what waits, a moment after it came, so that a drag of many steps is written once.

    `waiting` gives the edits that wait, each with the number of its last change; `settled` is told how they went,
    and `alive` is called now and then.
    """

    def __init__(
        self,
        store: Beside | Together,
        waiting: Callable[[], dict[int, tuple[int, Edit]]],
        settled: Callable[[Outcome, Mapping[int, int]], None],
        alive: Callable[[], None],
    ) -> None:
        self._store, self._waiting, self._settled, self._alive = store, waiting, settled, alive
        self._files = threading.Lock()
        """Held while landmark files are written, or read again."""
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._took = 0.0
        self._told: dict[int, str] = {}
        self._refused: dict[int, int] = {}
        """Images whose format could not hold a change, by its number: there is nothing to try until the next."""

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="pliant studio writer", daemon=True)
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        """Say that something waits."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread; what waits then is written by `write`."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def refresh(self) -> bool:
        """Read the one landmark file again if somebody else wrote it; whether that was so."""
        # While we write it, its signature changes by our own doing.
        if not isinstance(self._store, Together) or not self._files.acquire(blocking=False):
            return False
        try:
            return self._store.refresh()
        finally:
            self._files.release()

    def call_landmarks(self, names: tuple[str, ...]) -> None:
        """Give names to landmarks, in their file too if it has a place for them."""
        with self._files:
            self._store.call_landmarks(names)

    def write(self) -> bool:
        """Write all that waits; False if something was in the way that may go by, and it should be tried again."""
        with self._files:
            waiting = {
                index: (number, edit)
                for index, (number, edit) in self._waiting().items()
                if self._refused.get(index) != number
            }
            if not waiting:
                return True
            began = time.monotonic()
            outcome = self._store.save({index: edit for index, (_, edit) in waiting.items()})
            self._took = time.monotonic() - began
            for index, result in outcome.items():
                if isinstance(result, CannotHold):
                    self._refused[index] = waiting[index][0]
            news = {index: result for index, result in outcome.items() if self._is_news(index, result)}
        try:
            self._settled(news, {index: number for index, (number, _) in waiting.items()})
        except (ValueError, OSError):
            # The history has no room for it, or somebody is just writing a landmark file: this must not be the end
            # of all writing. What is not noted yet is written again.
            return False
        return all(isinstance(result, (Saved, CannotHold)) for result in outcome.values())

    def _is_news(self, index: int, result: Saved | ValueError | OSError) -> bool:
        """Whether this is to be told: the same trouble is not, each time that writing is tried again."""
        said = "" if isinstance(result, Saved) else str(result)
        before, self._told[index] = self._told.get(index, ""), said
        return not said or said != before

    def _run(self) -> None:
        alive = time.monotonic()
        while not self._over.is_set():
            self._wake.wait(_SIGN_OF_LIFE)
            if time.monotonic() - alive > _SIGN_OF_LIFE:
                self._alive()
                alive = time.monotonic()
            if not self._wake.is_set() or self._over.is_set():
                continue
            # A large file takes long to write: the longer, the rarer.
            self._over.wait(min(_SLOWEST, max(self._store.delay, 5 * self._took)))
            self._wake.clear()
            if not self.write():
                self._over.wait(_AGAIN)
                self._wake.set()
