"""Change keys of SQLite rows, and with them the rows that reference these, with foreign keys checked at the end."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil

from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.sql_text import quote, quote_literal
from rowtide.databases.sqlite.values import from_text
from rowtide.databases.types.value_type import SqliteValue
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, LOG
from rowtide.merge.nodes.temporary_values import MOST_COUNTED, TemporaryKind, temporary_kinds, temporary_values
from rowtide.merge.versions.changes import Write

_OWN = re.compile(r"MSmerge_[a-z_]+_(\d+)")
"""The names of triggers of merged tables."""
Referrer = tuple[str, list[tuple[str, str]]]
"""A table with a foreign key, and its columns with those that they reference."""
Move = tuple[str, str, SqliteValue]
"""A row, a column of it, and the value that this is to get."""


def list_referrers(
    session: sqlite3.Connection, table_name: str, actions: Sequence[str] = (), *, is_update: bool = False
) -> Iterator[Referrer]:
    """Yield the foreign keys to a table, or only those with one of some actions on delete, or on update."""
    table = find_table(session, table_name)
    keys = [] if table is None else [column.name for column in table.key_columns]
    listed = json.dumps(actions or _ALL)
    found: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for child, number, place, column, referenced in session.execute(_KEYS, (table_name, is_update, listed)):
        named = None if table is None or referenced is None else table.find_column(referenced)
        found.setdefault((child, number), []).append((column, keys[place] if named is None else named.name))
    for (child, _), pairs in found.items():
        yield child, pairs


def find_referenced(session: sqlite3.Connection, article: Article) -> set[str]:
    """Return the columns of an article that foreign keys reference."""
    return {name for _, pairs in list_referrers(session, article.file_table) for _, name in pairs}


def find_greatest_numbers(
    session: sqlite3.Connection, article: Article, wanted: Mapping[str, Sequence[SqliteValue]]
) -> dict[str, int]:
    """Return the greatest number that each column has or is to get, of those that `wanted` has values of."""
    found = {}
    for name, values in wanted.items():
        column = quote(name)
        counted = f"typeof({column}) in ('integer', 'real') and abs({column}) <= {MOST_COUNTED}"
        query = f"select max({column}) from {quote(article.file_table)} where {counted}"
        (had,) = session.execute(query).fetchone()
        numbers = [each for each in values if isinstance(each, int | float) and abs(each) <= MOST_COUNTED]
        found[name] = ceil(max([had or 0, *numbers]))
    return found


def renumber(session: sqlite3.Connection, article: Article, keys: Mapping[str, str]) -> None:
    """Give rows new values of their one key column, as a program would, with the rows that reference them."""
    (column,) = article.key_columns
    for rowguid, key in keys.items():
        _move(session, article, rowguid, column.name, from_text(key, column.type_text))


def move_received(
    session: sqlite3.Connection,
    article: Article,
    writes: Sequence[Write],
    *,
    is_publisher: bool,
    spared: Collection[int] = (),
) -> None:
    """Give rows the keys that they are about to get, if no row has them, with the rows that reference them.

    Rows whose keys form a cycle get temporary ones first. Of merged tables only rows that were changed here last are
    updated too: others come as their sender has them, and may mean the row that gets the old key. That is a change of a
    publisher's: others have these rows already. A subscriber's are to be uploaded yet, or come back. So do those of the
    articles with these nicknames that a publisher has `spared` and not changed last.
    """
    referenced = find_referenced(session, article)
    places = [(index, column) for index, column in enumerate(article.columns) if column.name in referenced]
    waiting = [
        (one.rowguid, column.name, from_text(one.row[place], column.type_text))
        for one in writes
        if one.row is not None and one.is_live
        for place, column in places
    ]
    only = _moved_or_received(article, {rowguid for rowguid, _, _ in waiting}, spared) if is_publisher else ""
    with _unlogged(session, only):
        _move_to_free(session, article, waiting)
    kinds = temporary_kinds(article, referenced)
    for _, column in places:
        of_column = [each for each in waiting if each[1] == column.name]
        going_round = _cycle_rows(session, article, column.name, of_column)
        if going_round and kinds.get(column.name, TemporaryKind.NULL) is not TemporaryKind.NULL:
            wanted = {column.name: [value for _, _, value in of_column]}
            greatest = find_greatest_numbers(session, article, wanted)
            values = temporary_values(article, going_round, referenced, greatest)
            with _unlogged(session, only):
                for rowguid in going_round:
                    value = from_text(values[rowguid][column.name], column.type_text)
                    _move(session, article, rowguid, column.name, value, is_own=True)
            with _unlogged(session, only):
                _move_to_free(session, article, of_column)


def _moved_or_received(article: Article, rowguids: Iterable[str], spared: Collection[int]) -> str:
    """Return the condition of the log's lines of these rows, and of spared tables' rows that were not changed here."""
    moved = f"tablenick = {article.nickname} and rowguid in ({', '.join(map(quote_literal, sorted(rowguids)))})"
    own = f"o.tablenick = {LOG}.tablenick and o.rowguid = {LOG}.rowguid and o.origin is null"
    received = f"tablenick in ({', '.join(map(str, sorted(spared)))})"
    return f"and ({moved} or {received} and not exists (select 1 from {CONTENTS} o where {own})) "


@contextmanager
def _unlogged(session: sqlite3.Connection, only: str) -> Iterator[None]:
    """Remove the first line that each row gets in the log, of some rows."""
    before = int(session.execute(f"select coalesce(max(rowid), 0) from {LOG}").fetchone()[0])
    yield
    own = f"select min(rowid) from {LOG} where rowid > {before} {only}group by tablenick, rowguid"
    session.execute(f"delete from {LOG} where rowid in ({own})")


def _move_to_free(session: sqlite3.Connection, article: Article, waiting: Sequence[Move]) -> None:
    # A key may be free only once the row that had it has moved itself.
    for _ in range(len(waiting)):
        moving = [each for each in waiting if _is_moving(session, article, *each)]
        for rowguid, name, value in moving:
            if _is_moving(session, article, rowguid, name, value):
                _move(session, article, rowguid, name, value, is_own=True)
        if not moving:
            break


def _cycle_rows(session: sqlite3.Connection, article: Article, name: str, waiting: Sequence[Move]) -> list[str]:
    """Return the rows each of which wants the key of another, in a cycle."""
    table, listed = quote(article.file_table), json.dumps([rowguid for rowguid, _, _ in waiting])
    query = f"select {ROWGUID}, {quote(name)} from {table} where {ROWGUID} in (select value from json_each(?))"
    had = dict(session.execute(query, (listed,)).fetchall())
    wanted = {rowguid: value for rowguid, _, value in waiting if rowguid in had and had[rowguid] != value}
    holders = {had[rowguid]: rowguid for rowguid in wanted}
    following = {rowguid: holders[value] for rowguid, value in wanted.items() if value in holders}
    found = []
    for rowguid in wanted:
        other = following.get(rowguid)
        for _ in wanted:
            if other is None or other == rowguid:
                break
            other = following.get(other)
        if other == rowguid:
            found.append(rowguid)
    return found


def _is_moving(session: sqlite3.Connection, article: Article, rowguid: str, name: str, value: SqliteValue) -> bool:
    table, column = quote(article.file_table), quote(name)
    query = (
        f"select 1 from {table} where {ROWGUID} = ?1 and {column} <> ?2 "
        f"and not exists (select 1 from {table} where {column} = ?2)"
    )
    return session.execute(query, (rowguid, value)).fetchone() is not None


def _move(
    session: sqlite3.Connection, article: Article, rowguid: str, name: str, value: SqliteValue, *, is_own: bool = False
) -> None:
    table = quote(article.file_table)
    is_deferred = session.execute("pragma defer_foreign_keys").fetchone()[0]
    session.execute("pragma defer_foreign_keys = on")
    left: list[tuple[str, tuple[SqliteValue, ...]]] = []
    for child, pairs in list(list_referrers(session, article.file_table)):
        moving = [column for column, referenced in pairs if referenced == name]
        if not moving:
            continue
        settings = ", ".join(f"{quote(column)} = ?1" for column in moving)
        listed = ", ".join(quote(column) for column, _ in pairs)
        old = ", ".join(quote(referenced) for _, referenced in pairs)
        key = session.execute(f"select {old} from {table} where {ROWGUID} = ?", (rowguid,)).fetchone()
        session.execute(
            f"update {quote(child)} set {settings} where ({listed}) = (select {old} from {table} where {ROWGUID} = ?2)"
            f"{own_condition(session, child) if is_own else ''}",
            (value, rowguid),
        )
        marks = ", ".join("?" * len(pairs))
        left.append((f"select 1 from {quote(child)} where ({listed}) = ({marks}) limit 1", key))
    session.execute(f"update {table} set {quote(name)} = ?1 where {ROWGUID} = ?2", (value, rowguid))
    # Switched off before the end, it would forget what it has found.
    if not any(session.execute(query, key).fetchone() for query, key in left):
        session.execute(f"pragma defer_foreign_keys = {is_deferred}")


def own_condition(session: sqlite3.Connection, table: str, alias: str | None = None) -> str:
    """Return the condition that a row was changed here last; empty for a table that is not merged here."""
    nickname = nickname_of(session, table)
    if nickname is None:
        return ""
    return (
        f" and exists (select 1 from {CONTENTS} o where o.tablenick = {nickname} "
        f"and o.rowguid = {alias or quote(table)}.{ROWGUID} and o.origin is null)"
    )


def nickname_of(session: sqlite3.Connection, table: str) -> str | None:
    """Return a table's nickname; None for a table that is not merged here."""
    query = "select name from main.sqlite_schema where type = 'trigger' and tbl_name = ? collate nocase"
    triggers = (_OWN.fullmatch(name) for (name,) in session.execute(query, (table,)).fetchall())
    return next((found.group(1) for found in triggers if found), None)


DELETING, SETTING = ("CASCADE",), ("SET NULL", "SET DEFAULT")
"""The actions on delete that delete the rows which reference a deleted one, and those that change them."""
_ALL = ("NO ACTION", "RESTRICT", *DELETING, *SETTING)
_KEYS = """
select m.name, f.id, f.seq, f."from", f."to" from main.sqlite_schema m, pragma_foreign_key_list(m.name) f
where m.type = 'table' and lower(f."table") = lower(?)
  and case when ? then f.on_update else f.on_delete end in (select value from json_each(?))
order by m.name, f.id, f.seq
"""
