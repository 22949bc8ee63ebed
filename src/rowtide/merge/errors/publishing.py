"""Errors of publications, articles and filters."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError, numbered
from rowtide.core.row_values import Said


@numbered
class MergePublicationUnknown(NotFound):
    """The database has no merge publication of this name."""

    number = 8002
    fact = "there is no merge publication {name} in this database"
    hint = "List them with `rowtide merge status`, or create one with `rowtide merge add-publication {name}`."
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
    reason: Said


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
    hint = (
        "Run `rowtide merge reinitialize PUBLICATION --subscriber {subscriber} --upload-first`: it uploads the "
        "subscriber's changes and copies its tables."
    )
    subscriber: str
    articles: str


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
class MergePublicationExists(AlreadyExists):
    """The publication's name is taken."""

    number = 8010
    fact = "this database already has a merge publication {name}"
    hint = "Choose another name, or drop it first with `rowtide merge drop-publication {name}`."
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
class SubscriptionsLeft(Denied):
    """Articles cannot be changed while the publication has subscriptions."""

    number = 8015
    fact = "publication {publication} has subscribers: {subscribers}"
    hint = "Drop these subscriptions first: articles can be changed only while there are none."
    publication: str
    subscribers: str


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
    hint = (
        "Replace it with `rowtide merge change-article PUBLICATION {article} --where CONDITION`; subscribers follow "
        "when they synchronise."
    )
    article: str
    condition: str
    reason: str


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
class KeyNotNumbered(Invalid):
    """Rows of a table cannot get new keys, because programs choose its keys."""

    number = 8052
    fact = "rows of {table} are not numbered by the database: {reason}"
    hint = "Give the table an integer key that is identity, serial, or INTEGER PRIMARY KEY, or leave out the option."
    table: str
    reason: str


@numbered
class DefinitionOfNewerBuild(RowtideError):
    """An article was defined, or changed, by a newer version of rowtide, with an option that this one lacks."""

    number = 8130
    fact = "the definition of article {article} is of a newer version of rowtide: {reason}"
    hint = "Update rowtide here to the version that wrote it; nothing was changed, and pending changes stay."
    article: str
    reason: str
