"""What foreign keys' actions change in a SQLite file when rows are deleted."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.roles.reach import Reach
from rowtide.merge.nodes.sqlite.key_moves import DELETING, SETTING, list_referrers


def find_acting(session: sqlite3.Connection, articles: Sequence[Article]) -> set[int]:
    """See `ReachReader.find_acting`."""
    return {
        article.nickname
        for article in articles
        if any(list_referrers(session, article.file_table, (*DELETING, *SETTING)))
    }


def find_clearing(session: sqlite3.Connection, article: Article) -> set[str]:
    """See `ReachReader.find_clearing`."""
    listed = list_referrers(session, article.file_table, SETTING, is_update=True)
    return {referenced for _, pairs in listed for _, referenced in pairs}


def find_reach(
    session: sqlite3.Connection,
    article: Article,
    rowguids: Sequence[str],
    merged: Mapping[int, Article],
    *,
    is_update: bool,
) -> Reach:
    """See `ReachReader.find_reach`."""
    nicknames = {each.file_table.lower(): nickname for nickname, each in merged.items()}
    found = Reach()
    left = {article.file_table.lower(): set(rowguids)}
    seen = {table: set(rows) for table, rows in left.items()}
    while left:
        name, rows = left.popitem()
        parent = _Side.of(session, name, nicknames)
        for actions in (SETTING,) if is_update else (DELETING, SETTING):
            for table, pairs in list(list_referrers(session, name, actions, is_update=is_update)):
                child = _Side.of(session, table, nicknames)
                for above, below, values in _referencing(session, parent, child, pairs, rows):
                    found.below.setdefault((parent.key, above), set()).add((child.key, below))
                    if isinstance(child.key, str):
                        found.others[child.key, below] = values
                    known = seen.setdefault(table.lower(), set())
                    if actions is DELETING and below not in known:
                        known.add(below)
                        left.setdefault(table.lower(), set()).add(below)
    return found


@dataclass(frozen=True, slots=True)
class _Side:
    """A table of a foreign key: its name, what stands for it in places, and what identifies its rows."""

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
