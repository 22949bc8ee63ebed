"""Rows that a foreign key's action would change with a deleted row.

A subscriber's tables have the actions of the publisher's for its own programs. What the publisher's actions did arrives
as changes of rows; a row that still references a deleted one is the subscriber's own, and keeps the delete waiting. So
it is at a subscriber that publishes again, for the tables that it subscribes to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence, Set

from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.key_moves import DELETING, SETTING, list_referrers


def has_dependents(
    session: sqlite3.Connection, article: Article, rowguids: Sequence[str], spared: Set[str] | None = None
) -> bool:
    """Whether an action would change rows other than these if these were deleted; `spared` are the tables that count,
    all if it is None.
    """
    listed = json.dumps(list(rowguids))
    for child, pairs in list_referrers(session, article.file_table, (*DELETING, *SETTING)):
        if spared is not None and child.lower() not in spared:
            continue
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
