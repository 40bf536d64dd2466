"""Tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def print_table(rows: Sequence[dict[str, Any]], columns: dict[str, Callable[[Any], str]]) -> None:
    """Rows under the names of their columns, which are set in two lines to be narrow."""
    titles = zip(*(column.replace("_", " ").partition(" ")[::2] for column in columns), strict=True)
    cells = [["-" if row[key] is None else show(row[key]) for key, show in columns.items()] for row in rows]
    table = [*titles, *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
