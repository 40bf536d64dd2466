"""Fitting any number of images to a table on disk, in a way that survives being killed.

`fit_images` is what programs call. `files` says what is written where and what must not be replaced, and `prepare`
makes a run of settings. `run` does the work on one machine, where a `journal` keeps every row from the moment that
it is known. `run_in_parts` has it done by many processes, each of which commits whole `parts`, and `merging` makes
one table of them. `video` does the same for the frames of a video.
"""

from pliant.bulk.files import Drawing, Task, fingerprint, has_finished, look, refusal
from pliant.bulk.fit_images import fit_images
from pliant.bulk.merging import PartsMissing, merge_parts
from pliant.bulk.parts import parts_of
from pliant.bulk.prepare import Prepared, prepare
from pliant.bulk.run import run
from pliant.bulk.run_in_parts import look_for_parts, refusal_in_parts, run_in_parts
from pliant.table import read_fits

__all__ = [
    "Drawing",
    "PartsMissing",
    "Prepared",
    "Task",
    "fingerprint",
    "fit_images",
    "has_finished",
    "look",
    "look_for_parts",
    "merge_parts",
    "parts_of",
    "prepare",
    "read_fits",
    "refusal",
    "refusal_in_parts",
    "run",
    "run_in_parts",
]
