"""Log changes of a SQLite node that no trigger logs."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.metadata.system_tables import LOG
from rowtide.merge.versions.apply import Logged


def log_own(session: sqlite3.Connection, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
    """Log updates of the rows that have a value in any of some columns, but for those left out."""
    is_any = " or ".join(f"{quote(name)} is not null" for name in columns)
    changed = "".join(str(int(column.name in columns)) for column in article.columns)
    found = session.execute(f"select {ROWGUID} from {quote(article.file_table)} where {is_any}").fetchall()
    session.executemany(
        f"insert into {LOG} (tablenick, rowguid, kind, columns) values ({article.nickname}, ?, ?, ?)",
        [
            (rowguid, Logged.UPDATED.value, changed if article.column_tracking else None)
            for (rowguid,) in found
            if rowguid not in without
        ],
    )


def log_update(session: sqlite3.Connection, article: Article, rowguid: str) -> bool:
    """Log a row as updated, without any changed column; return whether it exists."""
    table = quote(article.file_table)
    listed = f"select {article.nickname}, {ROWGUID}, {Logged.UPDATED.value} from {table} where {ROWGUID} = ?"
    return session.execute(f"insert into {LOG} (tablenick, rowguid, kind) {listed}", (rowguid,)).rowcount > 0
