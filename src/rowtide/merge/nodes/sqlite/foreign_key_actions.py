"""Rows that foreign keys' actions would change in a SQLite file, with deleted ones or with ones that get other keys."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set

from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import from_text
from rowtide.databases.types.value_type import SqliteValue
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.rows import Reach
from rowtide.merge.nodes.sqlite.key_moves import DELETING, SETTING, list_referrers, nickname_of, own_condition
from rowtide.merge.versions.changes import Write


class SqliteActions:
    """See `ForeignKeyActions`."""

    def __init__(self, session: sqlite3.Connection) -> None:
        self._session = session

    def find_acting(self, articles: Sequence[Article]) -> set[int]:
        return {
            article.nickname
            for article in articles
            if any(list_referrers(self._session, article.file_table, (*DELETING, *SETTING)))
        }

    def find_clearing(self, article: Article) -> set[str]:
        listed = list_referrers(self._session, article.file_table, SETTING, is_update=True)
        return {referenced for _, pairs in listed for _, referenced in pairs}

    def find_reach(
        self,
        article: Article,
        rowguids: Sequence[str],
        merged: Mapping[int, Article],
        *,
        is_update: bool = False,
    ) -> Reach:
        nicknames = {each.file_table.lower(): nickname for nickname, each in merged.items()}
        found = Reach()
        left = {article.file_table.lower(): set(rowguids)}
        seen = {table: set(rows) for table, rows in left.items()}
        while left:
            name, rows = left.popitem()
            parent = _Side.of(self._session, name, nicknames)
            for actions in (SETTING,) if is_update else (DELETING, SETTING):
                for table, pairs in list(list_referrers(self._session, name, actions, is_update=is_update)):
                    child = _Side.of(self._session, table, nicknames)
                    for above, below, values in _referencing(self._session, parent, child, pairs, rows):
                        found.below.setdefault((parent.key, above), set()).add((child.key, below))
                        if isinstance(child.key, str):
                            found.others[child.key, below] = values
                        known = seen.setdefault(table.lower(), set())
                        if actions is DELETING and below not in known:
                            known.add(below)
                            left.setdefault(table.lower(), set()).add(below)
        return found


@frozen
class _Side:
    """A table of a foreign key: its name, its nickname if it is an article's, and what identifies its rows."""

    name: str
    key: int | str
    identity: tuple[str, ...]

    @classmethod
    def of(cls, session: sqlite3.Connection, name: str, nicknames: Mapping[str, int]) -> _Side:
        nickname = nicknames.get(name.lower())
        if nickname is not None:
            return cls(name, nickname, (ROWGUID,))
        table = find_table(session, name)
        keys = () if table is None else tuple(column.name for column in table.key_columns)
        return cls(name, name, keys if table is None or table.rowid is None else (table.rowid,))

    def of_row(self, alias: str) -> str:
        """Return the expression of what identifies a row."""
        if isinstance(self.key, int):
            return f"{alias}.{ROWGUID}"
        return " || ',' || ".join(f"quote({alias}.{quote(name)})" for name in self.identity)


def _referencing(
    session: sqlite3.Connection, parent: _Side, child: _Side, pairs: Sequence[tuple[str, str]], rows: set[str]
) -> Iterator[tuple[str, str, Mapping[str, str | None]]]:
    """Yield rows, those that reference them by one foreign key, and the values of these if that is no article."""
    # The referenced column stands first: its collation decides, as for the foreign key.
    same = " and ".join(f"t.{quote(referenced)} = c.{quote(column)}" for column, referenced in pairs)
    values = "c.*" if isinstance(child.key, str) else "null"
    cursor = session.execute(
        f"select {parent.of_row('t')}, {child.of_row('c')}, {values} from {quote(parent.name)} t "
        f"join {quote(child.name)} c on {same} where {parent.of_row('t')} in (select value from json_each(?))",
        (json.dumps(sorted(rows)),),
    )
    names = [described[0] for described in cursor.description[2:]]
    for above, below, *found in cursor.fetchall():
        yield above, below, dict(zip(names, map(_shown, found), strict=True))


def _shown(value: SqliteValue) -> str | None:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return None if value is None else str(value)


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
        same = matches(pairs)
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


def matches(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the condition that a row `c` references a row `t`."""
    return " and ".join(f"c.{quote(column)} = t.{quote(referenced)}" for column, referenced in pairs)


def has_followers(
    session: sqlite3.Connection, article: Article, writes: Sequence[Write], spared: Set[str] | None = None
) -> bool:
    """Whether an action would clear references of rows that were changed here last, as rows that they reference get
    other keys; `spared` as above.
    """
    referrers = []
    for child, pairs in list_referrers(session, article.file_table, SETTING, is_update=True):
        if (spared is None or child.lower() in spared) and nickname_of(session, child) is not None:
            referrers.append((child, pairs))
    rows = {one.rowguid: one.row for one in writes if one.row is not None and one.is_live} if referrers else {}
    if not rows:
        return False
    columns = {column.name: (index, column) for index, column in enumerate(article.columns)}
    for child, pairs in referrers:
        same = matches(pairs)
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
