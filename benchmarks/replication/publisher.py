"""One server with a publisher, `postgres`, and subscribers beside it that have its tables and rows."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.source import Source, open_source
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.control_table import mark_log
from rowtide.replication.api import TransactionalReplication
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.subscription_settings import SyncType

PUBLICATION = "measured"
_SETTINGS = {
    "max_logical_replication_workers": "24",
    "max_worker_processes": "40",
    "track_commit_timestamp": "on",
    "max_prepared_transactions": "8",
}
_PATIENCE_S = 600.0
_POLL_S = 0.01


class NotReplicated(Exception):
    """A subscriber does not come to the point that is waited for, or has other rows."""


class Publisher:
    """A source, and databases on its server that are subscribers."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.url = source.url

    @property
    def replication(self) -> TransactionalReplication:
        return connect(self.url).replication

    def url_of(self, database: str) -> str:
        """Return the URL of a database on the same server."""
        return self.source.server.url(database)

    def query(self, database: str, statement: str) -> tuple[Any, ...]:
        """Run a statement in a database; return its first row, empty where there is none."""
        with psycopg.connect(self.url_of(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            row = cursor.fetchone() if cursor.description is not None else None
        return row or ()

    def create(self, database: str, template: str = "template0") -> None:
        """Create a database; as a copy of the publisher, which nobody may be connected to, if that is the template."""
        self.query("template1", f"create database {database} template {template} strategy file_copy")

    def publish(self, *tables: str) -> None:
        """Publish tables through rowtide and, from the same log, through PostgreSQL's own publication."""
        self.source.cdc.enable_db(self.source.lake)
        self.replication.add_publication(PUBLICATION)
        for table in tables:
            self.replication.add_article(PUBLICATION, table)
        self.query("postgres", f"create publication native for table {', '.join(tables)}")

    def subscribe(self, database: str) -> Subscription:
        """Let rowtide deliver to a database, which has tables and rows, all that commits from now on."""
        self.subscribe_at(self.url_of(database))
        return self.find(database)

    def subscribe_at(self, url: str) -> None:
        """As `subscribe`, a database that is reached by this URL."""
        self.replication.add_subscription(PUBLICATION, url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY)

    def find(self, database: str) -> Subscription:
        """Return the subscription of a database."""
        with open_engine(self.url).connect() as connection:
            known = subscription_records.list_subscriptions(connection, PUBLICATION)
        return next(found for found in known if found.subscriber == self.url_of(database))

    def mark(self) -> int:
        """Return a log position behind all that is committed."""
        with open_engine(self.url).begin() as connection:
            return mark_log(connection)

    def read_log(self, target: int) -> float:
        """Read the log into the log store up to a position; return the seconds."""
        began = time.monotonic()
        with open_log_reader(self.url) as reader:
            while reader.position.log <= target:
                reader.step()
        return time.monotonic() - began


@contextmanager
def open_publisher() -> Iterator[Publisher]:
    """Start a server in a temporary folder; all reach it over its local socket, which needs no password."""
    with (
        tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder,
        open_source(Path(folder), over_socket=True, settings=_SETTINGS) as source,
    ):
        yield Publisher(source)


def await_fact(is_so: Callable[[], bool], awaited: str) -> float:
    """Return the seconds until something is so. Raises `NotReplicated`."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > _PATIENCE_S:
            raise NotReplicated(awaited)
        time.sleep(_POLL_S)
    return time.monotonic() - began
