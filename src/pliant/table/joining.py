"""Tables of fits joined to one, without looking at their rows one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from pliant.table.writing import HEAD


def join_tables(path: Path, tables: Iterable[bytes], head: Mapping[str, Any]) -> int:
    """Write the rows of tables, each the content of a file, one after the other to a new one with its own head.

    The number of rows is returned; no more than one of the tables is in memory.
    """
    from pyarrow import parquet

    writer, rows = None, 0
    try:
        for content in tables:
            with parquet.ParquetFile(BytesIO(content)) as file:
                if writer is None:
                    about = {**(file.schema_arrow.metadata or {}), HEAD: json.dumps(head).encode()}
                    schema = file.schema_arrow.with_metadata(about)
                    writer = parquet.ParquetWriter(path, schema, compression="zstd")
                part = file.read()
                rows += part.num_rows
                writer.write_table(part.replace_schema_metadata(schema.metadata))
    finally:
        if writer is not None:
            writer.close()
    return rows
