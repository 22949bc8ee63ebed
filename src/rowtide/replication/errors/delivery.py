"""Errors of copies, of delivery and of the distribution database: SQL Server's numbers where it has one."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Invalid, NotFound, Retryable, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.redaction import Quoted, RowKey, Said


class CustomScriptFailed(RowtideError, number=7261):
    """The custom script of an article failed after a schema change, of which nothing was applied."""

    fact = "custom script {script} of {table} failed with the schema change of the transaction at LSN {lsn}: {reason}"
    hint = """Register a corrected one: `rowtide replication register-custom-scripting PUBLICATION {table} --sql FILE
        --from {lsn}`. Then run `rowtide replication resume PUBLICATION`, or `run`."""
    script: str
    table: str
    lsn: str
    reason: Said


class AgentReplaced(RowtideError, number=7113):
    """Another agent has taken over this subscription."""

    fact = "another agent has taken over delivery to {subscriber} ({found})"
    hint = "`rowtide replication status` lists the process that delivers it; a run continues once that one has ended."
    subscriber: str
    found: str


class RowNotFound(NotFound, number=20598):
    """The row to be updated or deleted does not exist at the subscriber (SQL Server: 20598)."""

    fact = """the row with key {key} of {table} was not found at the subscriber when applying {command} (command
        {command_id} of the transaction at LSN {lsn})"""
    hint = """The row was changed at the subscriber. Run `rowtide replication validate PUBLICATION --repair`, or restore
        it there; delivery then resumes with this command."""
    lsn: CommitLsn
    command_id: int
    table: str
    key: RowKey
    command: str


class CommandRefused(RowtideError, number=7114):
    """The subscriber refused a command."""

    fact = """the subscriber refused {command} of {table} with key {key} ({sqlstate}): {reason} (command {command_id} of
        the transaction at LSN {lsn})"""
    hint = "Fix the cause at the subscriber; delivery then resumes with this command."
    lsn: CommitLsn
    command_id: int
    table: str
    key: RowKey
    command: str
    sqlstate: str
    reason: Said


CommandError = RowNotFound | CommandRefused
"""An error of one command."""


class BatchRefused(RowtideError, number=7110):
    """The commit of a batch failed: a deferred constraint was violated."""

    fact = "the subscriber refused to commit a batch ({sqlstate}): {reason}"
    hint = "Fix the cause at the subscriber, such as a violated deferred constraint; delivery then repeats the batch."
    sqlstate: str
    reason: Said


class SchemaChanged(RowtideError, number=7116):
    """A published table was altered in a way that its subscriber cannot be: delivery stops before the change."""

    fact = "delivery stopped before LSN {lsn}: {change} in published table {table}"
    hint = "Run `rowtide replication reinitialize PUBLICATION`, which copies the tables again."
    table: str
    lsn: str
    change: Quoted


class IdentityLost(SchemaChanged, number=7286):
    """The log of a published table lacks the old rows that delivery needs: its replica identity was changed."""

    fact = "delivery stopped before LSN {lsn}: {change} in published table {table}"
    hint = """Run `alter table {quoted} replica identity full` at the publisher, then `rowtide replication resume
        PUBLICATION`: delivery resumes, and the table is copied again only if rows were updated or deleted meanwhile."""
    quoted: str
    """The table as SQL takes it."""


class IdentityUnfit(RowtideError, number=7287):
    """The next updated or deleted row of a published table stops its delivery: its replica identity was changed."""

    fact = "delivery stops at the next update or delete of published table {table}: {reason}"
    hint = "Run `alter table {quoted} replica identity full` at the publisher."
    table: str
    reason: str
    quoted: str
    """The table as SQL takes it."""


class ArticleSuspended(DataLoss, number=7166):
    """A row of a published table cannot be sent, or the subscriber cannot store it; other tables continue."""

    fact = "published table {table} is suspended from the transaction at LSN {lsn} on: {reason}"
    hint = """Once the row is gone, copy the table with `rowtide replication reinitialize PUBLICATION --article
        {table}`; others continue."""
    table: str
    lsn: str
    reason: Quoted


class PublishedTableDropped(RowtideError, number=7164):
    """A published table was dropped at the publisher; other tables continue."""

    fact = "published table {table} was dropped at the publisher; the subscriber keeps its rows"
    hint = """A new table of that name is not published: drop the article with `rowtide replication drop-article
        PUBLICATION {table}`, and add it again, with `--if-exists drop` or truncate for the table that the subscriber
        keeps."""
    table: str


class ArticleCopiedAgain(RowtideError, number=7202):
    """A published table was altered in a way that the log does not show; it is copied again, and others continue."""

    fact = "published table {table} is copied again from LSN {lsn} on: {reason}"
    hint = "Other tables are delivered meanwhile; `rowtide replication status` shows the progress of the copy."
    table: str
    lsn: str
    reason: Quoted


ArticleEnded = PublishedTableDropped | ArticleSuspended | ArticleCopiedAgain


class ChangesLost(DataLoss, number=7117):
    """Changes are missing: a transaction was skipped, or the log was restarted."""

    fact = "delivery stopped at LSN {lsn}, where changes are missing from the log: {reason}"
    hint = "Run `rowtide replication reinitialize PUBLICATION`, which copies the tables again."
    lsn: str
    reason: str


class SubscriberBehind(DataLoss, number=7118):
    """The subscriber needs changes that the log store no longer has."""

    fact = "{subscriber} needs the changes from LSN {needed} on, but the log store begins at {low}"
    hint = """Run `rowtide replication reinitialize PUBLICATION --subscriber {subscriber}`, which copies the tables
        again."""
    subscriber: str
    needed: str
    low: str


class SubscriberAhead(DataLoss, number=7128):
    """The subscriber has changes that the log store lacks.

    The publisher or the log store was restored from a backup.
    """

    fact = "{subscriber} has the changes up to LSN {delivered}, but the log was read only up to LSN {read}"
    hint = """The publisher or the log store may have been restored from a backup. Run `rowtide replication reinitialize
        PUBLICATION --subscriber {subscriber}`, which copies the tables as they are now."""
    subscriber: str
    delivered: str
    read: str


class SubscriberOfAnotherHistory(DataLoss, number=1182):
    """Below the subscriber's position, the log store has transactions that are younger than the subscriber's last
    batch: publisher and log store were restored from a backup, the subscriber was not.
    """

    fact = """{subscriber} got all changes up to LSN {delivered} {age_s} s ago, but the log has a later transaction
        below, of {committed_at}"""
    hint = """The publisher was restored from a backup. Run `rowtide replication reinitialize PUBLICATION --subscriber
        {subscriber}`, which copies the tables as they are now. A clock that was set by more than a minute looks the
        same."""
    subscriber: str
    delivered: str
    committed_at: str
    age_s: int


class SubscriptionsFailed(RowtideError, number=7150):
    """Several subscriptions of a run stopped, each with its own error."""

    fact = "{count} subscriptions stopped with an error: {named}"
    hint = "Resolve each error, as reported when it occurred and by `rowtide replication errors`, and run again."
    count: int
    named: Quoted


class SubscriptionDeactivated(DataLoss, number=21011):
    """A subscription was behind for longer than the retention (SQL Server: 21011)."""

    fact = """the subscription of {subscriber} to {publication} was deactivated: its oldest undelivered change exceeds
        the retention"""
    hint = """Run `rowtide replication reinitialize {publication} --subscriber {subscriber}`, which copies its tables
        again. `rowtide replication change-distribution --max-retention-hours HOURS` keeps undelivered changes
        longer."""
    publication: str
    subscriber: str


class CopyUnreadable(RowtideError, number=7130):
    """A published table could not be read for a snapshot."""

    fact = "published table {table} could not be copied: {reason}"
    hint = """Grant select on it to the agent's role. If the table was altered, drop the subscription and the article,
        and add them again."""
    table: str
    reason: Said


class CopyRefused(RowtideError, number=7131):
    """The subscriber refused rows of a snapshot, or the constraints created after them."""

    fact = "the subscriber refused the snapshot of {table} ({sqlstate}): {reason}"
    hint = """Fix the cause at the subscriber, and the copy resumes; or drop the subscription and add it again with
        --if-exists drop."""
    table: str
    sqlstate: str
    reason: Said


class JoiningRefused(Invalid, number=7200):
    """The subscriber refuses to make a copied article one of its subscription's; the others continue."""

    fact = "table {table} is copied, but does not join its subscription, because the subscriber refuses it: {reason}"
    hint = "Remove the cause at the subscriber, then run `rowtide replication resume PUBLICATION`."
    table: str
    reason: Said


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
