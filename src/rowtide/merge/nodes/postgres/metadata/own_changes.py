"""Log changes of a PostgreSQL node that no trigger logs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.versions.apply import Logged


def log_update(session: psycopg.Connection[tuple[Any, ...]], article: Article, rowguid: str) -> bool:
    """Log a row as updated, without any changed column; return whether it exists."""
    listed = (
        f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}) "
        f"from {escaped(table_of(article))} where {ROWGUID}::text = %s"
    )
    statement = sql.SQL(f"insert into {LOG} (tablenick, rowguid, kind, stamp) {listed}")
    return session.execute(statement, [rowguid]).rowcount > 0


def log_own(
    session: psycopg.Connection[tuple[Any, ...]], article: Article, columns: Sequence[str], without: Collection[str]
) -> None:
    """Log updates of the rows that have a value in any of some columns, but for those left out."""
    is_any = " or ".join(f"{quote(name)} is not null" for name in columns)
    changed = ", ".join(str(column.name in columns).lower() for column in article.columns)
    tracked = f"array[{changed}]" if article.column_tracking else "null::boolean[]"
    session.execute(
        sql.SQL(
            f"insert into {LOG} (tablenick, rowguid, kind, stamp, columns) "
            f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value}, (select {BSN}), {tracked} "
            f"from {escaped(f'{table_of(article)} where ({is_any})')} and {ROWGUID} <> all (%s::uuid[])"
        ),
        [uuid_array(list(without))],
    )
