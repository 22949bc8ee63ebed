"""Errors of loops, conflicts, comparisons and repairs: SQL Server's numbers where it has one."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Invalid, NotFound, Retryable, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.redaction import RowKey, Said


class TableDeliveredAlready(AlreadyExists, number=7162):
    """A subscriber's table can receive only one article."""

    fact = "{table} of {subscriber} already receives changes from publication {publication}"
    hint = "Drop that subscription first, or publish the table in only one of the publications."
    table: str
    subscriber: str
    publication: str


class TableDeliveredBack(Invalid, number=7163):
    """With --forward, a subscriber that publishes the table to this database would get its own changes back."""

    fact = "{subscriber} publishes {table} to this database: forwarded, its changes would come back"
    hint = "Omit --forward: only this database's own changes are delivered then."
    subscriber: str
    table: str


class TableDeliveredInRing(Invalid, number=7171):
    """Publications form a ring of databases, in which changes would circulate."""

    fact = "{table} is delivered back to this database by way of {path}: changes would circulate"
    hint = """Break the ring with `rowtide replication drop-subscription PUBLICATION --subscriber URL` at one of these
        databases, or add subscriptions without --forward between all of them."""
    table: str
    path: str


class TableDeliveredTwice(Invalid, number=7246):
    """A subscriber would get the same changes twice, by two routes."""

    fact = "{subscriber} already receives the same changes of {table} by another subscription"
    hint = "Omit --forward, or drop the other subscription: each change must arrive by one route only."
    table: str
    subscriber: str


class ForwardingUndecided(Invalid, number=7247):
    """The publisher receives changes of a table, and nothing says whether the subscriber is to get them."""

    fact = "this database receives changes of {table} from others, which {subscriber} does not get from there"
    hint = """Add --forward to deliver them too, as in a chain; subscribe it to those databases first; or add
        --no-forward if it is to lack them."""
    table: str
    subscriber: str


class TriggersUnsent(Invalid, number=7249):
    """What a subscriber's triggers write in delivered transactions is not sent by its own publications."""

    fact = "{triggers} would write in delivered transactions, which the publications of {subscriber} do not send"
    hint = """Add the subscription with --constraints not-for-replication, or drop the triggers. What the publisher's
        triggers write is delivered."""
    triggers: str
    subscriber: str


class OriginMissing(RowtideError, number=7248):
    """A session that delivers has no replication origin: PostgreSQL's own subscriptions treat its changes as local."""

    fact = "delivery to {subscriber} has no replication origin: {reason}"
    hint = """rowtide's own publications are not affected. For subscriptions with `origin = none`, a superuser has to
        grant execute on pg_replication_origin_create, pg_replication_origin_session_setup and
        pg_replication_origin_xact_reset to the role, or to raise max_replication_slots."""
    subscriber: str
    reason: str


class ConflictFound(RowtideError, number=22815):
    """A delivered change meets another one at the subscriber (SQL Server: 22815)."""

    fact = """conflict of type {kind} at {subscriber} in {table} with key {key} (command {command_id} of the transaction
        at LSN {lsn})"""
    hint = """`rowtide replication conflicts {publication}` has both rows. Run `rowtide replication change-subscription
        {publication} --subscriber {subscriber} --conflicts apply`, or `skip`, and `rowtide replication resume
        {publication} --subscriber {subscriber}`; and set it to stop again once it is delivered."""
    lsn: CommitLsn
    command_id: int
    kind: str
    table: str
    key: RowKey
    subscriber: str
    publication: str


class ConflictsNotDetectable(Invalid, number=7250):
    """Conflicts of an article cannot be detected."""

    fact = "conflicts of {table} cannot be detected: {reason}"
    hint = "Publish it as whole rows with its key, without row filter and custom procedures; or add --conflicts none."
    table: str
    reason: str


class ConflictsUndecided(Invalid, number=7251):
    """The opposite subscription does not look for conflicts."""

    fact = "{subscriber} delivers {table} to this database, and nothing says what is done about conflicts there"
    hint = """First run `rowtide replication change-subscription PUBLICATION --subscriber URL --conflicts stop` there,
        or with another resolver; or add --conflicts none if no row is changed at both."""
    table: str
    subscriber: str


class CommitTimesNotKept(Invalid, number=7253):
    """Last commit time needs the commit times of rows."""

    fact = "the server of {database} does not keep commit times"
    hint = "Run `alter system set track_commit_timestamp = on` as a superuser and restart the server, at both ends."
    database: str


class OriginNeeded(Retryable, number=7254):
    """Last commit time needs a replication origin of the session."""

    fact = "delivery to {subscriber} has no replication origin: {reason}"
    hint = """A superuser has to grant execute on pg_replication_origin_create, pg_replication_origin_session_setup and
        pg_replication_origin_xact_setup to the role, or to raise max_active_replication_origins (up to PostgreSQL 17
        max_replication_slots). Another agent of the subscription may still have it."""
    subscriber: str
    reason: str


class ClockSkewed(RowtideError, number=7255):
    """The publisher's clock is so far ahead that the last commit time says nothing."""

    fact = "the publisher has committed {ahead_s:.1f} s ahead of the clock of {subscriber}"
    hint = """Set the servers' clocks by NTP, then run `rowtide replication resume PUBLICATION --subscriber
        {subscriber}`."""
    subscriber: str
    ahead_s: float


class ConflictsFixed(Invalid, number=7252):
    """A subscription that detects conflicts has no procedures, and cannot stop detecting them."""

    fact = "the subscription cannot stop detecting conflicts"
    hint = "Choose stop, apply, skip or last-commit-time; or drop the subscription and add it again."


class IndexOfOther(Invalid, number=7193):
    """By last commit time, rowtide would evaluate an index's expressions with more rights than its owner has."""

    fact = """the unique index of {table} on {index} calls functions, operators or types that are not the server's: role
        {owner}, the table's owner, could define them, and they would run with the rights of the subscription's role"""
    hint = """Connect the subscription as {owner}; or let a superuser own the table; or write the index with the
        server's functions and types. Only --conflicts last-commit-time evaluates it."""
    table: str
    index: str
    owner: str


class DeliveryConflictUnknown(NotFound, number=7203):
    """No conflict with this number is kept at the subscriber."""

    fact = "{subscriber} keeps no conflict {conflict_id} of this subscription"
    hint = "Conflicts are kept for 14 days; their list has the numbers of those that are there."
    subscriber: str
    conflict_id: int


class ConflictRowsChanged(Invalid, number=7204):
    """Rows of a conflict have changed since it was decided: a decision would replace later changes."""

    fact = "conflict {conflict_id} at {subscriber}: in {table} the row with key {key} has changed since"
    hint = "Look at the row first; with --over-later-changes it is replaced."
    subscriber: str
    conflict_id: int
    table: str
    key: RowKey


class ConflictSettled(AlreadyExists, number=7205):
    """Somebody has decided about a conflict already, and otherwise."""

    fact = "conflict {conflict_id} at {subscriber} is settled: {settled_by} chose {winner}"
    hint = "With --again the decision is changed."
    subscriber: str
    conflict_id: int
    settled_by: str
    winner: str


class ConflictOutdated(Invalid, number=7206):
    """The rows of a conflict do not fit the subscriber's table any more, or were kept without their values."""

    fact = "the rows of conflict {conflict_id} at {subscriber} cannot be written to {table}: {reason}"
    hint = "Change the row itself at the subscriber."
    subscriber: str
    conflict_id: int
    table: str
    reason: str


class SettlingRefused(RowtideError, number=7207):
    """The subscriber refuses a row that a decision about a conflict would write."""

    fact = "conflict {conflict_id}: {subscriber} refuses the row with key {key} of {table}: {reason}"
    hint = "Change what refuses it, or choose the other side."
    subscriber: str
    conflict_id: int
    table: str
    key: RowKey
    reason: Said


class ConflictsUnknown(Retryable, number=7208):
    """The conflicts that some subscribers keep could not be read: they are unknown since a time."""

    fact = "conflicts are unknown at {subscribers}"
    hint = "The others are listed. Repeat it once these can be reached."
    subscribers: str


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
