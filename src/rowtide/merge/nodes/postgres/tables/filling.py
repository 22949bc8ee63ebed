"""Fill tables and columns of a PostgreSQL node, without metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.copy_text import write_row
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import NOT_UTF_8, RowsRefused
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.writing.array_texts import array_of
from rowtide.merge.nodes.postgres.writing.refused_rows import NO_RIGHT, OF_ROWS
from rowtide.merge.nodes.postgres.writing.stored_tables import read_columns, read_table
from rowtide.merge.nodes.untyped_values import rows_as_stored_by_server
from rowtide.merge.versions.changes import Row

_COLUMN = re.compile(r"^COPY .*?, line \d+, column (.+?)(?:: |$)")
"""The column in the server's context of an error of COPY."""


def fill(session: psycopg.Connection[tuple[Any, ...]], article: Article, rows: Sequence[tuple[str, Row]]) -> None:
    """Write values into the article's columns of rows that exist, in the caller's transaction."""
    columns = read_table(article, read_columns(session, article), (), ()).columns
    names = [f"v{place}" for place in range(len(columns))]
    settings = ", ".join(
        escaped(f"{quote(column.name)} = {column.parse(f'n.{name}')}")
        for column, name in zip(columns, names, strict=True)
    )
    stored = rows_as_stored_by_server(article, [row for _, row in rows])
    texts = ", ".join(["%s::uuid[]", *(["%s::text[]"] * len(names))])
    session.execute(
        sql.SQL(
            f"update {escaped(table_of(article))} t set {settings} from unnest({texts}) n (guid, {', '.join(names)}) "
            f"where t.{ROWGUID} = n.guid"
        ),
        [
            uuid_array([rowguid for rowguid, _ in rows]),
            *(array_of(row[place] for row in stored) for place in range(len(names))),
        ],
    )


def load(session: BatchingConnection, article: Article, batches: Iterable[Sequence[tuple[str, Row]]]) -> int:
    """Copy rows into a table, in the caller's transaction, and return how many. Raises `RowsRefused`."""
    rows = 0
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    try:
        with session.cursor().copy(sql.SQL(f"copy {table_of(article)} ({names}) from stdin")) as copy:
            for batch in batches:
                rows += len(batch)
                stored = rows_as_stored_by_server(article, [row for _, row in batch])
                lines = (write_row((*row, rowguid)) for row, (rowguid, _) in zip(stored, batch, strict=True))
                copy.write("".join(f"{line}\n" for line in lines))
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
