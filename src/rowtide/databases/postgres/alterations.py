"""Alterations of tables in use: short transactions, with slow steps outside of them.

A rehearsal runs the same actions and rolls them back; a dry run prints its statements. Indexes are built concurrently.

Build indexes concurrently.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache, partial
from typing import Any, Protocol, Self, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, Executable, MetaData, TextClause, create_mock_engine, inspect, text
from sqlalchemy.schema import ExecutableDDLElement

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.errors import LockNotObtained, UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.postgres.silent_sessions import end_silent_beside
from rowtide.databases.source_table import SourceTable, TableKind

# Locks on tables in use are requested repeatedly with a short timeout, because a waiting request blocks later ones; a
# pause after each lets them pass. For a single table the timeout is longer; where many tables are altered, it is so
# short that no writer behind the request notices (`altering_many`).

LOCK_TIMEOUT_S = 2
LOCK_ATTEMPTS = 5
_PAUSE_S = 0.5
BRIEF_MS = 50
"""How long a session may wait behind a brief request, in addition to the duration of the transaction itself."""
LOCK_NOT_AVAILABLE = "55P03"

Result = TypeVar("Result")


def set_lock_timeout() -> TextClause:
    """Return the statement that sets the transaction's lock_timeout."""
    return text(f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'")


class LockMode(Enum):
    """The locks that an alteration takes: without writers, or without readers too."""

    SHARE_ROW_EXCLUSIVE = "share row exclusive"
    ACCESS_EXCLUSIVE = "access exclusive"


def set_brief_lock_timeout() -> TextClause:
    """Return the statement that limits each of the transaction's waits for a lock to what no user notices."""
    return text(f"set local lock_timeout = '{BRIEF_MS}ms'")


def lock_briefly_steps(table: SourceTable, mode: LockMode) -> list[Executable]:
    """Lock a table and its partitions until commit; the waits for all of them together have the limit of one."""
    # Without ONLY, tables that inherit from it would be locked too.
    only = "" if table.kind is TableKind.PARTITIONED else "only "
    return [
        set_brief_lock_timeout(),
        # `lock_timeout` applies to each lock separately: the statement's limit bounds the sum over all partitions. It
        # is a little longer, so that a single wait ends with the lock timeout's error.
        statement(f"set local statement_timeout = '{BRIEF_MS + 10}ms'"),
        statement(f"lock table {only}{quote_qualified(table.schema, table.name)} in {mode.value} mode"),
        statement("set local statement_timeout = 0"),
    ]


def retry_locked(engine: Engine, table_name: str, attempt: Callable[[], Result]) -> Result:
    """Run a transaction with a lock timeout, retried when a lock was not granted in time; end silent sessions then.

    Raises `LockNotObtained`, naming the sessions that hold the table, and what `attempt` raises.
    """
    for number in range(LOCK_ATTEMPTS):
        if number:
            time.sleep(_PAUSE_S)
        try:
            return attempt()
        except UnexpectedSqlError as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
        with translated(), engine.connect() as connection:
            end_silent_beside(connection)
    raise LockNotObtained(table_name, LOCK_ATTEMPTS, LOCK_TIMEOUT_S, _name_holders(engine, table_name))


def _name_holders(engine: Engine, table_name: str) -> str:
    with translated(), engine.connect() as connection:
        table = find_table(connection, table_name)
        return str(connection.execute(text(_HOLDERS), {"table": table.source_id}).scalar_one())


_HOLDERS = """
select coalesce(
    string_agg(distinct case
        when a.pid is not null then format('pid %s (%s)', a.pid, concat_ws(
            ', ', a.usename, coalesce(nullif(a.application_name, ''), a.backend_type)))
        when p.gid is not null then format('prepared transaction %L', p.gid) else 'a session' end, ', '),
    'transactions that have ended meanwhile')
from pg_locks l
left join pg_stat_activity a on a.pid = l.pid
left join pg_prepared_xacts p on l.pid is null and p.transaction in (
    select t.transactionid from pg_locks t
    where t.locktype = 'transactionid' and t.pid is null and t.virtualtransaction = l.virtualtransaction)
where l.locktype = 'relation' and l.granted
  and (l.relation = :table or l.relation in (select relid from pg_partition_tree(:table)))
  and l.database = (select oid from pg_database where datname = current_database())
"""


Action = Callable[[Connection], Result]
Around = tuple[Sequence[str], Sequence[str]]
"""Statements before and after one, in its transaction."""
AROUND_NOTHING: Around = ((), ())

_SAVEPOINT = re.compile(r"(savepoint|release savepoint|rollback to savepoint) (\w+)", re.IGNORECASE)
_READS = re.compile(
    r"select\b|set local search_path\b|with\b(?!.*\b(insert into|update|delete from)\b)", re.IGNORECASE | re.DOTALL
)


class Alterations(Protocol):
    """Runs the steps of an alteration in order."""

    def run(self, table: str, action: Action[Result]) -> Result:
        """Run an action in a transaction with a short lock timeout. Raises `LockNotObtained`."""

    def transact(self, action: Action[Result], *, table: str | None = None) -> Result:
        """Run an action in a transaction; retry if a lock of `table` was not obtained in time.

        Raises `LockNotObtained`.
        """

    def run_alone(self, step: Executable, around: Around = AROUND_NOTHING) -> int:
        """Run a statement in its own transaction, without lock timeout; return the number of rows written."""

    def report(self, message: str) -> None:
        """Report a step that takes long."""


class Committing:
    """Alterations that take effect, each step by itself."""

    def __init__(self, engine: Engine, on_progress: Callable[[str], None] = lambda _message: None) -> None:
        self._engine = engine
        self._on_progress = on_progress

    def report(self, message: str) -> None:
        self._on_progress(message)

    def run(self, table: str, action: Action[Result]) -> Result:
        return retry_locked(self._engine, table, partial(self._attempt, action))

    def transact(self, action: Action[Result], *, table: str | None = None) -> Result:
        attempt = partial(self._commit, action)
        return attempt() if table is None else retry_locked(self._engine, table, attempt)

    def run_alone(self, step: Executable, around: Around = AROUND_NOTHING) -> int:
        if around != AROUND_NOTHING:
            return self._commit(partial(_run_between, step, around))
        with translated(), self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            return connection.execute(step).rowcount

    def _commit(self, action: Action[Result]) -> Result:
        with translated(), self._engine.begin() as connection:
            return action(connection)

    def _attempt(self, action: Action[Result]) -> Result:
        with translated(), self._engine.begin() as connection:
            connection.execute(set_lock_timeout())
            result = action(connection)
            failpoint("tracking_commit.before")
        failpoint("tracking_commit.after")
        return result


class Rehearsing:
    """Alterations that are rolled back at the end; statements that run alone are only recorded.

    Locks are held until the end: all actions share one transaction.
    """

    def __init__(self, connection: Connection, statements: list[str]) -> None:
        self.connection = connection
        self._statements = statements

    def run(self, table: str, action: Action[Result]) -> Result:
        return self.transact(partial(_limited, action), table=table)

    def transact(self, action: Action[Result], *, table: str | None = None) -> Result:
        attempt = partial(self._attempt, action)
        return attempt() if table is None else retry_locked(self.connection.engine, table, attempt)

    def run_alone(self, step: Executable, around: Around = AROUND_NOTHING) -> int:  # noqa: ARG002 - it is not run
        compiled = step.compile(self.connection)  # type: ignore[attr-defined]
        self._statements.append(_as_text(_session_of(self.connection), str(compiled), compiled.params))
        return 0

    def report(self, message: str) -> None:
        """No effect: nothing takes long."""

    def _attempt(self, action: Action[Result]) -> Result:
        with translated(), self.connection.begin_nested():
            return action(self.connection)


def _run_between(step: Executable, around: Around, connection: Connection) -> int:
    before, after = around
    execute_all(connection, before)
    written = connection.execute(step).rowcount
    execute_all(connection, after)
    return written


def execute_all(connection: Connection, statements: Iterable[str]) -> None:
    """Execute statements without parameters, in the caller's transaction."""
    for sql in statements:
        connection.execute(statement(sql))


def execute_at_once(connection: Connection, steps: Iterable[Executable]) -> None:
    """Execute steps in the caller's transaction, sent as one message: between them the locks that they hold wait for
    nothing.
    """
    session = _session_of(connection)
    texts = []
    for step in steps:
        compiled = step.compile(connection)  # type: ignore[attr-defined]
        texts.append(_as_text(session, str(compiled), compiled.params))
    session.execute(";\n".join(texts).encode())


def create_tables(connection: Connection, metadata: MetaData) -> None:
    """Create the tables that do not exist, with their comments, in the caller's transaction and as one message.

    Where the connection maps their schema to another one, they are created there.
    """
    mapped = connection.get_execution_options().get("schema_translate_map") or {}
    schema = mapped.get(metadata.schema, metadata.schema)
    # Not `create table if not exists`, which requires the right to create in the schema even if the table exists.
    present = inspect(connection).get_table_names(schema)
    missing = tuple(table.name for table in metadata.sorted_tables if table.name not in present)
    if missing:
        _session_of(connection).execute(_compile_creation(metadata, missing, schema))


@lru_cache(maxsize=16)
def _compile_creation(metadata: MetaData, names: tuple[str, ...], schema: str | None) -> bytes:
    """Return the message that creates tables in a schema; to compile it takes longer than to send it."""
    steps: list[ExecutableDDLElement] = []
    noting = create_mock_engine("postgresql+psycopg://", lambda step, *_given, **_options: steps.append(step))
    metadata.create_all(noting, [table for table in metadata.sorted_tables if table.name in names], checkfirst=False)
    compiled = [
        step.compile(
            dialect=noting.dialect, schema_translate_map={metadata.schema: schema}, render_schema_translate=True
        )
        for step in steps
    ]
    # Percent signs are doubled for a driver that fills in parameters; there are none here.
    return ";\n".join(str(one).strip() for one in compiled).replace("%%", "%").encode()


@contextmanager
def rehearsing(engine: Engine, statements: list[str]) -> Iterator[Rehearsing]:
    """Yield alterations without effect; their statements are appended to a list."""
    with translated(), engine.connect() as connection, connection.begin() as transaction:
        with rehearsing_on(connection, statements) as rehearsed:
            yield rehearsed
        transaction.rollback()


@contextmanager
def rehearsing_on(connection: Connection, statements: list[str]) -> Iterator[Rehearsing]:
    """Yield alterations in the caller's transaction, which rolls them back; their statements are appended to a list.

    Statements that were rolled back to a savepoint are omitted.
    """
    session = _session_of(connection)
    noted: list[str] = []
    factory = session.cursor_factory
    session.cursor_factory = _noting_cursor(_Notes(noted))
    try:
        yield Rehearsing(connection, noted)
    finally:
        session.cursor_factory = factory
    statements += noted


class _Notes:
    """Statements that altered something, without those that were rolled back."""

    def __init__(self, statements: list[str]) -> None:
        self._statements = statements
        self._savepoints: dict[str, int] = {}

    def add(self, sql: str) -> None:
        found = _SAVEPOINT.match(sql)
        if found is None:
            if not _READS.match(sql):
                self._statements.append(sql)
            return
        command, name = found[1].lower(), found[2]
        if command == "savepoint":
            self._savepoints[name] = len(self._statements)
        elif command == "rollback to savepoint":
            del self._statements[self._savepoints[name] :]


def _noting_cursor(notes: _Notes) -> type[psycopg.Cursor[Any]]:
    """Return a cursor class that records what it executes, with its values."""

    class NotingCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
            notes.add(_as_text(self.connection, query, params))
            return super().execute(query, params, **options)

        def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
            listed = list(params_seq)
            for params in listed:
                notes.add(_as_text(self.connection, query, params))
            super().executemany(query, listed, **options)

    return NotingCursor


def _limited(action: Action[Result], connection: Connection) -> Result:
    connection.execute(set_lock_timeout())
    return action(connection)


def _as_text(session: psycopg.Connection[Any], query: Any, params: Any) -> str:
    return psycopg.ClientCursor(session).mogrify(query, params).strip()


def _session_of(connection: Connection) -> psycopg.Connection[Any]:
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    return session


def build_index(
    alterations: Alterations, table: SourceTable, index: tuple[str, str], definition: str, *, is_unique: bool = False
) -> None:
    """Build an index on a table or one of its metadata tables if it does not exist; rebuild an invalid one.

    `index` is its schema and name; `definition` starts with `on`. A partitioned table is locked during the build:
    PostgreSQL cannot build its indexes concurrently.
    """
    validity = alterations.run(table.qualified_name, lambda connection: read_validity(connection, index))
    beside = "" if table.kind is TableKind.PARTITIONED else "concurrently "
    # An interrupted concurrent build leaves an invalid index, which every write maintains and no query uses.
    if validity is False:
        alterations.run_alone(statement(f"drop index {beside}{quote_qualified(*index)}"))
    if not validity:
        kind = "unique index" if is_unique else "index"
        alterations.report(f"Building an index of {table.qualified_name} ...")
        alterations.run_alone(statement(f"create {kind} {beside}{quote(index[1])} {definition}"))


def read_validity(connection: Connection, index: tuple[str, str]) -> bool | None:
    """Return whether an index is valid; None if it does not exist."""
    asked = text("select indisvalid from pg_index where indexrelid = to_regclass(:name)")
    found = connection.execute(asked, {"name": quote_qualified(*index)}).scalar()
    return None if found is None else bool(found)
