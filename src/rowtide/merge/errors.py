"""Errors of merge replication, 8001 and up."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError, numbered

FOREIGN_KEY_CODES = ("23503", "23001", "SQLITE_CONSTRAINT_FOREIGNKEY")
"""Codes of refusals by a foreign key, PostgreSQL's and SQLite's."""
NOT_UTF_8 = ("22021", "a text in the row is not valid UTF-8")
"""Code, PostgreSQL's, and reason of refusing a row with such a text."""


@numbered
class MergePublicationUnknown(NotFound):
    """The database has no merge publication of this name."""

    number = 8002
    fact = "there is no merge publication {name} in this database"
    hint = "List them with `rowtide merge status`, or create one with `rowtide merge add-publication`."
    name: str


@numbered
class ArticleTableNotFound(NotFound):
    """The table to be published does not exist."""

    number = 8003
    fact = "there is no table {name} in this database"
    hint = "Write its name exactly as the database has it; views and temporary tables cannot be merged."
    name: str


@numbered
class MergeKeyMissing(Invalid):
    """A merged table needs a primary key."""

    number = 8004
    fact = "table {name} has no primary key"
    hint = "Add a primary key: other nodes need it to identify rows."
    name: str


@numbered
class UnsupportedColumnType(Invalid):
    """The subscriber has no type for a column's values."""

    number = 8005
    fact = "column {column} of {table} has type {type_text}, which the subscriber does not have"
    hint = "Create the type at the subscriber, and add the subscription again."
    table: str
    column: str
    type_text: str


@numbered
class NodeBusy(Retryable):
    """Other sessions wrote the same rows, or held the database locked."""

    number = 8006
    fact = "other sessions wrote to {node} at the same time: {reason}"
    hint = "Run the synchronisation again; if the error persists, run it when there are fewer writes."
    node: str
    reason: str


@numbered
class RowsRefused(RowtideError):
    """A node refuses rows: by a constraint, a trigger of the user's, or a type that does not take the value."""

    number = 8007
    fact = "{table} refused a row ({code}): {reason}"
    hint = "See `rowtide merge conflicts`; each synchronisation tries the row again."
    table: str
    code: str
    reason: str


@numbered
class ResolverUnknown(NotFound):
    """--resolver names no resolver."""

    number = 8008
    fact = 'there is no resolver "{resolver}" for {article}'
    hint = "Use one of these, with a column of the article where the resolver takes one: {known}."
    resolver: str
    article: str
    known: str


@numbered
class ResolverRefused(Invalid):
    """An article cannot have the resolver that --resolver names."""

    number = 8090
    fact = 'resolver "{resolver}" does not fit {article}: {reason}'
    hint = "See `Resolvers` in docs/reference/merge-conflicts.md for what each one needs."
    resolver: str
    article: str
    reason: str


@numbered
class ColumnsRefused(Invalid):
    """--columns does not fit the table."""

    number = 8091
    fact = "table {table} cannot be published with these columns: {reason}"
    hint = "The hub fills columns that are not published with their defaults or NULL when a subscriber inserts a row."
    table: str
    reason: str


@numbered
class DirectionsChanged(RowtideError):
    """A subscriber has tables of upload options, or of a direction, that the publisher no longer has."""

    number = 8092
    fact = "the upload options or the direction of {articles} were changed after {subscriber} was filled"
    hint = "Run `rowtide merge reinitialize --upload-first`: it uploads the subscriber's changes and copies its tables."
    subscriber: str
    articles: str


@numbered
class ChangeProhibited(Denied):
    """A program changed a row of a table that a subscription of type client may only read."""

    number = 8093
    fact = "{table} may only be changed at the publisher"
    hint = "It was published with --subscriber-upload-options 2, from which subscriptions of type server are exempt."
    table: str


@numbered
class UploadOptionsRefused(Invalid):
    """--subscriber-upload-options does not fit the article."""

    number = 8094
    fact = "subscriber upload options {options} do not fit {article}: {reason}"
    hint = "0: changes are uploaded; 1: they are not; 2: programs at subscribers of type client may change nothing."
    article: str
    options: int
    reason: str


@numbered
class PriorityRefused(Invalid):
    """A server's priority is not below its publisher's."""

    number = 8095
    fact = "{subscriber} cannot have priority {priority} in {publication}, whose publisher has {publisher_priority}"
    hint = "Choose one from 0 up to, but below, the publisher's: 100, or its own as a subscriber that publishes again."
    subscriber: str
    priority: float
    publication: str
    publisher_priority: float


@numbered
class RepublisherNotServer(Denied):
    """A subscription of type client has the table, and its changes have no priority of their own."""

    number = 8096
    fact = (
        "table {table} cannot be published here: this database has it by a subscription of type client to {publication}"
    )
    hint = "Subscribe it with --type server and a --priority, which its own changes and those of its clients then have."
    table: str
    publication: str


@numbered
class SessionReplaced(RowtideError):
    """Another synchronisation of the same subscription has begun."""

    number = 8009
    fact = "another synchronisation of {subscriber} has begun, and this one ends"
    hint = "Run one at a time. Nothing is lost: the other synchronisation continues from what was exchanged."
    subscriber: str


@numbered
class MergePublicationExists(AlreadyExists):
    """The publication's name is taken."""

    number = 8010
    fact = "this database already has a merge publication {name}"
    hint = "Choose another name, or drop it first with `rowtide merge drop-publication`."
    name: str


@numbered
class RowguidUnfit(Invalid):
    """The table has a column rowguid that cannot identify its rows."""

    number = 1023
    fact = "table {table} has a column rowguid, {reason}"
    hint = "Rename the column: merge replication adds its own column rowguid, a UUID for each row."
    table: str
    reason: str


@numbered
class MergeArticleExists(AlreadyExists):
    """The table is in the publication already, or merged with other options."""

    number = 8011
    fact = "table {table} is already merged: {reason}"
    hint = "Drop the article first, or publish it with the same options."
    table: str
    reason: str


@numbered
class MergeArticleUnknown(NotFound):
    """The publication has no such article."""

    number = 8012
    fact = "publication {publication} has no article {article}"
    hint = "List articles with `rowtide merge articles`."
    publication: str
    article: str


@numbered
class MergeSubscriptionUnknown(NotFound):
    """The publisher, the subscriber or both have no such subscription."""

    number = 8013
    fact = "{subscriber} does not subscribe to {publication}"
    hint = "Add it with `rowtide merge add-subscription`; an earlier subscription may have been dropped at one end."
    subscriber: str
    publication: str


@numbered
class MergeSubscriptionExists(AlreadyExists):
    """The database subscribes already."""

    number = 8014
    fact = "{subscriber} already subscribes to {publication}"
    hint = "Synchronise it with `rowtide merge sync`, or drop it first."
    subscriber: str
    publication: str


@numbered
class SubscriptionsLeft(Denied):
    """Articles cannot be changed while the publication has subscriptions."""

    number = 8015
    fact = "publication {publication} has subscribers: {subscribers}"
    hint = "Drop these subscriptions first: articles can be changed only while there are none."
    publication: str
    subscribers: str


@numbered
class SubscriberHasTable(AlreadyExists):
    """The subscriber has a table that the snapshot would create."""

    number = 8016
    fact = "the subscriber already has a table {table}"
    hint = (
        "Drop or rename it there: the subscription creates it, with its rows, constraints and triggers. Two "
        "publications of one publisher share a table if neither filters it."
    )
    table: str


@numbered
class NodeRestored(DataLoss):
    """The publisher or the subscriber was restored from a backup, or is a copy, since they last synchronised."""

    number = 8017
    fact = "{subscriber} or the publisher was restored from a backup, or is a copy, since they last synchronised"
    hint = (
        "To keep using this database, save changes that only the subscriber has, then run `rowtide merge reinitialize` "
        "without --upload-first. In a copy of the publisher that is not meant to synchronise, run `rowtide merge "
        "drop-subscription --ignore-subscriber`."
    )
    subscriber: str


@numbered
class NodeCopied(RowtideError):
    """A node is a copy of another database, which still exists."""

    number = 8032
    fact = "database {database} has the merge metadata of {original}, of which it is a copy"
    hint = (
        "Its subscriptions belong to the original: in a copied publisher, drop them with `rowtide merge "
        "drop-subscription --ignore-subscriber`. If this database replaces the original, run `rowtide merge "
        "reinitialize` without --upload-first."
    )
    database: str
    original: str


@numbered
class FilterRefused(Invalid):
    """A filter is not in the filter language, or needs more than the row itself to be evaluated."""

    number = 8024
    fact = "the filter {condition} of {article} is refused: {reason}"
    hint = "Write a condition over the article's columns, host_name() and suser_name(), without subqueries or the time."
    article: str
    condition: str
    reason: str


@numbered
class StoredFilterRefused(Invalid):
    """A filter that an earlier version accepted is no longer accepted."""

    number = 8030
    fact = "the filter {condition} of {article}, which an earlier version accepted, is refused: {reason}"
    hint = "Replace it with `rowtide merge change-article`; subscribers follow when they synchronise."
    article: str
    condition: str
    reason: str


@numbered
class PartitionValueMissing(Invalid):
    """A filter uses a value that the subscription does not give."""

    number = 8025
    fact = "publication {publication} is filtered by {function}(), for which the subscription gives no value"
    hint = "Add {option}; the value is stored with the subscription."
    publication: str
    function: str
    option: str


@numbered
class PartitionValueUnfit(Invalid):
    """A filter converts a value of the subscription, which is not of the type."""

    number = 8041
    fact = "publication {publication} is filtered by {function}() as {type_name}, which {value} is not"
    hint = "Give a value of the type: a date as YYYY-MM-DD, a number in plain digits."
    publication: str
    function: str
    value: str
    type_name: str


@numbered
class JoinFilterRefused(Invalid):
    """A join filter does not fit the publication."""

    number = 8026
    fact = "{child} cannot be filtered by {parent}: {reason}"
    hint = (
        "A join filter is a condition over columns of two articles of one publication, each with its table before it."
    )
    child: str
    parent: str
    reason: str


@numbered
class RecordOptionsRefused(Invalid):
    """An article's options of logical records contradict each other."""

    number = 8120
    fact = "article {article} cannot have these options of logical records: {reason}"
    hint = "Detect conflicts of records only where they are resolved as records too."
    article: str
    reason: str


@numbered
class RecordLinkRefused(Invalid):
    """Rows of two articles cannot be parts of one logical record."""

    number = 8121
    fact = "{child} cannot be in logical records of {parent}: {reason}"
    hint = (
        "A link is a foreign key without actions to a unique key. Each article has one link at most, and the options "
        "of records are those of the top article."
    )
    child: str
    parent: str
    reason: str


@numbered
class RowOutsidePartition(RowsRefused):
    """A subscriber wrote a row outside its partition."""

    number = 8027
    fact = "{table} refused a row ({code}): {reason}"
    hint = (
        "With --partition-options 2 and 3 a subscriber may write only rows of its partition; "
        "see `rowtide merge conflicts`."
    )


@numbered
class PartitionMoved(RowsRefused):
    """A subscriber changed a column that decides about partitions."""

    number = 8040
    fact = "{table} refused a row ({code}): {reason}"
    hint = (
        "With --partition-options 1 a subscriber may not change the columns that filters use; "
        "see `rowtide merge conflicts`."
    )


@numbered
class ParentNotThere(RowsRefused):
    """The publisher does not have the row that an uploaded one references."""

    number = 8050
    fact = "{table} refused a row ({code}): {reason}"
    hint = (
        "The row went to the conflict inbox with its parent, or alone if the publisher had deleted that; restore both "
        "with `rowtide merge resolve`."
    )

    @classmethod
    def named(cls, table: str, parent: str, rowguid: str) -> ParentNotThere:
        """Return the error of a row whose parent is missing."""
        return cls(table, "RT-8050", f"its parent in {parent}, {rowguid}, is not at the publisher")


@numbered
class ParentInInbox(Denied):
    """The publisher does not have the parent of a row that is to be restored."""

    number = 8051
    fact = "conflict {conflict_id} is a row of {table} whose parent in {parent}, {rowguid}, is not at the publisher"
    hint = "Resolve the conflict of the parent, which restores its children too; one that was deleted has none."
    conflict_id: str
    table: str
    parent: str
    rowguid: str


@numbered
class KeyNotNumbered(Invalid):
    """Rows of a table cannot get new keys, because programs choose its keys."""

    number = 8052
    fact = "rows of {table} are not numbered by the database: {reason}"
    hint = "Give the table an integer key that is identity, serial, or INTEGER PRIMARY KEY, or leave out the option."
    table: str
    reason: str


@numbered
class IdentityRangeExhausted(RowtideError):
    """A table's key has no numbers left that a node could be given."""

    number = 8053
    fact = "there are no numbers left for the key of {table}"
    hint = (
        "If the key is of a small integer type, use a larger one. At a node that publishes what it subscribes to, "
        "synchronise with its own publisher first."
    )
    table: str


@numbered
class IdentityRangeMissing(Invalid):
    """A node has no numbers of a table that it could give to subscribers."""

    number = 8054
    fact = "this node has no numbers of {table} that it could give to subscribers"
    hint = (
        "Publish the table with --identity-range. If another publisher numbers it, subscribe this node there as a "
        "server (`rowtide merge add-subscription --type server`) to an article with --publisher-identity-range."
    )
    table: str


@numbered
class IdentityRangeUnfit(Denied):
    """A file cannot be numbered from ranges that its publisher has from another publisher."""

    number = 8055
    fact = "a file cannot be given numbers of {table} by a publisher that has them from another publisher"
    hint = (
        "SQLite numbers a row above all that the file has, and rows of the other publisher may be above the ranges of "
        "this one: subscribe a PostgreSQL database here, or the file there."
    )
    table: str


@numbered
class HandlerFailed(RowtideError):
    """A business logic handler raised an error or returned an invalid value; the synchronisation ends."""

    number = 8028
    fact = "{handler} failed in {method} for a row of {article}: {reason}"
    hint = "Fix the handler, and synchronise again: nothing of the row's batch was written."
    handler: str
    method: str
    article: str
    reason: str


@numbered
class MergedTableAltered(RowtideError):
    """A published table was altered, or its changes are no longer tracked."""

    number = 8029
    fact = "table {table} of {node} was altered: {reason}"
    hint = (
        "Restore columns that are missing, except rowguid, then run `rowtide merge reinitialize`, for each subscriber "
        "if it is the publisher's table: it recreates triggers. With --upload-first it compares the subscriber's rows "
        "with what it was sent, and uploads what was changed without triggers."
    )
    node: str
    table: str
    reason: str


@numbered
class DefinitionsDiffer(RowtideError):
    """The subscriber's definitions of articles are not the publisher's, or these not its tables."""

    number = 8070
    fact = "the schema of {articles} was changed, and {subscriber} has not followed"
    hint = "Run `rowtide merge sync`: it uploads the subscriber's changes, alters its tables, and downloads."
    subscriber: str
    articles: str


@numbered
class SchemaAhead(DataLoss):
    """The subscriber has followed a schema change that the publisher does not know."""

    number = 8071
    fact = "{subscriber} has schema version {version} of publication {publication}, which the publisher does not have"
    hint = (
        "The publisher was restored from a backup. Save changes that only the subscriber has, then run `rowtide merge "
        "reinitialize` without --upload-first: it alters the subscriber's tables as the publisher's are."
    )
    subscriber: str
    version: int
    publication: str


@numbered
class ColumnsCollide(AlreadyExists):
    """The publisher has a new column, and the subscriber one of this name with another type."""

    number = 8072
    fact = "table {table} of the subscriber has a column {column} of type {present}, the publisher's has type {wanted}"
    hint = "Rename the subscriber's column, or give it the publisher's type, and synchronise again."
    table: str
    column: str
    present: str
    wanted: str


@numbered
class SchemaChangeRefused(RowtideError):
    """The subscriber's database refuses to alter a table as the publisher's was altered."""

    number = 8073
    fact = "the subscriber refused a change of table {table} ({statement}): {reason}"
    hint = (
        "Remove the cause there and synchronise again; or alter the table there by hand, and mark the change with "
        "`rowtide merge mark-schema-change --skip`."
    )
    table: str
    statement: str
    reason: str


@numbered
class KeyChanged(Denied):
    """A merged table has another primary key than it was published with."""

    number = 8074
    fact = "the primary key of table {table} was changed from ({before}) to ({after})"
    hint = "Restore the key; or run `rowtide merge drop-article` and, after all have synchronised, `add-article`."
    table: str
    before: str
    after: str


@numbered
class ColumnNeeded(Denied):
    """A filter or a resolver uses a column that the table no longer has."""

    number = 8075
    fact = "{purpose} of {article} does not fit its table any more: {reason}"
    hint = "Replace it with `rowtide merge change-article`, or restore the column."
    purpose: str
    article: str
    reason: str


@numbered
class SchemaChangeUnknown(NotFound):
    """The publication has no such schema change."""

    number = 8076
    fact = "publication {publication} has no schema change {version}"
    hint = "List them with `rowtide merge schema-changes`."
    publication: str
    version: int


@numbered
class TableNotAltered(Invalid):
    """The database refuses the clause of `alter-article`."""

    number = 8077
    fact = "the database refused to alter table {table}: {reason}"
    hint = "Write what follows `alter table NAME` in the publisher's SQL; nothing was changed."
    table: str
    reason: str


@numbered
class ConflictUnknown(NotFound):
    """No conflict with this id is stored."""

    number = 8019
    fact = "there is no conflict {conflict_id} in this database"
    hint = "List conflicts with `rowtide merge conflicts`."
    conflict_id: str


@numbered
class ConflictNotAtHub(Denied):
    """Conflicts are resolved at the publisher."""

    number = 8020
    fact = "conflict {conflict_id} is stored here, but this database is a subscriber"
    hint = "Resolve it at the publisher, which also has it after a synchronisation."
    conflict_id: str


@numbered
class ConflictOfSubscriber(Denied):
    """A subscriber refused a row: the publisher has no other version to choose."""

    number = 8023
    fact = "conflict {conflict_id} is a row that the subscriber refuses"
    hint = "Fix the cause at the subscriber, or the row here: each synchronisation sends it again."
    conflict_id: str


@numbered
class UploadNotComparable(DataLoss):
    """The publisher has purged the metadata that it needs to order the subscriber's changes."""

    number = 8021
    fact = "the changes of {subscriber} cannot be compared with those of other nodes: {reason}"
    hint = "Export what you need from the subscriber, and run `rowtide merge reinitialize` without --upload-first."
    subscriber: str
    reason: str


@numbered
class MergeValidationFailed(RowtideError):
    """Rows differ between publisher and subscriber (SQL Server: 20574)."""

    number = 8022
    fact = "{failed} of {all} articles differ between the publisher and {subscriber}"
    hint = (
        "Synchronise while there are no writes, and validate again; if they still differ, `rowtide merge reinitialize`."
    )
    subscriber: str
    failed: int
    all: int


@numbered
class SubscriptionExpired(DataLoss):
    """The subscriber has not synchronised for longer than the retention."""

    number = 8018
    fact = "{subscriber} last synchronised on {last}, more than {days} days ago"
    hint = "Run `rowtide merge reinitialize`, with --upload-first to keep the subscriber's own changes."
    subscriber: str
    last: str
    days: int


@numbered
class PartitionUnused(Invalid):
    """A subscriber is to move to another partition, but all subscribers have all rows."""

    number = 8060
    fact = "no article of {publication} is filtered: its subscribers have all rows"
    hint = "Filter articles with `rowtide merge add-article --where`, before the first subscription."
    publication: str


@numbered
class TablesUnfit(Invalid):
    """Tables of a subscriber cannot take the rows of their articles."""

    number = 8061
    fact = "tables of {subscriber} do not fit: {misfits}"
    hint = "Change the tables as stated, all of them, and repeat the command."
    subscriber: str
    misfits: str


@numbered
class NodeOutdated(RowtideError):
    """The node's metadata are of another build, and may not be completed with this connection."""

    number = 8080
    fact = "the metadata of {name} are of another build, and cannot be completed: {reason}"
    hint = (
        "Run `rowtide merge status` once on the primary, as the role that owns the metadata, or with rights to write."
    )
    name: str
    reason: str


@numbered
class DocumentedTableUnknown(NotFound):
    """SQL Server documents no such table of merge, or it has no counterpart here."""

    number = 8081
    fact = "there is no table {name}"
    hint = "Choose one of {names}."
    name: str
    names: str


@numbered
class SnapshotUnfit(Invalid):
    """A prepared snapshot is not of the publication or the partition."""

    number = 8110
    fact = "the snapshot in {folder} cannot be used: {reason}"
    hint = "Name the folder of a snapshot of this publication and partition; `rowtide merge snapshot` makes one."
    folder: str
    reason: str


@numbered
class SnapshotOutdated(RowtideError):
    """The publisher can no longer tell what was changed after a prepared snapshot."""

    number = 8111
    fact = "the snapshot in {folder}, of {taken}, is too old: {reason}"
    hint = "Make a new one by `rowtide merge snapshot`."
    folder: str
    taken: str
    reason: str


@numbered
class SnapshotDamaged(RowtideError):
    """A file of a prepared snapshot is missing, or has other contents than were written."""

    number = 8112
    fact = "the file {path} of a snapshot is damaged: {reason}"
    hint = "Copy it again, or make a new snapshot by `rowtide merge snapshot`; what was delivered stays."
    path: str
    reason: str


@numbered
class NeverValidated(NotFound):
    """A subscriber's rows were never found equal to the publisher's, so there is no such time to start from."""

    number = 8082
    fact = "no validation of {subscriber} has found all rows equal"
    hint = "Give a date, or let everything be repeated that metadata are left of: `--since start`."
    subscriber: str


@numbered
class DefinitionOfNewerBuild(RowtideError):
    """An article was defined, or changed, by a newer version of rowtide, with an option that this one lacks."""

    number = 8130
    fact = "the definition of article {article} is of a newer version of rowtide: {reason}"
    hint = "Update rowtide here to the version that wrote it; nothing was changed, and pending changes stay."
    article: str
    reason: str


@numbered
class ChangesNotUploaded(RowtideError):
    """A subscription was to be dropped after an upload, and the publisher lacks some changes of the subscriber."""

    number = 8131
    fact = "the subscription of {subscriber} stays: the publisher does not have all of its changes: {changes}"
    hint = (
        "`rowtide merge conflicts` and `rowtide merge sync` say why they are refused. "
        "To give them up, drop the subscription without --upload-first."
    )
    subscriber: str
    changes: str
