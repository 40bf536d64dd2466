"""Manifests and tables of boxes, as CSV, TSV and Parquet."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

from pliant.data.manifest import box_in_row, listed_file, read_boxes, read_manifest

from .mutations import of_bytes, of_text
from .target import Target, refused, written

_ROWS = [
    ("one.jpg", "one.pts", "a", "train", "1", "2", "30", "40"),
    ("folder/two.jpg", "", "b", "test", "", "", "", ""),
    ("bytes:caf%E9.jpg", "x.pts", "", "", "0.5", "1e3", "2", "3"),
]
_TITLES = ("image", "landmarks", "group", "split", "left", "top", "right", "bottom")


def targets() -> list[Target]:
    return [
        Target(
            f"manifest-{ending}",
            _seeds(ending),
            _reader(ending),
            of_bytes if ending == "parquet" else of_text,
        )
        for ending in ("csv", "tsv", "parquet")
    ]


def _seeds(ending: str):
    def seeds() -> list[bytes]:
        if ending == "parquet":
            file = BytesIO()
            columns = dict(zip(_TITLES, map(list, zip(*_ROWS, strict=True)), strict=True))
            parquet.write_table(pyarrow.table(columns), file)
            return [file.getvalue()]
        sign = "," if ending == "csv" else "\t"
        return ["\n".join(sign.join(row) for row in (_TITLES, *_ROWS)).encode()]

    return seeds


def _reader(ending: str):
    def read(content: bytes, folder: Path) -> bool:
        path = written(content, folder / f"a.{ending}")
        try:
            rows = read_manifest(path)
        except ValueError as error:
            return refused(error, path)
        for row in rows or ():
            assert "\0" not in row["image"]
            for name in (row["image"], row.get("landmarks", "")):
                try:
                    listed_file(name, row["where"], path, named=False)
                except ValueError as error:
                    refused(error, path)
            try:
                box_in_row(row, row["where"])
            except ValueError as error:
                refused(error, path)
        try:
            boxes = read_boxes(path)
        except ValueError as error:
            return refused(error, path)
        assert all(np.isfinite(some).all() and some.shape[1:] == (4,) for some in boxes.values())
        return rows is not None

    return read
