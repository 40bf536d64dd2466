"""Saying so when functions are compiled: each once a machine, and again when pliant or Numba has changed.

A function is compiled for the types that it is called with. Training, fitting, other algorithms and other kinds of
images use functions of their own, so several commands may have something to compile.
"""

from __future__ import annotations

from typing import Any

from pliant.terminal import say

SENTENCE = (
    "compiling code that this machine has not run before, up to half a minute; it is kept for next time"
)


def announce_compiling() -> None:
    """From now on, the first function that has to be compiled is announced; those on disk are not."""
    import numba.core.event

    events: Any = numba.core.event

    class Announcer(events.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                say(SENTENCE, error=True)
                self.said = True

        def on_end(self, event: Any) -> None: ...

    events.register("numba:compile", Announcer())
