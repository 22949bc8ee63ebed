"""Writes data files: Parquet as Delta requires it, with statistics, and with the table's physical column names."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowtide.core.failpoints import failpoint
from rowtide.delta.data_files import CALENDAR, FileStatistics
from rowtide.delta.errors import RowsUnfit, TableUnwritable
from rowtide.delta.replay import AddFile, Metadata
from rowtide.delta.schema import PartitionValues, Struct, folder_of
from rowtide.delta.snapshot import Location, Snapshot

_INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
# Delta's default of `delta.dataSkippingNumIndexedCols`.
_USUALLY_INDEXED = 32
_SAMPLED = 2048
"""How many rows show whether a column's values repeat."""
# A row group is entirely in memory, here and in each reader: this bounds both.
_GROUP_BYTES = 16 * 1024 * 1024
_GROUP_ROWS = 1_000_000


def name_data_file(cycle: int) -> str:
    """Return a unique name for a data file. A file that a crash leaves uncommitted is deleted by a vacuum."""
    return f"{cycle:010d}-{uuid.uuid4().hex[:12]}.parquet"


def write_rows(location: Location, columns: Struct, metadata: Metadata, rows: pa.Table, name: str) -> AddFile:
    """Write rows to a durable data file of a given name. It belongs to no version until a commit adds it.

    The rows have some of the table's columns, in its types; the others are null. Raises `RowsUnfit`, `LakeWriteFailed`.
    """
    written = columns.select(_match(location, columns, rows.schema))
    return _write(location, written, columns, metadata, [rows], name)


def write_stream(
    location: Location, columns: Struct, metadata: Metadata, rows: Iterable[pa.RecordBatch], name: str
) -> AddFile:
    """Like `write_rows`, for rows that have all columns; they are not all held in memory."""
    return _write(location, columns, columns, metadata, _row_groups(rows), name)


def write_partition(snapshot: Snapshot, values: PartitionValues, rows: Iterable[pa.RecordBatch], name: str) -> AddFile:
    """Like `write_stream`, for rows of one partition: the file is in its folder, and lacks the partition columns."""
    columns, metadata = snapshot.columns, snapshot.metadata
    written = columns.select([field.name for field in columns.fields if field.name not in metadata.partition_columns])
    path = folder_of(values) + name
    file = _write(snapshot.location, written, columns, metadata, _row_groups(rows), path, values)
    return replace(file, partition_values=values)


def _write(
    location: Location,
    written: Struct,
    columns: Struct,
    metadata: Metadata,
    groups: Iterable[pa.Table],
    name: str,
    partition: PartitionValues | None = None,
) -> AddFile:
    """Write rows that have the `written` columns of the table, a row group at a time."""
    if metadata.partition_columns and partition is None:
        raise TableUnwritable(location.path, "partition columns")
    indexed = int(metadata.properties.get(_INDEXED_COLUMNS, _USUALLY_INDEXED))
    described = columns.fields if indexed < 0 else columns.fields[:indexed]
    names = {field.name for field in written.fields}
    statistics = FileStatistics([field for field in described if field.name in names])

    def write(file: pa.NativeFile) -> None:
        renamed = (_rename(location, written, columns, rows, statistics) for rows in groups)
        # ParquetWriter is told at creation which columns get dictionaries: the first row group decides for the file.
        first = next(renamed, written.file_schema.empty_table())
        dictionaries: Any = _find_repeating(first)
        # No Arrow schema in the footer: the table's log has the types, and pyarrow would prefer a differing copy in the
        # footer.
        options: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "store_schema": False}
        with pq.ParquetWriter(file, written.file_schema, use_dictionary=dictionaries, **options) as writer:
            writer.add_key_value_metadata(CALENDAR)
            for rows in chain([first], renamed):
                writer.write_table(rows)

    failpoint("delta_file.before")
    size = location.store.write_durable(name, write)
    failpoint("delta_file.after")
    # In Delta's protocol paths are URL-encoded in the log, but not in the store.
    return AddFile(quote(name), size, int(time.time() * 1000), statistics.format())


def _rename(
    location: Location, written: Struct, columns: Struct, rows: pa.Table, statistics: FileStatistics
) -> pa.Table:
    """Return rows with the names that data files have for columns, and add them to the file's statistics."""
    _require_no_nulls(location, columns, rows)
    statistics.add(rows)
    arrays = [_in_files(rows[field.name], field.in_files.type) for field in written.fields]
    return pa.Table.from_arrays(arrays, schema=written.file_schema)


def _find_repeating(rows: pa.Table) -> list[str]:
    """Return the columns whose values repeat: for others, building a dictionary takes longer than all the rest of a
    file.
    """
    if len(rows) < _SAMPLED:
        return []
    sample = rows.slice(0, _SAMPLED)
    # Arrow counts distinct values of flat types only.
    flat = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    return [name for name in flat if pc.count_distinct(sample[name]).as_py() < _SAMPLED // 4]


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to tables of some size in memory."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(one.nbytes for one in group) >= _GROUP_BYTES or sum(one.num_rows for one in group) >= _GROUP_ROWS:
            yield pa.Table.from_batches(group)
            group = []
    if group:
        yield pa.Table.from_batches(group)


def _match(location: Location, columns: Struct, given: pa.Schema) -> list[str]:
    """Return the names of the table's columns that rows have. Raises `RowsUnfit` for one that does not fit."""
    fields = {field.name: field for field in columns.fields}
    for column in given:
        if column.name not in fields or fields[column.name].type.arrow != column.type:
            raise RowsUnfit(location.path, f"it has no column {column.name} of type {column.type}")
    return given.names


def _require_no_nulls(location: Location, columns: Struct, rows: pa.Table) -> None:
    """Raise `RowsUnfit` for a null that the table does not take."""
    # Checked here because no later step does: readers trust that a column declared not null has no nulls.
    for field in columns.fields:
        if not field.is_nullable and (field.name not in rows.column_names or rows[field.name].null_count):
            raise RowsUnfit(location.path, f"its column {field.name} takes no null")


def _in_files(values: pa.ChunkedArray[Any], kind: Any) -> pa.ChunkedArray[Any]:
    """Return values with the names that data files have for the parts of their type."""
    if values.type == kind:
        return values
    # A view instead of a cast, because only the names of nested fields differ: no value is copied.
    chunks: list[Any] = [chunk.view(kind) for chunk in values.chunks]
    return pa.chunked_array(chunks, type=kind)
