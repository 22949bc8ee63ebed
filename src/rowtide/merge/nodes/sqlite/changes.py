"""Changes that a SQLite node has to send since a generation (SQL Server: sp_MSmakegeneration, sp_MSenumchanges).

A generation is an epoch of the file's change clock: closing it ends the epoch, and later stamps are outside it. A
version's number is the epoch in which it was made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, func, insert, select

from rowtide.core.values import frozen
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import path_of
from rowtide.databases.sqlite.sql_text import quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.catalogue import list_merged, list_purged, read_nickname
from rowtide.merge.definitions import genhistory, partition_mappings
from rowtide.merge.nodes.sending import ChangesRequest, EnumeratedSending
from rowtide.merge.nodes.sqlite.exact_numbers import read_columns
from rowtide.merge.nodes.sqlite.metadata.log_application import apply_beside, is_logged
from rowtide.merge.nodes.sqlite.metadata.replaced import is_settled, settle
from rowtide.merge.nodes.sqlite.metadata.row_metadata import FILTERING, READER, decode, read_asked, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, INDEXES, TOMBSTONE
from rowtide.merge.nodes.sqlite.session import CACHE, SqliteSession
from rowtide.merge.partitions.belonging import ROW, members, read_parents, selecting
from rowtide.merge.partitions.candidates import Candidate, Names, candidates
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.comparison import NodeChange, include
from rowtide.merge.versions.row_metadata import MetadataReader, require_rowguids
from rowtide.merge.versions.stored_metadata import Composer

BATCH_ROWS = 2000
_FEW_ROWS = 500
"""Are read within a few milliseconds."""
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
    # Later changes are stamped above this number, and so belong to the next generation.
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


class SqliteChanges:
    """See `ChangeSource`."""

    def __init__(self, node: SqliteSession) -> None:
        self._node = node
        self._session = node.session
        self._connection = node.connection

    @contextmanager
    def enumerating(self) -> Iterator[SqliteEnumeration]:
        with self._enumerating() as enumeration:
            yield enumeration

    @contextmanager
    def _enumerating(self, request: ChangesRequest | None = None) -> Iterator[SqliteEnumeration]:
        own = read_nickname(self._connection)
        with self._closing(own, request) as (reader, generation):
            merged = list_merged(self._connection)
            purged = list_purged(self._connection)
            is_beside = is_logged(reader)
            reader.execute(CACHE)
            reader.text_factory = decode
            if is_beside:
                apply_beside(reader, merged, generation)
            yield SqliteEnumeration(reader, own, generation, purged, self._node.failing, is_beside=is_beside)

    @contextmanager
    def previewing(self) -> Iterator[SqliteEnumeration]:
        own = read_nickname(self._connection)
        with clock.snapshot(self._session) as reader, _undone(reader):
            merged = list_merged(self._connection)
            purged = list_purged(self._connection)
            is_beside, generation = is_logged(reader), clock.read(reader)
            reader.execute(CACHE)
            reader.text_factory = decode
            if is_beside:
                apply_beside(reader, merged, generation)
            yield SqliteEnumeration(reader, own, generation, purged, self._node.failing, is_beside=is_beside)

    @contextmanager
    def sending(self, request: ChangesRequest) -> Iterator[EnumeratedSending]:
        with self._enumerating(request) as enumeration:
            blocks_writers = enumeration.session is self._session
            yield EnumeratedSending(enumeration.naming_parents(request.parents), request, blocks_writers)

    @contextmanager
    def _closing(self, own: int, request: ChangesRequest | None) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Close the generation, and yield a reader of exactly that state, with its number."""
        session = self._session
        # Such a file is read in the transaction that closes the generation, which blocks its writers until the
        # enumeration ends.
        if not clock.has_own_snapshots(session):
            with self._node.transaction():
                self._node.apply()
                yield session, close_generation(self._connection, session, own)
            return
        if request is not None:
            with self._node.transaction():
                self._node.apply()
                # Writers wait no longer for few changes than for the transaction alone, and another connection would
                # have to parse the file's schema first.
                if self._has_few(request):
                    yield session, close_generation(self._connection, session, own)
                    return
        with ExitStack() as stack:
            with self._settled():
                self._node.apply()
                generation = close_generation(self._connection, session, own)
                # Opened while nobody else can write: it sees what is in the generation, and nothing later.
                reader = stack.enter_context(clock.snapshot(session))
            yield reader, generation

    def _has_few(self, request: ChangesRequest) -> bool:
        """Whether few changes are sent on a request; those of a partition are not looked for."""
        if request.filters:
            return False
        left = _FEW_ROWS - sum(map(len, request.again.values()))
        for article in request.articles:
            for table in (CONTENTS, TOMBSTONE):
                counted = f"select 1 from {table} where tablenick = ? and stamp > ? limit {max(left, 0) + 1}"
                found = self._session.execute(counted, (article.nickname, request.since)).fetchall()
                left -= len(found)
        return left >= 0

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Write in a transaction that begins with a settled log: a snapshot sees the rows that came back by that."""
        # What is committed a reader need not apply once more.
        self._node.apply_log()
        while True:
            with self._node.transaction():
                if is_settled(self._session):
                    yield
                    return
                settle(self._session, list_merged(self._connection))


@contextmanager
def _undone(session: sqlite3.Connection) -> Iterator[None]:
    """Read in one transaction, and roll it back."""
    if not session.in_transaction:
        session.execute("begin")
    try:
        yield
    finally:
        session.rollback()
