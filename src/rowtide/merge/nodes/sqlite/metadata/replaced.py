"""What REPLACE did in a SQLite file, as the log says it: lines that are no changes are removed before it is applied.

A row that was replaced by itself has the lines of an update. What foreign keys' actions did meanwhile is undone: SQLite
deletes the children of the row that it is about to write, or sets their columns to null, as if that row were gone for
good. Rows come back with all their values, uploaded or not, unless their key is taken or what they reference is gone:
then they stay as SQLite left them, and that is a change like any other. SQLite uses rowids again, and who has the
number now may be anybody. Rows come back when the log is applied and not at once, since a program that knows what
SQLite does may write them again itself.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.sql_text import quote, text_encoding, unpack
from rowtide.databases.types.value_type import SqliteValue
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.metadata.system_tables import DISPLACED, LOG
from rowtide.merge.versions.apply import Logged

_LINES = "temp.rowtide_lines"
_REPLACED = "temp.rowtide_replaced"
_RESTORED = "temp.rowtide_restored"


@frozen
class _ReplacedRow:
    """A row that a foreign key's action changed, and its values before; after, if it was not deleted."""

    line: int
    article: Article
    rowguid: str
    before: Mapping[str, SqliteValue]
    after: Sequence[SqliteValue] | None
    encoding: str

    def parameter(self, value: SqliteValue) -> SqliteValue:
        """Return a text as its bytes: they need not be valid."""
        return value.encode(self.encoding, "surrogateescape") if isinstance(value, str) else value


def is_settled(session: sqlite3.Connection) -> bool:
    """Whether the log has nothing but changes."""
    found = f"select 1 from {LOG} where kind not in {_CHANGES} limit 1"
    return session.execute(found).fetchone() is None


_CHANGES = (Logged.INSERTED.value, Logged.UPDATED.value, Logged.DELETED.value)


def settle(session: sqlite3.Connection, articles: Sequence[Article]) -> None:
    """Leave nothing but changes in the log, in the caller's write transaction."""
    session.execute(f"delete from {DISPLACED}")
    if is_settled(session):
        return
    spans = _settle_replaced(session, LOG)
    _restore(session, _read_kept(session, LOG, articles, spans), spans)
    session.execute(f"delete from {LOG} where kind not in {_CHANGES}")


def settled_copy(session: sqlite3.Connection, articles: Sequence[Article]) -> str:
    """Return the name of a temporary table with the log's changes; rows that are to come back have none in it."""
    session.execute(f"create temporary table {_name(_LINES)} (tablenick, rowguid, kind, columns, base)")
    listed = "rowid, tablenick, rowguid, kind, columns, base"
    session.execute(f"insert into {_LINES} ({listed}) select {listed} from {LOG}")
    spans = _settle_replaced(session, _LINES)
    for kept in _read_kept(session, _LINES, articles, spans):
        session.execute(
            f"delete from {_LINES} where tablenick = ? and rowguid = ?", (kept.article.nickname, kept.rowguid)
        )
    session.execute(f"delete from {_LINES} where kind not in {_CHANGES}")
    return _LINES


def _settle_replaced(session: sqlite3.Connection, log: str) -> list[tuple[int, int]]:
    """Let rows that were replaced by themselves be updated; return the lines, exclusive, between which that was."""
    session.execute(f"create temporary table {_name(_REPLACED)} (tablenick, given_up, rowguid, first, last)")
    try:
        session.execute(
            f"insert into {_REPLACED} select tablenick, rowguid, columns, cast(base as integer), rowid from {log} "
            f"where kind = {Logged.REPLACED.value}"
        )
        for place in ("given_up", "rowguid"):
            session.execute(f"create index temp.rowtide_replaced_{place} on {_name(_REPLACED)} ({place})")
        for kind, place, most in (
            # The line of an insert may follow: triggers fire in any order. Deletes have lines with recursive_triggers.
            (Logged.INSERTED, "given_up", ""),
            (Logged.DELETED, "rowguid", "and l.rowid < r.last"),
        ):
            same = f"r.{place} = l.rowguid and r.tablenick = l.tablenick and l.rowid > r.first {most}"
            found = f"exists (select 1 from {_REPLACED} r where {same})"
            session.execute(f"delete from {log} as l where l.kind = {kind.value} and {found}")
        return _united(session.execute(f"select first, last from {_REPLACED} order by first").fetchall())
    finally:
        session.execute(f"drop table {_REPLACED}")


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted spans, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for first, last in spans:
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found


def _read_kept(
    session: sqlite3.Connection, log: str, articles: Sequence[Article], spans: Sequence[tuple[int, int]]
) -> list[_ReplacedRow]:
    """Return the rows that foreign keys changed within spans, the last first: parents before their children."""
    merged, encoding = {article.nickname: article for article in articles}, text_encoding(session)
    listed = "rowid, tablenick, rowguid, columns, base"
    query = f"select {listed} from {log} where kind = {Logged.KEPT.value} order by rowid desc"
    found = []
    for line, nickname, rowguid, values, after in session.execute(query).fetchall():
        if nickname in merged and _span_of(spans, line) is not None:
            named = unpack(values, encoding)
            before = {str(name): value for name, value in zip(named[::2], named[1::2], strict=True)}
            now = None if after is None else unpack(after, encoding)
            found.append(_ReplacedRow(line, merged[nickname], rowguid, before, now, encoding))
    return found


def _span_of(spans: Sequence[tuple[int, int]], line: int) -> tuple[int, int] | None:
    place = bisect_left(spans, (line, 0)) - 1
    return spans[place] if place >= 0 and spans[place][0] < line < spans[place][1] else None


def _restore(session: sqlite3.Connection, kept: Sequence[_ReplacedRow], spans: Sequence[tuple[int, int]]) -> None:
    """Restore what foreign keys' actions took from rows, and remove the log lines of that."""
    if not kept:
        return
    before = int(session.execute(f"select max(rowid) from {LOG}").fetchone()[0])
    query = f"select rowguid, max(rowid) from {LOG} where kind = {Logged.INSERTED.value} group by rowguid"
    inserted = dict(session.execute(query).fetchall())
    restored: list[_ReplacedRow] = []
    waiting = list(kept)
    while waiting:
        # What references a row that comes back itself can come only after it.
        done = [one for one in waiting if _is_restored(session, one, inserted)]
        restored += done
        waiting = [one for one in waiting if one not in done]
        if not done:
            break
    session.execute(f"create temporary table {_name(_RESTORED)} (tablenick, rowguid, kind, made, first, last)")
    try:
        session.executemany(
            f"insert into {_RESTORED} values (?, ?, ?, ?, ?, ?)", (_undone(one, spans) for one in restored)
        )
        session.execute(f"create index temp.rowtide_restored_rowguid on {_name(_RESTORED)} (rowguid)")
        same = "r.tablenick = l.tablenick and r.rowguid = l.rowguid"
        taken = "l.kind = r.kind and l.rowid > r.first and l.rowid < r.last"
        for condition in (taken, f"l.kind = r.made and l.rowid > {before}"):
            session.execute(
                f"delete from {LOG} where rowid in (select min(l.rowid) from {_RESTORED} r join {LOG} l on {same} "
                f"where {condition} group by l.tablenick, l.rowguid, r.first)"
            )
    finally:
        session.execute(f"drop table {_RESTORED}")


def _undone(one: _ReplacedRow, spans: Sequence[tuple[int, int]]) -> tuple[int, str, int, int, int, int]:
    """Return which line of the action is undone, and which line undoing it has made."""
    span = _span_of(spans, one.line)
    assert span is not None
    kinds = (Logged.DELETED, Logged.INSERTED) if one.after is None else (Logged.UPDATED, Logged.UPDATED)
    return one.article.nickname, one.rowguid, kinds[0].value, kinds[1].value, *span


def _is_restored(session: sqlite3.Connection, one: _ReplacedRow, inserted: Mapping[str, int]) -> bool:
    """Restore a row unless a program has changed it since, its key is taken, or what it references is gone."""
    table = quote(one.article.file_table)
    found = find_table(session, one.article.file_table)
    if found is None or any(found.find_column(name) is None for name in one.before):
        return False
    names, values = [quote(name) for name in one.before], [one.parameter(value) for value in one.before.values()]
    of_row = f"select {', '.join(names)} from {table} where {ROWGUID} = ?"
    now = session.execute(of_row, (one.rowguid,)).fetchone()
    if now != one.after or not _has_parents(session, one, inserted):
        return False
    marks = [_mark(value) for value in one.before.values()]
    if one.after is None:
        statement = f"insert into {table} ({', '.join(names)}, {ROWGUID}) values ({', '.join(marks)}, ?)"
    else:
        settings = ", ".join(f"{name} = {mark}" for name, mark in zip(names, marks, strict=True))
        statement = f"update {table} set {settings} where {ROWGUID} = ?"
    session.execute("savepoint rowtide_restored")
    try:
        session.execute(statement, (*values, one.rowguid))
    except sqlite3.IntegrityError:
        session.execute("rollback to rowtide_restored")
        return False
    finally:
        session.execute("release rowtide_restored")
    return True


def _has_parents(session: sqlite3.Connection, one: _ReplacedRow, inserted: Mapping[str, int]) -> bool:
    """Whether the rows exist that a row references: a row that was inserted since is another one with that key."""
    for parent, pairs in _references(session, one.article.file_table):
        values = [one.before.get(column) for column, _ in pairs]
        if any(value is None for value in values):
            continue
        same = (f"{quote(name)} = {_mark(value)}" for (_, name), value in zip(pairs, values, strict=True))
        parent_table = find_table(session, parent)
        is_merged = parent_table is not None and parent_table.find_column(ROWGUID) is not None
        query = f"select {ROWGUID if is_merged else 'null'} from {quote(parent)} where {' and '.join(same)}"
        found = session.execute(query, [one.parameter(value) for value in values]).fetchone()
        if found is None or inserted.get(found[0], 0) > one.line:
            return False
    return True


def _references(session: sqlite3.Connection, table: str) -> Iterable[tuple[str, list[tuple[str, str]]]]:
    """Yield the foreign keys of a table: the referenced table, and its columns with those that they reference."""
    found: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for number, place, parent, column, referenced, *_ in session.execute(
        f"pragma main.foreign_key_list({quote(table)})"
    ).fetchall():
        of_key = find_table(session, parent) if referenced is None else None
        name = referenced if of_key is None else of_key.key_columns[place].name
        if name is not None:
            found.setdefault((number, parent), []).append((column, name))
    for (_, parent), pairs in found.items():
        yield parent, pairs


def _mark(value: SqliteValue) -> str:
    return "cast(? as text)" if isinstance(value, str) else "?"


def _name(table: str) -> str:
    return table.removeprefix("temp.")
