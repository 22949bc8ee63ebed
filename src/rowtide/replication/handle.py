"""A publisher, by its URL: what the parts of `rowtide.connect(url).replication` share."""

from __future__ import annotations

from rowtide.databases.postgres.connect import open_engine


class ReplicationHandle:
    """A PostgreSQL database that publishes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = open_engine(url)
