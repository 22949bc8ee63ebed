"""Errors of subscribers that are SQLite files."""

from __future__ import annotations

from typing import ClassVar

from rowtide.core.errors import Remedy, RowtideError, numbered


@numbered
class SubscriberWithoutFile(RowtideError):
    """A SQLite subscriber is a file: what is in memory is gone with the process, and with it how far it was."""

    number = 7141
    fact = "the subscriber {url} names no file of its own"
    hint = "Write the path of a database file: sqlite:///folder/file.db, or sqlite:////folder/file.db from the root on."
    url: str


@numbered
class ProceduresUnsupported(RowtideError):
    """SQLite has no procedures, so a custom one has nothing that could stand in its place."""

    number = 7142
    fact = "the subscriber is a SQLite file, where procedure {procedure} for {operation}s of {table} cannot be"
    hint = "Publish the table without custom procedures in another publication; a trigger there may do what they do."
    procedure: str
    operation: str
    table: str


@numbered
class NameShared(RowtideError):
    """Two published things would be one in a SQLite file: it has no schemas, and its names are equal in either case."""

    number = 7143
    fact = 'the SQLite file has one place "{name}" for {first} and {second}'
    hint = "Give one a file of its own; what a lost subscription left is in the file's table MSreplication_objects."
    name: str
    first: str
    second: str


@numbered
class ColumnAlters(RowtideError):
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
class ConstraintsUnsupported(RowtideError):
    """In a SQLite file foreign keys are left out, as programs may, and triggers cannot be."""

    number = 7147
    fact = "the SQLite file {path} takes no choice of constraints: its triggers fire, its foreign keys do not act"
    hint = "Leave --constraints out."
    path: str


@numbered
class SubscriberFileFailed(RowtideError):
    """SQLite cannot write to the subscriber's file: its disk is full, or it is read-only."""

    number = 7145
    fact = "the subscriber's file {path} cannot be written ({code}): {reason}"
    hint = "Make room, or let this user write the file and its folder; delivery goes on with the batch that was undone."
    remedy: ClassVar = Remedy.RETRY
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
class SubscriberFileReplaced(RowtideError):
    """Another file took the place of the one that the agent has open: what it wrote there, nobody would see."""

    number = 7146
    fact = "another file has taken the place of {path}, or it was removed"
    hint = "Delivery opens it anew, and goes on where that file is."
    remedy: ClassVar = Remedy.RETRY
    path: str
