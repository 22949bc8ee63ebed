"""Errors of subscriptions and their settings: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, RowtideError


class SubscriptionUnknown(NotFound, number=14055):
    """There is no such subscription (SQL Server: 14055)."""

    fact = "{subscriber} has no subscription to publication {publication}"
    hint = "`rowtide replication status` lists subscriptions."
    publication: str
    subscriber: str


class SubscriberUnknown(NotFound, number=7260):
    """No publication of the database is delivered to this subscriber."""

    fact = "{subscriber} subscribes to no publication"
    hint = "`rowtide replication status` lists subscribers, as they have to be written."
    subscriber: str


class SubscriptionExists(AlreadyExists, number=14058):
    """A subscriber can subscribe to a publication only once (SQL Server: 14058)."""

    fact = "{subscriber} already subscribes to publication {publication}"
    hint = "Drop that subscription first."
    publication: str
    subscriber: str


class SubscriberIsPublisher(Invalid, number=7160):
    """A database cannot subscribe to itself."""

    fact = "{subscriber} is the publisher itself"
    hint = "Subscribe another database; a promoted copy of the publisher's server with --sync-type from-copy."
    subscriber: str


class SubscriberKnownOtherwise(AlreadyExists, number=7161):
    """A database can subscribe to a publication only once, however its URL is written (SQL Server: 14058)."""

    fact = "{subscriber} already subscribes to publication {publication}, as {known}"
    hint = "Drop that subscription first, by that URL."
    subscriber: str
    publication: str
    known: str


class NothingToSubscribe(Invalid, number=7111):
    """A publication without articles has nothing to deliver."""

    fact = "publication {publication} has no articles"
    hint = "Add one with `rowtide replication add-article {publication} TABLE`."
    publication: str


class SkipErrorsInvalid(Invalid, number=7170):
    """The list of errors to skip is malformed."""

    fact = '"{text}" is not an error that can be skipped'
    hint = "List error numbers ({numbers}) or five-character SQLSTATEs, separated by colons."
    text: str
    numbers: str


class PasswordGiven(Invalid, number=7124):
    """A subscriber's URL is stored, and must not contain a password."""

    fact = "the subscriber's URL has a password, which would be stored: {url}"
    hint = "Omit the password: the agent reads it from PGPASSWORD or the password file (~/.pgpass)."
    url: str


class SubscriberNotCleared(RowtideError, number=7172):
    """A subscription's metadata could not be removed from the subscriber."""

    fact = "the subscription of {subscriber} to {publication} is paused, but not dropped: {reason}"
    hint = """Repeat the command when the subscriber is reachable, or continue delivery with `rowtide replication resume
        {publication} --subscriber {subscriber}`. If the subscriber no longer exists, use `rowtide replication
        drop-subscription {publication} --subscriber {subscriber} --ignore-subscriber`."""
    subscriber: str
    publication: str
    reason: str


class LsnNotKept(DataLoss, number=7134):
    """The log store does not have all changes from the requested LSN on."""

    fact = "the log store lacks changes from LSN {lsn} on: it has {low} to {position}"
    hint = """Let `rowtide replication run` read that its articles are published, and stop it before the copy ends,
        until the subscription is added; use a newer copy, or --sync-type automatic."""
    lsn: str
    low: str
    position: str


class NotAPromotedCopy(Invalid, number=7234):
    """The subscriber's history does not show where it diverged from the publisher's."""

    fact = "{subscriber} is not a promoted copy of the publisher: {reason}"
    hint = """Make the copy with `pg_basebackup --write-recovery-conf`, and promote it once it has the log; or use
        --sync-type automatic, or from-lsn."""
    subscriber: str
    reason: str


class LsnNotGiven(Invalid, number=7135):
    """An LSN is required with `from-lsn`, and only then."""

    fact = "sync type {sync_type} {needs} an LSN"
    hint = "Use --lsn with --sync-type from-lsn, and only with it."
    sync_type: str
    needs: str


class SettingOutOfRange(Invalid, number=7210):
    """A subscription's setting is outside its range."""

    fact = "{setting} cannot be {value}"
    hint = "Choose a number from {least} to {most}."
    setting: str
    value: int
    least: int
    most: int


class StreamsUnsupported(Invalid, number=7211):
    """A SQLite file has one writer at a time, so a batch cannot be divided among connections."""

    fact = "a SQLite file is delivered to over one connection, not {streams}: {path}"
    hint = "Use --streams 1; larger batches, with --commit-batch-size, make fewer transactions."
    path: str
    streams: int


class PreparedTransactionsLacking(Denied, number=7212):
    """More than one stream needs a prepared transaction for each (PostgreSQL: max_prepared_transactions)."""

    fact = "{streams} streams need {needed} prepared transactions at {subscriber}, which allows {allowed}"
    hint = """Run `alter system set max_prepared_transactions = {needed}` there and restart that server; or use
        --streams 1."""
    subscriber: str
    streams: int
    needed: int
    allowed: int
