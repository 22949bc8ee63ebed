"""Errors of the databases that take part, and of their tables."""

from __future__ import annotations

from rowtide.core.errors import DataLoss, Denied, Invalid, Retryable, RowtideError, numbered
from rowtide.core.row_values import Said


@numbered
class NodeBusy(Retryable):
    """Other sessions wrote the same rows, or held the database locked."""

    number = 8006
    fact = "other sessions used {node} at the same time: {reason}"
    hint = (
        "Run the synchronisation again; if the error persists, run it when there are fewer writes, and look for a "
        "program that leaves a transaction open."
    )
    node: str
    reason: Said


@numbered
class FileHasReaders(NodeBusy):
    """Programs read a file without a write-ahead log, which then cannot be written."""

    number = 8172
    fact = "open queries of other programs keep {node} from being written: {reason}"
    hint = (
        "End them and run the synchronisation again, or run `pragma journal_mode = wal` in the file, once, while no "
        "other program has it open: then it is written while it is read. Not for files on network file systems."
    )


@numbered
class ChangeProhibited(Denied):
    """A program changed a row of a table that a subscription of type client may only read."""

    number = 8093
    fact = "{table} may only be changed at the publisher"
    hint = "It was published with --subscriber-upload-options 2, from which subscriptions of type server are exempt."
    table: str


@numbered
class SessionReplaced(RowtideError):
    """Another synchronisation of the same subscription has begun."""

    number = 8009
    fact = "another synchronisation of {subscriber} has begun, and this one ends"
    hint = "Run one at a time. Nothing is lost: the other synchronisation continues from what was exchanged."
    subscriber: str


@numbered
class NodeRestored(DataLoss):
    """The publisher or the subscriber was restored from a backup, or is a copy, since they last synchronised."""

    number = 8017
    fact = "{subscriber} or the publisher was restored from a backup, or is a copy, since they last synchronised"
    hint = (
        "To keep using this database, save changes that only the subscriber has, then run `rowtide merge reinitialize "
        "PUBLICATION --subscriber {subscriber}` without --upload-first. In a copy of the publisher that is not meant "
        "to synchronise, run `rowtide merge drop-subscription PUBLICATION --subscriber {subscriber} "
        "--ignore-subscriber`."
    )
    subscriber: str


@numbered
class NodeCopied(RowtideError):
    """A node is a copy of another database, which still exists."""

    number = 8032
    fact = "database {database} has the merge metadata of {original}, of which it is a copy"
    hint = (
        "Its subscriptions belong to the original: in a copied publisher, drop them with `rowtide merge "
        "drop-subscription PUBLICATION --subscriber URL --ignore-subscriber`. If this database replaces the original, "
        "run `rowtide merge reinitialize PUBLICATION --subscriber URL` without --upload-first."
    )
    database: str
    original: str


@numbered
class HandlerFailed(RowtideError):
    """A business logic handler raised an error or returned an invalid value; the synchronisation ends."""

    number = 8028
    fact = "{handler} failed in {method} for a row of {article}: {reason}"
    hint = "Fix the handler, and synchronise again: nothing of the row's batch was written."
    handler: str
    method: str
    article: str
    reason: Said


@numbered
class MetadataMalformed(RowtideError):
    """A database has metadata of merge that rowtide did not write: a program changed them, or the file is damaged."""

    number = 8141
    fact = "the metadata of {table} are not rowtide's at {row}: {reason}"
    hint = (
        "Nothing of this database was taken since the last batch. Save what only it has, and run `rowtide merge "
        "reinitialize PUBLICATION --subscriber URL` without --upload-first, or drop its subscription and subscribe a "
        "new file."
    )
    table: str
    row: str
    reason: str


@numbered
class GenerationRefused(DataLoss):
    """A subscriber says what it cannot know, or what was said before: its database was tampered with, or restored."""

    number = 8142
    fact = "{subscriber} is not where it says to be: {reason}"
    hint = (
        "Its database was changed by hand, or put back in part. Save what only it has, and run `rowtide merge "
        "reinitialize PUBLICATION --subscriber {subscriber}` without --upload-first."
    )
    subscriber: str
    reason: str


@numbered
class UnsentByOtherBuild(Invalid):
    """A subscriber's file was written before formats had numbers, and has changes that its publisher does not have."""

    number = 8177
    fact = "{name} was written before formats had numbers, and has changes that its publisher has not received"
    hint = (
        "Nothing was changed. Synchronise it with the build of rowtide that wrote it; then drop its subscription, and "
        "subscribe it again with this one."
    )
    name: str


@numbered
class NodeOutdated(RowtideError):
    """The node's views and functions are of another build, and may not be replaced with this connection."""

    number = 8080
    fact = "the views and functions of {name} are of another build, and cannot be replaced: {reason}"
    hint = (
        "Run `rowtide merge status` once on the primary, as the role that owns the metadata, or with rights to write."
    )
    name: str
    reason: str


@numbered
class OwnerNotHeld(Denied):
    """A table belongs to a role that the agent's role may not act as."""

    number = 8150
    fact = '{table} belongs to "{owner}", and "{agent}" may not run its triggers and defaults with that role\'s rights'
    hint = (
        'Run `grant "{owner}" to "{agent}"`, connect as the owner, or trust its code by `rowtide merge '
        "change-publication PUBLICATION --run-as agent`, or for a subscriber's tables by --run-as agent of `rowtide "
        "merge add-subscription PUBLICATION --subscriber URL`."
    )
    table: str
    owner: str
    agent: str


@numbered
class OwnersDiffer(Denied):
    """Partitions of a table belong to other roles, whose code would run with rights that are not theirs."""

    number = 8151
    fact = '{table} belongs to "{owner}", but partitions or descendants of it to {others}'
    hint = (
        "Run `alter table ... owner to` for these, or trust their code by `rowtide merge change-publication "
        "PUBLICATION --run-as agent`, or for a subscriber's tables by --run-as agent of `rowtide merge "
        "add-subscription PUBLICATION --subscriber URL`."
    )
    table: str
    owner: str
    others: str


@numbered
class DeferredCodeOfOwner(Denied):
    """Up to PostgreSQL 17, a deferred trigger of another role would run with the agent's rights at the commit."""

    number = 8152
    fact = "{table} is not written: with the agent's rights would run at the commit {deferred}"
    hint = (
        "Run `alter function ... security definer` for the trigger's function, upgrade the server to PostgreSQL 18, or "
        "trust its code by `rowtide merge change-publication PUBLICATION --run-as agent`, or for a subscriber's tables "
        "by --run-as agent of `rowtide merge add-subscription PUBLICATION --subscriber URL`."
    )
    table: str
    deferred: str


@numbered
class PlannedCodeOfOwner(Denied):
    """An index, statistics or partition key of another role's table calls a function that the planner runs."""

    number = 8153
    fact = "{table} is not read: the planner would run {function} of another role with the agent's rights"
    hint = (
        "Take the call out of the table's indexes, statistics and partition keys, or give it a column and write the "
        "function in PL/pgSQL; or trust the owner by `rowtide merge change-publication PUBLICATION --run-as agent`, or "
        "for a subscriber's tables by --run-as agent of `rowtide merge add-subscription PUBLICATION --subscriber URL`."
    )
    table: str
    function: str
