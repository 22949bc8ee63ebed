"""Rows that a SQLite node receives and sends: written with their metadata, enumerated since a generation."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, func, insert, select

from rowtide.core.values import frozen
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.connect import path_of
from rowtide.databases.sqlite.keys import quote, quote_literal
from rowtide.databases.sqlite.values import affinity, from_text, is_numeric, stored_type
from rowtide.databases.types.others import ANY
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.catalogue import list_merged
from rowtide.merge.definitions import genhistory, partition_mappings
from rowtide.merge.nodes.roles.writing import TemporaryValues
from rowtide.merge.nodes.sqlite.exact_numbers import forget_exact, keep_exact, read_columns
from rowtide.merge.nodes.sqlite.metadata.row_metadata import FILTERING, READER, encode_own_columns, read_asked, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, INDEXES, LOG, TOMBSTONE
from rowtide.merge.nodes.sqlite.rows import read_rows, values_of
from rowtide.merge.nodes.untyped_values import is_of_unknown_class, with_classes_of
from rowtide.merge.partitions.belonging import ROW, members, read_parents, selecting
from rowtide.merge.partitions.candidates import Candidate, Names, candidates
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Row, RowChange, Write, number_alike
from rowtide.merge.versions.comparison import NodeChange, include
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.row_metadata import MetadataReader, require_rowguids

_OPERATION = (
    f"case when not gone and not live then {Logged.INSERTED.value} when not gone then {Logged.UPDATED.value} "
    f"when live then {Logged.DELETED.value} end"
)
"""What the log calls that which is done to a row; null for nothing."""
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
    stored = read_rows(session, article, list(unclear))
    known = {rowguid: with_classes_of(article, row, stored.get(rowguid)) for rowguid, row in unclear.items()}
    return [one._replace(row=known.get(one.rowguid, one.row)) for one in writes]


def _staging(article: Article) -> str:
    return f"rowtide_in_{article.nickname}"


def _stage(session: sqlite3.Connection, article: Article, writes: Sequence[Write], stamp: int) -> None:
    """Stage rows; most of them share their metadata, which is staged once."""
    view = _staging(article)
    rows, known = f"{view}_rows", f"{view}_known"
    places = [f"v{place}" for place in range(len(article.columns))]
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
        values = ", ".join(f"v{place}" for place in range(len(article.columns)))
        written += session.execute(
            f"insert into {table} ({names}, {ROWGUID}) select {values}, rowguid from {staging} "
            "where not live and not gone order by rowguid"
        ).rowcount
    return written


def _update(session: sqlite3.Connection, article: Article, staging: str, rows: int) -> int:
    """Update rows, and return how many exist.

    Keys are set only for rows whose keys change, since SQLite moves a row whose key is set.
    """
    pairs = [(column, quote(column.name), f"i.v{place}") for place, column in enumerate(article.columns)]
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
    found = read_rows(session, article, [one.rowguid for one in writes])
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


# Changes that a SQLite node has to send since a generation (SQL Server: sp_MSmakegeneration, sp_MSenumchanges). A
# generation is an epoch of the file's change clock: closing it ends the epoch, and later stamps are outside it. A
# version's number is the epoch in which it was made.

BATCH_ROWS = 2000
_PIECE_ROWS = 250
"""Of changes, which are read between other work: a few milliseconds' worth."""


def close_generation(connection: Connection, session: sqlite3.Connection, own: int) -> int:
    """Close the open generation in the caller's write transaction.

    Return its number, or the last one's if it is empty.
    """
    last = connection.execute(select(func.max(genhistory.c.generation)).where(genhistory.c.nickname == own)).scalar()
    if last is not None and not _is_stamped(connection, session, last):
        return int(last)
    generation = clock.read(session)
    connection.execute(
        insert(genhistory).values(nickname=own, generation=generation, guidsrc=str(uuid4()), genstatus=1)
    )
    clock.end_epoch(session)
    return generation


def _is_stamped(connection: Connection, session: sqlite3.Connection, last: int) -> bool:
    """Whether any row was changed after a generation."""
    exists = " or ".join(
        f"exists (select 1 from {table} where tablenick = :nickname and stamp > :last)"
        for table in (CONTENTS, TOMBSTONE)
    )
    nicknames = [article.nickname for article in list_merged(connection)]
    found = (session.execute(f"select {exists}", {"nickname": each, "last": last}) for each in nicknames)
    return any(rows.fetchone()[0] for rows in found)


@frozen
class SqliteEnumeration:
    """Reads one snapshot; see `Enumeration`.

    `purged` has the lineage of rows without metadata, by table; `is_beside` is set if the log is applied to a temporary
    table; `parents` are the articles whose rows foreign keys are resolved to. What fails while it reads, which is often
    within a transaction of another node, `failing` makes an error of this file.
    """

    session: sqlite3.Connection
    own: int
    generation: int
    purged: dict[int, bytes]
    failing: Callable[[], AbstractContextManager[None]]
    is_beside: bool = field(kw_only=True)
    parents: Mapping[int, Article] = field(default_factory=dict, kw_only=True)

    def naming_parents(self, parents: Mapping[int, Article]) -> SqliteEnumeration:
        return replace(self, parents=parents)

    def upserts(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        return self._window(article, CONTENTS, since, destination, is_live=True)

    def deletes(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        return self._window(article, TOMBSTONE, since, destination, is_live=False)

    def again(self, article: Article, rowguids: Sequence[str]) -> Sequence[RowChange]:
        reading = self._reading(article)
        with self.failing():
            found = read_asked(self.session, reading.select_asked(), rowguids)
        return reading.changes(found)

    def candidates(
        self, row_filter: RowFilter, since: int, destination: int, asked: Sequence[str]
    ) -> Iterator[Sequence[Candidate]]:
        names = Names(
            FILTERING,
            partition_mappings.name,
            quote_literal,
            lambda stamp: f"{stamp} > {since} and {stamp} <= {self.generation}",
            "tablenick",
            is_beside=self.is_beside,
        )
        for batch in self._read(candidates(row_filter, destination, asked, names)):
            yield [Candidate.read(row) for row in batch]

    def members(self, row_filter: RowFilter) -> Iterator[Sequence[tuple[str, tuple[str, ...]]]]:
        for batch in self._read(members(row_filter, FILTERING)):
            yield [(rowguid, read_parents(listed)) for rowguid, listed in batch]

    def rows(
        self, article: Article, row_filter: RowFilter | None = None, where: str | None = None
    ) -> Iterator[Sequence[tuple[str, Row]]]:
        names = ", ".join([ROWGUID, *read_columns(article, ROW)])
        condition = selecting(row_filter, where, FILTERING)
        for batch in self._read(f"select {names} from {table_of(article)} as {ROW} {condition} order by {ROWGUID}"):
            require_rowguids(article, path_of(self.session), [row[0] for row in batch])
            yield [(row[0], READER.values(article, row[1:])) for row in batch]

    def included(self, article: Article) -> bytes:
        return include(self.purged[article.nickname], NodeChange(self.own, self.generation))

    def _reading(self, article: Article) -> MetadataReader:
        composer = Composer(article, self.own, self.purged[article.nickname])
        return MetadataReader(
            article, composer, READER, path_of(self.session), is_beside=self.is_beside, parents=self.parents
        )

    def _window(
        self, article: Article, table: str, since: int, destination: int, *, is_live: bool
    ) -> Iterator[Sequence[RowChange]]:
        reading = self._reading(article)
        # By its index, in whose order rows come: the first come at once.
        metadata = (
            f"{table} indexed by {INDEXES[table]} where tablenick = ? and stamp > ? and stamp <= ? and origin is not ?"
        )
        statement = reading.select_window(metadata, is_live=is_live, order=("stamp", "rowguid"))
        parameters = (article.nickname, since, self.generation, destination)
        for piece in self._read(statement, parameters, _PIECE_ROWS):
            yield reading.changes(piece)

    def _read(self, query: str, parameters: Sequence[int] = (), rows: int = BATCH_ROWS) -> Iterator[list[Any]]:
        with self.failing():
            cursor = self.session.execute(query, parameters)
            batch = cursor.fetchmany(rows)
        while batch:
            yield batch
            with self.failing():
                batch = cursor.fetchmany(rows)
