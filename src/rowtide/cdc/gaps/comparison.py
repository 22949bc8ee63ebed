"""Rows of captured tables before and after a gap of the log, compared key by key.

Values are compared as the texts in which the source prints what the lake holds of them, so both sides are converted in
the same way; a value that its lake type cannot hold is compared as its exact text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql
from sqlalchemy import Engine

from rowtide.cdc.errors.capturing import TableRenamed
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.grouping import GroupingDatabase
from rowtide.cdc.rows.conversion import BaseRows, texts_by_ordinal
from rowtide.cdc.snapshots.chunk_copies import as_copied, captured_numbers
from rowtide.copying.chunks import CopyForm, copying, cut, locking_name
from rowtide.copying.errors import CopiedTableUnreadable
from rowtide.copying.present_tables import find_present, find_reader, is_still_read_by, with_reader
from rowtide.copying.source import naming
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import ImageKind, LoggedTable
from rowtide.core.values import frozen
from rowtide.databases.lake_values.casting import Column, Texts, kernels
from rowtide.databases.lake_values.texts import as_texts
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.copying import copy_out
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.session_settings import STREAM_SETTINGS, WHOLE_TABLES
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.log.postgres.lease import describe_holder
from rowtide.log.postgres.log_restart import XID, ReconciliationPoint

_BASE, _PRESENT = "base", "present"
_NO_IMAGE, _KEY_IMAGE, _FULL_IMAGE = int(ImageKind.NONE), int(ImageKind.KEY), int(ImageKind.FULL)


@frozen
class ComparedTable:
    """A compared table: `instance` names the columns of both sides, `version` the columns' indexes in the records."""

    instance: Instance
    version: LoggedTable

    @property
    def ordinals(self) -> list[int]:
        """The ordinals of the version's columns, in its order."""
        ordinals = {column.column_id: ordinal for ordinal, column in enumerate(self.instance.columns, 1)}
        return [ordinals[column.number or 0] for column in self.version.shape.columns]

    @property
    def key(self) -> list[int]:
        """The ordinals of the key's columns."""
        return [ordinal for ordinal, column in enumerate(self.instance.columns, 1) if column.index_ordinal is not None]


def source_texts(rows: pa.RecordBatch, instance: Instance) -> list[Texts]:
    """Return the texts of the captured columns, by ordinal: as the source prints them."""
    exact = texts_by_ordinal(rows.column("__$exact"))
    texts = []
    for ordinal, column in enumerate(instance.columns, 1):
        found = _print(rows.column(column.lake_name))
        texts.append(kernels.coalesce(found, exact[ordinal]) if ordinal in exact else found)
    return texts


class GapComparison:
    """The difference of one table, in tables of a query engine."""

    def __init__(self, engine: GroupingDatabase, table: ComparedTable) -> None:
        self._engine = engine
        self._table = table
        self._suffix = table.version.table_id

    def load(self, base: Iterator[pa.RecordBatch], present: Iterator[pa.RecordBatch]) -> None:
        """Compare the rows of both sides, which have the columns of a table as of an LSN.

        Raises `QueryFailed`, and what the rows raise.
        """
        self._load(_BASE, base)
        self._load(_PRESENT, present)
        for operation, statement in _statements(self._table).items():
            self._engine.execute(f"create table {self._name(operation)} as {statement}")
        for side in (_BASE, _PRESENT):
            self._engine.execute(f"drop table {side}")

    def read(self, operation: Operation, head: ReconciliationPoint, first: int) -> Iterator[pa.Table]:
        """Yield the log records of an operation that turn the base's rows into the present ones, numbered from `first`
        on. Raises `QueryFailed`.
        """
        for found in self._engine.read(f"select before, after, image from {self._name(operation)}"):
            yield _as_records(found, operation, self._table.version.table_id, head, first)
            first += found.num_rows

    def _name(self, operation: Operation) -> str:
        return f"{operation.name.lower()}_{self._suffix}"

    def _load(self, side: str, rows: Iterator[pa.RecordBatch]) -> None:
        ordinals = sorted(self._table.ordinals)
        columns = [*(f"c{ordinal}" for ordinal in ordinals), "lacks"]
        incoming = f"{side}_{self._suffix}"
        if self._engine.register(incoming, columns, _columns(self._table, ordinals, rows)):
            self._engine.execute(f"create table {side} as select {', '.join(columns)} from {incoming}")
        else:
            typed = ", ".join(f"c{ordinal} varchar" for ordinal in ordinals)
            self._engine.execute(f"create table {side} ({typed}, lacks boolean)")


def _columns(table: ComparedTable, ordinals: Sequence[int], rows: Iterator[pa.RecordBatch]) -> Iterator[list[Column]]:
    for batch in rows:
        texts = source_texts(batch, table.instance)
        yield [*(texts[ordinal - 1] for ordinal in ordinals), batch.column("__$absent_mask").is_valid()]


def _statements(table: ComparedTable) -> dict[Operation, str]:
    """Return the queries of the difference; each has the columns `before`, `after` and `image`."""
    key, ordinals = table.key, table.ordinals
    is_same = " and ".join(f"base.c{ordinal} = present.c{ordinal}" for ordinal in key)
    differs = " or ".join(f"base.c{ordinal} is distinct from present.c{ordinal}" for ordinal in ordinals)
    before, after = _row(_BASE, ordinals), _row(_PRESENT, ordinals)
    only_key = ", ".join(f"base.c{ordinal}" if ordinal in key else "null" for ordinal in ordinals)
    nothing = "null::varchar[]"
    return {
        # A row that is known only in part is deleted by its key; all of its new values count as changed.
        Operation.DELETE: (
            f"select case when base.lacks then [{only_key}]::varchar[] else {before} end as before, {nothing} as after,"
            f" case when base.lacks then {_KEY_IMAGE} else {_FULL_IMAGE} end as image"
            f" from base anti join present on {is_same}"
        ),
        Operation.UPDATE: (
            f"select case when base.lacks then {nothing} else {before} end as before, {after} as after,"
            f" case when base.lacks then {_NO_IMAGE} else {_FULL_IMAGE} end as image"
            # A row whose old values are not all known may have changed in those. It is written as changed, which is
            # harmless if the values are the same.
            f" from base join present on {is_same} where base.lacks or {differs}"
        ),
        Operation.INSERT: (
            f"select {nothing} as before, {after} as after, {_NO_IMAGE} as image"
            f" from present anti join base on {is_same}"
        ),
    }


def _row(side: str, ordinals: Sequence[int]) -> str:
    return f"[{', '.join(f'{side}.c{ordinal}' for ordinal in ordinals)}]::varchar[]"


def _as_records(
    found: pa.RecordBatch, operation: Operation, table_id: int, head: ReconciliationPoint, first: int
) -> pa.Table:
    rows = found.num_rows
    values = {
        "commit_lsn": pa.repeat(pa.scalar(head.lsn.value, pa.int64()), rows),
        "commit_time": pa.repeat(pa.scalar(head.committed_at, RECORD.field("commit_time").type), rows),
        # Many transactions made the difference, so no single id is right.
        "xid": pa.repeat(pa.scalar(XID, pa.int64()), rows),
        "seqval": pa.array(np.arange(first, first + rows)),
        "operation": pa.repeat(pa.scalar(int(operation), pa.int8()), rows),
        "table_id": pa.repeat(pa.scalar(table_id, pa.int32()), rows),
        "image": found.column("image").cast(pa.int8()),
        "before": found.column("before").cast(RECORD.field("before").type),
        "after": found.column("after").cast(RECORD.field("after").type),
    }
    columns = [values.get(field.name, pa.nulls(rows, field.type)) for field in RECORD]
    return pa.Table.from_arrays(columns, schema=RECORD)


def _print(values: Column) -> Texts:
    if pa.types.is_boolean(values.type):
        return kernels.if_else(values, "t", "f")
    return as_texts(values)


class LockedTables:
    """A session that keeps tables from being altered and truncated, then reads them in another session's snapshot."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        tables: Sequence[SourceTable],
        readers: Mapping[int, str | None],
    ) -> None:
        """`readers` are the functions that read tables as their owners, by the tables' ids."""
        self._connection = connection
        self._tables = {table.source_id: table for table in tables}
        self._readers = readers
        self._is_utf8 = True

    def import_snapshot(self, snapshot: str) -> None:
        """Read in an exported snapshot from now on. Raises `TableRenamed`."""
        with translated():
            self._connection.execute(sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot)))
            row = self._connection.execute("select current_setting('server_encoding')").fetchone()
            if row is not None and row[0] == "SQL_ASCII":
                # Otherwise the server refuses bytes that are not UTF-8.
                self._is_utf8 = False
                self._connection.execute("set local client_encoding to sql_ascii")

    def release(self) -> None:
        """Let the tables be altered and truncated again."""
        with translated():
            self._connection.execute("rollback")

    def read(self, instance: Instance) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an instance's table with the columns of its base. Raises `CopiedTableUnreadable`."""
        locked = self._tables[instance.source_id]
        with translated():
            present = find_present(self._connection, instance.source_id, captured_numbers(instance))
        if present is None or (present.schema, present.table) != (locked.schema, locked.name):
            raise TableRenamed(locked.qualified_name)
        copied = with_reader(self._connection, as_copied(instance, present, None), self._readers[instance.source_id])
        columns = [column for column in instance.columns if not column.is_computed]
        # The LSN of these rows is not used.
        rows = BaseRows(instance, columns, CommitLsn(0), is_utf8=self._is_utf8)
        (whole,) = cut(instance.member_id, ())
        with naming(copied, CopiedTableUnreadable), translated():
            for lines in copy_out(self._connection, copying(copied, whole, CopyForm.CSV)):
                yield rows.convert(lines)


@contextmanager
def lock_tables(engine: Engine, url: str, source_ids: Sequence[int]) -> Iterator[LockedTables]:
    """Lock tables that are there, and yield them."""
    with translated(), engine.connect() as connection:
        found = [find_by_id(connection, source_id) for source_id in source_ids]
    tables = [table for table in found if table is not None]
    name, settings = f"rowtide difference on {describe_holder()}", STREAM_SETTINGS | WHOLE_TABLES
    with ExitStack() as stack:
        session, other = (
            stack.enter_context(closing(open_url(url, application_name=name, settings=settings))) for _ in range(2)
        )
        with translated():
            while True:
                readers = {table.source_id: find_reader(other, table.source_id) for table in tables}
                session.execute("begin isolation level repeatable read read only")
                for table in tables:
                    is_partitioned = table.kind is TableKind.PARTITIONED
                    # Locked before the snapshot is imported, and in the same session: a later request would queue
                    # behind another session's lock that waits for this one.
                    session.execute(sql.SQL(locking_name(table.schema, table.name, is_partitioned=is_partitioned)))
                # Looked up in the other session, because no query may precede the import of the snapshot here.
                if all(is_still_read_by(other, source_id, reader) for source_id, reader in readers.items()):
                    break
                session.execute("rollback")
        yield LockedTables(session, tables, readers)
