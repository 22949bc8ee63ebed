"""A publisher, by its URL, and the record of how its log is read, which the first publication makes, or capture."""

from __future__ import annotations

from sqlalchemy import (
    Connection,
)

from rowtide.core.formats import Requirement, StoreFormat
from rowtide.databases.postgres.connect import open_engine
from rowtide.log import catalogue
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.source_definition import SourceDefinition
from rowtide.replication.errors.publishing import DatabaseNotPublished


def read_source(
    connection: Connection, database: str, require: Requirement = StoreFormat.require_writable
) -> SourceDefinition:
    """Return the definition of the publisher's source.

    Raises `DatabaseNotPublished`, `DatabaseCopied`; as `require` for another format.
    """
    try:
        return catalogue.read_source(connection, database, require)
    except DatabaseNotEnabled as error:
        raise DatabaseNotPublished(error.database) from None


class ReplicationHandle:
    """A PostgreSQL database that publishes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = open_engine(url)
