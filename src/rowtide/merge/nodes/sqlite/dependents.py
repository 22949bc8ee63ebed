"""Rows that a foreign key's action would change with a deleted row, or with one that gets another key.

A subscriber's tables have the actions of the publisher's for its own programs. What the publisher's actions did arrives
as changes of rows; a row that still references a deleted one is the subscriber's own, and keeps the delete waiting. One
that references a row whose key changes follows it first: the action would clear the reference. So it is at a subscriber
that publishes again, for the tables that it subscribes to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence, Set

from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.texts import from_text
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.key_moves import DELETING, SETTING, list_referrers, nickname_of, own_condition
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, DISPLACED
from rowtide.merge.nodes.sqlite.rows import find_key_holder
from rowtide.merge.versions.changes import Write


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
        same = _matches(pairs)
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


def _matches(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the condition that a row `c` references a row `t`."""
    return " and ".join(f"c.{quote(column)} = t.{quote(referenced)}" for column, referenced in pairs)


def has_followers(
    session: sqlite3.Connection, article: Article, writes: Sequence[Write], spared: Set[str] | None = None
) -> bool:
    """Whether an action would clear references of rows that were changed here last, as rows that they reference get
    other keys; `spared` as above.
    """
    referrers = [
        (child, pairs)
        for child, pairs in list_referrers(session, article.file_table, SETTING, is_update=True)
        if (spared is None or child.lower() in spared) and nickname_of(session, child) is not None
    ]
    rows = {one.rowguid: one.row for one in writes if one.row is not None and one.is_live} if referrers else {}
    if not rows:
        return False
    columns = {column.name: (place, column) for place, column in enumerate(article.columns)}
    for child, pairs in referrers:
        same = _matches(pairs)
        differs = " or ".join(f"t.{quote(referenced)} is not ?" for _, referenced in pairs)
        own = own_condition(session, child, "c")
        query = (
            f"select 1 from {quote(article.file_table)} t join {quote(child)} c on {same}{own} "
            f"where t.{ROWGUID} = ? and ({differs}) limit 1"
        )
        sent = [columns[referenced] for _, referenced in pairs]
        for rowguid, row in rows.items():
            values = [from_text(row[place], column.type_text) for place, column in sent]
            if session.execute(query, (rowguid, *values)).fetchone() is not None:
                return True
    return False


def pass_on(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> list[Write]:
    """Let received rows take the place of rows that are deleted with them, in the caller's transaction.

    At the publisher the old row's children reference the new one, which has its key. To delete the old one here would
    change them by an action, or be refused. Return what is left to write.
    """
    gone = {one.rowguid for one in writes if one.row is None and one.is_live}
    coming = [one for one in writes if one.row is not None and not one.is_live] if gone else []
    heirs: dict[str, str] = {}
    for one in coming:
        holder = find_key_holder(session, article, one.row or ())
        if holder in gone and has_dependents(session, article, [holder]) and not _has_own(session, article, holder):
            heirs[holder] = one.rowguid
    for holder, rowguid in heirs.items():
        # The trigger that keeps rowguids lets pass what is noted here.
        session.execute(
            f"insert into {DISPLACED} (tablenick, rowguid, written, moment, place) values (?, ?, '', 0, 0)",
            (article.nickname, rowguid),
        )
        update = f"update {quote(article.file_table)} set {ROWGUID} = ? where {ROWGUID} = ?"
        session.execute(update, (rowguid, holder))
        session.execute(f"delete from {DISPLACED} where rowguid = ?", (rowguid,))
    there = set(heirs.values())
    return [
        one._replace(is_live=one.rowguid in there) if one.rowguid in there or one.rowguid in heirs else one
        for one in writes
    ]


def _has_own(session: sqlite3.Connection, article: Article, rowguid: str) -> bool:
    """Whether rows that the publisher has not seen yet reference a row."""
    for child, pairs in list_referrers(session, article.file_table, (*DELETING, *SETTING)):
        nickname = nickname_of(session, child)
        same = _matches(pairs)
        children = f"{quote(article.file_table)} t join {quote(child)} c on {same}"
        if nickname is not None:
            children += (
                f" join {CONTENTS} o on o.tablenick = {nickname} and o.rowguid = c.{ROWGUID} and o.origin is null "
                f"and o.stamp >= {clock.read(session)}"
            )
        query = f"select 1 from {children} where t.{ROWGUID} = ? limit 1"
        if session.execute(query, (rowguid,)).fetchone() is not None:
            return True
    return False
