"""Saying so when functions are compiled: once a machine, and again when pliant or Numba has changed."""

from __future__ import annotations

from typing import Any

from pliant.terminal import say


def announce_compiling() -> None:
    """From now on, the first function that has to be compiled is announced; those on disk are not."""
    import numba.core.event

    events: Any = numba.core.event

    class Announcer(events.Listener):  # type: ignore[misc]
        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                say("compiling for this machine: about ten seconds, the first time only", error=True)
                self.said = True

        def on_end(self, event: Any) -> None: ...

    events.register("numba:compile", Announcer())
