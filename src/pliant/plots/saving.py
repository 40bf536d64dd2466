"""Figures to files: whole or not at all, and with a mark, so that no command replaces anybody else's picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from pliant.data.ownership import PICTURE
from pliant.files import replaced

_SAYS_WHO = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}
"""Where each format says what has made it."""


def save_figure(figure: Figure, file: Path, **details: Any) -> None:
    """Write a figure to a PNG, SVG or PDF file; `details` are those of Matplotlib's `savefig`."""
    metadata = {_SAYS_WHO[file.suffix.lower()]: PICTURE.decode()}
    with replaced(file) as partial:
        figure.savefig(partial, metadata=metadata, **details)
