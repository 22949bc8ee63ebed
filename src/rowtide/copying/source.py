"""The source's side of a copy: divide tables into chunks, read them, and find the rows that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql
from sqlalchemy import Engine

from rowtide.copying.chunks import (
    Chunk,
    CopiedChunk,
    CopiedTable,
    CopyForm,
    Key,
    OpenChunk,
    TransactionSnapshot,
    copying,
    copying_row,
    halving,
    locating,
    locking,
    locking_name,
    parse_snapshot,
    sampling,
)
from rowtide.copying.errors import CopiedTableAltered, CopiedTableDropped, CopiedTableLocked, CopiedTableUnreadable
from rowtide.copying.present_tables import (
    PresentTable,
    find_present,
    find_reader,
    is_still_read_by,
    with_reader,
)
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_url
from rowtide.databases.postgres.copying import copy_out
from rowtide.databases.postgres.errors import RowsHidden, translated
from rowtide.databases.postgres.quoting import quote_qualified, read_operators, running
from rowtide.databases.postgres.session_settings import STREAM_SETTINGS, WHOLE_TABLES
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.lease import describe_holder

# Rows that cannot be copied whole, because the server refuses to send them, or their texts are larger than a reader's
# limit. They are found by bisection of a chunk's keys, and copied without some of their values.

_UNSENDABLE = ("22P05", "22021", "54", "XX")
"""SQLSTATEs, or their classes, of errors that recur with the same row: a character that UTF-8 lacks, a text beyond the
server's limits, damaged data.
"""


@frozen
class PartialRow:
    """A row by its key, and the columns without which it can be copied."""

    key: Key
    lacking: frozenset[str]


class RowNotCopied(Exception):
    """A chunk has a row that cannot be copied whole; the text says why."""


def refusal(error: psycopg.Error) -> RowNotCopied | None:
    """Return what an error of COPY says of a row; None if the error is not one of a row's values."""
    if error.sqlstate is None or not error.sqlstate.startswith(_UNSENDABLE):
        return None
    return RowNotCopied(f"the server says: {error.diag.message_primary}")


def limiting(blocks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the blocks of a COPY, whose last rows alone may be large. Raises `RowNotCopied` after the last one."""
    largest = 0
    for block in blocks:
        if len(block) <= most_bytes:
            yield block
        largest = max(largest, len(block))
    if largest > most_bytes:
        raise RowNotCopied(f"a row takes about {largest:,} bytes, of at most {most_bytes:,} that memory is enough for")


def find_partial_rows(
    connection: psycopg.Connection[Any], table: CopiedTable, chunk: Chunk, most_bytes: int
) -> Sequence[PartialRow]:
    """Return the rows of a chunk of a table with a key that cannot be copied whole, in a transaction.

    Raises `RowNotCopied` where it is not the row's values, or its key, and psycopg's errors.
    """
    return list(_RefusedRowSearch(connection, table, most_bytes).find(chunk))


@frozen
class _RefusedRowSearch:
    connection: psycopg.Connection[Any]
    table: CopiedTable
    most_bytes: int

    def find(self, chunk: Chunk) -> Iterator[PartialRow]:
        tried = self._try(copying(self.table, chunk, CopyForm.CSV))
        if isinstance(tried, int):
            return
        found = self.connection.execute(sql.SQL(halving(self.table, chunk))).fetchone()
        if found is None:
            raise tried
        rows, *middle = found
        key = tuple(middle)
        if rows == 1:
            yield self._examine(key, tried)
        else:
            yield from self.find(replace(chunk, high=key))
            yield from self.find(replace(chunk, low=key))

    def _examine(self, key: Key, refused: RowNotCopied) -> PartialRow:
        """Omit values that are refused individually, then the largest values until the rest fits."""
        sizes: dict[str, int] = {}
        lacking: set[str] = set()
        for column in {*self.table.columns} - {column.name for column in self.table.key_columns}:
            tried = self._try(self._copying_row(key, {column}))
            if isinstance(tried, int):
                sizes[column] = tried
            else:
                lacking.add(column)
        while not isinstance(self._try(self._copying_row(key, {*self.table.columns} - lacking)), int):
            if not sizes:
                raise refused
            largest = max(sizes, key=lambda name: sizes[name])
            lacking.add(largest)
            del sizes[largest]
        return PartialRow(key, frozenset(lacking))

    def _copying_row(self, key: Key, wanted: Collection[str]) -> str:
        return copying_row(self.table, key, wanted, CopyForm.CSV)

    def _try(self, statement: str) -> int | RowNotCopied:
        """Return the bytes of a COPY, or why a row of it is refused."""
        # A savepoint, because a refused COPY aborts the transaction, whose snapshot is needed for other rows.
        self.connection.execute("savepoint tried")
        try:
            return sum(map(len, limiting(copy_out(self.connection, statement), self.most_bytes)))
        except RowNotCopied as refused:
            return refused
        except psycopg.Error as error:
            if (refused_by_server := refusal(error)) is None:
                raise
            return refused_by_server
        finally:
            self.connection.execute("rollback to savepoint tried")


_XID_MASK = 0xFFFFFFFF
"""Sessions show only the lower 32 bits of transaction ids."""
_SAMPLED_PAGES = 2000
"""Limit of a table's pages that are sampled to find chunk bounds, which need not be exact."""

_SIZE = """
select coalesce(sum(pg_table_size(c.oid)), 0)::bigint,
       coalesce(sum(pg_relation_size(c.oid)), 0)::bigint / current_setting('block_size')::bigint
from pg_class c
where c.relkind <> 'p' and (c.oid = %(table)s::oid or c.oid in (select relid from pg_partition_tree(%(table)s::oid)))
"""

_SNAPSHOT = "select pg_current_snapshot()::text, current_setting('server_encoding')"

_OPENED = """
select pg_current_snapshot()::text, coalesce(pg_relation_filenode(%(table)s::oid), 0)::bigint,
       (select jsonb_object_agg(attnum, attname) from pg_attribute
        where attrelid = to_regclass(%(name)s) and attrelid = %(table)s::oid and attnum = any(%(numbers)s::int[])
          and not attisdropped)
"""

_UNFINISHED = """
select format('pid %%s (%%s, %%s, %%s)', pid, usename, application_name, coalesce(state, 'of another role'))
from pg_stat_activity
where datname = current_database() and backend_xid::text::bigint = any(%(xids)s)
  and state is distinct from 'idle in transaction' and state is distinct from 'idle in transaction (aborted)'
union all
select format('prepared transaction %%L of %%s', gid, owner)
from pg_prepared_xacts where database = current_database() and transaction::text::bigint = any(%(xids)s)
"""


@frozen
class OpenTable:
    """A table that cannot be truncated or altered meanwhile, with the snapshot in which it is read once."""

    connection: psycopg.Connection[Any]
    present: PresentTable
    snapshot: TransactionSnapshot
    is_utf8: bool
    """Whether texts are UTF-8; otherwise of no known encoding."""
    reader: str | None = None
    """The function that reads it as its owner, see `present_tables`."""

    def read(
        self, table: CopiedTable, chunk: Chunk, most_row_bytes: int, but_for: Sequence[PartialRow] = ()
    ) -> Iterator[bytes]:
        """Yield a chunk's rows as CSV, in blocks of whole lines, without those that are named.

        Raises `CopiedTableUnreadable`, and `RowNotCopied`: then the chunk has other rows that cannot be copied whole.
        """
        ordered = _as_read(self.connection, table, self.reader)
        statement = copying(ordered, chunk, CopyForm.CSV, but_for=[row.key for row in but_for])
        yield from self._copy(table, statement, most_row_bytes)

    def read_partial(self, table: CopiedTable, row: PartialRow, most_row_bytes: int) -> Iterator[bytes]:
        """Yield a row without some of its values as CSV; nothing if it is gone. Raises as `read`."""
        wanted, ordered = {*table.columns} - row.lacking, _as_read(self.connection, table, self.reader)
        yield from self._copy(table, copying_row(ordered, row.key, wanted, CopyForm.CSV), most_row_bytes)

    def find_partial_rows(self, table: CopiedTable, chunk: Chunk, most_row_bytes: int) -> Sequence[PartialRow]:
        """Return a chunk's rows that cannot be copied whole; the table has a key.

        Raises `CopiedTableUnreadable`: what is refused is a key, or no row's value.
        """
        with naming(table, CopiedTableUnreadable), translated():
            try:
                ordered = _as_read(self.connection, table, self.reader)
                return find_partial_rows(self.connection, ordered, chunk, most_row_bytes)
            except RowNotCopied as refused:
                raise CopiedTableUnreadable(table.qualified_name, str(refused)) from refused

    def _copy(self, table: CopiedTable, statement: str, most_row_bytes: int) -> Iterator[bytes]:
        with naming(table, CopiedTableUnreadable), translated():
            try:
                yield from limiting(copy_out(self.connection, statement), most_row_bytes)
            except psycopg.Error as error:
                if (refused := refusal(error)) is None:
                    raise
                raise refused from error


class PostgresCopySource:
    """A database from which tables are copied; used by several threads at once."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        unreadable: Callable[[str, str], RowtideError] = CopiedTableUnreadable,
        *,
        lock_timeout_s: int = 0,
    ) -> None:
        """`unreadable` is the error for a table that cannot be read, given by name, and why.

        After `lock_timeout_s` (0: never) a table that is locked is `CopiedTableLocked`.
        """
        self._engine = engine
        self._url = url
        self._unreadable = unreadable
        self._lock_timeout_s = lock_timeout_s

    def take_snapshot(self) -> TransactionSnapshot:
        """Return the current transaction snapshot."""
        with self._connect() as connection, translated():
            row = connection.execute("select pg_current_snapshot()::text").fetchone()
        assert row is not None
        return parse_snapshot(row[0])

    def find_unfinished(self, snapshot: TransactionSnapshot) -> Sequence[str]:
        """Return the transactions of a snapshot that may be in the log as committed, but are still invisible.

        A transaction that is seen idle can only commit after everything that is in the log now.
        """
        with self._connect() as connection, translated():
            xids = [xid & _XID_MASK for xid in snapshot.in_progress]
            rows = connection.execute(_UNFINISHED, {"xids": xids}).fetchall()
        return [str(row[0]) for row in rows]

    def mark(self) -> int:
        """Return a log position after everything that a chunk read before can contain."""
        with translated(), self._engine.begin() as connection:
            return mark_log(connection)

    def find_bounds(self, table: CopiedTable, chunk_bytes: int) -> Sequence[Key]:
        """Return the bounds that divide a table into chunks of about the given bytes."""
        with self._connect() as connection, translated(), _lock_named(table.source_id):
            size, pages = connection.execute(_SIZE, {"table": table.source_id}).fetchone() or (0, 0)
            chunks = -(-size // chunk_bytes)
            if chunks < 2:
                return []
            percent = min(100.0, 100.0 * _SAMPLED_PAGES / max(pages, 1))
            ordered = _as_read(connection, table, _begin_locked(connection, table))
            rows = connection.execute(sql.SQL(sampling(ordered, percent, chunks))).fetchall()
        return [tuple(row) for row in rows]

    @contextmanager
    def open_chunk(self, table: CopiedTable, chunk: Chunk, form: CopyForm = CopyForm.TEXT) -> Iterator[OpenChunk]:
        """Read a chunk. Raises the error for unreadable tables, and `CopiedTableAltered`."""
        with self._connect() as connection:
            with naming(table, self._unreadable), translated():
                reader = _begin_locked(connection, table)
                name = quote_qualified(table.schema, table.table)
                wanted = {"table": table.source_id, "name": name, "numbers": list(table.numbers)}
                row = connection.execute(_OPENED, wanted).fetchone()
            assert row is not None
            snapshot, generation, columns = row
            # Read under the lock, so that the columns cannot change until the chunk is copied.
            if columns != dict(zip(map(str, table.numbers), table.columns, strict=True)):
                raise CopiedTableAltered(self._unreadable(table.qualified_name, "it was altered meanwhile"))
            rows = self._read_copy(connection, _as_read(connection, table, reader), chunk, form)
            yield OpenChunk(parse_snapshot(snapshot), generation, rows)

    def find_present(self, source_id: int, numbers: Collection[int]) -> PresentTable | None:
        """Return a table as it is now, see `present_tables`."""
        with self._connect() as connection, translated(), _lock_named(source_id):
            return find_present(connection, source_id, numbers)

    @contextmanager
    def open_present(self, source_id: int, numbers: Collection[int]) -> Iterator[OpenTable]:
        """Open a table as it is now, to be read in one snapshot. Raises `CopiedTableDropped`, `CopiedTableLocked`."""
        with self._connect() as connection:
            with translated(), _lock_named(source_id):
                opened = _lock_present(connection, source_id, numbers)
            yield opened

    def locate(
        self, table: CopiedTable, chunks: Sequence[CopiedChunk], keys: npt.NDArray[np.object_]
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of the chunks that contain keys; see `Locate`. The order is that of the key's index."""
        bounds = [copied.chunk.high for copied in chunks if copied.chunk.high is not None]
        columns = range(len(table.key_columns))
        parameters = [
            *([bound[column] for bound in bounds] for column in columns),
            *([value.decode() for value in keys[:, column]] for column in columns),
        ]
        with self._connect() as connection, translated():
            statement = locating(_as_read(connection, table, _begin_locked(connection, table)))
            rows = psycopg.RawCursor(connection).execute(sql.SQL(statement), parameters).fetchall()
        return np.array([row[0] for row in rows], dtype=np.int64)

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        name, settings = f"rowtide snapshot on {describe_holder()}", STREAM_SETTINGS | WHOLE_TABLES
        settings |= {"lock_timeout": f"{self._lock_timeout_s}s"}
        # Closed even in the middle of a COPY.
        with closing(open_url(self._url, application_name=name, settings=settings)) as connection:
            yield connection

    def _read_copy(
        self, connection: psycopg.Connection[Any], table: CopiedTable, chunk: Chunk, form: CopyForm
    ) -> Iterator[bytes]:
        """Yield the rows of a chunk in blocks."""
        with naming(table, self._unreadable), translated():
            yield from copy_out(connection, copying(table, chunk, form))


def _begin_locked(connection: psycopg.Connection[Any], table: CopiedTable) -> str | None:
    """Begin a transaction with a table's lock; return the function by which the table is read, as `find_reader`."""
    while True:
        # Not read-only, because it creates the function.
        reader = find_reader(connection, table.source_id)
        connection.execute("begin isolation level repeatable read read only")
        # The lock is taken before the snapshot: with a snapshot from before a truncate, the table would appear empty.
        connection.execute(sql.SQL(locking(table)))
        if is_still_read_by(connection, table.source_id, reader):
            return reader
        connection.execute("rollback")


def _as_read(connection: psycopg.Connection[Any], table: CopiedTable, reader: str | None) -> CopiedTable:
    """Return a table with its reader, and with the operators of its key's index where the key has types of users.

    Under rowtide's search_path their operators would not be found, or others by a cast.
    """
    table = with_reader(connection, table, reader)
    if all(column.is_built_in for column in table.key_columns):
        return table
    operators = read_operators(running(connection), quote_qualified(table.schema, table.table))
    keys = (
        column if column.is_built_in else replace(column, operators=operators.get(column.name))
        for column in table.key_columns
    )
    return replace(table, key_columns=tuple(keys))


def _lock_present(connection: psycopg.Connection[Any], source_id: int, numbers: Collection[int]) -> OpenTable:
    """Lock a table by its oid: its name may change until it is locked."""
    while (named := find_present(connection, source_id, ())) is not None:
        reader = find_reader(connection, source_id)
        connection.execute("begin isolation level repeatable read read only")
        try:
            connection.execute(sql.SQL(locking_name(named.schema, named.table, is_partitioned=named.is_partitioned)))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            connection.execute("rollback")
            continue
        row = connection.execute(_SNAPSHOT).fetchone()
        assert row is not None
        present = find_present(connection, source_id, numbers)
        # A lock is requested by name. If the table is renamed before the lock is granted, another table is locked; then
        # this one is looked up again.
        is_same = present is not None and (present.schema, present.table) == (named.schema, named.table)
        if present is not None and is_same and is_still_read_by(connection, source_id, reader):
            if not (is_utf8 := row[1] != "SQL_ASCII"):
                # Otherwise the server refuses bytes that are not UTF-8.
                connection.execute("set local client_encoding to sql_ascii")
            return OpenTable(connection, present, parse_snapshot(row[0]), is_utf8, reader)
        connection.execute("rollback")
    raise CopiedTableDropped(source_id)


@contextmanager
def _lock_named(source_id: int) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise CopiedTableLocked(source_id) from error


@contextmanager
def naming(table: CopiedTable, unreadable: Callable[[str, str], RowtideError]) -> Iterator[None]:
    """Raise the error for a table that cannot be read, unless a repeat may help."""
    try:
        yield
    except RowtideError as error:
        if error.remedy is Remedy.RETRY or isinstance(error, RowsHidden):
            raise
        raise unreadable(table.qualified_name, str(error)) from error
