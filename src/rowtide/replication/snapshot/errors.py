"""Errors of snapshots, and of where subscriptions begin."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class CopyUnreadable(RowtideError):
    """A published table could not be read for a snapshot."""

    number = 7130
    fact = "published table {table} could not be copied: {reason}"
    hint = "Grant select on it to the agent's role; after a change of the table drop the subscription and the article."
    table: str
    reason: str


@numbered
class CopyRefused(RowtideError):
    """The subscriber refused a published table's rows, or its constraints after them."""

    number = 7131
    fact = "the subscriber refused the snapshot of {table} ({sqlstate}): {reason}"
    hint = "Mend the subscriber, and the copy goes on; or drop the subscription and add it again with --if-exists drop."
    table: str
    sqlstate: str
    reason: str


@numbered
class SubscriberTableExists(RowtideError):
    """A snapshot makes its tables, unless it is told what to do with those that are there."""

    number = 7132
    fact = "the subscriber has a table {table} already"
    hint = (
        "Say what becomes of it: --if-exists keep, delete, truncate or drop; or --sync-type replication-support-only."
    )
    table: str


@numbered
class SubscriberTableConstrained(RowtideError):
    """Between two chunks of a copy a subscriber is in no state that the publisher had: constraints would refuse it."""

    number = 7133
    fact = "the subscriber's table {table} has {constraints}, which may not hold while rows are copied"
    hint = (
        "Drop them there, and add them again when the snapshot is delivered; or let rowtide make it: --if-exists drop."
    )
    table: str
    constraints: str


@numbered
class LsnNotKept(RowtideError):
    """A subscription can begin only where the log store has all changes from."""

    number = 7134
    fact = "changes from LSN {lsn} on are not all in the log store: it has {low} to {position}"
    hint = "Use a newer backup, or --sync-type automatic."
    lsn: str
    low: str
    position: str


@numbered
class LsnNotGiven(RowtideError):
    """`from-lsn` needs the LSN, and nothing else does."""

    number = 7135
    fact = "sync type {sync_type} {needs} an LSN"
    hint = "--lsn goes with --sync-type from-lsn."
    sync_type: str
    needs: str


@numbered
class ProceduresMissing(RowtideError):
    """With sync type `none` nothing is made at the subscriber: what calls need must be there."""

    number = 7136
    fact = "the subscriber has no procedure {procedure}"
    hint = (
        "Run what `rowtide replication script-procedures` prints there, or choose --sync-type replication-support-only."
    )
    procedure: str
