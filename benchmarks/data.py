"""Real images if they are there, synthetic ones if not; and the machine, in one line."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from pliant.data.dataset import Dataset
from pliant.data.loading import load_dataset
from pliant.synthetic import write_faces

_REAL = Path(__file__).resolve().parents[2] / "shared" / "data"


def folders(*names: str, synthetic_count: int, scratch: Path) -> list[Path]:
    """Folders of the real data with these names, or one of synthetic faces; what was taken is printed."""
    found = [_REAL / name for name in names]
    if all(folder.is_dir() for folder in found):
        print(f"data: {', '.join(names)}")
        return found
    print(f"data: {synthetic_count} synthetic faces ({', '.join(names)} are not here)")
    write_faces(scratch, synthetic_count)
    return [scratch]


def faces(scratch: Path, synthetic_count: int = 400) -> Dataset:
    names = ("lfpw/trainset", "helen/trainset")
    return load_dataset(*folders(*names, synthetic_count=synthetic_count, scratch=scratch))


def machine() -> str:
    return f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def real(name: str) -> Path | None:
    """The folder of the real data with this name, if it is there."""
    folder = _REAL / name
    return folder if folder.is_dir() else None
