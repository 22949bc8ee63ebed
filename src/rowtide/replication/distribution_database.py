"""The distribution database: a schema of the publisher's, with SQL Server's tables."""

from __future__ import annotations

from sqlalchemy import Connection
from sqlalchemy.schema import CreateSchema

from rowtide.replication import definitions, history, retention, tracers

_MODULES = (definitions, history, retention, tracers)
"""What each keeps is in the metadata that they share, once it is imported."""


def make(connection: Connection) -> None:
    """Make what is not there yet."""
    connection.execute(CreateSchema(definitions.SCHEMA, if_not_exists=True))
    for module in _MODULES:
        module.metadata.create_all(connection)
    retention.record_defaults(connection)
