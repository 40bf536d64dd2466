"""The one table of fits: what its columns mean, how it is written to Parquet, and how it is read back.

`fit`, `track`, `evaluate` and experiments all write it, each with the columns that it knows:
docs/reference/table.md.
"""

from pliant.table.columns import COLUMNS, VERSION, Column, Kind, columns_of
from pliant.table.joining import join_tables
from pliant.table.reading import TABLE, read_fits, read_head, rows_of
from pliant.table.writing import Row, cells_of, object_cells, table_writer, write_table

__all__ = [
    "COLUMNS",
    "TABLE",
    "VERSION",
    "Column",
    "Kind",
    "Row",
    "cells_of",
    "columns_of",
    "join_tables",
    "object_cells",
    "read_fits",
    "read_head",
    "rows_of",
    "table_writer",
    "write_table",
]
