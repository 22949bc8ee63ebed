"""A change on its way from one node to another, and what a receiver knows and writes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rowtide.merge.lineage import Change, Lineage, decode_columns
from rowtide.merge.versions import Presence, RowVersion

Row = tuple[str | None, ...]
"""The values of an article's columns, each as PostgreSQL writes it; None is NULL."""


class TombstoneType(IntEnum):
    """Why a row is gone (SQL Server: MSmerge_tombstone.type)."""

    USER = 1
    """Somebody deleted it."""
    SYSTEM = 6
    """It lost a conflict over a key, or could not be kept."""
    LEFT = 5
    """It is in the subscriber's partition no more: it goes there, and leaves no tombstone."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row as its sender has it, or its tombstone.

    `lineage`, `last` and `columns` are encoded; `columns` is None without column tracking. `row` is None for a
    tombstone, which `tombstone` says the type of. `bases` are earlier values of the additive column; see `bases`.
    """

    rowguid: str
    lineage: bytes
    last: bytes
    columns: bytes | None
    row: Row | None
    tombstone: TombstoneType | None = None
    bases: str | None = None

    def as_tuple(self) -> tuple[str, bytes, bytes, bytes | None, Row | None, TombstoneType | None, str | None]:
        """Return all fields, in their order."""
        return (self.rowguid, self.lineage, self.last, self.columns, self.row, self.tombstone, self.bases)

    @property
    def version(self) -> RowVersion:
        """What conflicts are found by."""
        presence = Presence.DELETED if self.row is None else Presence.LIVE
        columns = None if self.columns is None else decode_columns(self.columns)
        return RowVersion(presence, Lineage.decode(self.lineage), Change.decode(self.last), columns)


@dataclass(frozen=True, slots=True)
class Known:
    """What a node knows of a row; `origin` is the node that its version came from, None for its own change.

    `generation` is that of this node in which it has been here, None without metadata.
    """

    version: RowVersion
    origin: int | None
    priority: float | None
    generation: int | None


@dataclass(frozen=True, slots=True)
class Write:
    """A row that is to be as a change says, and what is to be known of it.

    `origin` is the sender where its version is taken as it is; None makes it a change of the receiver's own, whose
    number is that of the generation it will be closed in: then `lineage` is what it includes besides, and
    `own_columns` are the places of the columns that it changed, where columns are tracked. `is_live` says whether the
    receiver has the row now. `priority` is what its version counts in conflicts, None for the receiver's own.
    """

    rowguid: str
    row: Row | None
    is_live: bool
    lineage: bytes
    last: bytes | None
    columns: bytes | None
    origin: int | None
    own_columns: frozenset[int] = frozenset()
    tombstone: TombstoneType = TombstoneType.USER
    priority: float | None = None
