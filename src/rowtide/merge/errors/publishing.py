"""Errors of publications, articles and filters."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError
from rowtide.core.row_values import Said


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
    hint = "0: changes are uploaded; 1: they are not; 2: programs at subscribers of type client may change nothing."
    article: str
    options: int
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
    hint = "Drop the article first, or publish it with the same options."
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
