"""Fitting any number of images to a table on disk, in a way that survives being killed.

`fit_images` is what programs call. `files` says what is written where and what must not be replaced, and `prepare`
makes a run of settings. `run` does the work on one machine, where a `journal` keeps every row from the moment that
it is known. `run_in_parts` has it done by many processes, each of which commits whole `parts`, and `merging` makes
one table of them. `video` does the same for the frames of a video.
"""

from pliant.bulk.files import Drawing
from pliant.bulk.files import Task as Task
from pliant.bulk.files import fingerprint as fingerprint
from pliant.bulk.files import has_finished as has_finished
from pliant.bulk.files import look as look
from pliant.bulk.files import refusal as refusal
from pliant.bulk.fit_images import fit_images
from pliant.bulk.merging import PartsMissing, merge_parts
from pliant.bulk.parts import parts_of as parts_of
from pliant.bulk.prepare import Prepared as Prepared
from pliant.bulk.prepare import prepare as prepare
from pliant.bulk.run import run as run
from pliant.bulk.run_in_parts import look_for_parts as look_for_parts
from pliant.bulk.run_in_parts import refusal_in_parts as refusal_in_parts
from pliant.bulk.run_in_parts import run_in_parts as run_in_parts
from pliant.table import read_fits

__all__ = [
    "Drawing",
    "PartsMissing",
    "fit_images",
    "merge_parts",
    "read_fits",
]
