"""Fitting any number of images to a table on disk, in a way that survives being killed.

`files` says what is written where and what must not be replaced, `journal` keeps every row from the moment that it
is known, `prepare` makes a run of settings, and `run` does the work.
"""

from pliant.bulk.files import Drawing, Task, fingerprint, has_finished, look, refusal
from pliant.bulk.prepare import Prepared, prepare
from pliant.bulk.run import run
from pliant.table import (
    COLUMNS,
    read_fits,
)

__all__ = [
    "COLUMNS",
    "Drawing",
    "Prepared",
    "Task",
    "fingerprint",
    "has_finished",
    "look",
    "prepare",
    "read_fits",
    "refusal",
    "run",
]
