"""Whose a file is: commands replace what pliant wrote, and nothing else."""

from __future__ import annotations

from typing import BinaryIO

from pliant.data.addresses import Source, is_file, opened

MODEL = b'"format": "pliant"'
SETTINGS = b"was trained by pliant with these settings"
PAGE = b'<meta name="generator" content="pliant">'
PICTURE = b"drawn by pliant"
RECORDS = (b"image,object,algorithm,start,status,error", b'"algorithm": ', b"pliant_table")
"""What files of each kind say that pliant wrote; compared fits are CSV, JSON or Parquet."""

_LOOKED_AT = 2**16
"""Bytes at the beginning and at the end of a file: one of them has what a file says about itself."""


def refuse_foreign(target: Source, *marks: bytes) -> None:
    """Raise a sentence if a file is there that has none of the marks of those that pliant writes.

    An empty file is nobody's loss.
    """
    if not is_file(target):
        return
    with opened(target) as file:
        told = _ends(file)
    if told and not any(mark in told for mark in marks):
        raise ValueError(
            f"{target}: pliant did not write this file, so it is not replaced. Choose another name, or remove it "
            "first."
        )


def _ends(file: BinaryIO) -> bytes:
    """The beginning and the end of a file."""
    begin = file.read(_LOOKED_AT)
    size = file.seek(0, 2)
    file.seek(max(size - _LOOKED_AT, len(begin)))
    return begin + file.read()
