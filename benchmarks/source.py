"""A real PostgreSQL with a log to read."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import psycopg

from rowtide.cdc.api import ChangeDataCapture
from rowtide.core.lsn import format_log_position
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState
from rowtide.targets import Targets

SETTINGS = {
    "max_wal_size": "8GB",
    "max_replication_slots": "100",
    "max_wal_senders": "100",
}


@dataclass(frozen=True, slots=True)
class Login:
    """How the server is reached over TCP: on 127.0.0.1, with a password made for this run."""

    port: int
    user: str
    password: str

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}:{self.password}@127.0.0.1:{self.port}/postgres"


@dataclass(frozen=True, slots=True)
class Source:
    """A server, the folder everything lies in, and how it is reached: over TCP, or over its local socket."""

    server: EmbeddedServer
    folder: Path
    login: Login
    over_socket: bool
    place: str
    """Where the lake is: the folder, or a URL of an object store."""

    @property
    def url(self) -> str:
        return self.server.url("postgres") if self.over_socket else self.login.url

    @property
    def lake(self) -> str:
        return f"{self.place}/lake"

    @property
    def cdc(self) -> ChangeDataCapture:
        return connect(self.url).cdc

    @property
    def targets(self) -> Targets:
        return connect(self.url).targets

    def execute(self, statement: str) -> str:
        """Run a statement and return its first value as text, empty where there is none."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description is not None else None
        return "" if row is None else str(row[0])

    def write(self, statements: Iterable[str]) -> None:
        """Run statements in one session, each a transaction of its own; none waits for the disk."""
        with psycopg.connect(self.url, autocommit=True, options="-c synchronous_commit=off") as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def enable(self, tables: Iterable[str]) -> None:
        """Enable the database, and capture of these tables' changes, without the rows that they have."""
        self.cdc.enable_db(self.lake)
        for table in tables:
            self.cdc.enable_table(table, snapshot=False)

    def mark(self) -> str:
        """Return the log's end, on disk; a transaction behind it is there to be reached."""
        end = self.execute("select pg_current_wal_insert_lsn()")
        self.execute("insert into rowtide.control (kind, content) values ('mark', '')")
        return end

    def read_log_store(self) -> ManifestState:
        """Return where our log reader stands."""
        return Manifest.open(open_store(self.cdc.get_source().log_store)).state

    def copy_slot(self, name: str) -> str:
        """Make a slot that stands where our log reader stands, and return its name."""
        # What the reader confirmed last may not have reached the server when it ended.
        position = format_log_position(self.read_log_store().position.log)
        self.execute(f"select pg_copy_logical_replication_slot('{self.cdc.get_source().slot}', '{name}')")
        self.execute(f"select pg_replication_slot_advance('{name}', '{position}')")
        return name


@contextmanager
def open_source(
    folder: Path,
    *,
    over_socket: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
    place: str | None = None,
) -> Iterator[Source]:
    """Start a server in a folder; it listens on 127.0.0.1 too, where nobody comes in without the login.

    The lake is in the folder too, or at `place`.
    """
    login = Login(_free_port(), "benchmark", secrets.token_urlsafe())
    data = folder / "postgres"
    with EmbeddedServer.start(data) as server:
        _create_role(server, login)
    # Emptied and written, not replaced: it belongs to the server's user.
    (data / "data" / "pg_hba.conf").write_text(_RULES)
    listening = {**SETTINGS, **settings, "listen_addresses": "127.0.0.1", "port": str(login.port)}
    with EmbeddedServer.start(data, settings=listening) as server:
        yield Source(server, folder, login, over_socket, place or str(folder))


_RULES = """\
local all all trust
local replication all trust
host all benchmark 127.0.0.1/32 scram-sha-256
host replication benchmark 127.0.0.1/32 scram-sha-256
"""


def _create_role(server: EmbeddedServer, login: Login) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        statement = f"create role {login.user} login superuser password '{login.password}'"
        connection.execute(statement.encode())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
