"""Errors of publications, articles and filters, of altered tables and changed definitions."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, RowtideError
from rowtide.core.redaction import Said


class MergePublicationUnknown(NotFound, number=8002):
    """The database has no merge publication of this name."""

    fact = "there is no merge publication {name} in this database"
    hint = "List them with `rowtide merge status`, or create one with `rowtide merge add-publication {name}`."
    name: str


class ArticleTableNotFound(NotFound, number=8003):
    """The table to be published does not exist."""

    fact = "there is no table {name} in this database"
    hint = "Write its name exactly as the database has it; views and temporary tables cannot be merged."
    name: str


class MergeKeyMissing(Invalid, number=8004):
    """A merged table needs a primary key."""

    fact = "table {name} has no primary key"
    hint = "Add a primary key: other nodes need it to identify rows."
    name: str


class UnsupportedColumnType(Invalid, number=8005):
    """The subscriber has no type for a column's values."""

    fact = "column {column} of {table} has type {type_text}, which the subscriber does not have"
    hint = "Create the type at the subscriber, and add the subscription again."
    table: str
    column: str
    type_text: str


class ResolverUnknown(NotFound, number=8008):
    """--resolver names no resolver."""

    fact = 'there is no resolver "{resolver}" for {article}'
    hint = "Use one of these, with a column of the article where the resolver takes one: {known}."
    resolver: str
    article: str
    known: str


class ResolverRefused(Invalid, number=8090):
    """An article cannot have the resolver that --resolver names."""

    fact = 'resolver "{resolver}" does not fit {article}: {reason}'
    hint = "See `Resolvers` in docs/reference/merge-conflicts.md for what each one needs."
    resolver: str
    article: str
    reason: Said


class ColumnsRefused(Invalid, number=8091):
    """--columns does not fit the table."""

    fact = "table {table} cannot be published with these columns: {reason}"
    hint = "The hub fills columns that are not published with their defaults or NULL when a subscriber inserts a row."
    table: str
    reason: str


class DirectionsChanged(RowtideError, number=8092):
    """A subscriber has tables of upload options, or of a direction, that the publisher no longer has."""

    fact = "the upload options or the direction of {articles} were changed after {subscriber} was filled"
    hint = """Run `rowtide merge reinitialize PUBLICATION --subscriber {subscriber} --upload-first`: it uploads the
        subscriber's changes and copies its tables."""
    subscriber: str
    articles: str


class UploadOptionsRefused(Invalid, number=8094):
    """--subscriber-upload-options does not fit the article."""

    fact = "subscriber upload options {options} do not fit {article}: {reason}"
    hint = """allowed: changes are uploaded; kept-local: they are not; prohibited: programs at subscribers of type
        client may change nothing."""
    article: str
    options: str
    reason: str


class RepublisherNotServer(Denied, number=8096):
    """A subscription of type client has the table, and its changes have no priority of their own."""

    fact = """table {table} cannot be published here: this database has it by a subscription of type client to
        {publication}"""
    hint = "Subscribe it with --type server and a --priority, which its own changes and those of its clients then have."
    table: str
    publication: str


class MergePublicationExists(AlreadyExists, number=8010):
    """The publication's name is taken."""

    fact = "this database already has a merge publication {name}"
    hint = "Choose another name, or drop it first with `rowtide merge drop-publication {name}`."
    name: str


class RowguidUnfit(Invalid, number=1023):
    """The table has a column rowguid that cannot identify its rows."""

    fact = "table {table} has a column rowguid, {reason}"
    hint = "Rename the column: merge replication adds its own column rowguid, a UUID for each row."
    table: str
    reason: str


class MergeArticleExists(AlreadyExists, number=8011):
    """The table is in the publication already, or merged with other options."""

    fact = "table {table} is already merged: {reason}"
    hint = """Drop the article first, or publish it with the same options. One that is being dropped waits for the
        subscribers that have not synchronised since: synchronise them, or drop their subscriptions."""
    table: str
    reason: str


class MergeArticleUnknown(NotFound, number=8012):
    """The publication has no such article."""

    fact = "publication {publication} has no article {article}"
    hint = "List articles with `rowtide merge articles`."
    publication: str
    article: str


class SubscriptionsLeft(Denied, number=8015):
    """Articles cannot be changed while the publication has subscriptions."""

    fact = "publication {publication} has subscribers: {subscribers}"
    hint = "Drop these subscriptions first: articles can be changed only while there are none."
    publication: str
    subscribers: str


class FilterRefused(Invalid, number=8024):
    """A filter is not in the filter language, or needs more than the row itself to be evaluated."""

    fact = "the filter {condition} of {article} is refused: {reason}"
    hint = "Write a condition over the article's columns, host_name() and suser_name(), without subqueries or the time."
    article: str
    condition: str
    reason: str


class StoredFilterRefused(Invalid, number=8030):
    """A filter that an earlier version accepted is no longer accepted."""

    fact = "the filter {condition} of {article}, which an earlier version accepted, is refused: {reason}"
    hint = """Replace it with `rowtide merge change-article PUBLICATION {article} --where CONDITION`; subscribers follow
        when they synchronise."""
    article: str
    condition: str
    reason: str


class JoinFilterRefused(Invalid, number=8026):
    """A join filter does not fit the publication."""

    fact = "{child} cannot be filtered by {parent}: {reason}"
    hint = """A join filter is a condition over columns of two articles of one publication, each with its table before
        it."""
    child: str
    parent: str
    reason: str


class RecordOptionsRefused(Invalid, number=8120):
    """An article's options of logical records contradict each other."""

    fact = "article {article} cannot have these options of logical records: {reason}"
    hint = "Detect conflicts of records only where they are resolved as records too."
    article: str
    reason: str


class RecordLinkRefused(Invalid, number=8121):
    """Rows of two articles cannot be parts of one logical record."""

    fact = "{child} cannot be in logical records of {parent}: {reason}"
    hint = """A link is a foreign key without actions to a unique key. Each article has one link at most, and the
        options of records are those of the top article."""
    child: str
    parent: str
    reason: str


class KeyNotNumbered(Invalid, number=8052):
    """Rows of a table cannot get new keys, because programs choose its keys."""

    fact = "rows of {table} are not numbered by the database: {reason}"
    hint = "Give the table an integer key that is identity, serial, or INTEGER PRIMARY KEY, or omit the option."
    table: str
    reason: str


class MergedTableAltered(RowtideError, number=8029):
    """A published table was altered, or its changes are no longer tracked."""

    fact = "table {table} of {node} was altered: {reason}"
    hint = """Restore columns that are missing, except rowguid, then run `rowtide merge reinitialize PUBLICATION
        --subscriber URL`, for each subscriber if it is the publisher's table: it recreates triggers. With
        --upload-first it compares the subscriber's rows with what it was sent, and uploads what was changed without
        triggers."""
    node: str
    table: str
    reason: str


class DefinitionsDiffer(RowtideError, number=8070):
    """The subscriber's definitions of articles are not the publisher's, or these not its tables."""

    fact = "the schema of {articles} was changed, and {subscriber} has not followed"
    hint = """Run `rowtide merge sync PUBLICATION --subscriber {subscriber}`: it uploads the subscriber's changes,
        alters its tables, and downloads."""
    subscriber: str
    articles: str


class SchemaAhead(DataLoss, number=8071):
    """The subscriber has followed a schema change that the publisher does not know."""

    fact = "{subscriber} has schema version {version} of publication {publication}, which the publisher does not have"
    hint = """The publisher was restored from a backup. Save changes that only the subscriber has, then run `rowtide
        merge reinitialize {publication} --subscriber {subscriber}` without --upload-first: it alters the subscriber's
        tables as the publisher's are."""
    subscriber: str
    version: int
    publication: str


class ColumnsCollide(AlreadyExists, number=8072):
    """The publisher has a new column, and the subscriber one of this name with another type."""

    fact = "table {table} of the subscriber has a column {column} of type {present}, the publisher's has type {wanted}"
    hint = "Rename the subscriber's column, or give it the publisher's type, and synchronise again."
    table: str
    column: str
    present: str
    wanted: str


class SchemaChangeRefused(RowtideError, number=8073):
    """The subscriber's database refuses to alter a table as the publisher's was altered."""

    fact = "the subscriber refused a change of table {table} ({statement}): {reason}"
    hint = """Remove the cause there and synchronise again; or alter the table there by hand, and mark the change with
        `rowtide merge mark-schema-change PUBLICATION VERSION --skip`."""
    table: str
    statement: str
    reason: Said


class KeyChanged(Denied, number=8074):
    """A merged table has another primary key than it was published with."""

    fact = "the primary key of table {table} was changed from ({before}) to ({after})"
    hint = """Restore the key; or run `rowtide merge drop-article PUBLICATION {table}` and, after all have synchronised,
        `add-article`."""
    table: str
    before: str
    after: str


class ColumnNeeded(Denied, number=8075):
    """A filter or a resolver uses a column that the table no longer has."""

    fact = "{purpose} of {article} does not fit its table any more: {reason}"
    hint = "Replace it with `rowtide merge change-article PUBLICATION {article}`, or restore the column."
    purpose: str
    article: str
    reason: str


class SchemaChangeUnknown(NotFound, number=8076):
    """The publication has no such schema change."""

    fact = "publication {publication} has no schema change {version}"
    hint = "List them with `rowtide merge schema-changes {publication}`."
    publication: str
    version: int


class TableNotAltered(Invalid, number=8077):
    """The database refuses the clause of `alter-article`."""

    fact = "the database refused to alter table {table}: {reason}"
    hint = "Write what follows `alter table NAME` in the publisher's SQL; nothing was changed."
    table: str
    reason: Said
