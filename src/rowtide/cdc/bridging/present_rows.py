"""The rows of captured tables in an imported snapshot, as a copy of them would have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from sqlalchemy import Engine

from rowtide.cdc.bridging.errors import TableRenamed
from rowtide.cdc.instances import Instance
from rowtide.cdc.snapshots.base_rows import BaseRows
from rowtide.cdc.snapshots.chunk_copies import as_copied, captured_numbers
from rowtide.copying.chunk_statements import CopyForm, copying, locking_name
from rowtide.copying.chunks import cut
from rowtide.copying.errors import CopiedTableUnreadable
from rowtide.copying.present_tables import find_present, find_reader, with_reader
from rowtide.copying.source import naming
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.connect import STREAM_SETTINGS, WHOLE_TABLES, open_url
from rowtide.databases.postgres.copying import copy_out
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.log.postgres.lease import describe_holder


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
                # Otherwise the server refuses what is not UTF-8.
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
    with closing(open_url(url, application_name=name, settings=settings)) as session:
        with translated():
            readers = {table.source_id: find_reader(session, table.source_id) for table in tables}
            session.execute("begin isolation level repeatable read read only")
            for table in tables:
                is_partitioned = table.kind is TableKind.PARTITIONED
                # Before the snapshot is imported, and in the same session: behind another's lock that waits for this
                # one a later request would wait, too.
                session.execute(sql.SQL(locking_name(table.schema, table.name, is_partitioned=is_partitioned)))
        yield LockedTables(session, tables, readers)
