"""Changes that a PostgreSQL node has to send since a generation (SQL Server: sp_MSmakegeneration, sp_MSenumchanges)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import MERGE_LOG
from rowtide.databases.postgres.batching import session_of
from rowtide.databases.postgres.clock import taking_anchors
from rowtide.databases.postgres.connect import load_texts
from rowtide.databases.postgres.copying import copy_out, read_texts
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.catalogue import list_merged, list_purged, read_nickname
from rowtide.merge.definitions import SCHEMA, partition_mappings
from rowtide.merge.nodes.node import retry_busy
from rowtide.merge.nodes.postgres.default_schema import TableSchemas, here
from rowtide.merge.nodes.postgres.execution import UnexpectedLines
from rowtide.merge.nodes.postgres.metadata import log_application, row_metadata
from rowtide.merge.nodes.postgres.metadata.generations import Generations, close_generation, window_since
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.rows import of_rowguids
from rowtide.merge.nodes.postgres.sending import Closing, PostgresSending
from rowtide.merge.nodes.postgres.session import BEGIN, MANY_LINES, PostgresSession, map_connection
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.partitions.belonging import ROW, members, read_parents, selecting
from rowtide.merge.partitions.candidates import Candidate, Names, candidates
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.comparison import NodeChange, include
from rowtide.merge.versions.row_metadata import MetadataReader
from rowtide.merge.versions.stored_metadata import Composer

BATCH_ROWS = 2000


@frozen
class PostgresEnumeration:
    """Reads one snapshot, in a session that returns values as text; see `Enumeration`.

    `purged` has the lineage of rows without metadata, by table; `node` is the database's name; `is_beside` is set if
    the log is applied to temporary tables.
    """

    session: psycopg.Connection[tuple[Any, ...]]
    own: int
    generations: Generations
    purged: dict[int, bytes]
    node: str
    places: TableSchemas
    is_beside: bool = field(kw_only=True)
    parents: Mapping[int, Article] = field(default_factory=dict, kw_only=True)

    @property
    def generation(self) -> int:
        return self.generations.last

    @here
    def naming_parents(self, parents: Mapping[int, Article]) -> PostgresEnumeration:
        return replace(self, parents=parents)

    @here
    def upserts(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        return self._window(article, CONTENTS, since, destination, is_live=True)

    @here
    def deletes(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        return self._window(article, TOMBSTONE, since, destination, is_live=False)

    @here
    def again(self, article: Article, rowguids: Sequence[str]) -> Sequence[RowChange]:
        reading = self._reading(article)
        return reading.changes(
            self.session.execute(sql.SQL(of_rowguids(reading.select_asked())), [row_metadata.uuid_array(rowguids)])
        )

    @here
    def candidates(
        self, row_filter: RowFilter, since: int, destination: int, asked: Sequence[str]
    ) -> Iterator[Sequence[Candidate]]:
        names = Names(
            row_metadata.FILTERING,
            quote_qualified(SCHEMA, partition_mappings.name),
            lambda rowguid: f"{quote_literal(rowguid)}::uuid",
            window_since(self.generations, since),
            OF_TABLE,
            is_beside=self.is_beside,
        )
        for batch in self._read(candidates(row_filter, destination, asked, names)):
            yield [Candidate.read(row) for row in batch]

    @here
    def members(self, row_filter: RowFilter) -> Iterator[Sequence[tuple[str, tuple[str, ...]]]]:
        for batch in self._read(members(row_filter, row_metadata.FILTERING)):
            yield [(rowguid, read_parents(listed)) for rowguid, listed in batch]

    @here
    def rows(
        self, article: Article, row_filter: RowFilter | None = None, where: str | None = None
    ) -> Iterator[Sequence[tuple[str, Row]]]:
        names = ", ".join([ROWGUID, *(quote(column.name) for column in article.columns)])
        condition = selecting(row_filter, where, row_metadata.FILTERING)
        for batch in self._stream(
            f"select {names} from {row_metadata.table_of(article)} as {ROW} {condition} order by {ROWGUID}"
        ):
            yield [(row[0], row_metadata.sent(article, row[1:])) for row in batch]

    @here
    def included(self, article: Article) -> bytes:
        return include(self.purged[article.nickname], NodeChange(self.own, self.generation))

    def _reading(self, article: Article) -> MetadataReader:
        composer = Composer(article, self.own, self.purged[article.nickname])
        reader = row_metadata.PostgresReader(self.generations)
        return MetadataReader(article, composer, reader, self.node, is_beside=self.is_beside, parents=self.parents)

    def _window(
        self, article: Article, table: str, since: int, destination: int, *, is_live: bool
    ) -> Iterator[Sequence[RowChange]]:
        # A row whose last change came from the destination itself is not sent back to it.
        is_new = window_since(self.generations, since)("stamp")
        condition = f"{OF_TABLE} = {article.nickname} and {is_new} and origin is distinct from {destination}"
        reading = self._reading(article)
        for batch in self._stream(reading.select_window(f"{table} where {condition}", is_live=is_live)):
            yield reading.changes(batch)

    def _stream(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Read batches while the server produces more; run no other query on the connection before the end."""
        rows = chain.from_iterable(map(read_texts, copy_out(self.session, f"copy ({query}) to stdout")))
        while batch := list(islice(rows, BATCH_ROWS)):
            yield batch

    def _read(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        with self.session.cursor(name="merge_enumeration") as cursor:
            cursor.execute(sql.SQL(query))
            while batch := cursor.fetchmany(BATCH_ROWS):
                yield batch


class PostgresChanges:
    """See `ChangeSource`."""

    def __init__(self, node: PostgresSession) -> None:
        self._node = node
        self._session = node.session
        self.places = node.places

    @contextmanager
    def enumerating(self) -> Iterator[PostgresEnumeration]:
        own = read_nickname(self._node.connection)
        merged = self._read_merged()
        purged = list_purged(self._node.connection)
        # Most of the log is applied here, so that the transaction that closes the generation has only the latest
        # entries to apply.
        self._node.apply_log()
        self._session.execute(sql.SQL(log_application.looking_again(merged)))
        with translated(), self._node.engine.connect() as reading:
            with self._applying():
                retry_busy(partial(self._close, own, merged, reading))
            self._node.generations.refresh(self._node.connection, own)
            session = session_of(reading)
            # Once the other session holds no locks: an owner's request between the two would wait for it, and this one
            # for the owner.
            with self._node.failing_at(self._node.name):
                self._node.executions.lock_in(session)
            is_beside = log_application.is_logged(session)
            if is_beside:
                log_application.apply_beside(session, merged)
            try:
                yield PostgresEnumeration(
                    session, own, self._node.generations, purged, self._node.name, self.places, is_beside=is_beside
                )
            except BaseException:
                # It may be in the middle of sending rows.
                reading.invalidate()
                raise

    @contextmanager
    def previewing(self) -> Iterator[PostgresEnumeration]:
        own = read_nickname(self._node.connection)
        merged = self._read_merged()
        purged = list_purged(self._node.connection)
        with translated(), self._node.engine.connect() as reading:
            load_texts(reading)
            session = session_of(reading)
            session.execute("set transaction isolation level repeatable read")
            with self._node.failing_at(self._node.name):
                for each in self._node.executions.guards():
                    session.execute(sql.SQL(each))
            is_beside = log_application.is_logged(session)
            if is_beside:
                log_application.apply_beside(session, merged)
            self._node.generations.refresh(self._node.connection, own)
            try:
                yield PostgresEnumeration(
                    session, own, self._node.generations, purged, self._node.name, self.places, is_beside=is_beside
                )
            finally:
                # With loaders of its own, and perhaps in the middle of sending rows.
                reading.invalidate()

    def _read_merged(self) -> Sequence[Article]:
        """Return the merged tables, all of which can be read. Raises `PlannedCodeOfOwner`."""
        merged = self.places.fill(list_merged(self._node.connection))
        self._node.executions.require_own_plans(merged)
        return merged

    @contextmanager
    def sending(self, request: ChangesRequest) -> Iterator[PostgresSending]:
        request = self.places.fill(request)
        if not self._node.is_ahead:
            self._node.read_ahead(values={"since_generation": request.since})
        self._node.is_ahead = False
        with self._node.failing_at(self._node.name):
            sending = retry_busy(partial(self._send, request))
        yield sending

    def _send(self, request: ChangesRequest) -> PostgresSending:
        self._node.know_generation(request.since)
        sending = PostgresSending(request, self._node.own, self._node.generations, self._node.look_up, self._node.name)
        queries = sending.queries()
        self._node.executions.require_own_plans([*request.articles, *self._node.logged])
        closing = Closing(
            self._session,
            self._node.own,
            self._node.stored.merged,
            self._node.logged,
            self._node.generations,
            sending.purged,
        )
        try:
            with self._node.failing_at(self._node.name):
                cursors = closing.run((*BEGIN, *self._node.executions.guards()), list(queries.values()))
        except UnexpectedLines:
            # Other tables were changed meanwhile, or published.
            self._node.read_ahead(values={"since_generation": request.since})
            self._node.logged = self._node.stored.merged
            return self._send(request)
        self._node.logged = ()
        if closing.applied >= MANY_LINES:
            log_application.tidy(self._session)
        sending.take(dict(zip(queries, cursors, strict=True)))
        return sending

    def _close(self, own: int, merged: Sequence[Article], reading: Connection) -> None:
        """Close the open generation, and set the connection to its snapshot.

        The log is applied in the same transaction: all entries belong to the open generation.
        """
        with (
            self._node.failing_at(self._node.name),
            map_connection(self._node.engine.connect()) as closing,
            taking_anchors(closing),
        ):
            for each in self._node.executions.guards():
                session_of(closing).execute(sql.SQL(each))
            close_generation(closing, own, [article.nickname for article in merged])
            if log_application.is_logged(session_of(closing)):
                log_application.apply_log(session_of(closing), merged)
            # Both sessions have one snapshot: changes that commit later belong to the next generation, and this
            # enumeration sees none of them, however long it reads.
            exported = closing.execute(text("select pg_export_snapshot()")).scalar_one()
            load_texts(reading)
            session = session_of(reading)
            session.execute("set transaction isolation level repeatable read")
            session.execute(sql.SQL(f"set transaction snapshot '{exported}'"))

    @contextmanager
    def _applying(self) -> Iterator[None]:
        """Apply the log, or close a generation, one session at a time, so that no session repeats another's work."""
        self._node.require_writable()
        self._session.execute(sql.SQL(f"select pg_advisory_lock({MERGE_LOG})"))
        try:
            yield
        finally:
            self._session.execute(sql.SQL(f"select pg_advisory_unlock({MERGE_LOG})"))
