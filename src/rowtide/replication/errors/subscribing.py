"""Errors of subscriptions and their settings: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, RowtideError, numbered


@numbered
class SubscriptionUnknown(NotFound):
    """There is no such subscription (SQL Server: 14055)."""

    number = 14055
    fact = "{subscriber} has no subscription to publication {publication}"
    hint = "`rowtide replication status` lists subscriptions."
    publication: str
    subscriber: str


@numbered
class SubscriberUnknown(NotFound):
    """No publication of the database is delivered to this subscriber."""

    number = 7260
    fact = "{subscriber} subscribes to no publication"
    hint = "`rowtide replication status` lists subscribers, as they have to be written."
    subscriber: str


@numbered
class SubscriptionExists(AlreadyExists):
    """A subscriber can subscribe to a publication only once (SQL Server: 14058)."""

    number = 14058
    fact = "{subscriber} already subscribes to publication {publication}"
    hint = "Drop that subscription first."
    publication: str
    subscriber: str


@numbered
class SubscriberIsPublisher(Invalid):
    """A database cannot subscribe to itself."""

    number = 7160
    fact = "{subscriber} is the publisher itself"
    hint = "Subscribe another database; a promoted copy of the publisher's server with --sync-type from-copy."
    subscriber: str


@numbered
class SubscriberKnownOtherwise(AlreadyExists):
    """A database can subscribe to a publication only once, however its URL is written (SQL Server: 14058)."""

    number = 7161
    fact = "{subscriber} already subscribes to publication {publication}, as {known}"
    hint = "Drop that subscription first, by that URL."
    subscriber: str
    publication: str
    known: str


@numbered
class NothingToSubscribe(Invalid):
    """A publication without articles has nothing to deliver."""

    number = 7111
    fact = "publication {publication} has no articles"
    hint = "Add one with `rowtide replication add-article {publication} TABLE`."
    publication: str


@numbered
class SkipErrorsInvalid(Invalid):
    """The list of errors to skip is malformed."""

    number = 7170
    fact = '"{text}" is not an error that can be skipped'
    hint = "List error numbers ({numbers}) or five-character SQLSTATEs, separated by colons."
    text: str
    numbers: str


@numbered
class PasswordGiven(Invalid):
    """A subscriber's URL is stored, and must not contain a password."""

    number = 7124
    fact = "the subscriber's URL has a password, which would be stored: {url}"
    hint = "Omit the password: the agent reads it from PGPASSWORD or the password file (~/.pgpass)."
    url: str


@numbered
class SubscriberNotCleared(RowtideError):
    """A subscription's metadata could not be removed from the subscriber."""

    number = 7172
    fact = "the subscription of {subscriber} to {publication} is paused, but not dropped: {reason}"
    hint = (
        "Repeat the command when the subscriber is reachable, or continue delivery with `rowtide replication resume "
        "{publication} --subscriber {subscriber}`. If the subscriber no longer exists, use `rowtide replication "
        "drop-subscription {publication} --subscriber {subscriber} --ignore-subscriber`."
    )
    subscriber: str
    publication: str
    reason: str


@numbered
class LsnNotKept(DataLoss):
    """The log store does not have all changes from the requested LSN on."""

    number = 7134
    fact = "the log store lacks changes from LSN {lsn} on: it has {low} to {position}"
    hint = (
        "Let `rowtide replication run` read that its articles are published, and stop it before the copy ends, until "
        "the subscription is added; use a newer copy, or --sync-type automatic."
    )
    lsn: str
    low: str
    position: str


@numbered
class NotAPromotedCopy(Invalid):
    """The subscriber's history does not tell where it left the publisher's."""

    number = 7234
    fact = "{subscriber} is not a promoted copy of the publisher: {reason}"
    hint = (
        "Make the copy with `pg_basebackup --write-recovery-conf`, and promote it once it has the log; "
        "or use --sync-type automatic, or from-lsn."
    )
    subscriber: str
    reason: str


@numbered
class LsnNotGiven(Invalid):
    """An LSN is required with `from-lsn`, and only then."""

    number = 7135
    fact = "sync type {sync_type} {needs} an LSN"
    hint = "Use --lsn with --sync-type from-lsn, and only with it."
    sync_type: str
    needs: str


@numbered
class SettingOutOfRange(Invalid):
    """A subscription's setting is outside its range."""

    number = 7210
    fact = "{setting} cannot be {value}"
    hint = "Choose a number from {least} to {most}."
    setting: str
    value: int
    least: int
    most: int


@numbered
class StreamsUnsupported(Invalid):
    """A SQLite file has one writer at a time, so a batch cannot be divided among connections."""

    number = 7211
    fact = "a SQLite file is delivered to over one connection, not {streams}: {path}"
    hint = "Use --streams 1; larger batches, with --commit-batch-size, make fewer transactions."
    path: str
    streams: int


@numbered
class PreparedTransactionsLacking(Denied):
    """More than one stream needs a prepared transaction for each (PostgreSQL: max_prepared_transactions)."""

    number = 7212
    fact = "{streams} streams need {needed} prepared transactions at {subscriber}, which allows {allowed}"
    hint = (
        "Run `alter system set max_prepared_transactions = {needed}` there and restart that server; or use --streams 1."
    )
    subscriber: str
    streams: int
    needed: int
    allowed: int
