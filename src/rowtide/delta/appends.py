"""Data files of our own: Parquet as Delta wants it, with statistics, under the names that the table has for files."""

from __future__ import annotations

import time
import uuid
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.core.failpoints import failpoint
from rowtide.delta.actions import AddFile, Metadata
from rowtide.delta.errors import RowsUnfit
from rowtide.delta.schema import Struct
from rowtide.delta.snapshot import Location
from rowtide.delta.statistics import describe_rows

_INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
_USUALLY_INDEXED = 32
_SAMPLED = 2048
"""How many rows show whether a column's values repeat."""


def name_data_file(cycle: int) -> str:
    """Return a name that no other data file of a table has; what a crash leaves uncommitted goes with a vacuum."""
    return f"{cycle:010d}-{uuid.uuid4().hex[:12]}.parquet"


def write_rows(location: Location, columns: Struct, metadata: Metadata, rows: pa.Table, name: str) -> AddFile:
    """Write rows to a durable data file of a name, which no version has before a commit adds it.

    The rows have some of the table's columns, in its types; the others are null. Raises `RowsUnfit`, `LakeWriteFailed`.
    """
    written = _match(location, columns, rows)
    renamed = pa.Table.from_arrays(
        [_in_files(rows[field.name], field.in_files.type) for field in written.fields], schema=written.file_schema
    )
    failpoint("delta_file.before")
    dictionaries: Any = _find_repeating(renamed)

    def encode(file: pa.NativeFile) -> None:
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "store_schema": False}
        pq.write_table(renamed, file, use_dictionary=dictionaries, **options)

    size = location.store.write_durable(name, encode)
    failpoint("delta_file.after")
    indexed = int(metadata.properties.get(_INDEXED_COLUMNS, _USUALLY_INDEXED))
    described = columns.fields if indexed < 0 else columns.fields[:indexed]
    statistics = describe_rows(rows, [field for field in described if field.name in rows.column_names])
    return AddFile(quote(name), size, int(time.time() * 1000), statistics)


def _find_repeating(rows: pa.Table) -> list[str]:
    """Return the columns whose values repeat: of others a dictionary takes longer to make than all the rest of a
    file.
    """
    if len(rows) < _SAMPLED:
        return []
    sample = rows.slice(0, _SAMPLED)
    flat = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    return [name for name in flat if pc.count_distinct(sample[name]).as_py() < _SAMPLED // 4]


def _match(location: Location, columns: Struct, rows: pa.Table) -> Struct:
    """Return the table's columns that rows have. Raises `RowsUnfit` for one that does not fit."""
    fields = {field.name: field for field in columns.fields}
    for given in rows.schema:
        if given.name not in fields or fields[given.name].type.arrow != given.type:
            raise RowsUnfit(location.path, f"it has no column {given.name} of type {given.type}")
    for field in columns.fields:
        if not field.is_nullable and (field.name not in rows.column_names or rows[field.name].null_count):
            raise RowsUnfit(location.path, f"its column {field.name} takes no null")
    return columns.select(rows.column_names)


def _in_files(values: pa.ChunkedArray[Any], kind: Any) -> pa.ChunkedArray[Any]:
    """Return values with the names that data files have for the parts of their type."""
    if values.type == kind:
        return values
    chunks: list[Any] = [chunk.view(kind) for chunk in values.chunks]
    return pa.chunked_array(chunks, type=kind)
