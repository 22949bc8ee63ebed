"""Errors of the distribution database: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Invalid, NotFound, Retryable


class DistributorUnreachable(Retryable, number=7263):
    """The distribution database, which is not the publisher, cannot be reached."""

    fact = "the distribution database {url} cannot be reached: {reason}"
    hint = "Start it, or check network and password; `rowtide replication move-distribution URL` names another place."
    url: str
    reason: str


class DistributionMoved(Retryable, number=7294):
    """The distribution database was moved, or the last publication dropped, while a statement on it waited or ran."""

    fact = "the distribution database was moved in the meantime: {reason}"
    hint = "An agent continues at the new place; repeat a command."
    reason: str


class DistributionElsewhere(AlreadyExists, number=7264):
    """The database has its distribution database at another place."""

    fact = "the distribution database of {database} is {found}, not {wanted}"
    hint = "Omit --distribution-db, or move it: `rowtide replication move-distribution {wanted}`."
    database: str
    found: str
    wanted: str


class DistributionMissing(NotFound, number=7265):
    """There is no distribution database at the recorded place."""

    fact = "there is no distribution database of this publisher at {url} (schema {schema})"
    hint = """Repeat an interrupted `rowtide replication add-publication NAME` or `rowtide replication drop-publication
        NAME`; or restore a dump of it, and name its place by `rowtide replication move-distribution URL`."""
    url: str
    schema: str


class NotADistributor(NotFound, number=7151):
    """The database has no publications, and so no retention."""

    fact = "the database {database} has no publications"
    hint = "Create one first with `rowtide replication add-publication NAME`."
    database: str


class PublicationThresholdInvalid(Invalid, number=7196):
    """A threshold of a publication is out of range."""

    fact = "a threshold of latency is a number of seconds, one of expiration 0 to 100 percent of the retention"
    hint = "Use whole numbers; 0 stands for the default, 300 seconds and 75 percent."


class DistributionRetentionInvalid(Invalid, number=7152):
    """A retention is at least one hour."""

    fact = "a retention of {hours} hours is not valid"
    hint = "Use a whole number of hours, at least 1; the default is 72."
    hours: int
