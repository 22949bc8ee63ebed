"""Fill tables and columns of a PostgreSQL node, without metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.copying import write_row
from rowtide.databases.postgres.functions import OWN_PATH
from rowtide.databases.postgres.operators import EQUALS
from rowtide.databases.postgres.owners import Owner, functions_path
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import NOT_UTF_8, RowsRefused
from rowtide.merge.nodes.postgres.array_texts import array_of
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.failures import NO_RIGHT, OF_ROWS
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of, uuid_array
from rowtide.merge.nodes.postgres.stored_tables import StoredColumn, read_table, table_requests
from rowtide.merge.nodes.untyped_values import rows_as_stored_by_server
from rowtide.merge.versions.changes import Row

_LOADED = "pg_temp.rowtide_loaded"
"""The temporary table of rows that an owner is given."""
_COLUMN = re.compile(r"^COPY .*?, line \d+, column (.+?)(?:: |$)")
"""The column in the server's context of an error of COPY."""


def fill(session: BatchingConnection, article: Article, rows: Sequence[tuple[str, Row]], execution: Execution) -> None:
    """Write values into the article's columns of rows that exist, in the caller's transaction."""
    columns = _columns_of(session, article)
    names = [f"v{place}" for place in range(len(columns))]
    settings = ", ".join(
        f"{quote(column.name)} = {column.parse(f'n.{name}')}" for column, name in zip(columns, names, strict=True)
    )
    stored = rows_as_stored_by_server(article, [row for _, row in rows])
    texts = [
        f"{quote_literal(array_of(row[place] for row in stored))}::pg_catalog.text[]" for place in range(len(names))
    ]
    guids = f"{quote_literal(uuid_array([rowguid for rowguid, _ in rows]))}::pg_catalog.uuid[]"
    arrays = ", ".join(f"pg_catalog.unnest({array})" for array in (guids, *texts))
    statement = (
        f"update {table_of(article)} t set {settings} "
        f"from rows from ({arrays}) n (guid, {', '.join(names)}) "
        f"where t.{ROWGUID} {EQUALS} n.guid"
    )
    session.execute(sql.SQL(execution.alone(statement)))


def _columns_of(session: BatchingConnection, article: Article) -> Sequence[StoredColumn]:
    return read_table(article, session.read(table_requests(article)[0], texts=True)[0]).columns


def load(
    session: BatchingConnection,
    article: Article,
    batches: Iterable[Sequence[tuple[str, Row]]],
    execution: Execution,
) -> int:
    """Copy rows into a table, in the caller's transaction, and return how many. Raises `RowsRefused`.

    An owner who is not trusted gets them as texts, and parses them itself.
    """
    rows = 0
    names = [*(quote(column.name) for column in article.columns), ROWGUID]
    target = f"{table_of(article)} ({', '.join(names)})"
    try:
        if execution.owner is None:
            for each in functions_path():
                session.put(each)
        else:
            target = f"{_LOADED} ({', '.join(names)})"
            _make_loaded(session, names, execution.owner)
        with session.cursor().copy(sql.SQL(f"copy {target} from stdin")) as copy:
            for batch in batches:
                rows += len(batch)
                stored = rows_as_stored_by_server(article, [row for _, row in batch])
                lines = (write_row((*row, rowguid)) for row, (rowguid, _) in zip(stored, batch, strict=True))
                copy.write("".join(f"{line}\n" for line in lines))
        if execution.owner is not None:
            values = [column.parse(f"n.{quote(column.name)}") for column in _columns_of(session, article)]
            listed = f"{', '.join(values)}, n.{ROWGUID}::pg_catalog.uuid from {_LOADED} n"
            insertion = f"insert into {table_of(article)} ({', '.join(names)}) overriding system value select {listed}"
            session.execute(sql.SQL(execution.alone(insertion)))
        session.put(OWN_PATH)
    except UnicodeError as error:
        raise RowsRefused(article.name, *NOT_UTF_8) from error
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if not state.startswith(OF_ROWS) or state == NO_RIGHT:
            raise
        place = _COLUMN.search(error.diag.context or "")
        column = f" (column {place[1]})" if place else ""
        raise RowsRefused(article.name, state, f"{error.diag.message_primary}{column}") from error
    return rows


def _make_loaded(session: BatchingConnection, names: Sequence[str], owner: Owner) -> None:
    columns = ", ".join(f"{name} text" for name in names)
    for each in (
        f"drop table if exists {_LOADED}",
        f"create temporary table {_LOADED} ({columns}) on commit drop",
        f"grant select on {_LOADED} to {quote(owner.name)}",
    ):
        session.put(each)
