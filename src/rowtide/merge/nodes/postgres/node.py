"""A PostgreSQL database as a node of a merge."""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import Engine

from rowtide.databases.postgres.batching import open_batching_engine
from rowtide.databases.postgres.silence import MERGE
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.merge.articles import DeviceLimits
from rowtide.merge.nodes.postgres.actions import PostgresActions
from rowtide.merge.nodes.postgres.changes import PostgresChanges
from rowtide.merge.nodes.postgres.execution import SETTINGS
from rowtide.merge.nodes.postgres.numbering import PostgresKeys
from rowtide.merge.nodes.postgres.rows import PostgresRows, PostgresVersions
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.tables.rebuilt import PostgresRebuiltTables
from rowtide.merge.nodes.postgres.tables.tables import PostgresTables
from rowtide.merge.nodes.postgres.writing.writer import PostgresWriter


def open_node(url: str | DatabaseUrl, limits: DeviceLimits | None = None) -> PostgresNode:
    """Connect to the database that a URL names. Raises `ConnectionFailed`."""
    return PostgresNode(_engine_of(parse_url(url)), limits)


@lru_cache(maxsize=8)
def _engine_of(url: DatabaseUrl) -> Engine:
    """Return a database's engine: without a pool, but with the statements that were compiled for earlier nodes."""
    return open_batching_engine(url, application_name=MERGE, settings=SETTINGS)


class PostgresNode(PostgresSession):
    """See `Node`."""

    def __init__(self, engine: Engine, limits: DeviceLimits | None = None) -> None:
        super().__init__(engine, limits)
        self.tables = PostgresTables(self)
        self.rebuilt = PostgresRebuiltTables(self)
        self.rows = PostgresRows(self)
        self.actions = PostgresActions(self)
        self.versions = PostgresVersions(self, self.rows)
        self.writer = PostgresWriter(self)
        self.keys = PostgresKeys(self, self.writer)
        self.changes = PostgresChanges(self)

    def accept(self, form: str | None, place: str, definition: str | None) -> None:
        self.tables.accept(form, place, definition)
