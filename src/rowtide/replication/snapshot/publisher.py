"""The publisher's side of a snapshot: divide tables into chunks, and read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql
from sqlalchemy import Engine

from rowtide.core.errors import Remedy, RowtideError
from rowtide.databases.postgres.connect import STREAM_SETTINGS, WHOLE_TABLES, open_url
from rowtide.databases.postgres.copying import copy_out
from rowtide.databases.postgres.errors import RowsHidden, translated
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.log.postgres.control import mark_log
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles import Article
from rowtide.replication.errors import CopyUnreadable
from rowtide.replication.filters import as_sql
from rowtide.replication.snapshot.agent import OpenChunk
from rowtide.replication.snapshot.chunks import Chunk, CopiedChunk, Key
from rowtide.replication.snapshot.visibility import TransactionSnapshot, parse_snapshot

_XID_MASK = 0xFFFFFFFF
"""Sessions show only the lower 32 bits of transaction ids."""
_SAMPLED_PAGES = 2000
"""Limit of a table's pages that are sampled to find chunk bounds, which need not be exact."""


class PostgresSnapshotSource:
    """A publisher from which tables are copied."""

    def __init__(self, engine: Engine, url: str) -> None:
        self._engine = engine
        self._url = url

    def take_snapshot(self) -> TransactionSnapshot:
        """Return the current transaction snapshot."""
        with self._connect() as connection, translated():
            row = connection.execute("select pg_current_snapshot()::text").fetchone()
        assert row is not None
        return parse_snapshot(row[0])

    def find_unfinished(self, snapshot: TransactionSnapshot) -> Sequence[str]:
        """Return the transactions of a snapshot that may be in the log as committed, but are still invisible.

        One that is seen idle can only commit after everything that is in the log now.
        """
        with self._connect() as connection, translated():
            xids = [xid & _XID_MASK for xid in snapshot.in_progress]
            rows = connection.execute(_UNFINISHED, {"xids": xids}).fetchall()
        return [str(row[0]) for row in rows]

    def mark(self) -> int:
        """Return a log position after everything that a chunk read before can contain."""
        with translated(), self._engine.begin() as connection:
            return mark_log(connection)

    def find_bounds(self, article: Article, chunk_bytes: int) -> Sequence[Key]:
        """Return the bounds that divide a table into chunks of about the given bytes."""
        with self._connect() as connection, translated():
            size, pages = connection.execute(_SIZE, [article.source_id]).fetchone() or (0, 0)
            chunks = -(-size // chunk_bytes)
            if chunks < 2:
                return []
            percent = min(100.0, 100.0 * _SAMPLED_PAGES / max(pages, 1))
            rows = connection.execute(sql.SQL(sampling(article, percent, chunks))).fetchall()
        return [tuple(row) for row in rows]

    @contextmanager
    def open_chunk(self, article: Article, chunk: Chunk) -> Iterator[OpenChunk]:
        """Read a chunk. Raises `CopyUnreadable`."""
        with self._connect() as connection:
            with _unreadable(article), translated():
                connection.execute("begin isolation level repeatable read read only")
                # Before the snapshot is taken: one from before a truncate would find the table empty all the same.
                connection.execute(sql.SQL(locking(article)))
                row = connection.execute(
                    "select pg_current_snapshot()::text, coalesce(pg_relation_filenode(%s::oid), 0)::bigint",
                    [article.source_id],
                ).fetchone()
            assert row is not None
            yield OpenChunk(parse_snapshot(row[0]), row[1], _read_copy(connection, article, chunk))

    def locate(
        self, article: Article, chunks: Sequence[CopiedChunk], keys: npt.NDArray[np.object_]
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of the chunks that contain keys; see `Locate`. The order is that of the key's index."""
        bounds = [copied.chunk.high for copied in chunks if copied.chunk.high is not None]
        columns = range(len(article.key_columns))
        parameters = [
            *([bound[column] for bound in bounds] for column in columns),
            *([value.decode() for value in keys[:, column]] for column in columns),
        ]
        with self._connect() as connection, translated():
            rows = psycopg.RawCursor(connection).execute(sql.SQL(locating(article)), parameters).fetchall()
        return np.array([row[0] for row in rows], dtype=np.int64)

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        name, settings = f"rowtide snapshot on {describe_holder()}", STREAM_SETTINGS | WHOLE_TABLES
        # Closed, whatever it is in the middle of.
        with closing(open_url(self._url, application_name=name, settings=settings)) as connection:
            yield connection


def _read_copy(connection: psycopg.Connection[Any], article: Article, chunk: Chunk) -> Iterator[bytes]:
    """Yield the rows of a chunk in blocks."""
    with _unreadable(article), translated():
        yield from copy_out(connection, copying(article, chunk))


@contextmanager
def _unreadable(article: Article) -> Iterator[None]:
    try:
        yield
    except RowtideError as error:
        if error.remedy is Remedy.RETRY or isinstance(error, RowsHidden):
            raise
        raise CopyUnreadable(f"{article.schema}.{article.table}", str(error)) from error


_SIZE = """
select pg_table_size(c.oid)::bigint, pg_relation_size(c.oid) / current_setting('block_size')::bigint
from pg_class c where c.oid = %s::oid
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


def locking(article: Article) -> str:
    """Return the statement that prevents a table from being truncated or altered while a chunk is read."""
    return f"lock table {_source_of(article)} in access share mode"


def sampling(article: Article, percent: float, chunks: int) -> str:
    """Return the statement that finds the bounds of a number of chunks in a sample of a table's pages, in key order."""
    keys = [quote(column.name) for column in article.key_columns]
    names = [f"k{place}" for place in range(len(keys))]
    texts = ", ".join(f"{key}::text as {name}" for key, name in zip(keys, names, strict=True))
    return f"""
select {", ".join(names)} from (
    select {texts}, row_number() over (order by {", ".join(keys)}) as place, count(*) over () as total
    from {_source_of(article)} tablesample system ({percent:.6f})
) as sampled
where place * {chunks} / total > (place - 1) * {chunks} / total and place < total
order by place
"""


def copying(article: Article, chunk: Chunk) -> str:
    """Return the COPY statement of a chunk of an article's rows."""
    columns = ", ".join(quote(column.name) for column in article.columns)
    conditions = [*_range(article, chunk)]
    if article.condition is not None:
        conditions.append(f"({as_sql(article.condition)})")
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"copy (select {columns} from {_source_of(article)}{where}) to stdout"


def locating(article: Article) -> str:
    """Return the statement that counts, for each key, the bounds below it.

    Parameters are the bounds' values, one array per key column, then the keys'. The first branch of the union has no
    rows: it gives its columns' types and collations to the others.
    """
    keys = [column.name for column in article.key_columns]
    names = [f"k{place}" for place in range(len(keys))]
    own = ", ".join(f"{quote(key)} as {name}" for key, name in zip(keys, names, strict=True))
    cast = ", ".join(f"{name}::{column.type_text}" for name, column in zip(names, article.key_columns, strict=True))
    listed = ", ".join(names)
    bounds, values = (
        ", ".join(f"${first + place}::text[]" for place in range(len(keys))) for first in (1, 1 + len(keys))
    )
    return f"""
select below from (
    select place, count(*) filter (where place is null) over (
        order by {listed}, place is null rows unbounded preceding) as below
    from (
        select {own}, null::bigint as place from {_source_of(article)} where false
        union all select {cast}, null from unnest({bounds}) as bound ({listed})
        union all select {cast}, place from unnest({values}) with ordinality as key ({listed}, place)
    ) as ordered
) as counted where place is not null order by place
"""


def _range(article: Article, chunk: Chunk) -> Iterator[str]:
    columns = ", ".join(quote(column.name) for column in article.key_columns)
    for comparator, bound in ((">", chunk.low), ("<=", chunk.high)):
        if bound is not None:
            pairs = zip(bound, article.key_columns, strict=True)
            values = ", ".join(f"{_literal(value)}::{column.type_text}" for value, column in pairs)
            yield f"({columns}) {comparator} ({values})"


def _literal(value: str) -> str:
    quoted = quote_literal(value)
    return "e" + quoted.replace("\\", "\\\\") if "\\" in value else quoted


def _source_of(article: Article) -> str:
    """Return a table with `only`; a partitioned one has its rows in its partitions."""
    return _table(article) if article.is_partitioned else f"only {_table(article)}"


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)
