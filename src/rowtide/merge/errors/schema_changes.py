"""Errors of altered tables and changed definitions."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, RowtideError
from rowtide.core.row_values import Said


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
