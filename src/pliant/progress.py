"""A progress bar with the time left, on the terminal if there is one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


class Progress:
    """Bars for the steps of one task; `show=None` shows them if stderr is a terminal."""

    def __init__(self, show: bool | None = None) -> None:
        self._show = sys.stderr.isatty() if show is None else show
        self._bars: RichProgress | None = None

    def __enter__(self) -> Progress:
        if self._show:
            from rich import progress
            from rich.console import Console

            self._bars = progress.Progress(
                progress.TextColumn("{task.description:<22}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def start(self, description: str, total: int) -> Callable[[], None]:
        """Begin a step; call what is returned once for each of `total` parts done."""
        bars = self._bars
        if bars is None:
            return lambda: None
        task = bars.add_task(description, total=total)
        return lambda: bars.advance(task)
