"""The publisher's record of how its log is read, which the first publication makes, or capture."""

from __future__ import annotations

from sqlalchemy import Connection

from rowtide.core.formats import Format
from rowtide.databases.format_views import Requirement
from rowtide.log import catalogue
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.source_definition import SourceDefinition
from rowtide.replication.errors.publishing import DatabaseNotPublished


def read_source(
    connection: Connection, database: str, require: Requirement = Format.require_writable
) -> SourceDefinition:
    """Return the definition of the publisher's source.

    Raises `DatabaseNotPublished`, `DatabaseCopied`; as `require` for another format.
    """
    try:
        return catalogue.read_source(connection, database, require)
    except DatabaseNotEnabled as error:
        raise DatabaseNotPublished(error.database) from None
