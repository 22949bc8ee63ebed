"""A real PostgreSQL with a log to read: narrow rows in transactions of 5,000."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from rowtide.cdc.api import ChangeDataCapture
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect

ROWS_PER_TRANSACTION = 5_000
TABLE = "narrow"


@dataclass(frozen=True, slots=True)
class Source:
    """A server, its one enabled table, and the folder everything lies in."""

    server: EmbeddedServer
    folder: Path

    @property
    def url(self) -> str:
        return self.server.url("postgres")

    @property
    def cdc(self) -> ChangeDataCapture:
        return connect(self.url).cdc

    def execute(self, statement: str) -> str:
        """Run a statement and return its first value as text, empty where there is none."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            row = cursor.fetchone() if cursor.description is not None else None
        return "" if row is None else str(row[0])

    def insert(self, rows: int, *, first: int) -> None:
        """Insert rows, a transaction every `ROWS_PER_TRANSACTION`."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for start in range(first, first + rows, ROWS_PER_TRANSACTION):
                end = min(start + ROWS_PER_TRANSACTION, first + rows) - 1
                statement = f"insert into {TABLE} select i, i % 1000, i * 7 from generate_series({start}, {end}) i"
                connection.execute(statement)

    def copy_slot(self, name: str) -> str:
        """Make a slot that stands where ours stands, and return its name."""
        ours = self.cdc.source().slot
        self.execute(f"select pg_copy_logical_replication_slot('{ours}', '{name}')")
        return name


@contextmanager
def open_source(folder: Path) -> Iterator[Source]:
    """Start a server with one enabled table."""
    settings = {"max_wal_size": "4GB", "max_replication_slots": "20", "max_wal_senders": "20"}
    with EmbeddedServer.start(folder / "postgres", settings=settings) as server:
        source = Source(server, folder)
        source.execute(f"create table {TABLE} (id bigint primary key, bucket int, amount bigint)")
        source.cdc.enable_db(str(folder / "lake"))
        source.cdc.enable_table(TABLE)
        yield source
