"""Errors of merge replication, 8001 and up."""

from __future__ import annotations

from typing import ClassVar

from rowtide.core.errors import Remedy, RowtideError, numbered


@numbered
class UnknownMergeDatabase(RowtideError):
    """No node for this kind of database."""

    number = 8001
    fact = "merge replication does not speak to databases of kind {kind}"
    hint = "Use a URL that begins with postgresql:// or sqlite:///."
    kind: str


@numbered
class PublicationUnknown(RowtideError):
    """There is no such publication for merging here."""

    number = 8002
    fact = "there is no merge publication {name} in this database"
    hint = "See `rowtide merge status`; make one with `rowtide merge add-publication`."
    name: str


@numbered
class ArticleTableNotFound(RowtideError):
    """The table that is to be merged is not there."""

    number = 8003
    fact = "there is no table {name} in this database"
    hint = "Write it as the database does; views and temporary tables cannot be merged."
    name: str


@numbered
class MergeKeyMissing(RowtideError):
    """A merged table needs a primary key."""

    number = 8004
    fact = "table {name} has no primary key"
    hint = "Give it one: without a key nobody could tell its rows apart at the other nodes."
    name: str


@numbered
class UnsupportedColumnType(RowtideError):
    """A column's values cannot travel."""

    number = 8005
    fact = "column {column} of {table} is of type {type_text}, which cannot be merged"
    hint = "Change the column's type, or leave the table out."
    table: str
    column: str
    type_text: str


@numbered
class NodeBusy(RowtideError):
    """Others wrote the same rows, or kept the database locked."""

    number = 8006
    fact = "{node} was written by others at the same time: {reason}"
    hint = "The synchronisation is tried again; if it comes back, run it at a quieter time."
    remedy: ClassVar = Remedy.RETRY
    node: str
    reason: str


@numbered
class RowsRefused(RowtideError):
    """A node does not take rows as they are: a constraint, a trigger of its own, a value that its type has not."""

    number = 8007
    fact = "{table} does not take a row ({code}): {reason}"
    hint = "See `rowtide merge conflicts`; the row is tried again at each synchronisation."
    table: str
    code: str
    reason: str
