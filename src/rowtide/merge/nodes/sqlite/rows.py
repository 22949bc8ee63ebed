"""Rows of a SQLite node's tables, with their parents and children by logical records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from rowtide.core.values import frozen
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.keys import quote, quote_literal
from rowtide.databases.sqlite.values import OF_ANOTHER_CLASS, from_text, reader, value_of_literal
from rowtide.databases.types.value_type import SqliteValue
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.roles.rows import Reach
from rowtide.merge.nodes.sqlite.exact_numbers import read_columns
from rowtide.merge.nodes.sqlite.key_moves import DELETING, SETTING, list_referrers, nickname_of, own_condition
from rowtide.merge.nodes.sqlite.metadata.row_metadata import READER, read_asked, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, DISPLACED, TOMBSTONE
from rowtide.merge.partitions.belonging import Link
from rowtide.merge.versions.changes import Row, Write
from rowtide.merge.versions.identity_ranges import IdentityRange

_CHUNK = 200
"""How many keys one query has, each with all its columns' values as parameters."""


def read_rows(session: sqlite3.Connection, article: Article, rowguids: Sequence[str]) -> dict[str, Row]:
    """Return those of the rows that exist, by rowguid."""
    names = ", ".join([ROWGUID, *read_columns(article, "t")])
    query = f"select {names} from {table_of(article)} t where {ROWGUID} in (select value from json_each(?))"
    return {row[0]: READER.values(article, row[1:]) for row in read_asked(session, query, rowguids)}


def find_key_holder(session: sqlite3.Connection, article: Article, row: Row) -> str | None:
    """Return the local row with the same primary key as a received row; see `Node.find_key_holder`."""
    values = {column.name: value for column, value in zip(article.columns, row, strict=True)}
    same = " and ".join(f"{quote(column.name)} = ?" for column in article.key_columns)
    statement = f"select {ROWGUID} from {quote(article.file_table)} where {same}"
    key = [from_text(values[column.name], column.type_text) for column in article.key_columns]
    found = session.execute(statement, key).fetchone()
    return None if found is None else str(found[0])


def read_referencing(
    session: sqlite3.Connection, article: Article, columns: Sequence[str], keys: Sequence[Row]
) -> dict[str, Row]:
    """Return an article's rows with one of some keys; see `Node.read_referencing`."""
    types = {column.name: column.type_text for column in article.columns}
    names = ", ".join([ROWGUID, *read_columns(article, "t")])
    same = " and ".join(f"t.{quote(name)} = ?" for name in columns)
    found: dict[str, Row] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        condition = " or ".join(f"({same})" for _ in chunk)
        values = [from_text(text, types[name]) for key in chunk for name, text in zip(columns, key, strict=True)]
        query = f"select {names} from {table_of(article)} t where {condition}"
        found |= {row[0]: READER.values(article, row[1:]) for row in session.execute(query, values).fetchall()}
    return found


def highest_key(session: sqlite3.Connection, article: Article) -> int:
    """Return the highest number that the one column of a primary key has, or had with AUTOINCREMENT."""
    last, highest = read_numbering(session, article)
    return max(last or 0, highest or 0)


def read_numbering(session: sqlite3.Connection, article: Article) -> tuple[int | None, int | None]:
    """Return the last number that AUTOINCREMENT gave, or saw, and the highest key; None for none."""
    (column,) = article.key_columns
    highest = session.execute(f"select max({quote(column.name)}) from {table_of(article)}").fetchone()[0]
    if session.execute("select 1 from main.sqlite_schema where name = 'sqlite_sequence'").fetchone() is None:
        return None, highest
    counted = f"select max(seq) from sqlite_sequence where name = {quote_literal(article.file_table)} collate nocase"
    return session.execute(counted).fetchone()[0], highest


def set_numbering(session: sqlite3.Connection, article: Article, owned: IdentityRange) -> None:
    """Let AUTOINCREMENT continue with the first number of ranges, unless it is in them."""
    name = quote_literal(article.file_table)
    last, _ = read_numbering(session, article)
    if last is None:
        session.execute(f"insert into sqlite_sequence (name, seq) values ({name}, {owned.begin - 1})")
    elif not owned.has(last):
        session.execute(f"update sqlite_sequence set seq = {owned.begin - 1} where name = {name} collate nocase")


def values_of(article: Article) -> Callable[[Row], list[SqliteValue]]:
    """Return the values of a row in the form that the file stores."""
    readers = [reader(column.type_text) for column in article.columns]
    return lambda row: [
        text if text is None else _value(text, read) if read or text[:1] == OF_ANOTHER_CLASS else text
        for read, text in zip(readers, row, strict=True)
    ]


def _value(text: str, read: Callable[[str], SqliteValue] | None) -> SqliteValue:
    if text[:1] == OF_ANOTHER_CLASS:
        return value_of_literal(text[1:])
    return text if read is None else read(text)


# Parents and children of rows in a SQLite file, by the links of logical records. What foreign keys' actions change in
# a SQLite file when rows are deleted. Rows that a foreign key's action would change with a deleted row, or with one
# that gets another key.


def read_parents(session: sqlite3.Connection, link: Link, children: Sequence[str]) -> dict[str, str]:
    """See `Node.read_parents`."""
    return dict(read_asked(session, _linked(link, "c"), children))


def read_children(session: sqlite3.Connection, link: Link, parents: Sequence[str]) -> dict[str, str]:
    """See `Node.read_children`."""
    return dict(read_asked(session, _linked(link, "p"), parents))


def find_parents(session: sqlite3.Connection, link: Link, rows: Sequence[Row]) -> list[str | None]:
    """See `Node.find_parents`."""
    columns = [(place, link.parent.columns[other]) for place, other in link.pairs]
    same = " and ".join(f"{quote(column.name)} = ?" for _, column in columns)
    query = f"select {ROWGUID} from {table_of(link.parent)} where {same}"
    keys = ([from_text(row[place], column.type_text) for place, column in columns] for row in rows)
    found = (session.execute(query, key).fetchone() for key in keys)
    return [None if one is None else str(one[0]) for one in found]


def read_buried(session: sqlite3.Connection, nickname: int, since: int, source: int) -> list[str]:
    """See `Node.read_buried`."""
    query = f"select rowguid from {TOMBSTONE} where tablenick = ? and stamp > ? and origin is not ?"
    return [row[0] for row in session.execute(query, (nickname, since, source))]


def _linked(link: Link, listed: str) -> str:
    """Return the query of children and parents: of listed children, alias `c`, or of listed parents, alias `p`."""
    same = " and ".join(
        f"p.{quote(link.parent.columns[other].name)} = c.{quote(link.child.columns[place].name)}"
        for place, other in link.pairs
    )
    other = "p" if listed == "c" else "c"
    tables = {"c": table_of(link.child), "p": table_of(link.parent)}
    return (
        f"select c.{ROWGUID}, p.{ROWGUID} from json_each(?) k cross join {tables[listed]} {listed} "
        f"on {listed}.{ROWGUID} = k.value cross join {tables[other]} {other} on {same}"
    )


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


@frozen
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
