"""The statements that write received rows and their metadata to a SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.sql_text import quote, quote_literal
from rowtide.databases.sqlite.values import affinity, from_text, is_numeric, stored_type
from rowtide.databases.types.strings import ANY
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.sqlite.exact_numbers import forget_exact, keep_exact
from rowtide.merge.nodes.sqlite.foreign_key_actions import has_dependents, matches
from rowtide.merge.nodes.sqlite.key_moves import DELETING, SETTING, list_referrers, nickname_of
from rowtide.merge.nodes.sqlite.metadata.log_application import encode_own_columns
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, DISPLACED, LOG, TOMBSTONE
from rowtide.merge.nodes.sqlite.rows import SqliteRows, values_of
from rowtide.merge.nodes.temporary_values import TemporaryValues
from rowtide.merge.nodes.untyped_values import is_of_unknown_class, with_classes_of
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Write, number_alike

_OPERATION = (
    f"case when not gone and not live then {Logged.INSERTED.value} when not gone then {Logged.UPDATED.value} "
    f"when live then {Logged.DELETED.value} end"
)
"""The kind of log entry for a change of a row; null for none."""
_METADATA = ("gone", "live", "type", "origin", "priority", "lineage", "last", "colv", "own_columns")
"""What is to be known of rows, and done to them."""


def write(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> None:
    """Write rows in the caller's transaction; raises SQLite's own errors.

    Rows are staged in a temporary table and written by one statement per operation: one statement per row would journal
    every page that it touches. Metadata is written first: what a user's trigger does to a row during the write is a
    later change.
    """
    staging, stamp = _staging(article), clock.read(session)
    writes = _with_classes(session, article, writes)
    _stage(session, article, writes, stamp)
    forget_exact(session, article, f"select rowguid from {staging}")
    keep_exact(session, article, ((one.rowguid, one.row) for one in writes if one.row is not None))
    if article.is_tracked:
        _write_metadata(session, article, writes, staging, stamp)
    before = _last_line(session)
    written = _write_rows(session, article, staging, writes)
    if not article.is_tracked:
        return
    _unlog(session, article, before, written, f"select rowguid, {_OPERATION} as kind from {staging}")
    is_ignored = written < sum(one.row is not None or one.is_live for one in writes)
    if is_ignored or _has_altering_columns(session, article):
        _log_alterations(session, article, writes)


def write_temporary(session: sqlite3.Connection, article: Article, values: Mapping[str, TemporaryValues]) -> None:
    """Give rows temporary values, in the caller's transaction; raises SQLite's own errors."""
    types = {column.name: column.type_text for column in article.columns}
    before, written = _last_line(session), 0
    for rowguid, temporary in values.items():
        settings = ", ".join(f"{quote(name)} = ?" for name in temporary)
        written += session.execute(
            f"update {quote(article.file_table)} set {settings} where {ROWGUID} = ?",
            [*(from_text(text, types[name]) for name, text in temporary.items()), rowguid],
        ).rowcount
    listed = quote_literal(json.dumps(list(values)))
    writes = f"select value as rowguid, {Logged.UPDATED.value} as kind from json_each({listed})"
    _unlog(session, article, before, written, writes)


def _with_classes(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> Sequence[Write]:
    """Give untyped values from a PostgreSQL node the classes that they are stored as here."""
    unclear = {one.rowguid: one.row for one in writes if one.row is not None and is_of_unknown_class(article, one.row)}
    if not unclear:
        return writes
    stored = SqliteRows(session).read(article, list(unclear))
    known = {rowguid: with_classes_of(article, row, stored.get(rowguid)) for rowguid, row in unclear.items()}
    return [one._replace(row=known.get(one.rowguid, one.row)) for one in writes]


def _staging(article: Article) -> str:
    return f"rowtide_in_{article.nickname}"


def _stage(session: sqlite3.Connection, article: Article, writes: Sequence[Write], stamp: int) -> None:
    """Stage rows; most of them share their metadata, which is staged once."""
    view = _staging(article)
    rows, known = f"{view}_rows", f"{view}_known"
    places = [f"v{index}" for index in range(len(article.columns))]
    # SQLite does not reorder a cross join: it reads the rows, and looks up the metadata of each by its number.
    joined = f"{rows} r cross join {known} k on k.id = r.known"
    for made in (
        f"table if not exists {rows} (rowguid, known, {', '.join(places)})",
        f"table if not exists {known} (id integer primary key, {', '.join(_METADATA)})",
        f"view if not exists {view} as select r.rowguid, {', '.join((*_METADATA, *places))} from {joined}",
    ):
        session.execute(f"create temporary {made}")
    for table in (rows, known):
        session.execute(f"delete from {table}")
    numbers, firsts = number_alike(writes)
    values, nothing = values_of(article), [None] * len(places)
    session.executemany(
        f"insert into {rows} values ({', '.join('?' * (2 + len(places)))})",
        (
            (one.rowguid, number, *(nothing if one.row is None else values(one.row)))
            for one, number in zip(writes, numbers, strict=True)
        ),
    )
    session.executemany(
        f"insert into {known} values ({', '.join('?' * (1 + len(_METADATA)))})",
        ((number, *_metadata(article, one, stamp)) for number, one in enumerate(firsts)),
    )


def _metadata(article: Article, one: Write, stamp: int) -> tuple[object, ...]:
    own = encode_own_columns(article, dict.fromkeys(one.own_columns, stamp)) if one.own_columns else None
    known = (one.origin, one.priority, one.lineage, one.last, one.columns, own)
    return (one.row is None, one.is_live, one.tombstone.value, *known)


def _write_metadata(
    session: sqlite3.Connection, article: Article, writes: Sequence[Write], staging: str, stamp: int
) -> None:
    if any(one.row is not None for one in writes):
        _write_contents(session, article, staging, stamp)
    if any(one.row is None for one in writes):
        _write_tombstones(session, article, staging, stamp)


def _write_contents(session: sqlite3.Connection, article: Article, staging: str, stamp: int) -> None:
    session.execute(
        f"insert or replace into {CONTENTS} "
        f"select {article.nickname}, rowguid, {stamp}, origin, priority, lineage, last, colv, own_columns, null "
        f"from {staging} where not gone"
    )
    _forget(session, TOMBSTONE, article, f"{staging} where not gone")


def _write_tombstones(session: sqlite3.Connection, article: Article, staging: str, stamp: int) -> None:
    session.execute(
        f"insert or replace into {TOMBSTONE} "
        f"select {article.nickname}, rowguid, {stamp}, type, origin, priority, lineage, last "
        f"from {staging} where gone"
    )
    _forget(session, CONTENTS, article, f"{staging} where gone")


def _forget(session: sqlite3.Connection, table: str, article: Article, source: str) -> None:
    session.execute(
        f"delete from {table} where tablenick = {article.nickname} and rowguid in (select rowguid from {source})"
    )


def _write_rows(session: sqlite3.Connection, article: Article, staging: str, writes: Sequence[Write]) -> int:
    """Return how many rows were written."""
    table, written = quote(article.file_table), 0
    if any(one.row is None and one.is_live for one in writes):
        gone = f"select rowguid from {staging} where gone and live"
        written += session.execute(f"delete from {table} where {ROWGUID} in ({gone})").rowcount
    updated = sum(one.row is not None and one.is_live for one in writes)
    if updated:
        written += _update(session, article, staging, updated)
    if any(one.row is not None and not one.is_live for one in writes):
        names = ", ".join(quote(column.name) for column in article.columns)
        values = ", ".join(f"v{index}" for index in range(len(article.columns)))
        written += session.execute(
            f"insert into {table} ({names}, {ROWGUID}) select {values}, rowguid from {staging} "
            "where not live and not gone order by rowguid"
        ).rowcount
    return written


def _update(session: sqlite3.Connection, article: Article, staging: str, rows: int) -> int:
    """Update rows, and return how many exist.

    Keys are set only for rows whose keys change, since SQLite moves a row whose key is set.
    """
    pairs = [(column, quote(column.name), f"i.v{index}") for index, column in enumerate(article.columns)]
    same = " and ".join(
        f"t.{name} collate binary is {value} and typeof(t.{name}) = typeof({value})"
        for column, name, value in pairs
        if column.key_ordinal
    )
    others = [f"{name} = {value}" for column, name, value in pairs if not column.key_ordinal]
    update = (
        f"update {quote(article.file_table)} as t set {{settings}} from {staging} i "
        f"where t.{ROWGUID} = i.rowguid and i.live and not i.gone and {{condition}}"
    )
    written = 0
    if others:
        written = session.execute(update.format(settings=", ".join(others), condition=same)).rowcount
    if written < rows:
        settings = ", ".join(f"{name} = {value}" for _, name, value in pairs)
        written += session.execute(update.format(settings=settings, condition=f"not ({same})")).rowcount
    return written


def _has_altering_columns(session: sqlite3.Connection, article: Article) -> bool:
    """Whether a program declared a column so that SQLite stores another value than the text that was sent.

    The digits that `numeric` columns lose are kept beside; see `exact_numbers`.
    """
    table = find_table(session, article.file_table)
    declared = {} if table is None else {column.name: column.type_text for column in table.columns}
    is_strict = table is not None and table.is_strict
    return any(
        column.name in declared
        and not (column.type_text == ANY or is_numeric(column.type_text))
        and affinity(declared[column.name], is_strict=is_strict) not in stored_type(column.type_text).keeping
        for column in article.columns
    )


def _log_alterations(session: sqlite3.Connection, article: Article, writes: Sequence[Write]) -> None:
    """Log what triggers and declared types made of the rows as changes of this node, which go back to their writer."""
    found = SqliteRows(session).read(article, [one.rowguid for one in writes])
    lines: list[tuple[str, int, str | None]] = []
    for one in writes:
        row = found.get(one.rowguid)
        if row is None:
            if one.row is not None:
                lines.append((one.rowguid, Logged.DELETED.value, None))
        elif one.row is None:
            lines.append((one.rowguid, Logged.INSERTED.value, None))
        elif row != one.row:
            changed = "".join(str(int(here != sent)) for here, sent in zip(row, one.row, strict=True))
            lines.append((one.rowguid, Logged.UPDATED.value, changed if article.column_tracking else None))
    session.executemany(
        f"insert into {LOG} (tablenick, rowguid, kind, columns) values ({article.nickname}, ?, ?, ?)", lines
    )


def _last_line(session: sqlite3.Connection) -> int:
    return int(session.execute(f"select coalesce(max(rowid), 0) from {LOG}").fetchone()[0])


def _unlog(session: sqlite3.Connection, article: Article, before: int, written: int, writes: str) -> None:
    """Remove the log entries, after a given one, that triggers made for the agent's own writes: one per write.

    `written` is the number of writes, `writes` a query of their rowguids and kinds. Entries for what users' triggers
    did in addition stay.
    """
    if _last_line(session) - before == written:
        session.execute(f"delete from {LOG} where rowid > {before}")
        return
    own = (
        f"select min(l.rowid) from {LOG} l join ({writes}) w on w.rowguid = l.rowguid and w.kind = l.kind "
        f"where l.rowid > {before} and l.tablenick = {article.nickname} group by l.rowguid"
    )
    session.execute(f"delete from {LOG} where rowid in ({own})")


def pass_on(session: sqlite3.Connection, rows: SqliteRows, article: Article, writes: Sequence[Write]) -> list[Write]:
    """Let received rows take the place of rows that are deleted with them, in the caller's transaction.

    At the publisher the old row's children reference the new one, which has its key. To delete the old one here would
    change them by an action, or be refused. Return what is left to write.
    """
    gone = {one.rowguid for one in writes if one.row is None and one.is_live}
    coming = [one for one in writes if one.row is not None and not one.is_live] if gone else []
    heirs: dict[str, str] = {}
    for one in coming:
        holder = rows.find_key_holder(article, one.row or ())
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
        same = matches(pairs)
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
