"""The demo's workload: pgbench's TPC-B on an embedded PostgreSQL, between two manual bookings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg

from rowtide.core.lsn import parse_log_position
from rowtide.core.values import frozen
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.demo.errors import ProcessSilent
from rowtide.demo.processes import Child, Directory

KEYS = {"pgbench_accounts": "aid", "pgbench_branches": "bid", "pgbench_tellers": "tid", "pgbench_history": None}
"""The workload's tables with their primary keys; the history has none."""

TARGETED = "pgbench_accounts"
"""The table that targets follow."""

NULL = r"\N"
"""Represents NULL in copies of the tables."""

SCALE = 10
CLIENTS = 4
TRANSACTIONS_PER_S = 100
"""Rate for pgbench: on two cores, PostgreSQL, the log reader, the agent with its JVM and the checker share the rest."""

ACCOUNT, TELLER, BRANCH = 4711, 7, 1
"""Of the bookings by hand."""
DEPOSIT, WITHDRAWAL = 500, -120

_INITIALIZE_TIMEOUT_S = 300
_SESSIONS_END_TIMEOUT_S = 30


@frozen
class SourceState:
    """State of the source: number of committed transactions, and the log position before or after them."""

    transactions: int
    log_position: int


class Workload:
    """pgbench's tables in one database; `connection` is in autocommit."""

    def __init__(
        self, server: EmbeddedServer, connection: psycopg.Connection[tuple[object, ...]], directory: Directory
    ) -> None:
        self._server = server
        self._directory = directory
        self._connection = connection

    @classmethod
    @contextmanager
    def open(cls, server: EmbeddedServer, directory: Directory) -> Iterator[Workload]:
        """Connect to the server."""
        with psycopg.connect(server.url(), autocommit=True, application_name="rowtide demo") as connection:
            yield cls(server, connection, directory)

    def server_version(self) -> str:
        """Return PostgreSQL's version."""
        return str(self._ask("select current_setting('server_version')")).split()[0]

    def initialize(self) -> None:
        """Create and fill the tables. Raises `ProcessEnded`."""
        command = [self._program("pgbench"), "--initialize", f"--scale={SCALE}", "--quiet"]
        with Child("pgbench-initialize", command, self._directory, environment=self._server.environment()) as child:
            child.wait(_INITIALIZE_TIMEOUT_S)

    def start(self, *, seconds: int) -> Child:
        """Start TPC-B; it ends when stopped, or after `seconds`."""
        command = [
            self._program("pgbench"),
            "--builtin=tpcb-like",
            f"--client={CLIENTS}",
            f"--rate={TRANSACTIONS_PER_S}",
            f"--time={seconds}",
            "--progress=5",
            "--no-vacuum",  # which also truncates the history
        ]
        return Child("pgbench", command, self._directory, environment=self._server.environment())

    def state(self) -> SourceState:
        """Query the source's state."""
        row = self._connection.execute("select count(*), pg_current_wal_lsn()::text from pgbench_history").fetchone()
        assert row is not None
        return SourceState(int(str(row[0])), parse_log_position(str(row[1])))

    def await_end_of_sessions(self) -> None:
        """Wait until pgbench has no session left: one whose client has ended may still be committing.

        Raises `ProcessSilent`.
        """
        deadline = time.monotonic() + _SESSIONS_END_TIMEOUT_S
        while self._ask("select count(*) from pg_stat_activity where application_name = 'pgbench'"):
            if time.monotonic() > deadline:
                raise ProcessSilent("PostgreSQL", _SESSIONS_END_TIMEOUT_S, "sessions of pgbench do not end")
            time.sleep(0.05)

    def book(self, delta: int) -> int:
        """Commit a TPC-B transaction on `ACCOUNT`; return a log position at or below that of its commit.

        Every earlier commit is below it.
        """
        given = {"delta": delta, "account": ACCOUNT, "teller": TELLER, "branch": BRANCH}
        with self._connection.transaction():
            for statement in _BOOKING:
                self._connection.execute(statement, given)
            return parse_log_position(str(self._ask("select pg_current_wal_insert_lsn()::text")))

    def copy_tables(self, folder: Path) -> None:
        """Write the tables as CSV, every value the server's own text in quotes. Raises `ProcessEnded`."""
        copies = [
            f"\\copy {table} to '{folder / table}.csv' with (format csv, header, force_quote *, null '{NULL}')"
            for table in KEYS
        ]
        command = [self._program("psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
        command += [f"--command={copy}" for copy in copies]
        with Child("psql", command, self._directory, environment=self._server.environment()) as child:
            child.wait(_INITIALIZE_TIMEOUT_S)

    def _program(self, name: str) -> str:
        return str(self._server.binary(name))

    def _ask(self, query: LiteralString) -> object:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row[0]


_BOOKING = (
    "update pgbench_accounts set abalance = abalance + %(delta)s where aid = %(account)s",
    "update pgbench_tellers set tbalance = tbalance + %(delta)s where tid = %(teller)s",
    "update pgbench_branches set bbalance = bbalance + %(delta)s where bid = %(branch)s",
    "insert into pgbench_history values (%(teller)s, %(branch)s, %(account)s, %(delta)s, current_timestamp)",
)
