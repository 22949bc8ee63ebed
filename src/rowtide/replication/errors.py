"""Errors of transactional replication: SQL Server's numbers where it has one, else 7xxx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError, numbered
from rowtide.core.lsn import CommitLsn


@numbered
class CommandInvalid(Invalid):
    """An operation has no such call format."""

    number = 7101
    fact = '"{text}" is no way to propagate {operation}s'
    hint = "Write one of {formats}; a call may be followed by the name of a custom procedure."
    text: str
    operation: str
    formats: str


@numbered
class ArticleNeedsKey(Invalid):
    """Updates and deletes find their row by its primary key (SQL Server: 14088)."""

    number = 14088
    fact = "table {table} has no primary key, by which updates and deletes could find their rows"
    hint = "Give it one, or publish its inserts alone: --update-command NONE --delete-command NONE."
    table: str


@numbered
class KeyCheckedLate(Invalid):
    """Two rows may have one key for a while: an update or a delete would find both."""

    number = 7165
    fact = "the primary key of {table} is deferrable: between two changes it does not identify rows"
    hint = (
        "Make it anew without `deferrable`, or publish its inserts alone: --update-command NONE --delete-command NONE."
    )
    table: str


@numbered
class TableNotPublishable(Invalid):
    """Only tables whose rows are logged can be articles."""

    number = 7102
    fact = "{table} is a table of the kind {kind}, which is not published"
    hint = "Publish ordinary tables and partitioned ones."
    table: str
    kind: str


@numbered
class PublishedColumnUnknown(NotFound):
    """A listed column is not in the table, or is generated."""

    number = 7103
    fact = "table {table} has no column {column} that can be published"
    hint = "Name stored columns of the table; generated ones are computed at the subscriber again."
    table: str
    column: str


@numbered
class PublishedColumnListedTwice(Invalid):
    """A column list names each column once."""

    number = 7104
    fact = "the column list of {table} names {column} twice"
    hint = "Name it once."
    table: str
    column: str


@numbered
class PublishedKeyColumnMissing(Invalid):
    """The key's columns are always published."""

    number = 7105
    fact = "the column list of {table} leaves out key column {column}"
    hint = "Add it to --columns."
    table: str
    column: str


@numbered
class ImagesNeeded(Invalid):
    """A command gives values that the log would not always carry."""

    number = 7106
    fact = "{need} needs all values of {table}, which the log does not always carry with key images"
    hint = "Leave --before-images out, or choose SCALL and no row filter."
    table: str
    need: str


@numbered
class ColumnNotLogged(RowtideError):
    """A published column is no longer in the table."""

    number = 7107
    fact = "the log of {table} no longer has the published columns {columns}"
    hint = "Drop the article and add it again, then reinitialize its subscriptions."
    table: str
    columns: str


@numbered
class ConstraintsFound(Invalid):
    """Cascades and triggers of a subscriber would do again what the publisher's have done, which is in its log."""

    number = 7108
    fact = "the subscriber has {found}, which would act on what is delivered"
    hint = "Say what they are to do: --constraints enforce, or --constraints not-for-replication to leave them out."
    found: str


@numbered
class ReplicationRoleRefused(Denied):
    """Constraints are left out by a session whose role is replica, which few may choose."""

    number = 7109
    fact = "role {role} may not set session_replication_role at the subscriber"
    hint = "Run there `grant set on parameter session_replication_role to <role>` (before PostgreSQL 15: a superuser)."
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
    fact = "the publication {publication} exists already"
    hint = "Choose another name, or drop it first."
    publication: str


@numbered
class ArticleExists(AlreadyExists):
    """A table is an article of a publication once (SQL Server: 14030)."""

    number = 14030
    fact = "the article {article} exists in publication {publication} already"
    hint = "Drop it first, or add it to another publication."
    article: str
    publication: str


@numbered
class SubscriptionUnknown(NotFound):
    """There is no such subscription (SQL Server: 14055)."""

    number = 14055
    fact = "publication {publication} has no subscription of {subscriber}"
    hint = "`rowtide replication status` lists subscriptions."
    publication: str
    subscriber: str


@numbered
class SubscriptionExists(AlreadyExists):
    """A subscriber subscribes to a publication once (SQL Server: 14058)."""

    number = 14058
    fact = "{subscriber} subscribes to publication {publication} already"
    hint = "Drop that subscription first."
    publication: str
    subscriber: str


@numbered
class SubscriberIsPublisher(Invalid):
    """A table that is delivered to itself would be dropped for its own copy."""

    number = 7160
    fact = "{subscriber} is the database that publishes"
    hint = "Subscribe another database."
    subscriber: str


@numbered
class SubscriberKnownOtherwise(AlreadyExists):
    """A database subscribes to a publication once, however its URL is spelled (SQL Server: 14058)."""

    number = 7161
    fact = "{subscriber} subscribes to publication {publication} already, as {known}"
    hint = "Drop that subscription first, by the URL that it has."
    subscriber: str
    publication: str
    known: str


@numbered
class TableDeliveredAlready(AlreadyExists):
    """A subscriber's table has the rows of one article."""

    number = 7162
    fact = "{table} of {subscriber} is delivered by publication {publication} already"
    hint = "Drop that subscription first, or publish the table in one of the publications."
    table: str
    subscriber: str
    publication: str


@numbered
class TableDeliveredBack(Invalid):
    """A change that is delivered is in the subscriber's log too, which would bring it back."""

    number = 7163
    fact = "{subscriber} publishes {table} to this database: each change would come back"
    hint = "Publish a table in one direction. `rowtide merge` replicates in both."
    subscriber: str
    table: str


@numbered
class TableDeliveredInRing(Invalid):
    """What is delivered is in each subscriber's log: in a ring of databases it would come round again."""

    number = 7171
    fact = "{table} comes back to this database over {path}: each change would go round for ever"
    hint = (
        "End the ring with `rowtide replication drop-subscription` at one of them. `rowtide merge` replicates in both."
    )
    table: str
    path: str


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
    hint = "Subscribe with a database of encoding UTF8, or rename what is published."
    encoding: str
    name: str
    table: str


@numbered
class SubscriberUnprepared(NotFound):
    """The subscriber does not know the subscription: it was restored from before, or is another database."""

    number = 7112
    fact = "the subscriber knows nothing of subscription {guid}"
    hint = "Was it restored from an older backup? Drop the subscription and add it again."
    guid: str


@numbered
class AgentReplaced(RowtideError):
    """Another agent delivers this subscription now: one batch is delivered by one agent."""

    number = 7113
    fact = "another agent delivers to {subscriber} now ({found})"
    hint = "Let one agent run for each publication."
    subscriber: str
    found: str


@numbered
class RowNotFound(NotFound):
    """The row that an update or a delete is for is not at the subscriber (SQL Server: 20598)."""

    number = 20598
    fact = (
        "the row with key {key} of {table} was not found at the subscriber when applying {command} "
        "(command {command_id} of the transaction at LSN {lsn})"
    )
    hint = "Somebody else changed the subscriber. Mend the row there, and delivery goes on with this command."
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
    hint = "Mend the subscriber, and delivery goes on with this command."
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
    """A batch failed where all its commands were run: at its commit, by a deferred constraint."""

    number = 7110
    fact = "the subscriber refused to commit a batch ({sqlstate}): {reason}"
    hint = "Mend the subscriber: a deferred constraint may not hold. Delivery goes on with this batch."
    sqlstate: str
    reason: str


@numbered
class SkipErrorsInvalid(Invalid):
    """Which errors are skipped must be plain before any comes."""

    number = 7170
    fact = '"{text}" is no error that could be skipped'
    hint = "Write numbers ({numbers}) or five-character SQLSTATEs, with colons between them."
    text: str
    numbers: str


@numbered
class ArticleTableMissing(NotFound):
    """Without a snapshot the subscriber must have the tables already."""

    number = 7115
    fact = "the subscriber has no table {table} with the published columns: {missing}"
    hint = "Make it there, with its rows as they are at the publisher."
    table: str
    missing: str


@numbered
class SchemaChanged(RowtideError):
    """A published table was altered: delivery stops before that."""

    number = 7116
    fact = "delivery stopped before LSN {lsn}: {change} in published table {table}"
    hint = "Drop the subscriptions and the article, and add them again: the snapshot brings the altered table."
    table: str
    lsn: str
    change: str


@numbered
class ArticleSuspended(DataLoss):
    """A row of a published table cannot be sent, or a subscriber cannot hold it; the other tables go on."""

    number = 7166
    fact = "published table {table} is suspended from the transaction at LSN {lsn} on: {reason}"
    hint = "Drop the subscriptions and the article, add them again, and its rows are copied; the other tables go on."
    table: str
    lsn: str
    reason: str


@numbered
class PublishedTableDropped(RowtideError):
    """Nothing of a table comes any more once it was dropped at the publisher; the other tables go on."""

    number = 7164
    fact = "published table {table} was dropped at the publisher; the subscriber keeps its rows"
    hint = (
        "A new table of that name is not published. Drop the subscriptions and the article; "
        "`add-subscription --sync-type replication-support-only` subscribes again without a copy."
    )
    table: str


ArticleEnded = PublishedTableDropped | ArticleSuspended


@numbered
class ChangesLost(DataLoss):
    """A transaction was skipped, or the log began anew: what is missing cannot be delivered."""

    number = 7117
    fact = "delivery stopped at LSN {lsn}, where changes are missing from the log: {reason}"
    hint = "Run `rowtide replication reinitialize`: it copies the tables anew."
    lsn: str
    reason: str


@numbered
class SubscriberBehind(DataLoss):
    """The subscriber needs changes that the log store no longer has."""

    number = 7118
    fact = "{subscriber} needs the changes from LSN {needed} on, the log store begins at {low}"
    hint = "Run `rowtide replication reinitialize`: it copies the tables anew."
    subscriber: str
    needed: str
    low: str


@numbered
class SubscriberAhead(DataLoss):
    """The subscriber has changes that the log store does not have: the publisher, or the log store, went back."""

    number = 7128
    fact = "{subscriber} has the changes up to LSN {delivered}, beyond LSN {read}, up to which the log was read"
    hint = (
        "Was the publisher or the log store restored from a backup? `rowtide replication reinitialize` copies the "
        "tables as they are now."
    )
    subscriber: str
    delivered: str
    read: str


@numbered
class PublicationSubscribed(Denied):
    """A publication with subscriptions is not dropped (SQL Server: 14005)."""

    number = 14005
    fact = "publication {publication} has subscriptions"
    hint = "Drop them first with `rowtide replication drop-subscription`."
    publication: str


@numbered
class ArticleSubscribed(Denied):
    """An article with subscriptions is not dropped (SQL Server: 14046)."""

    number = 14046
    fact = "article {article} of publication {publication} has subscriptions"
    hint = "Drop them first with `rowtide replication drop-subscription`."
    article: str
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
    """A custom procedure is not there, or takes other parameters."""

    number = 7119
    fact = "the subscriber has no procedure {procedure} that takes {operation}s: {reason}"
    hint = "Make it there: create procedure {procedure}({wanted})."
    procedure: str
    operation: str
    wanted: str
    reason: str


@numbered
class ProcedureEndsTransaction(Invalid):
    """A custom procedure runs within the transaction of its batch."""

    number = 7120
    fact = "procedure {procedure} ends its transaction: {word}"
    hint = "Take that out: its changes commit with the batch, and with how far the subscriber is."
    procedure: str
    word: str


@numbered
class PasswordGiven(Invalid):
    """A subscriber's URL is stored, a password is not."""

    number = 7124
    fact = "the subscriber's URL has a password, which would be stored: {url}"
    hint = "Leave it out: the agent takes it from PGPASSWORD, or from the password file (~/.pgpass)."
    url: str


@numbered
class ArticleTooWide(Invalid):
    """A custom procedure takes so many parameters, and no more."""

    number = 7125
    fact = "{command} of {table} needs {count} parameters, a procedure takes {limit}"
    hint = "Publish fewer columns with --columns, or leave the procedure to rowtide: its own are given whole rows."
    table: str
    command: str
    count: int
    limit: int


@numbered
class PartitionImagesVary(Invalid):
    """Partitions have replica identities of their own: what one logs of its old rows, another may not."""

    number = 7126
    fact = "{need} needs all values of {table}, which the log does not always carry of partitions"
    hint = "Choose SCALL or NONE for updates, CALL or NONE for deletes, and no row filter."
    table: str
    need: str


@numbered
class ProcedureTaken(AlreadyExists):
    """The subscriber has a procedure of this name for another article: another publisher's, or the user's own."""

    number = 7127
    fact = "the subscriber has a procedure {procedure} that is not of this article of {table}"
    hint = "Two publishers' tables of one name need subscribers of their own; drop the procedure if it is a leftover."
    procedure: str
    table: str


@numbered
class SubscriptionsFailed(RowtideError):
    """Several subscriptions of a run have stopped, each with an error of its own."""

    number = 7150
    fact = "{count} subscriptions have stopped with an error: {named}"
    hint = "Do for each what its error says, and run again."
    count: int
    named: str


@numbered
class SubscriberNotCleared(RowtideError):
    """A subscription ends with what is noted of it at the subscriber, which could not be removed."""

    number = 7172
    fact = "the subscription of {subscriber} to {publication} is paused and not dropped: {reason}"
    hint = (
        "Repeat the command when the subscriber can be reached, or let it go on with `rowtide replication resume`. One "
        "that is gone for good: `rowtide replication drop-subscription --ignore-subscriber`."
    )
    subscriber: str
    publication: str
    reason: str


@numbered
class SubscriptionDeactivated(DataLoss):
    """A subscription was behind for longer than the retention (SQL Server: 21011)."""

    number = 21011
    fact = (
        "the subscription of {subscriber} to {publication} was deactivated: what it lacks is older than the retention"
    )
    hint = (
        "`rowtide replication reinitialize` copies its tables anew. `change-distribution --max-retention-hours` lets "
        "others lag longer."
    )
    publication: str
    subscriber: str


@numbered
class NotADistributor(NotFound):
    """The retention is kept with the publications."""

    number = 7151
    fact = "the database {database} has no publications"
    hint = "Make one first with `rowtide replication add-publication`."
    database: str


@numbered
class DistributionRetentionInvalid(Invalid):
    """A retention is a number of hours, and not none: an agent needs time to start."""

    number = 7152
    fact = "a retention of {hours} hours is none"
    hint = "Give a whole number of hours from 1 on; 72 is the default."
    hours: int


@numbered
class NothingReadsLog(NotFound):
    """What reads the database's log was not made yet: it needs a folder."""

    number = 7153
    fact = "the log of database {database} is not read yet: there is no place for what is read"
    hint = "Name a folder with `--lake PATH`; or capture changes too, with `rowtide cdc enable-db --lake PATH`."
    database: str


@numbered
class CaptureReadsLog(Denied):
    """After a gap the log is read anew for all that read it."""

    number = 7155
    fact = "the log is read for change data capture too, which would miss what it loses"
    hint = "Drop the publications, run `rowtide cdc reinitialize`, and publish again."


@numbered
class LogStoreElsewhere(Invalid):
    """A database has one log store, wherever it was put first."""

    number = 7154
    fact = "the log of database {database} is kept in {recorded} already, not in {wanted}"
    hint = "Leave --lake out, and --log-store: publications share the log store."
    database: str
    recorded: str
    wanted: str


@numbered
class ValidationFailed(RowtideError):
    """Rows at subscribers are not those that are published (SQL Server: 20574)."""

    number = 20574
    fact = "{failed} of {count} articles at subscribers of {publication} do not have the published rows"
    hint = (
        "Was everything delivered, and did the publisher rest? Else mend the rows, or drop the subscription and add it."
    )
    publication: str
    failed: int
    count: int


@numbered
class FilterMalformed(Invalid):
    """A row filter says what only the server could judge; `place` is the character, from 1."""

    number = 7121
    fact = "the row filter {filter_text} is refused at character {place}: {reason}"
    hint = "Compare columns with literals: =, <>, <, <=, >, >=, in, between, is null; join these by and, or, not."
    filter_text: str
    place: int
    reason: str


@numbered
class FilterTypeInexact(Invalid):
    """A row filter compares values whose text in the log does not say how the server compares them."""

    number = 7122
    fact = "the row filter {filter_text} is refused at character {place}: {column} is {type_text}, and {reason}"
    hint = "Filter by a column of an exact type; a trigger can fill one for that."
    filter_text: str
    place: int
    column: str
    type_text: str
    reason: str


@numbered
class FilterColumnUnpublished(Invalid):
    """A row filter names only columns that are published (SQL Server's rule too)."""

    number = 7123
    fact = "the row filter {filter_text} names {column} at character {place}, which is not a published column"
    hint = "Publish the column, or leave it out of the filter. Names without quotes are read in lower case."
    filter_text: str
    place: int
    column: str


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
class SubscriberTableExists(AlreadyExists):
    """A snapshot makes its tables, unless it is told what to do with those that are there."""

    number = 7132
    fact = "the subscriber has a table {table} already"
    hint = (
        "Say what becomes of it: --if-exists keep, delete, truncate or drop; or --sync-type replication-support-only."
    )
    table: str


@numbered
class SubscriberTableConstrained(Invalid):
    """Between two chunks of a copy a subscriber is in no state that the publisher had: constraints would refuse it."""

    number = 7133
    fact = "the subscriber's table {table} has {constraints}, which may not hold while rows are copied"
    hint = (
        "Drop them there, and add them again when the snapshot is delivered; or let rowtide make it: --if-exists drop."
    )
    table: str
    constraints: str


@numbered
class LsnNotKept(DataLoss):
    """A subscription can begin only where the log store has all changes from."""

    number = 7134
    fact = "changes from LSN {lsn} on are not all in the log store: it has {low} to {position}"
    hint = "Use a newer backup, or --sync-type automatic."
    lsn: str
    low: str
    position: str


@numbered
class LsnNotGiven(Invalid):
    """`from-lsn` needs the LSN, and nothing else does."""

    number = 7135
    fact = "sync type {sync_type} {needs} an LSN"
    hint = "--lsn goes with --sync-type from-lsn."
    sync_type: str
    needs: str


@numbered
class ProceduresMissing(NotFound):
    """With sync type `none` nothing is made at the subscriber: what calls need must be there."""

    number = 7136
    fact = "the subscriber has no procedure {procedure}"
    hint = (
        "Run what `rowtide replication script-procedures` prints there, or choose --sync-type replication-support-only."
    )
    procedure: str


@numbered
class SubscriberWithoutFile(Invalid):
    """A SQLite subscriber is a file: what is in memory is gone with the process, and with it how far it was."""

    number = 7141
    fact = "the subscriber {url} names no file of its own"
    hint = "Write the path of a database file: sqlite:///folder/file.db, or sqlite:////folder/file.db from the root on."
    url: str


@numbered
class ProceduresUnsupported(Invalid):
    """SQLite has no procedures, so a custom one has nothing that could stand in its place."""

    number = 7142
    fact = "the subscriber is a SQLite file, where procedure {procedure} for {operation}s of {table} cannot be"
    hint = "Publish the table without custom procedures in another publication; a trigger there may do what they do."
    procedure: str
    operation: str
    table: str


@numbered
class NameShared(Invalid):
    """Two published things would be one in a SQLite file: it has no schemas, and its names are equal in either case."""

    number = 7143
    fact = 'the SQLite file has one place "{name}" for {first} and {second}'
    hint = "Give one a file of its own; what a lost subscription left is in the file's table MSreplication_objects."
    name: str
    first: str
    second: str


@numbered
class ColumnAlters(Invalid):
    """What a SQLite column is declared as makes it store other values than those that come."""

    number = 7144
    fact = "column {column} of {table} is declared {declared} at the subscriber, which alters {published} values"
    hint = "Declare it {wanted}; or leave it out of the article with --columns."
    table: str
    column: str
    declared: str
    published: str
    wanted: str


@numbered
class ConstraintsUnsupported(Invalid):
    """In a SQLite file foreign keys are left out, as programs may, and triggers cannot be."""

    number = 7147
    fact = "the SQLite file {path} takes no choice of constraints: its triggers fire, its foreign keys do not act"
    hint = "Leave --constraints out."
    path: str


@numbered
class SubscriberFileFailed(Retryable):
    """SQLite cannot write to the subscriber's file: its disk is full, or it is read-only."""

    number = 7145
    fact = "the subscriber's file {path} cannot be written ({code}): {reason}"
    hint = "Make room, or let this user write the file and its folder; delivery goes on with the batch that was undone."
    path: str
    code: str
    reason: str


@numbered
class SubscriberFileUnusable(RowtideError):
    """SQLite finds no database in the subscriber's file, a damaged one, or none that rowtide made its tables in."""

    number = 7182
    fact = "the subscriber's file {path} cannot be used ({code}): {reason}"
    hint = (
        "Is it damaged? Restore it from a backup: delivery goes on from what that has, if the log store has the rest."
    )
    path: str
    code: str
    reason: str


@numbered
class SubscriberFileReplaced(Retryable):
    """Another file took the place of the one that the agent has open: what it wrote there, nobody would see."""

    number = 7146
    fact = "another file has taken the place of {path}, or it was removed"
    hint = "Delivery opens it anew, and goes on where that file is."
    path: str
