"""Errors of comparing rows and repairing them: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import Invalid, Retryable, RowtideError


class ValidationFailed(RowtideError, number=20574):
    """Rows at subscribers differ from the published rows (SQL Server: 20574)."""

    fact = "{failed} of {count} articles at subscribers of {publication} differ from the published rows"
    hint = "Run `rowtide replication validate {publication} --differences`, which lists the rows that differ."
    publication: str
    failed: int
    count: int


class ArticlesNotCompared(Retryable, number=7235):
    """Some articles could not be compared: the reasons are listed."""

    fact = "{count} articles at subscribers of {publication} could not be compared with the published rows: {reasons}"
    hint = """What is on its way passes: validate again once everything is delivered, or with --wait. Of a table that
        was dropped, drop the article; what else keeps tables from being compared is named."""
    publication: str
    count: int
    reasons: str


class SubscriberRowsDiffer(RowtideError, number=7237):
    """Rows at subscribers differ from the published rows, which are listed."""

    fact = "{count} rows at subscribers of {publication} differ from the published ones"
    hint = """Run `rowtide replication validate {publication} --repair`, or `rowtide replication reinitialize
        {publication}`, which copies all rows."""
    publication: str
    count: int


class RowsNotRepaired(RowtideError, number=7238):
    """Rows at subscribers still differ from the published rows after a repair."""

    fact = "{count} rows at subscribers of {publication} were not repaired: {extra} extra, {refused} refused"
    hint = "--delete-extra deletes extra rows, which may be what others are refused for; the reasons are listed."
    publication: str
    count: int
    extra: int
    refused: int


class RowKeyInvalid(Invalid, number=7239):
    """A row is looked up by something other than its key."""

    fact = "no row of {table} can be found by {key}: {reason}"
    hint = "Give one value for each column of the primary key, in its order: rowtide replication row TABLE KEY..."
    table: str
    key: str
    reason: str


class LogNotRead(Retryable, number=7236):
    """A process holds the right to read the log, but does not read it."""

    fact = "the log was not read beyond LSN {position} for {seconds} s"
    hint = "`rowtide replication status` reports what prevents reading it."
    position: str
    seconds: int
