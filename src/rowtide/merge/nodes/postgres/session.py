"""The connection to a PostgreSQL database that takes part in a merge.

Its transactions, its log applied, its errors, and what the session knows of the log, of generations and of tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, Select, literal_column, select, text, true
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import MERGE_LOG
from rowtide.databases.postgres.alterations import Alterations, Committing, rehearsing_on
from rowtide.databases.postgres.batching import BatchingConnection, NotReceived, Rows, session_of
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import map_schemas
from rowtide.databases.postgres.quoting import EQUALS
from rowtide.databases.postgres.received_texts import Parameters
from rowtide.databases.postgres.session_settings import SCHEMAS_FOUND
from rowtide.databases.postgres.silent_sessions import (
    end_silent,
    ending_silent,
    limits_of_time,
    name_holders,
    report_ended,
)
from rowtide.databases.postgres.typed_values import lacks_characters
from rowtide.databases.postgres.values import is_of_server
from rowtide.merge.articles import Article, DeviceLimits, Subscription
from rowtide.merge.catalogue import list_merged, read_nickname, select_articles
from rowtide.merge.definitions import LACKS_CHARACTERS, SCHEMA
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.exchange_state import SELECT_NODE
from rowtide.merge.nodes.node import MOST_TRIES, ToRepeat
from rowtide.merge.nodes.node_tables import MetadataFormat
from rowtide.merge.nodes.postgres.default_schema import TableSchemas
from rowtide.merge.nodes.postgres.execution import (
    AGENT_SETTING,
    TABLES_ALTERED,
    Executions,
    failure,
    require_session,
)
from rowtide.merge.nodes.postgres.metadata import node_form
from rowtide.merge.nodes.postgres.metadata.generations import (
    SELECT_CLOSED,
    Generations,
    numbers_request,
    take_generations,
)
from rowtide.merge.nodes.postgres.metadata.log_application import apply_statements, emptying, tidy
from rowtide.merge.nodes.postgres.metadata.row_metadata import stamps_of
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.nodes.postgres.stored_tables import StoredTable, StoredTables, table_requests
from rowtide.merge.nodes.untyped_values import server_type

BEGIN = ("begin isolation level repeatable read", f"set local {AGENT_SETTING} = 'on'")
MANY_LINES = 1000
"""Number of log entries after which the agent vacuums and analyzes at once, without waiting for autovacuum."""
_NOT_DURABLE = "set local synchronous_commit = off"
_LOGGED: Select[Any] = select(literal_column("tablenick")).select_from(text(LOG)).distinct()
_MERGED = select_articles(true())


@dataclass(slots=True)
class Staging:
    """What a session writes by: the number of its transaction once it is known, and the articles with staging tables.

    0 is the tables that all articles share, a negative number an owner who may use these.
    """

    stamp: int | None = None
    prepared: set[int] = field(default_factory=set)

    def forget(self) -> None:
        """Note that there may be no staging tables: what made them was rolled back, or they were discarded."""
        self.prepared.clear()


class PostgresSession(ABC):
    """A node's connection, which its parts share."""

    def __init__(self, engine: Engine, limits: DeviceLimits | None = None) -> None:
        self.engine = engine
        self.limits = limits
        with translated():
            self.connection = map_connection(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        self.session = session_of(self.connection)
        self.name = f"{self.session.info.host}/{self.session.info.dbname}"
        """The database's name in errors, also once the connection is closed."""
        self.connection.info[LACKS_CHARACTERS] = lacks_characters(self.session)
        self.format = MetadataFormat(node_form.FORMAT)
        self.alterations: Alterations = Committing(engine)
        self.generations = Generations()
        self.own = 0
        """The node's nickname, once it was read."""
        self.is_ahead = False
        """Whether what an exchange needs to know was read, and not used yet."""
        self._is_complete = False
        """Whether the metadata are known to have a format that this build reads, and its form."""
        self._is_log_known = False
        """Whether the log has no other entries than those of `logged`, by what is known."""
        self.logged: tuple[Article, ...] = ()
        self.stored = StoredTables()
        self.staging = Staging()
        schemas = self.connection.info[SCHEMAS_FOUND]
        self.places = TableSchemas(self.session, schemas)
        self.executions = Executions(engine, self.session, schemas)
        self.meets_locks = False
        """Whether rows were found locked in the transaction: who holds them may be silent."""
        self._limits_of_time = limits_of_time(self.session)
        self.parts = 0
        """How many transactions are open as parts of another."""

    @abstractmethod
    def accept(self, form: str | None, place: str, definition: str | None) -> None:
        """Take metadata that are there for use; see `PostgresTables.accept`."""

    def is_prepared(self) -> bool:
        """See `NodeTables.is_prepared`."""
        is_there, *written = self.connection.execute(text(node_form.STATE)).one()
        if is_there:
            self.accept(*written)
        return bool(is_there)

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""
        if self.session.closed:
            # The server has undone it.
            self.connection.invalidate()
        self.connection.close()

    def forget_log(self) -> None:
        """Read again what the log has."""
        self._is_log_known = self.is_ahead = False

    def failing(self) -> AbstractContextManager[None]:
        return translated()

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        return self.session.working(step)

    def read_together(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        queries = [_compile(self.connection.dialect, each) for each in statements]
        requests: list[tuple[str, Parameters]] = [each.request(values) for each in queries]
        if not self._is_complete:
            requests += [(node_form.FORM, None), ending_silent(self.session.silence_s)]
        try:
            answers = self.session.read(*requests)
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            # Nothing is merged here: without metadata there are no rows to read.
            if self._is_complete or not self.is_prepared():
                return [[] for _ in statements]
            self._is_complete = True
            return self.read_together(*statements, values=values)
        if not self._is_complete:
            (written,), ended = answers[len(statements) :]
            self._is_complete = True
            report_ended(ended)
            self.accept(*written)
        return [
            [dict(zip(query.columns, row, strict=True)) for row in rows]
            # Behind them are the answers about the format.
            for query, rows in zip(queries, answers, strict=False)
        ]

    def read_ahead(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        *answers, (node,), listed, lines, closed = self.read_together(
            *statements,
            SELECT_NODE,
            _MERGED,
            _LOGGED,
            SELECT_CLOSED,
            values={"since_generation": 0, **values, "known_generation": self.generations.last},
        )
        self.own = int(node["nickname"])
        found = self.places.fill([Article.decode(row["definition"]) for row in listed])
        self.stored.merged = tuple({article.nickname: article for article in found}.values())
        nicknames = {row["tablenick"] for row in lines}
        if not self.generations.last:
            self.generations.is_tail = bool(values.get("since_generation"))
        self._is_log_known = True
        self.logged = tuple(article for article in self.stored.merged if article.nickname in nicknames)
        take_generations(
            self.generations,
            self.own,
            ((row["nickname"], row["generation"], row["snapshot"]) for row in closed),
        )
        self.is_ahead = True
        return answers

    def require_session(self, subscription: Subscription) -> None:
        self.session.put(require_session(subscription))

    @contextmanager
    def transaction(self, *, is_durable: bool = True, is_repeatable: bool = False) -> Iterator[None]:
        with self.failing_at("the transaction"):
            self.require_writable()
            if self.session.is_in_transaction:
                # A part of it.
                with self.session.transaction(), self._as_part():
                    self.session.execute(sql.SQL(BEGIN[1]))
                    yield
                return
            self.staging.stamp = None
            try:
                opening = (
                    *BEGIN,
                    *self.executions.guards(),
                    *self._limits_of_time,
                    *(() if is_durable else (_NOT_DURABLE,)),
                )
                self.session.begin(*opening, is_repeatable=is_repeatable)
                yield
                if self.session.is_open:
                    failpoint("postgres_merge_commit.before")
                    self.session.commit_open()
            except NotReceived as missing:
                self.staging.forget()
                self.session.roll_back()
                # What no server takes is refused when it is sent within the transaction.
                with suppress(psycopg.DataError):
                    self.session.receive(missing.texts, is_more=True)
                raise ToRepeat from missing
            except BaseException:
                self.staging.forget()
                self.session.roll_back()
                raise
            finally:
                if self.meets_locks and not self.session.closed:
                    self.meets_locks = False
                    end_silent(self.session, self.session.silence_s)
        failpoint("postgres_merge_commit.after")

    def require_writable(self) -> None:
        """Raise `FormatNewer` and the like unless the metadata, if there are any, may be written."""
        if not self.format.is_known:
            self.is_prepared()
        self.format.require_writable()

    @contextmanager
    def _as_part(self) -> Iterator[None]:
        self.parts += 1
        try:
            yield
        finally:
            self.parts -= 1

    @contextmanager
    def rehearsing(self, statements: list[str]) -> Iterator[None]:
        with self.failing_at("the rehearsal"), self.session.transaction(force_rollback=True):
            self.session.execute("set transaction isolation level repeatable read")
            with rehearsing_on(self.connection, statements) as alterations:
                committing, self.alterations = self.alterations, alterations
                try:
                    yield
                finally:
                    self.alterations = committing

    @contextmanager
    def trying(self) -> Iterator[None]:
        with self.failing_at("the rehearsal"):
            self.require_writable()
            self.staging.stamp = None
            self.session.begin(*BEGIN, *self.executions.guards())
            try:
                self.apply()
                yield
            finally:
                self.staging.forget()
                self.session.roll_back()
                # The log was applied in the transaction that is undone.
                self.forget_log()

    def apply_log(self) -> None:
        if self.session.is_in_transaction:
            # It was applied as that began.
            return
        if not self._is_log_known:
            self.read_ahead()
        for left in reversed(range(MOST_TRIES)) if self.logged else ():
            try:
                lines = self._apply_ahead()
            except NodeBusy:
                if not left:
                    raise
                continue
            self.logged = ()
            if lines >= MANY_LINES:
                tidy(self.session)
            break

    def _apply_ahead(self) -> int:
        """Apply the log in a transaction of its own, in one round trip; return the number of entries."""
        # One session applies the log at a time. The lock is granted before the transaction begins, whose snapshot then
        # has what the session before has applied.
        self.executions.require_own_plans(self.logged)
        lock, unlock = (f"select pg_advisory_{verb}lock({MERGE_LOG})" for verb in ("", "un"))
        before = ("begin", lock, "commit", *BEGIN, *self.executions.guards(), *apply_statements(self.logged))
        failpoint("postgres_merge_commit.before")
        with self.failing_at(self.name):
            try:
                with self.session.sending(always=True):
                    for each in before:
                        self.session.queue(each)
                    emptied = psycopg.Cursor(self.session).execute(sql.SQL(emptying(self.logged)))
                    for each in ("commit", unlock):
                        self.session.queue(each)
            except BaseException:
                unlock_all(self.session)
                raise
        failpoint("postgres_merge_commit.after")
        return emptied.rowcount

    def apply(self) -> None:
        merged = self.places.fill(list_merged(self.connection))
        self.executions.require_own_plans(merged)
        for statement in (*apply_statements(merged), emptying(merged)):
            self.session.put(statement)

    def altering(self) -> AbstractContextManager[None]:
        return self.transaction()

    def forget_tables(self) -> None:
        self.session.execute("discard temp")
        self.session.discard_received()
        self.stored.forget()
        self.executions.forget()
        self.places.forget()
        self.staging.forget()
        self.is_ahead = self._is_log_known = False

    def defer_constraints(self) -> None:
        self.session.put("set constraints all deferred")

    @contextmanager
    def refusing(self, subject: str) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise self._failure(error, subject) from error

    def equal_of(self, article: Article) -> Callable[[str], str]:
        """Return the operators by which columns of an article are compared; what is not the server's own is read."""
        if all(is_of_server(server_type(column)) for column in article.columns):
            return lambda _name: EQUALS
        known = {column.name: column.equal for column in self.stored_table(article).columns}
        return lambda name: known.get(name, EQUALS)

    def know_generation(self, generation: int) -> None:
        """Read all generations if it is not among those that are known."""
        if not self.generations.has(generation):
            self.generations.refresh(self.connection, self.own)

    def look_up(self, metadata: Iterable[Sequence[str | None]]) -> None:
        """Ask for the generations of rows' metadata that are not known."""
        unknown = self.generations.unknown(stamp for each in metadata for stamp in stamps_of(each))
        if unknown:
            self.generations.learn(self.session.read(numbers_request(self.own, unknown))[0])

    def snapshot_of(self, generation: int) -> str:
        self.generations.refresh(self.connection, read_nickname(self.connection))
        snapshot = self.generations.snapshot_of(generation)
        assert snapshot is not None
        return snapshot

    @contextmanager
    def failing_at(self, subject: str) -> Iterator[None]:
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
        found = failure(error, subject, self.name)
        if isinstance(error, psycopg.Error) and error.sqlstate == TABLES_ALTERED:
            self.executions.suspect()
        if isinstance(found, NodeBusy):
            # The transaction that held the lock may have written merged rows, and so entries of the log.
            self._is_log_known, self.meets_locks = False, True
            if isinstance(error, psycopg.errors.LockNotAvailable):
                return NodeBusy(self.name, f"{found.reason}; locks are held by {name_holders(self.session)}")
        return found

    def read(self, *requests: tuple[str, Parameters]) -> list[Rows]:
        """Return the texts of queries of merged tables, in one round trip: in the transaction, or in one of its own."""
        guards = () if self.session.is_in_transaction else self.executions.guards()
        if not guards:
            return self.session.read(*requests, texts=True)
        try:
            return self.session.read(*requests, texts=True, begins=("begin", *guards), ends=("commit",))
        except psycopg.Error:
            self.session.roll_back()
            raise

    def stored_table(self, article: Article) -> StoredTable:
        """Return an article's table as the server has it, which is read once."""
        if article not in self.stored:
            self.stored.take(article, *self.session.read(*table_requests(article), texts=True))
        return self.stored.of(article)


def map_connection(connection: Connection) -> Connection:
    """Return a connection whose tables of `definitions` are in the schema of the metadata."""
    return connection.execution_options(schema_translate_map=map_schemas(connection, {None: SCHEMA}))


def unlock_all(session: BatchingConnection) -> None:
    """Undo the transaction and release the locks of a session, unless it is closed."""
    if not session.closed:
        session.roll_back()
        session.execute("select pg_advisory_unlock_all()")


@frozen
class _Compiled:
    """A query of metadata for the driver, which sends several at once, with the names of its columns."""

    query: SQLCompiler
    columns: tuple[str, ...]

    def request(self, values: Mapping[str, object]) -> tuple[str, Mapping[str, Any]]:
        """Return its text and those of its parameters' values."""
        return str(self.query), self.query.construct_params(values)


@lru_cache(maxsize=100)
def _compile(dialect: Dialect, query: Select[Any]) -> _Compiled:
    """Compile a query, once if it is a constant: SQLAlchemy's own cache is for what it executes."""
    compiled = query.compile(dialect=dialect, schema_translate_map={None: SCHEMA}, render_schema_translate=True)
    assert isinstance(compiled, SQLCompiler)
    return _Compiled(compiled, tuple(str(column.key) for column in query.selected_columns))
