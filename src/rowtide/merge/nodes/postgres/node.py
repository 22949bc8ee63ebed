"""A PostgreSQL database as a node of a merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.alterations import Committing, rehearsing_on
from rowtide.databases.postgres.clock import taking_anchors
from rowtide.databases.postgres.connect import PINNED_SETTINGS, WHOLE_TABLES, load_texts, open_engine
from rowtide.databases.postgres.errors import describe, translate, translated
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.urls import DatabaseUrl
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.catalogue import list_merged, read_nickname, read_purged
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.errors import NodeBusy, RowsRefused
from rowtide.merge.nodes.postgres import row_metadata
from rowtide.merge.nodes.postgres.apply import apply_beside, apply_log, is_logged, look_again, tidy
from rowtide.merge.nodes.postgres.enumeration import PostgresEnumeration
from rowtide.merge.nodes.postgres.generations import Generations, close_generation
from rowtide.merge.nodes.postgres.row_metadata import PostgresReader, sent, table_of, uuid_array
from rowtide.merge.nodes.postgres.sequences import find_sequences
from rowtide.merge.nodes.postgres.system_tables import CONTENTS
from rowtide.merge.nodes.postgres.tables import PostgresTables
from rowtide.merge.nodes.postgres.triggers import AGENT_SETTING
from rowtide.merge.nodes.postgres.writing import Prepared, find_updated, make_staging, write, write_temporary
from rowtide.merge.nodes.retry import retry_busy
from rowtide.merge.nodes.unique_swap import TemporaryValues
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type
from rowtide.merge.partitions.filters import ROW, RowFilter, belongs
from rowtide.merge.versions.changes import Known, Row, Write
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.row_metadata import MetadataReader

_APPLYING = int.from_bytes(b"rtmerge")
"""Key of the advisory lock held while the log is applied."""
_MANY = 1000
"""Number of log entries after which the agent vacuums and analyzes at once, without waiting for autovacuum."""
_BEGIN = f"set transaction isolation level repeatable read; set local {AGENT_SETTING} = 'on'"
_BUSY = ("40001", "40P01", "55P03")
"""SQLSTATEs of conflicts with other sessions."""
_OF_ROWS = ("22", "23", "42", "44", "0A", "P0", "38")
"""SQLSTATE classes of errors about a row: its values, constraints, a user's trigger."""


def open_node(url: str | DatabaseUrl) -> PostgresNode:
    """Connect to the database that a URL names. Raises `ConnectionFailed`."""
    return PostgresNode(open_engine(url, application_name="rowtide merge", settings=PINNED_SETTINGS | WHOLE_TABLES))


class PostgresNode:
    """See `Node`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        with translated():
            self.connection = _map(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        self._session = _session_of(self.connection)
        self._texts = self._session.cursor()
        for known in self._session.adapters.types:
            for code in filter(None, (known.oid, known.array_oid)):
                self._texts.adapters.register_loader(code, TextLoader)
        self._generations = Generations()
        self._known_tables: dict[int, Prepared] = {}
        self.tables = PostgresTables(Committing(engine), self.connection, self._session)

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""
        if self._session.closed:
            # The server has undone it.
            self.connection.invalidate()
        self.connection.close()

    def failing(self) -> AbstractContextManager[None]:
        return translated()

    @property
    def name(self) -> str:
        """The database's name in errors."""
        return f"{self._session.info.host}/{self._session.info.dbname}"

    @contextmanager
    def transaction(self, *, is_durable: bool = True) -> Iterator[None]:
        begin = _BEGIN if is_durable else f"{_BEGIN}; set local synchronous_commit = off"
        try:
            with self._failing("the transaction"), self._session.transaction():
                self._session.execute(sql.SQL(begin))
                yield
                # What is checked at the end is checked here, where it can still be said of a row.
                self._session.execute("set constraints all immediate")
                failpoint("postgres_merge_commit.before")
        except BaseException:
            # What was made in it is gone.
            self._known_tables.clear()
            raise
        failpoint("postgres_merge_commit.after")

    @contextmanager
    def rehearsing(self, statements: list[str]) -> Iterator[None]:
        with self._failing("the rehearsal"), self._session.transaction(force_rollback=True):
            self._session.execute("set transaction isolation level repeatable read")
            with rehearsing_on(self.connection, statements) as alterations:
                committing, self.tables.alterations = self.tables.alterations, alterations
                try:
                    yield
                finally:
                    self.tables.alterations = committing

    @contextmanager
    def enumerating(self) -> Iterator[PostgresEnumeration]:
        own = read_nickname(self.connection)
        merged = list_merged(self.connection)
        purged = {article.nickname: read_purged(self.connection, article.nickname) for article in merged}
        self.apply_log()
        look_again(self._session, merged)
        with translated(), self._engine.connect() as reading:
            with self._applying():
                retry_busy(partial(self._close, own, merged, reading))
            self._generations.refresh(self.connection, own)
            session = _session_of(reading)
            is_beside = is_logged(session)
            if is_beside:
                apply_beside(session, merged)
            try:
                yield PostgresEnumeration(session, own, self._generations, purged, is_beside=is_beside)
            except BaseException:
                # It may be in the middle of sending rows.
                reading.invalidate()
                raise

    def _close(self, own: int, merged: Sequence[Article], reading: Connection) -> None:
        """Close the open generation, and set the connection to its snapshot.

        The log is applied in the same transaction: all entries belong to the open generation.
        """
        with self._failing(self.name), _map(self._engine.connect()) as closing, taking_anchors(closing):
            close_generation(closing, own, [article.nickname for article in merged])
            if is_logged(_session_of(closing)):
                apply_log(_session_of(closing), merged)
            exported = closing.execute(text("select pg_export_snapshot()")).scalar_one()
            load_texts(reading)
            session = _session_of(reading)
            session.execute("set transaction isolation level repeatable read")
            session.execute(sql.SQL(f"set transaction snapshot '{exported}'"))

    @contextmanager
    def _applying(self) -> Iterator[None]:
        """Apply the log, or close a generation, one session at a time, so that no session repeats another's work."""
        self._session.execute(sql.SQL(f"select pg_advisory_lock({_APPLYING})"))
        try:
            yield
        finally:
            self._session.execute(sql.SQL(f"select pg_advisory_unlock({_APPLYING})"))

    def apply_log(self) -> None:
        if is_logged(self._session):
            with self._applying():
                lines = retry_busy(self._apply_ahead)
            if lines >= _MANY:
                tidy(self._session)

    def _apply_ahead(self) -> int:
        with self.transaction():
            return self._apply()

    def _apply(self) -> int:
        return apply_log(self._session, list_merged(self.connection)) if is_logged(self._session) else 0

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Known]:
        self._apply()
        own = read_nickname(self.connection)
        self._generations.refresh(self.connection, own)
        composer = Composer(article, own, read_purged(self.connection, article.nickname))
        reading = MetadataReader(article, composer, PostgresReader(self._generations))
        return reading.known(self._read(reading.select_known(), [uuid_array(rowguids)]))

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        names = ", ".join([ROWGUID, *(quote(column.name) for column in article.columns)])
        query = f"select {names} from {table_of(article)} where {ROWGUID} = any(%s::uuid[])"
        return {row[0]: sent(article, row[1:]) for row in self._read(query, [uuid_array(rowguids)])}

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        stored = as_stored_by_server(article, row)
        values = {column.name: value for column, value in zip(article.columns, stored, strict=True)}
        same = " and ".join(f"{quote(column.name)} = %s::{server_type(column)}" for column in article.key_columns)
        query = f"select {ROWGUID} from {table_of(article)} where {same}"
        try:
            found = self._read(query, [values[column.name] for column in article.key_columns])
        except psycopg.DataError:
            return None  # what the type does not have, no row has
        return found[0][0] if found else None

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        if writes:
            # What is prepared stays for the transaction, also where the rows are refused.
            prepared = self._prepared(article)
            self._attempt(article, lambda: write(self._session, article, writes, prepared))

    def write_temporary(self, article: Article, values: Mapping[str, TemporaryValues]) -> None:
        self._attempt(article, lambda: write_temporary(self._session, article, values))

    def _attempt(self, article: Article, work: Callable[[], None]) -> None:
        """Run in one transaction: all or nothing."""
        try:
            with self._session.transaction():
                work()
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise self._failure(error, article.name) from error

    def outside(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Sequence[str]:
        listed = f"{ROWGUID} = any(%s::uuid[]) and not "
        query = f"select {ROWGUID} from {table_of(row_filter.article)} as {ROW} where {listed}"
        # What the user wrote is no place for parameters of ours: a percent sign in it is itself.
        condition = belongs(row_filter, table_of).replace("%", "%%")
        return [row[0] for row in self._read(query + condition, [uuid_array(rowguids)])]

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, self._snapshot_of(generation))

    def forget(self, article: Article, generation: int, most: int) -> int:
        return row_metadata.forget(self._session, article.nickname, self._snapshot_of(generation), most)

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._apply()
        own = f"tablenick = {article.nickname} and rowguid = %s::uuid and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        with self._session.cursor() as cursor:
            cursor.executemany(sql.SQL(f"update {CONTENTS} set bases = %s where {own}"), values)

    def defer_constraints(self) -> None:
        self._session.execute("set constraints all deferred")

    def _snapshot_of(self, generation: int) -> str:
        self._generations.refresh(self.connection, read_nickname(self.connection))
        snapshot = self._generations.snapshot_of(generation)
        assert snapshot is not None
        return snapshot

    def _prepared(self, article: Article) -> Prepared:
        """Return what is known of an article's table; create its staging table on the first call."""
        if article.nickname not in self._known_tables:
            make_staging(self._session, article)
            sequences = find_sequences(self._session, article)
            self._known_tables[article.nickname] = Prepared(find_updated(self._session, article), sequences)
        return self._known_tables[article.nickname]

    def _read(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._texts.execute(sql.SQL(query), parameters).fetchall()

    @contextmanager
    def _failing(self, subject: str) -> Iterator[None]:
        """Raise our errors for the server's."""
        try:
            yield
        except psycopg.Error as error:
            raise self._failure(error, subject) from error
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.Error):
                raise
            raise self._failure(error.orig, subject) from error

    def _failure(self, error: Exception, subject: str) -> Exception:
        """Return our error for one of the server's."""
        if not isinstance(error, psycopg.Error):
            return RowsRefused(subject, type(error).__name__, " ".join(str(error).split()))
        reason = describe(error)
        state = error.sqlstate or ""
        if state in _BUSY or error.diag.schema_name == SCHEMA:
            # What is known of a row was removed before it is inserted: another has inserted it since.
            return NodeBusy(self.name, reason)
        if state.startswith(_OF_ROWS) and state != "42501":
            return RowsRefused(subject, state, error.diag.message_primary or reason)
        return translate(error)


def _map(connection: Connection) -> Connection:
    return connection.execution_options(schema_translate_map={None: SCHEMA})


def _session_of(connection: Connection) -> psycopg.Connection[tuple[Any, ...]]:
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    return session
