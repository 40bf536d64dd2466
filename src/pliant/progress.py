"""How far the work is: a bar with the rate, the time left and the failures, or a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from pliant.terminal import console, say

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Advance(Protocol):
    """Called once for each part that is done; `failed` says that it went wrong."""

    def __call__(self, failed: bool = False) -> None: ...


FIRST_LINE, NEXT_LINE = 10.0, 30.0
"""Seconds until a log file is told how far a task is, and between two such lines."""


class Progress:
    """Bars for the steps of one task; `show=None` shows lines now and then if stderr is not a terminal."""

    def __init__(self, show: bool | None = None) -> None:
        self._show = sys.stderr.isatty() if show is None else show
        self._lines = show is None and not self._show
        self._next_line = time.monotonic() + FIRST_LINE
        self._bars: RichProgress | None = None

    def __enter__(self) -> Progress:
        if self._show:
            from rich import progress
            from rich.table import Column

            # The bar takes what the words leave of the line, so that these fit into 80 columns.
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=None),
                progress.TextColumn("{task.completed:,.0f}/{task.total:,.0f}", style="green"),
                progress.TextColumn("{task.fields[rate]}"),
                progress.TimeElapsedColumn(Column(no_wrap=True)),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(table_column=Column(no_wrap=True)),
                progress.TextColumn("{task.fields[failures]}", style="red"),
                console=console(error=True),
                expand=True,
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def start(self, description: str, total: int, done: int = 0, failed: int = 0) -> Advance:
        """Begin a step; call what is returned once for each of `total` parts done.

        `done` parts, `failed` of them, are from before: they do not count for the rate.
        """
        bars = self._bars
        if bars is None:
            return self._in_lines(description, total, done, failed)
        task = bars.add_task(description, total=total, completed=done, rate="", failures=_failures(failed))
        failures = failed

        def advance(failed: bool = False) -> None:
            nonlocal failures
            failures += failed
            bars.advance(task)
            bars.update(task, rate=_rate(bars.tasks[task].speed), failures=_failures(failures))

        return advance

    def _in_lines(self, description: str, total: int, done: int, failed: int) -> Advance:
        begin, failures = time.monotonic(), failed
        first: tuple[float, int] | None = None

        def advance(failed: bool = False) -> None:
            nonlocal done, failures, first
            done, failures = done + 1, failures + failed
            now = time.monotonic()
            first = first or (now, done)
            if not self._lines or now < self._next_line:
                return
            self._next_line = now + NEXT_LINE
            said = [f"{description}: {done:,}" + (f" of {total:,}" if total else ""), _time(now - begin)]
            # The first part waited for code to be compiled and a model to be prepared, unlike the others.
            if total > done > first[1]:
                said.append(f"about {_time((now - first[0]) / (done - first[1]) * (total - done))} left")
            say(", ".join(filter(None, (*said, _failures(failures)))), error=True)

        return advance

    def note(self, text: str) -> None:
        """A line above the bars, if they are shown."""
        if self._bars is not None:
            self.say(text)

    def say(self, text: str) -> None:
        """A line on stderr, above the bars."""
        if self._bars is not None:
            self._bars.console.print(text, soft_wrap=True)
        else:
            say(text, error=True)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _rate(speed: float | None) -> str:
    if speed is None:
        return ""
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s"


def _failures(count: int) -> Any:
    return f"{count:,} failed" if count else ""
