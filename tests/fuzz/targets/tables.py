"""Tables of fits: Parquet files that commands, morphometrics and the studio read."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from pliant.morphometrics import read_specimens
from pliant.table import read_fits, read_head, rows_of
from pliant.table.columns import schema_of
from pliant.table.writing import HEAD, KIND, NUMBER

from .mutations import of_bytes
from .target import Target, refused, written

WATCHED = ("pliant.table", "pliant.data", "pliant.morphometrics")


def targets() -> list[Target]:
    return [Target("tables", _seeds, _read, of_bytes, WATCHED, longest=16384)]


def _seeds() -> list[bytes]:
    row = {"image": "a.jpg", "status": "converged", "x": [1.5, 2.5], "y": [3.0, np.nan], "confidence": 0.5}
    other = {"image": "b.jpg", "status": "failed", "message": "there is no such image."}
    about = {
        HEAD: b'{"settings": {"images": "2"}}',
        NUMBER: b"1",
        KIND: b"fits",
        b"landmark_names": b'["a", "b"]',
    }
    schema = schema_of("fits").with_metadata(about)
    table = pyarrow.Table.from_pylist([row, other], schema)
    found = []
    for packed in ("none", "snappy"):
        file = BytesIO()
        parquet.write_table(table, file, compression=packed)
        found.append(file.getvalue())
    return found


def _read(content: bytes, folder: Path) -> bool:
    path, taken = written(content, folder / "fits.parquet"), True
    for reader in (read_head, lambda name: list(rows_of(name)), read_fits, read_specimens):
        try:
            reader(path)
        except ValueError as error:
            taken = refused(error, path)
    return taken
