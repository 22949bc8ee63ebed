"""Rows that a foreign key's action would change with a deleted row.

A subscriber's tables have the actions of the publisher's for its own programs. What the publisher's actions did arrives
as changes of rows; a row that still references a deleted one is the subscriber's own, and keeps the delete waiting.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article


def has_dependents(session: sqlite3.Connection, article: Article, rowguids: Sequence[str]) -> bool:
    """Whether an action would change rows other than these if these were deleted."""
    listed = json.dumps(list(rowguids))
    for child, pairs in _references(session, article):
        same = " and ".join(f"c.{quote(column)} = t.{quote(referenced)}" for column, referenced in pairs)
        # A table that refers to itself: rows that are deleted together do not hold each other.
        is_self = child.lower() == article.file_table.lower()
        others = f"and c.{ROWGUID} not in (select value from json_each(?1))" if is_self else ""
        query = (
            f"select 1 from {quote(article.file_table)} t join {quote(child)} c on {same} {others} "
            f"where t.{ROWGUID} in (select value from json_each(?1)) limit 1"
        )
        if session.execute(query, (listed,)).fetchone() is not None:
            return True
    return False


def _references(session: sqlite3.Connection, article: Article) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the foreign keys with an action on delete that reference a table: the table, and pairs of columns."""
    table = find_table(session, article.file_table)
    keys = [] if table is None else [column.name for column in table.key_columns]
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for child, number, place, column, referenced in session.execute(_KEYS, (article.file_table,)):
        found.setdefault((child, number), []).append((column, referenced or keys[place]))
    for (child, _), pairs in found.items():
        yield child, pairs


_KEYS = """
select m.name, f.id, f.seq, f."from", f."to" from main.sqlite_schema m, pragma_foreign_key_list(m.name) f
where m.type = 'table' and lower(f."table") = lower(?) and f.on_delete not in ('NO ACTION', 'RESTRICT')
order by m.name, f.id, f.seq
"""
