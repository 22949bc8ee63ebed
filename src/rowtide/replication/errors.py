"""Errors of transactional replication: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError, numbered
from rowtide.core.lsn import CommitLsn


@numbered
class CommandInvalid(Invalid):
    """The operation has no such call format."""

    number = 7101
    fact = '"{text}" is not a call format for {operation}s'
    hint = "Use one of {formats}; a custom procedure's name may follow a call format."
    text: str
    operation: str
    formats: str


@numbered
class ArticleNeedsKey(Invalid):
    """Updates and deletes find their row by its primary key (SQL Server: 14088)."""

    number = 14088
    fact = "table {table} has no primary key, which updates and deletes need to find their rows"
    hint = "Add a primary key, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str


@numbered
class KeyCheckedLate(Invalid):
    """A deferrable key may be duplicated for a while: an update or a delete would find two rows."""

    number = 7165
    fact = "the primary key of {table} is deferrable: within a transaction two rows may have the same key"
    hint = "Recreate it without `deferrable`, or publish only inserts: --update-command NONE --delete-command NONE."
    table: str


@numbered
class TableNotPublishable(Invalid):
    """Only tables whose rows are logged can be articles."""

    number = 7102
    fact = "{table} is of kind {kind}, which cannot be published"
    hint = "Publish ordinary or partitioned tables."
    table: str
    kind: str


@numbered
class PublishedColumnUnknown(NotFound):
    """A listed column is not in the table, or is generated."""

    number = 7103
    fact = "table {table} has no column {column} that can be published"
    hint = "List only stored columns of the table; generated ones are computed again at the subscriber."
    table: str
    column: str


@numbered
class PublishedColumnListedTwice(Invalid):
    """A column list names a column twice."""

    number = 7104
    fact = "the column list of {table} names {column} twice"
    hint = "Name it once."
    table: str
    column: str


@numbered
class PublishedKeyColumnMissing(Invalid):
    """A column list must contain the key's columns."""

    number = 7105
    fact = "the column list of {table} leaves out key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


@numbered
class ImagesNeeded(Invalid):
    """A command needs values that the log does not always carry."""

    number = 7106
    fact = "{need} needs all values of {table}, which the log does not always carry with --before-images key"
    hint = "Omit --before-images, or use SCALL and no row filter."
    table: str
    need: str


@numbered
class ColumnNotLogged(RowtideError):
    """A published column is no longer in the table."""

    number = 7107
    fact = "the log of {table} no longer contains the published columns {columns}"
    hint = "Drop the article and add it again, then reinitialize its subscriptions."
    table: str
    columns: str


@numbered
class ConstraintsFound(Invalid):
    """The subscriber's cascades and triggers would repeat what the publisher's did, which is in its log too."""

    number = 7108
    fact = "the subscriber has {found}, which would act on delivered changes"
    hint = "Choose --constraints enforce, or --constraints not-for-replication to disable them during delivery."
    found: str


@numbered
class ReplicationRoleRefused(Denied):
    """Constraints are disabled by session_replication_role = replica, which needs a privilege."""

    number = 7109
    fact = "role {role} may not set session_replication_role at the subscriber"
    hint = (
        "At the subscriber, run `grant set on parameter session_replication_role to <role>`; "
        "before PostgreSQL 15 the role must be a superuser."
    )
    role: str


@numbered
class PublicationUnknown(NotFound):
    """There is no publication of this name (SQL Server: 20026)."""

    number = 20026
    fact = "the publication {publication} does not exist"
    hint = "`rowtide replication status` lists publications."
    publication: str


@numbered
class PublicationExists(AlreadyExists):
    """Publication names are unique (SQL Server: 14016)."""

    number = 14016
    fact = "the publication {publication} already exists"
    hint = "Choose another name, or drop it first."
    publication: str


@numbered
class ArticleExists(AlreadyExists):
    """A table can be an article of a publication only once (SQL Server: 14030)."""

    number = 14030
    fact = "publication {publication} already has article {article}"
    hint = "Drop it first, or add it to another publication."
    article: str
    publication: str


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
class DistributorUnreachable(Retryable):
    """The distribution database, which is not the publisher, cannot be reached."""

    number = 7263
    fact = "the distribution database {url} cannot be reached: {reason}"
    hint = "Start it, or check network and password; `rowtide replication move-distribution` names another place."
    url: str
    reason: str


@numbered
class DistributionElsewhere(AlreadyExists):
    """The database has its distribution database at another place."""

    number = 7264
    fact = "the distribution database of {database} is {found}, not {wanted}"
    hint = "Omit --distribution-db, or move it: `rowtide replication move-distribution`."
    database: str
    found: str
    wanted: str


@numbered
class DistributionMissing(NotFound):
    """Where the distribution database is recorded to be there is none."""

    number = 7265
    fact = "there is no distribution database of this publisher at {url} (schema {schema})"
    hint = (
        "Repeat an interrupted `rowtide replication add-publication` or `drop-publication`; or restore a dump of it, "
        "and name its place by `rowtide replication move-distribution`."
    )
    url: str
    schema: str


@numbered
class CustomScriptInvalid(Invalid):
    """A custom script is empty or misnamed."""

    number = 7262
    fact = "{script} is no custom script: {reason}"
    hint = "Give a file with SQL statements (--sql FILE), or a Python function (--python module:function)."
    script: str
    reason: str


@numbered
class CustomScriptFailed(RowtideError):
    """The custom script of an article failed after a schema change, of which nothing was applied."""

    number = 7261
    fact = "custom script {script} of {table} failed with the schema change of the transaction at LSN {lsn}: {reason}"
    hint = (
        "Register a corrected one: `rowtide replication register-custom-scripting … --from {lsn}`. Then run "
        "`rowtide replication resume`, or `run`."
    )
    script: str
    table: str
    lsn: str
    reason: str


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
class TableDeliveredAlready(AlreadyExists):
    """A subscriber's table can receive only one article."""

    number = 7162
    fact = "{table} of {subscriber} already receives changes from publication {publication}"
    hint = "Drop that subscription first, or publish the table in only one of the publications."
    table: str
    subscriber: str
    publication: str


@numbered
class TableDeliveredBack(Invalid):
    """With --forward, a subscriber that publishes the table to this database would get its own changes back."""

    number = 7163
    fact = "{subscriber} publishes {table} to this database: forwarded, its changes would come back"
    hint = "Leave out --forward: only this database's own changes are delivered then."
    subscriber: str
    table: str


@numbered
class TableDeliveredInRing(Invalid):
    """Publications form a ring of databases, in which changes would circulate."""

    number = 7171
    fact = "{table} is delivered back to this database by way of {path}: changes would circulate"
    hint = (
        "Break the ring with `rowtide replication drop-subscription` at one of these databases, or add subscriptions "
        "without --forward between all of them."
    )
    table: str
    path: str


@numbered
class TableDeliveredTwice(Invalid):
    """A subscriber would get the same changes by two ways."""

    number = 7246
    fact = "{subscriber} already receives the same changes of {table} by another subscription"
    hint = "Leave out --forward, or drop the other subscription: each change must arrive by one way only."
    table: str
    subscriber: str


@numbered
class ForwardingUndecided(Invalid):
    """The publisher receives changes of a table, and nothing says whether the subscriber is to get them."""

    number = 7247
    fact = "this database receives changes of {table} from others, which {subscriber} does not get from there"
    hint = (
        "Add --forward to deliver them too, as in a chain; subscribe it to those databases first; or add --no-forward "
        "if it is to lack them."
    )
    table: str
    subscriber: str


@numbered
class TriggersUnsent(Invalid):
    """What a subscriber's triggers write in delivered transactions is not sent by its own publications."""

    number = 7249
    fact = "{triggers} would write in delivered transactions, which the publications of {subscriber} do not send"
    hint = (
        "Add the subscription with --constraints not-for-replication, or drop the triggers. What the publisher's "
        "triggers write is delivered."
    )
    triggers: str
    subscriber: str


@numbered
class OriginMissing(RowtideError):
    """A session that delivers has no replication origin: PostgreSQL's own subscriptions take its changes for local."""

    number = 7248
    fact = "delivery to {subscriber} has no replication origin: {reason}"
    hint = (
        "rowtide's own publications are not affected. For subscriptions with `origin = none`, a superuser has to grant "
        "execute on pg_replication_origin_create, pg_replication_origin_session_setup and "
        "pg_replication_origin_xact_reset to the role, or to raise max_replication_slots."
    )
    subscriber: str
    reason: str


@numbered
class NothingToSubscribe(Invalid):
    """A publication without articles has nothing to deliver."""

    number = 7111
    fact = "publication {publication} has no articles"
    hint = "Add one with `rowtide replication add-article`."
    publication: str


@numbered
class NameNotHeld(Invalid):
    """The subscriber's encoding lacks a character of a published name."""

    number = 2153
    fact = 'the subscriber\'s encoding, {encoding}, cannot hold the name "{name}" of {table}'
    hint = "Use a subscriber database with encoding UTF8, or rename the published table or column."
    encoding: str
    name: str
    table: str


@numbered
class SubscriberUnprepared(NotFound):
    """The subscriber has no record of the subscription: it was restored from an older backup, or is a different one."""

    number = 7112
    fact = "the subscriber has no record of subscription {guid}"
    hint = "It may have been restored from an older backup. Drop the subscription and add it again."
    guid: str


@numbered
class AgentReplaced(RowtideError):
    """Another agent has taken over this subscription."""

    number = 7113
    fact = "another agent has taken over delivery to {subscriber} ({found})"
    hint = "`rowtide replication status` lists the process that delivers it; a run continues once that one has ended."
    subscriber: str
    found: str


@numbered
class RowNotFound(NotFound):
    """The row to be updated or deleted does not exist at the subscriber (SQL Server: 20598)."""

    number = 20598
    fact = (
        "the row with key {key} of {table} was not found at the subscriber when applying {command} "
        "(command {command_id} of the transaction at LSN {lsn})"
    )
    hint = "The row was changed at the subscriber. Restore it there; delivery then resumes with this command."
    lsn: CommitLsn
    command_id: int
    table: str
    key: str
    command: str


@numbered
class CommandRefused(RowtideError):
    """The subscriber refused a command."""

    number = 7114
    fact = (
        "the subscriber refused {command} of {table} with key {key} ({sqlstate}): {reason} "
        "(command {command_id} of the transaction at LSN {lsn})"
    )
    hint = "Fix the cause at the subscriber; delivery then resumes with this command."
    lsn: CommitLsn
    command_id: int
    table: str
    key: str
    command: str
    sqlstate: str
    reason: str


CommandError = RowNotFound | CommandRefused
"""An error of one command."""


@numbered
class BatchRefused(RowtideError):
    """The commit of a batch failed: a deferred constraint was violated."""

    number = 7110
    fact = "the subscriber refused to commit a batch ({sqlstate}): {reason}"
    hint = "Fix the cause at the subscriber, such as a violated deferred constraint; delivery then repeats the batch."
    sqlstate: str
    reason: str


@numbered
class ConflictFound(RowtideError):
    """A delivered change meets another one at the subscriber (SQL Server: 22815)."""

    number = 22815
    fact = (
        "conflict of type {kind} at {subscriber} in {table} with key {key} (command {command_id} of the transaction at "
        "LSN {lsn})"
    )
    hint = (
        "`rowtide replication conflicts {publication}` has both rows. Run `rowtide replication change-subscription "
        "{publication} --conflicts apply`, or `skip`, and `resume`; and set it to stop again once it is delivered."
    )
    lsn: CommitLsn
    command_id: int
    kind: str
    table: str
    key: str
    subscriber: str
    publication: str


@numbered
class ConflictsNotDetectable(Invalid):
    """Conflicts of an article cannot be detected."""

    number = 7250
    fact = "conflicts of {table} cannot be detected: {reason}"
    hint = "Publish it as whole rows with its key, without row filter and custom procedures; or add --conflicts none."
    table: str
    reason: str


@numbered
class ConflictsUndecided(Invalid):
    """The opposite subscription does not look for conflicts."""

    number = 7251
    fact = "{subscriber} delivers {table} to this database, and nothing says what is done about conflicts there"
    hint = (
        "First run `rowtide replication change-subscription --conflicts stop` there, or with another resolver; "
        "or add --conflicts none if no row is changed at both."
    )
    table: str
    subscriber: str


@numbered
class CommitTimesNotKept(Invalid):
    """Last commit time needs the commit times of rows."""

    number = 7253
    fact = "the server of {database} does not keep commit times"
    hint = "Run `alter system set track_commit_timestamp = on` as a superuser and restart the server, at both ends."
    database: str


@numbered
class OriginNeeded(Retryable):
    """Last commit time needs a replication origin of the session."""

    number = 7254
    fact = "delivery to {subscriber} has no replication origin: {reason}"
    hint = (
        "A superuser has to grant execute on pg_replication_origin_create, pg_replication_origin_session_setup and "
        "pg_replication_origin_xact_setup to the role, or to raise max_active_replication_origins (up to PostgreSQL "
        "17 max_replication_slots). Another agent of the subscription may still have it."
    )
    subscriber: str
    reason: str


@numbered
class ClockSkewed(RowtideError):
    """The publisher's clock is so far ahead that the last commit time says nothing."""

    number = 7255
    fact = "the publisher has committed {ahead_s:.1f} s ahead of the clock of {subscriber}"
    hint = "Set the servers' clocks by NTP, then run `rowtide replication resume`."
    subscriber: str
    ahead_s: float


@numbered
class ConflictsFixed(Invalid):
    """A subscription that looks for conflicts has no procedures, and goes on looking for them."""

    number = 7252
    fact = "the subscription cannot stop looking for conflicts"
    hint = "Choose stop, apply, skip or last-commit-time; or drop the subscription and add it again."


@numbered
class SkipErrorsInvalid(Invalid):
    """The list of errors to skip is malformed."""

    number = 7170
    fact = '"{text}" is not an error that can be skipped'
    hint = "List error numbers ({numbers}) or five-character SQLSTATEs, separated by colons."
    text: str
    numbers: str


@numbered
class ArticleTableMissing(NotFound):
    """Without a snapshot, the subscriber must already have the tables."""

    number = 7115
    fact = "the subscriber has no table {table} with the published columns: {missing}"
    hint = "Create it there, with the publisher's rows."
    table: str
    missing: str


@numbered
class SchemaChanged(RowtideError):
    """A published table was altered in a way that its subscriber cannot be: delivery stops before the change."""

    number = 7116
    fact = "delivery stopped before LSN {lsn}: {change} in published table {table}"
    hint = "Run `rowtide replication reinitialize`, which copies the tables again."
    table: str
    lsn: str
    change: str


@numbered
class PublishedTableAltered(Invalid):
    """A published table was altered so that its article no longer fits it."""

    number = 7184
    fact = "published table {table} was altered: {change}"
    hint = "Drop the article and add it again."
    table: str
    change: str


@numbered
class SubscriberTableInUse(Retryable):
    """Others use a subscriber's table that a schema change has to alter."""

    number = 7183
    fact = "a table at subscriber {subscriber} is in use and cannot be altered as at the publisher: {reason}"
    hint = "Delivery tries again by itself; end the subscriber's long transactions if it goes on."
    subscriber: str
    reason: str


@numbered
class ArticleSuspended(DataLoss):
    """A row of a published table cannot be sent, or the subscriber cannot store it; other tables continue."""

    number = 7166
    fact = "published table {table} is suspended from the transaction at LSN {lsn} on: {reason}"
    hint = "Once the row is gone, copy the table with `rowtide replication reinitialize --article`; others continue."
    table: str
    lsn: str
    reason: str


@numbered
class PublishedTableDropped(RowtideError):
    """A published table was dropped at the publisher; other tables continue."""

    number = 7164
    fact = "published table {table} was dropped at the publisher; the subscriber keeps its rows"
    hint = (
        "A new table of that name is not published: drop the article with `rowtide replication drop-article`, "
        "and add it again."
    )
    table: str


@numbered
class ArticleCopiedAgain(RowtideError):
    """A published table was altered in a way that the log does not tell; it is copied again, and others continue."""

    number = 7202
    fact = "published table {table} is copied again from LSN {lsn} on: {reason}"
    hint = "Other tables are delivered meanwhile; `rowtide replication status` says how far the copy is."
    table: str
    lsn: str
    reason: str


ArticleEnded = PublishedTableDropped | ArticleSuspended | ArticleCopiedAgain


@numbered
class ChangesLost(DataLoss):
    """Changes are missing: a transaction was skipped, or the log was restarted."""

    number = 7117
    fact = "delivery stopped at LSN {lsn}, where changes are missing from the log: {reason}"
    hint = "Run `rowtide replication reinitialize`, which copies the tables again."
    lsn: str
    reason: str


@numbered
class SubscriberBehind(DataLoss):
    """The subscriber needs changes that the log store no longer has."""

    number = 7118
    fact = "{subscriber} needs the changes from LSN {needed} on, but the log store begins at {low}"
    hint = "Run `rowtide replication reinitialize`, which copies the tables again."
    subscriber: str
    needed: str
    low: str


@numbered
class SubscriberAhead(DataLoss):
    """The subscriber has changes that the log store lacks.

    The publisher or the log store was restored from a backup.
    """

    number = 7128
    fact = "{subscriber} has the changes up to LSN {delivered}, but the log was read only up to LSN {read}"
    hint = (
        "The publisher or the log store may have been restored from a backup. Run `rowtide replication reinitialize`, "
        "which copies the tables as they are now."
    )
    subscriber: str
    delivered: str
    read: str


@numbered
class PublicationSubscribed(Denied):
    """A publication with subscriptions cannot be dropped (SQL Server: 14005)."""

    number = 14005
    fact = "publication {publication} has subscriptions"
    hint = "Drop them first with `rowtide replication drop-subscription`."
    publication: str


@numbered
class ArticleUnknown(NotFound):
    """There is no such article (SQL Server: 20027)."""

    number = 20027
    fact = "the article {article} does not exist in publication {publication}"
    hint = "Name a published table, as schema.table."
    article: str
    publication: str


@numbered
class ProcedureUnfit(Invalid):
    """A custom procedure does not exist, or has other parameters."""

    number = 7119
    fact = "the subscriber has no procedure {procedure} that takes {operation}s: {reason}"
    hint = "Create it there: create procedure {procedure}({wanted})."
    procedure: str
    operation: str
    wanted: str
    reason: str


@numbered
class ProcedureEndsTransaction(Invalid):
    """A custom procedure must not end the batch's transaction."""

    number = 7120
    fact = "procedure {procedure} ends its transaction: {word}"
    hint = "Remove that statement: the procedure's changes commit with the batch and the subscriber's progress."
    procedure: str
    word: str


@numbered
class PasswordGiven(Invalid):
    """A subscriber's URL is stored, and must not contain a password."""

    number = 7124
    fact = "the subscriber's URL has a password, which would be stored: {url}"
    hint = "Omit the password: the agent reads it from PGPASSWORD or the password file (~/.pgpass)."
    url: str


@numbered
class ArticleTooWide(Invalid):
    """A custom procedure would need more parameters than PostgreSQL allows."""

    number = 7125
    fact = "{command} of {table} needs {count} parameters, a procedure takes {limit}"
    hint = "Publish fewer columns with --columns, or use rowtide's own procedures, which take rows as arrays."
    table: str
    command: str
    count: int
    limit: int


@numbered
class PartitionImagesVary(Invalid):
    """Each partition has its own replica identity, so that the old values in the log may differ."""

    number = 7126
    fact = "{need} needs all values of {table}, which the log does not always carry for partitions"
    hint = "Use SCALL or NONE for updates, CALL or NONE for deletes, and no row filter."
    table: str
    need: str


@numbered
class ProcedureTaken(AlreadyExists):
    """The subscriber has a procedure of this name for another publisher's article, or of the user's own."""

    number = 7127
    fact = "the subscriber has a procedure {procedure} that does not belong to this article of {table}"
    hint = (
        "Use separate subscribers for two publishers' tables of the same name; drop the procedure if nothing uses it."
    )
    procedure: str
    table: str


@numbered
class SubscriptionsFailed(RowtideError):
    """Several subscriptions of a run stopped, each with its own error."""

    number = 7150
    fact = "{count} subscriptions stopped with an error: {named}"
    hint = "Resolve each error, and run again."
    count: int
    named: str


@numbered
class SubscriberNotCleared(RowtideError):
    """A subscription's metadata could not be removed from the subscriber."""

    number = 7172
    fact = "the subscription of {subscriber} to {publication} is paused, but not dropped: {reason}"
    hint = (
        "Repeat the command when the subscriber is reachable, or continue delivery with `rowtide replication resume`. "
        "If the subscriber no longer exists, use `rowtide replication drop-subscription --ignore-subscriber`."
    )
    subscriber: str
    publication: str
    reason: str


@numbered
class SubscriptionDeactivated(DataLoss):
    """A subscription was behind for longer than the retention (SQL Server: 21011)."""

    number = 21011
    fact = (
        "the subscription of {subscriber} to {publication} was deactivated: "
        "its oldest undelivered change exceeds the retention"
    )
    hint = (
        "Run `rowtide replication reinitialize`, which copies its tables again. `change-distribution "
        "--max-retention-hours` keeps undelivered changes longer."
    )
    publication: str
    subscriber: str


@numbered
class NotADistributor(NotFound):
    """The database has no publications, and so no retention."""

    number = 7151
    fact = "the database {database} has no publications"
    hint = "Create one first with `rowtide replication add-publication`."
    database: str


@numbered
class DistributionRetentionInvalid(Invalid):
    """A retention is at least one hour."""

    number = 7152
    fact = "a retention of {hours} hours is not valid"
    hint = "Use a whole number of hours, at least 1; the default is 72."
    hours: int


@numbered
class NothingReadsLog(NotFound):
    """The log reader needs a directory for the log store."""

    number = 7153
    fact = "database {database} has no directory for its log store, so its log is not read yet"
    hint = "Give a directory with `--lake PATH`; or enable capture too, with `rowtide cdc enable-db --lake PATH`."
    database: str


@numbered
class CaptureReadsLog(Denied):
    """Change data capture reads the same log, and would lose changes too."""

    number = 7155
    fact = "change data capture reads the same log, and would lose changes too"
    hint = "Drop the publications, run `rowtide cdc reinitialize`, and publish again."


@numbered
class LogStoreElsewhere(Invalid):
    """A database has one log store."""

    number = 7154
    fact = "the log store of database {database} is {recorded}, not {wanted}"
    hint = "Omit --lake and --log-store: all publications share the log store."
    database: str
    recorded: str
    wanted: str


@numbered
class ValidationFailed(RowtideError):
    """Rows at subscribers differ from the published rows (SQL Server: 20574)."""

    number = 20574
    fact = "{failed} of {count} articles at subscribers of {publication} differ from the published rows"
    hint = "Run `rowtide replication validate --differences`, which lists the rows that differ."
    publication: str
    failed: int
    count: int


@numbered
class ArticlesNotCompared(Retryable):
    """Some articles could not be compared: the reasons are listed."""

    number = 7235
    fact = "{count} articles at subscribers of {publication} could not be compared with the published rows: {reasons}"
    hint = "Validate again once everything is delivered; --wait waits for it."
    publication: str
    count: int
    reasons: str


@numbered
class SubscriberRowsDiffer(RowtideError):
    """Rows at subscribers differ from the published rows, which are listed."""

    number = 7237
    fact = "{count} rows at subscribers of {publication} differ from the published ones"
    hint = "Run `rowtide replication validate --repair`, or `rowtide replication reinitialize`, which copies all rows."
    publication: str
    count: int


@numbered
class RowsNotRepaired(RowtideError):
    """Rows at subscribers still differ from the published rows after a repair."""

    number = 7238
    fact = "{count} rows at subscribers of {publication} were not repaired: {extra} extra, {refused} refused"
    hint = "--delete-extra deletes extra rows, which may be what others are refused for; the reasons are listed."
    publication: str
    count: int
    extra: int
    refused: int


@numbered
class RowKeyInvalid(Invalid):
    """A row is looked for by something else than its key."""

    number = 7239
    fact = "no row of {table} can be found by {key}: {reason}"
    hint = "Give one value for each column of the primary key, in its order: rowtide replication row TABLE KEY..."
    table: str
    key: str
    reason: str


@numbered
class LogNotRead(Retryable):
    """A process holds the right to read the log, but does not read it."""

    number = 7236
    fact = "the log was not read beyond LSN {position} for {seconds} s"
    hint = "`rowtide replication status` tells what keeps it from being read."
    position: str
    seconds: int


@numbered
class FilterMalformed(Invalid):
    """A row filter is outside the filter language; `place` is the character, from 1."""

    number = 7121
    fact = "the row filter {filter_text} is refused at character {place}: {reason}"
    hint = "Compare columns with literals by =, <>, <, <=, >, >=, in, between, is null; combine with and, or, not."
    filter_text: str
    place: int
    reason: str


@numbered
class FilterTypeInexact(Invalid):
    """A row filter compares values of a type whose text form does not determine the server's comparison."""

    number = 7122
    fact = "the row filter {filter_text} is refused at character {place}: {column} is {type_text}, and {reason}"
    hint = "Filter by a column of an exact type, which a trigger can maintain."
    filter_text: str
    place: int
    column: str
    type_text: str
    reason: str


@numbered
class FilterColumnUnpublished(Invalid):
    """A row filter may name only published columns (as in SQL Server)."""

    number = 7123
    fact = "the row filter {filter_text} names {column} at character {place}, which is not a published column"
    hint = "Publish the column, or remove it from the filter. Unquoted names are folded to lower case."
    filter_text: str
    place: int
    column: str


@numbered
class CopyUnreadable(RowtideError):
    """A published table could not be read for a snapshot."""

    number = 7130
    fact = "published table {table} could not be copied: {reason}"
    hint = (
        "Grant select on it to the agent's role. If the table was altered, drop the subscription and the article, "
        "and add them again."
    )
    table: str
    reason: str


@numbered
class CopyRefused(RowtideError):
    """The subscriber refused rows of a snapshot, or the constraints created after them."""

    number = 7131
    fact = "the subscriber refused the snapshot of {table} ({sqlstate}): {reason}"
    hint = (
        "Fix the cause at the subscriber, and the copy resumes; "
        "or drop the subscription and add it again with --if-exists drop."
    )
    table: str
    sqlstate: str
    reason: str


@numbered
class ChangeRefused(Invalid):
    """The subscriber refuses the procedures of an article that was changed."""

    number = 7201
    fact = "table {table} was changed in its publication, which the subscriber refuses: {reason}"
    hint = "Remove the cause and run `rowtide replication resume`, or change the article with `change-article`."
    table: str
    reason: str


@numbered
class JoiningRefused(Invalid):
    """The subscriber refuses to make a copied article one of its subscription's; the others go on."""

    number = 7200
    fact = "table {table} is copied, but does not join its subscription, because the subscriber refuses it: {reason}"
    hint = "Remove the cause at the subscriber, then run `rowtide replication resume`."
    table: str
    reason: str


@numbered
class SubscriberTableExists(AlreadyExists):
    """The subscriber has a table that the snapshot would create."""

    number = 7132
    fact = "the subscriber already has a table {table}"
    hint = "Choose --if-exists keep, delete, truncate or drop; or --sync-type replication-support-only."
    table: str


@numbered
class SubscriberTablesUnfit(Invalid):
    """Tables that the subscriber keeps do not take the published rows; all that is unfit is listed."""

    number = 7225
    fact = "the subscriber's tables do not fit the published ones: {reasons}"
    hint = (
        "Alter them there, or leave columns out with --columns. Foreign keys are not checked with --constraints "
        "not-for-replication. --if-exists drop lets rowtide create the tables."
    )
    reasons: str


@numbered
class SubscriberTableBusy(RowtideError):
    """A subscriber's own table is in use, so that its foreign keys and triggers cannot be switched off."""

    number = 7226
    fact = "a table at subscriber {subscriber} is in use and cannot be prepared for the subscription: {reason}"
    hint = "End the subscriber's long transactions, or repeat the command at a quieter time: nothing has changed."
    subscriber: str
    reason: str


@numbered
class RestorationRefused(RowtideError):
    """The subscriber refuses to have back what was switched off during a copy."""

    number = 7227
    fact = "the subscriber refuses `{statement}`, which was switched off during the copy ({sqlstate}): {reason}"
    hint = (
        "Correct the rows, or empty the tables if their copy is to be given up, and repeat or resume. "
        'What is still switched off is listed in the subscriber\'s table rowtide_subscriber."MSrestorations".'
    )
    statement: str
    sqlstate: str
    reason: str


@numbered
class SubscriberLacks(NotFound):
    """The subscriber lacks what published tables need and rowtide does not create; all of it is listed."""

    number = 7228
    fact = "the subscriber lacks {objects}"
    hint = (
        "Create them there; `pg_dump --schema-only` of the publisher has the statements of functions. Schemas, enums, "
        "domains, composite and range types and collations are created by rowtide."
    )
    objects: str


@numbered
class SchemaArticleUsesUnpublished(Invalid):
    """A view or function uses what its publication lacks, so that a subscriber could not create it."""

    number = 7229
    fact = "{kind} {name} uses {missing}, which the publication does not have"
    hint = "Add that first, in order of dependency."
    kind: str
    name: str
    missing: str


@numbered
class ObjectNotFound(NotFound):
    """There is no object of the given type."""

    number = 7230
    fact = "there is no {kind} {name} in this database"
    hint = "Write it as schema.name, a function with the types of its parameters: public.tax(numeric, text)."
    kind: str
    name: str


@numbered
class ExecutionsNotLogged(Invalid):
    """Executions of procedures cannot be published (SQL Server: proc exec)."""

    number = 7231
    fact = (
        "executions of {name} cannot be published: PostgreSQL's log has the rows that a procedure wrote, not its call"
    )
    hint = "Publish the tables that it writes; `--type procedure` publishes its text."
    name: str


@numbered
class ScriptRefused(RowtideError):
    """A subscriber refuses a published view, function or procedure."""

    number = 7232
    fact = "the subscriber refuses {kind} {name} ({sqlstate}): {reason}"
    hint = "Deliver everything first, or correct it there; then repeat the command."
    kind: str
    name: str
    sqlstate: str
    reason: str


@numbered
class UpdatableCallRefused(Invalid):
    """VCALL belongs to updatable subscriptions, which do not exist here."""

    number = 7233
    fact = "VCALL is refused: it writes a subscriber's changes back to the publisher, for updatable subscriptions"
    hint = "Let two databases publish to each other, or use merge replication. For updates here: SCALL."


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
class ProceduresMissing(NotFound):
    """With sync type `none`, the subscriber must already have the procedures."""

    number = 7136
    fact = "the subscriber has no procedure {procedure}"
    hint = (
        "Run the output of `rowtide replication script-procedures` there, or use --sync-type replication-support-only."
    )
    procedure: str


@numbered
class SubscriberWithoutFile(Invalid):
    """A SQLite subscriber must be a file: an in-memory database is lost with the process."""

    number = 7141
    fact = "the subscriber's URL {url} does not name a file"
    hint = "Give the path of a database file: sqlite:///folder/file.db, or, absolute, sqlite:////folder/file.db."
    url: str


@numbered
class ProceduresUnsupported(Invalid):
    """SQLite has no procedures, so custom procedures cannot be called."""

    number = 7142
    fact = "the subscriber is a SQLite file, which cannot have procedure {procedure} for {operation}s of {table}"
    hint = "Publish the table in another publication without custom procedures; a trigger there can replace them."
    procedure: str
    operation: str
    table: str


@numbered
class NameShared(Invalid):
    """Two published names are the same in a SQLite file, which has no schemas and ignores case."""

    number = 7143
    fact = 'in the SQLite file, {first} and {second} would have the same name "{name}"'
    hint = (
        "Use a separate file for one; leftovers of a lost subscription are in the file's table MSreplication_objects."
    )
    name: str
    first: str
    second: str


@numbered
class ColumnAlters(Invalid):
    """A SQLite column's declared type would change the published values."""

    number = 7144
    fact = "column {column} of {table} is declared {declared} at the subscriber, which would change {published} values"
    hint = "Declare it {wanted}, or leave it out of the article with --columns."
    table: str
    column: str
    declared: str
    published: str
    wanted: str


@numbered
class ConstraintsUnsupported(Invalid):
    """In a SQLite file foreign keys are not enforced during delivery, and triggers cannot be disabled."""

    number = 7147
    fact = "--constraints does not apply to SQLite file {path}: its triggers fire, its foreign keys are not enforced"
    hint = "Omit --constraints."
    path: str


@numbered
class SubscriberFileFailed(Retryable):
    """SQLite cannot write to the subscriber's file: the disk is full, or the file is read-only."""

    number = 7145
    fact = "the subscriber's file {path} cannot be written ({code}): {reason}"
    hint = "Free disk space, or let this user write to the file and its directory; delivery then repeats the batch."
    path: str
    code: str
    reason: str


@numbered
class SubscriberFileUnusable(RowtideError):
    """The subscriber's file is not a database, is damaged, or lacks rowtide's tables."""

    number = 7182
    fact = "the subscriber's file {path} cannot be used ({code}): {reason}"
    hint = (
        "If it is damaged, restore it from a backup: delivery resumes from the backup's position, "
        "if the log store has the later changes."
    )
    path: str
    code: str
    reason: str


@numbered
class SubscriberFileReplaced(Retryable):
    """The file was replaced while it was open: further writes would go to the deleted file."""

    number = 7146
    fact = "{path} was replaced by another file, or removed"
    hint = "Delivery opens the file again, and resumes from its position."
    path: str


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
