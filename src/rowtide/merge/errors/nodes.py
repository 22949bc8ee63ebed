"""Errors of the databases that take part, of their tables, and of stored rows that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.core.errors import DataLoss, Denied, Invalid, Retryable, RowtideError
from rowtide.core.redaction import Said


class NodeBusy(Retryable, number=8006):
    """Other sessions wrote the same rows, or held the database locked."""

    fact = "other sessions used {node} at the same time: {reason}"
    hint = """Run the synchronisation again; if the error persists, run it when there are fewer writes, and look for a
        program that leaves a transaction open."""
    node: str
    reason: Said


class FileHasReaders(NodeBusy, number=8172):
    """Programs read a file without a write-ahead log, which then cannot be written."""

    fact = "open queries of other programs keep {node} from being written: {reason}"
    hint = """End them and run the synchronisation again, or run `pragma journal_mode = wal` in the file, once, while no
        other program has it open: then it is written while it is read. Not for files on network file systems."""


class ChangeProhibited(Denied, number=8093):
    """A program changed a row of a table that a subscription of type client may only read."""

    fact = "{table} may only be changed at the publisher"
    hint = """It was published with --subscriber-upload-options prohibited, from which subscriptions of type server are
        exempt."""
    table: str


class SessionReplaced(RowtideError, number=8009):
    """Another synchronisation of the same subscription has begun."""

    fact = "another synchronisation of {subscriber} has begun, and this one ends"
    hint = "Run one at a time. Nothing is lost: the other synchronisation continues from what was exchanged."
    subscriber: str


class NodeRestored(DataLoss, number=8017):
    """The publisher or the subscriber was restored from a backup, or is a copy, since they last synchronised."""

    fact = "{subscriber} or the publisher was restored from a backup, or is a copy, since they last synchronised"
    hint = """To keep using this database, save changes that only the subscriber has, then run `rowtide merge
        reinitialize PUBLICATION --subscriber {subscriber}` without --upload-first. In a copy of the publisher that is
        not meant to synchronise, run `rowtide merge drop-subscription PUBLICATION --subscriber {subscriber}
        --ignore-subscriber`. Another client of a gateway sets these changes aside, takes a new file with `replaces` of
        the request `file`, and makes the changes again in it."""
    subscriber: str


class NodeCopied(RowtideError, number=8032):
    """A node is a copy of another database, which still exists."""

    fact = "database {database} has the merge metadata of {original}, of which it is a copy"
    hint = """Its subscriptions belong to the original: in a copied publisher, drop them with `rowtide merge
        drop-subscription PUBLICATION --subscriber URL --ignore-subscriber`. If this database replaces the original, run
        `rowtide merge reinitialize PUBLICATION --subscriber URL` without --upload-first."""
    database: str
    original: str


class HandlerFailed(RowtideError, number=8028):
    """A business logic handler raised an error or returned an invalid value; the synchronisation ends."""

    fact = "{handler} failed in {method} for a row of {article}: {reason}"
    hint = "Fix the handler, and synchronise again: nothing of the row's batch was written."
    handler: str
    method: str
    article: str
    reason: Said


class MetadataMalformed(RowtideError, number=8141):
    """A database has metadata of merge that rowtide did not write: a program changed them, or the file is damaged."""

    fact = "the metadata of {table} are not rowtide's at {row}: {reason}"
    hint = """Nothing from this database was accepted since the last batch. Save what only it has, and run `rowtide
        merge reinitialize PUBLICATION --subscriber URL` without --upload-first, or drop its subscription and subscribe
        a new file."""
    table: str
    row: str
    reason: str


class RowguidMalformed(MetadataMalformed, number=8163):
    """A row has a rowguid that is no UUID: a program gave it one, or changed it."""

    fact = "the row of {table} with the rowguid {row} cannot go to other databases: {reason}"
    hint = """Nothing from this database was accepted since the last batch. Delete the row in it, and insert it again
        without a rowguid: it gets one. Programs that write the column have to write UUIDs in lower case."""


class GenerationRefused(DataLoss, number=8142):
    """A subscriber reports generations that it cannot have: its database was tampered with, or restored."""

    fact = "the state that {subscriber} reports does not match the publisher's: {reason}"
    hint = """Its database was changed by hand, or put back in part. Save what only it has, and run `rowtide merge
        reinitialize PUBLICATION --subscriber {subscriber}` without --upload-first."""
    subscriber: str
    reason: str


class UnsentByOtherBuild(Invalid, number=8177):
    """A subscriber's file was written before formats had numbers, and has changes that its publisher does not have."""

    fact = "{name} was written before formats had numbers, and has changes that its publisher has not received"
    hint = """Nothing was changed. Synchronise it with the build of rowtide that wrote it; then drop its subscription,
        and subscribe it again with this one."""
    name: str


class NodeOutdated(RowtideError, number=8080):
    """The node's views and functions are of another build, and may not be replaced with this connection."""

    fact = "the views and functions of {name} are of another build, and cannot be replaced: {reason}"
    hint = """Run `rowtide merge status` once on the primary, as the role that owns the metadata, or with rights to
        write."""
    name: str
    reason: str


class OwnerNotHeld(Denied, number=8150):
    """A table belongs to a role that the agent's role may not act as."""

    fact = '{table} belongs to "{owner}", and "{agent}" may not run its triggers and defaults with that role\'s rights'
    hint = """Run `grant "{owner}" to "{agent}"`, connect as the owner, or trust its code by `rowtide merge
        change-publication PUBLICATION --run-as agent`, or for a subscriber's tables by --run-as agent of `rowtide merge
        add-subscription PUBLICATION --subscriber URL`."""
    table: str
    owner: str
    agent: str


class OwnersDiffer(Denied, number=8151):
    """Partitions of a table belong to other roles, whose code would run with rights that are not theirs."""

    fact = '{table} belongs to "{owner}", but partitions or descendants of it to {others}'
    hint = """Run `alter table ... owner to` for these, or trust their code by `rowtide merge change-publication
        PUBLICATION --run-as agent`, or for a subscriber's tables by --run-as agent of `rowtide merge add-subscription
        PUBLICATION --subscriber URL`."""
    table: str
    owner: str
    others: str


class DeferredCodeOfOwner(Denied, number=8152):
    """A deferred trigger of another role can run code with the agent's rights at the commit."""

    fact = "{table} is not written: at the commit, {deferred} would run with the agent's rights"
    hint = """Create the trigger or constraint again without `deferrable`, or trust its code by
        `rowtide merge change-publication PUBLICATION --run-as agent`, or for a subscriber's tables by --run-as agent of
        `rowtide merge add-subscription PUBLICATION --subscriber URL`."""
    table: str
    deferred: str


class PlannedCodeOfOwner(Denied, number=8153):
    """An index, statistics or partition key of another role's table calls a function that the planner runs."""

    fact = "{table} is not read: the planner would run {function} of another role with the agent's rights"
    hint = """Take the call out of the table's indexes, statistics and partition keys, or give it a column and write the
        function in PL/pgSQL; or trust the owner by `rowtide merge change-publication PUBLICATION --run-as agent`, or
        for a subscriber's tables by --run-as agent of `rowtide merge add-subscription PUBLICATION --subscriber URL`."""
    table: str
    function: str


_SHOWN = 150
"""Length to which errors truncate a value of a file: a program may have written a long one."""
_COUNTS = 1 << 53
_FAILURES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@contextmanager
def reading(table: str, row: object = "a row") -> Iterator[None]:
    """Raise `MetadataMalformed`, which names a row of a table, for what reading it raises."""
    try:
        yield
    except _FAILURES as error:
        raise MetadataMalformed(table, _shown(row), _shown(error) or type(error).__name__) from error


def _shown(value: object) -> str:
    """Return a short text that every database and terminal accepts: malformed values may not be UTF-8 either."""
    return ascii(str(value).partition("\n")[0])[1:-1][:_SHOWN]


def read_count(value: object) -> int:
    """Return the number of a generation or a session. Raises `ValueError`."""
    if isinstance(value, int) and 0 <= value < _COUNTS:
        return value
    raise ValueError("a number of generations or sessions is none")
