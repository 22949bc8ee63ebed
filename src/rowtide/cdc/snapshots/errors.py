"""Errors of snapshots of captured tables."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Invalid, NotFound, RowtideError
from rowtide.core.row_values import Said


class SnapshotOpen(AlreadyExists, number=4210):
    """A snapshot of the instance is requested already, or being copied."""

    fact = "a snapshot of capture instance {instance} is requested already, and not finished"
    hint = "Wait until it has ended (`rowtide cdc snapshots`), or run `rowtide cdc snapshots --cancel {instance}`."
    instance: str


class SnapshotNotOpen(NotFound, number=4211):
    """No snapshot of the instance is requested or being copied."""

    fact = "no snapshot of {name} is requested or being copied"
    hint = "`rowtide cdc snapshots` lists those that are; `rowtide cdc resnapshot TABLE` requests one."
    name: str


class SnapshotNeedsKey(Invalid, number=4212):
    """Some rows of a table can be copied again only if it has a key."""

    fact = "capture instance {instance} has no key by which copied rows replace others"
    hint = "Omit --where: the whole table is copied again."
    instance: str


class SnapshotConditionInvalid(Invalid, number=4213):
    """The server refuses the condition of a snapshot."""

    fact = "the server refuses the condition {condition}: {reason}"
    hint = "Write it as after `where` in SQL, with columns of this table only."
    condition: str
    reason: str


class SnapshotRateInvalid(Invalid, number=4214):
    """The rate of a snapshot is at least one row a second."""

    fact = "{rows_per_second} rows a second is not a rate of a snapshot"
    hint = "Name at least 1; to stop for a while, pause the snapshot."
    rows_per_second: int


class CopyBroken(RowtideError, number=22861):
    """The copy of a table met an unknown error; capture and other copies continue."""

    fact = "the copy of {instance} has ended: {reason}"
    hint = "Capture continues. `rowtide cdc resnapshot {instance}` copies the table again; the process logged where."
    instance: str
    reason: Said
