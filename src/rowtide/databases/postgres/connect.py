"""Connections to PostgreSQL, by psycopg and by SQLAlchemy, whose sessions have pinned settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

import psycopg
from psycopg import abc, pq
from psycopg.adapt import Loader
from psycopg.conninfo import make_conninfo
from psycopg.pq.abc import PGconn
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader
from psycopg.types.string import TextLoader

from rowtide.databases.passwords import find_replication_url, read_password, with_password
from rowtide.databases.postgres.errors import (
    ConnectionFailed,
    NoFreeSender,
    NoReplicationRight,
    ReplicationPooled,
    TransactionsPooled,
    translate_connection_text,
    translated,
)
from rowtide.databases.postgres.functions import MONITORED, map_schemas
from rowtide.databases.postgres.poolers import PooledConnection, connect_without_options, refuses_parameters
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.session_settings import (
    NO_TIME_LIMITS,
    PINNED_SETTINGS,
    Found,
    pin_each_transaction,
    pin_session,
    require_session,
)
from rowtide.databases.postgres.silent_sessions import WatchedConnection
from rowtide.databases.urls import DatabaseKind, DatabaseUrl, PostgresNeeded, UrlNotRead, parse_url

# SQLAlchemy is imported with the first engine, since many processes only use psycopg.
if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_DEAD_AFTER = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""TCP settings: both ends notice a network failure within a minute; the server then releases leases and slot."""
_UNANSWERED_MS = "60000"
_CONNECT_S = "30"
"""How long a server may take to accept a connection."""
# Each keeps what it learned of its server, so the number is limited.
_MOST_ENGINES = 32


def libpq_url(url: str | DatabaseUrl) -> str:
    """Return the URL in libpq's form, with the password to connect with now.

    Raises `UrlNotRead`, `PostgresNeeded`, `PasswordNotRead`, `PasswordFileNotPrivate`.
    """
    return with_password(_parse(url)).reveal()


def _parse(url: str | DatabaseUrl) -> DatabaseUrl:
    """Return the URL of a PostgreSQL database with only parameters that libpq knows."""
    parsed = parse_url(url)
    if parsed.kind is not DatabaseKind.POSTGRESQL:
        raise PostgresNeeded(str(parsed))
    unknown = parsed.parameters.keys() - {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    if unknown - {"service"}:
        raise UrlNotRead(f"PostgreSQL's client library has no parameter {min(unknown)}")
    return parsed


def open_engine(
    url: str | DatabaseUrl,
    *,
    application_name: str = "rowtide",
    settings: Mapping[str, str] = PINNED_SETTINGS,
    driver: str = "psycopg",
    most_kept: int = 0,
) -> Engine:
    """Return an engine with the pinned settings, on one of SQLAlchemy's drivers.

    It keeps at most `most_kept` unused connections, until it is disposed of; with 0 none, but within
    `keeping_sessions`. A session that gets locks or settings of its own is to be opened by `open_session`. Its URL has
    only the database's name. Raises `UrlNotRead`, `PostgresNeeded`.
    """
    if most_kept:
        # A kept connection may have been lost meanwhile.
        return _make_engine(
            url, application_name, settings, driver, pool_size=most_kept, max_overflow=-1, pool_pre_ping=True
        )
    return _find_engine(url, application_name, tuple(settings.items()), driver)


@lru_cache(maxsize=_MOST_ENGINES)
def _find_engine(
    url: str | DatabaseUrl, application_name: str, settings: tuple[tuple[str, str], ...], driver: str
) -> Engine:
    """Return an engine that keeps no connection. It is reused, so that it need not query its server and compile
    statements again.
    """
    from rowtide.databases.postgres.session_pool import PoolOfOperations

    return _make_engine(url, application_name, dict(settings), driver, poolclass=PoolOfOperations)


def _make_engine(
    url: str | DatabaseUrl, application_name: str, settings: Mapping[str, str], driver: str, **pool: Any
) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.engine import URL

    from rowtide.databases.postgres.compiled_statements import COMPILED_ONCE

    parsed = _parse(url)
    own = {"application_name": application_name, **network_parameters(parsed)}
    engine = create_engine(
        URL.create(f"postgresql+{driver}", database=parsed.database),
        **pool,
        # Each new engine would look up the type, which is never found under rowtide's search_path.
        use_native_hstore=False,
        connect_args={name: value for name, value in {**parsed.parameters, **own}.items() if name != "options"},
        hide_parameters=True,
        execution_options={"compiled_cache": COMPILED_ONCE},
    )
    _supply_password(engine, parsed)
    if driver == "psycopg":
        _watch(engine, parsed, settings)
    else:
        _connect_with_options(engine, parsed)
        _pin_first(engine, settings)
    event.listen(engine, "engine_connect", _read_views)
    return engine


@contextmanager
def open_session(engine: Engine) -> Iterator[Connection]:
    """Open a connection whose session ends with the block, also if the engine keeps connections.

    Raises `TransactionsPooled`.
    """
    with engine.connect() as connection:
        require_session(connection.connection.driver_connection)
        try:
            yield connection
        finally:
            connection.invalidate()


def open_engine_beside(connection: psycopg.Connection) -> Engine:
    """Return an engine for a connection's database, like one of `open_engine`."""
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    from rowtide.databases.postgres.compiled_statements import COMPILED_ONCE

    conninfo = make_conninfo(connection.info.dsn, password=connection.info.password or None)
    engine = create_engine(
        "postgresql+psycopg://",
        poolclass=NullPool,
        creator=lambda: _connect_exactly(conninfo),
        hide_parameters=True,
        use_native_hstore=False,
        execution_options={"compiled_cache": COMPILED_ONCE},
    )
    _pin_first(engine, PINNED_SETTINGS)
    event.listen(engine, "engine_connect", _read_views)
    return engine


def _connect_exactly(conninfo: str) -> psycopg.Connection:
    """Open a connection that returns values that Python's types lack as text.

    These are intervals, since a month is not thirty days, and times that are infinite, before Christ or far in the
    future.
    """
    connection = WatchedConnection.connect(conninfo)
    connection.adapters.register_loader("interval", TextLoader)
    for name, loader in _TIME_LOADERS.items():
        connection.adapters.register_loader(name, loader)
    return connection


class _LoaderOfAllTimes(Loader):
    within: ClassVar[type[Loader]]
    """Load a value that Python's type can hold."""

    def __init__(self, oid: int, context: abc.AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._within = self.within(oid, context)

    def load(self, data: abc.Buffer) -> object:
        try:
            return self._within.load(data)
        except psycopg.DataError:
            return bytes(data).decode()


class _DateLoader(_LoaderOfAllTimes):
    within = DateLoader


class _TimestampLoader(_LoaderOfAllTimes):
    within = TimestampLoader


class _TimestamptzLoader(_LoaderOfAllTimes):
    within = TimestamptzLoader


_TIME_LOADERS = {"date": _DateLoader, "timestamp": _TimestampLoader, "timestamptz": _TimestamptzLoader}


def load_texts(connection: Connection) -> None:
    """Let a connection return every value as the server's text from now on."""
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    for known in session.adapters.types:
        for type_code in filter(None, (known.oid, known.array_oid)):
            session.adapters.register_loader(type_code, TextLoader)


def open_url(
    url: str | DatabaseUrl,
    *,
    application_name: str = "rowtide",
    settings: Mapping[str, str] = PINNED_SETTINGS,
    for_queries: bool = False,
) -> psycopg.Connection:
    """Open a connection in autocommit mode. With `for_queries`, single ones, it needs no session of its own.

    Raises `ConnectionFailed`, `UrlNotRead`, `PostgresNeeded`, `TransactionsPooled`.
    """
    parsed = _parse(url)

    def connect(kind: type[WatchedConnection], options: str) -> WatchedConnection:
        return kind.connect(make_conninfo(conninfo, options=options), autocommit=True)

    with translated():
        conninfo = make_conninfo(libpq_url(parsed), application_name=application_name, **network_parameters(parsed))
        connection, _ = _open_pinned(parsed, connect, settings)
        if not for_queries:
            try:
                require_session(connection)
            except TransactionsPooled:
                connection.close()
                raise
    return connection


def _watch(engine: Engine, url: DatabaseUrl, settings: Mapping[str, str]) -> None:
    """Give the answers to an engine's connections a deadline, and pin their settings before SQLAlchemy's own queries.

    Within `reading_once` each query is run once.
    """
    from sqlalchemy import event

    from rowtide.databases.postgres.repeated_reading import choose_cursor

    def connect(_dialect: Any, record: Any, arguments: Any, given: Any) -> WatchedConnection:
        def connect_as(kind: type[WatchedConnection], options: str) -> WatchedConnection:
            return kind.connect(*arguments, **given, options=options, autocommit=True, cursor_factory=choose_cursor())

        opened, found = _open_pinned(url, connect_as, settings)
        record.info.update(found)
        opened.autocommit = False
        return opened

    event.listen(engine, "do_connect", connect)


def _connect_with_options(engine: Engine, url: DatabaseUrl) -> None:
    """Connect by the driver's own function, with options that a pooler may refuse."""
    from sqlalchemy import event

    def connect(dialect: Any, _record: Any, arguments: Any, given: Any) -> Any:
        return connect_without_options(
            lambda options: dialect.connect(*arguments, **given, options=options),
            options_of(url),
            url.parameters.get("options", ""),
        )

    event.listen(engine, "do_connect", connect)


def _supply_password(engine: Engine, url: DatabaseUrl) -> None:
    """Read the password for each connection: an engine may live longer than a password."""
    from sqlalchemy import event

    def supply(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
        password = read_password(url)
        if password is not None:
            options["password"] = password

    event.listen(engine, "do_connect", supply)


def _pin_first(engine: Engine, settings: Mapping[str, str]) -> None:
    """Pin the settings of an engine's connections before SQLAlchemy's own queries; each needs a session of its own."""
    from sqlalchemy import event

    def pin(connection: WatchedConnection, record: Any) -> None:
        connection.autocommit = True
        record.info.update(pin_session(connection, settings))
        connection.autocommit = False

    event.listen(engine, "connect", pin, insert=True)


def _read_views(connection: Connection) -> None:
    """Let a monitor's queries read the views of rowtide's tables."""
    monitored: frozenset[str] = connection.info[MONITORED]
    if monitored:
        schemas = map_schemas(connection, {name: name for name in monitored})
        connection.execution_options(schema_translate_map=schemas)


def _open_pinned(
    url: DatabaseUrl, connect: Callable[[type[WatchedConnection], str], WatchedConnection], settings: Mapping[str, str]
) -> tuple[WatchedConnection, Found]:
    """Open a connection in autocommit mode with `options`, and pin its settings, with or without a pooler."""
    own, given = options_of(url), url.parameters.get("options", "")
    opened = connect_without_options(partial(connect, WatchedConnection), own, given)
    try:
        return opened, pin_session(opened, settings)
    except TransactionsPooled:
        opened.close()
    pooled = connect_without_options(partial(connect, PooledConnection), own, given)
    assert isinstance(pooled, PooledConnection)
    return pooled, pin_each_transaction(pooled, settings)


def network_parameters(url: DatabaseUrl) -> dict[str, str]:
    """Return libpq's connection parameters about the network, where the URL has none."""
    network = _DEAD_AFTER | {"tcp_user_timeout": _UNANSWERED_MS, "connect_timeout": _CONNECT_S}
    return {name: value for name, value in network.items() if name not in url.parameters}


def options_of(url: DatabaseUrl) -> str:
    """Return the URL's `options` and ours: before the first statement they set settings that all servers know."""
    ours = {f"tcp_{name}": value for name, value in _DEAD_AFTER.items()} | {"tcp_user_timeout": _UNANSWERED_MS}
    options = " ".join(f"-c {name}={value}" for name, value in (ours | NO_TIME_LIMITS).items())
    return f"{url.parameters.get('options', '')} {options}".lstrip()


def open_replication_connection(url: str, *, application_name: str) -> PGconn:
    """Open a replication connection; its settings are not pinned yet.

    Raises `ConnectionFailed`, `NoFreeSender`, `NoReplicationRight`, `ReplicationPooled`.
    """
    target = find_replication_url(url)
    own = {"options": options_of(target), **network_parameters(target)}
    parameters = {"replication": "database", "application_name": application_name, **own}
    return _connect_to_replicate(_with_parameters(libpq_url(target), parameters))


def require_replication_right(connection: Connection) -> None:
    """Raise `NoReplicationRight` if the connection's role may not replicate, by trying it.

    A managed service grants the right through a group, whose members lack the attribute in pg_roles. Other reasons for
    a refusal (pg_hba.conf, a pooler, no free sender) do not tell whether the role has the right.
    """
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    conninfo = make_conninfo(session.info.dsn, password=session.info.password or None, replication="database")
    with suppress(ConnectionFailed, NoFreeSender, ReplicationPooled):
        _connect_to_replicate(conninfo).finish()


def _connect_to_replicate(conninfo: str) -> PGconn:
    connection = pq.PGconn.connect(conninfo.encode())
    if connection.status != pq.ConnStatus.OK:
        raise _connection_error(connection.user.decode(), connection.get_error_message())
    return connection


def _with_parameters(url: str, parameters: dict[str, str]) -> str:
    return url + ("&" if "?" in url else "?") + urlencode(parameters).replace("+", "%20")


def _connection_error(role: str, message: str) -> Exception:
    reason = " ".join(message.split())
    if refuses_parameters(reason):
        return ReplicationPooled(reason)
    if "permission denied to start WAL sender" in reason or "must be superuser or replication role" in reason:
        return NoReplicationRight(role, quote(role))
    if "too many clients" in reason:
        return NoFreeSender()
    return translate_connection_text(reason)
