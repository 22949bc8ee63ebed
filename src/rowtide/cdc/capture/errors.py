"""Errors that stop capture, or keep it from beginning. SQL Server's numbers where it has one, else 4xxx."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class RelationChanged(RowtideError):
    """A captured table's shape in the log changed; capture stops before that transaction."""

    number = 4105
    fact = "table {table} changed at LSN {lsn}: {change}; capture stands before it"
    hint = "Disable instance {instance} and enable it again: what the log lacks of its rows is nowhere else."
    table: str
    lsn: str
    change: str
    instance: str


@numbered
class DefinitionsIncomplete(RowtideError):
    """An earlier version of rowtide enabled the database, and made less."""

    number = 4109
    fact = "tables are missing in schema cdc: {tables}; an earlier version of rowtide enabled this database"
    hint = "Run `rowtide cdc enable-db` again as the role that did: it makes what is missing and keeps the rest."
    tables: str


@numbered
class LakeBehindLog(RowtideError):
    """The log store no longer has what the lake needs next."""

    number = 4106
    fact = "the lake is at {lake}, but the log store starts at {log_store}"
    hint = "The lake is older than the log store (restored?): run `rowtide cdc reinitialize`; it says what is lost."
    lake: str
    log_store: str
