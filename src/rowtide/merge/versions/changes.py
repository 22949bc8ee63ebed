"""A change on its way from one node to another, and what a receiver knows and writes of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from rowtide.merge.versions.comparison import Presence, RowVersion
from rowtide.merge.versions.lineage import Change, Lineage, decode_columns

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


class RowChange(NamedTuple):
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

    @property
    def version(self) -> RowVersion:
        """What conflicts are found by."""
        return _version(self.lineage, self.last, self.columns, is_gone=self.row is None)


@dataclass(frozen=True, slots=True)
class Known:
    """What a node knows of a row; `origin` is the node that its version came from, None for its own change.

    `generation` is that of this node in which it has been here, None without metadata.
    """

    version: RowVersion
    origin: int | None
    priority: float | None
    generation: int | None


class Write(NamedTuple):
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


def number_alike(writes: Sequence[Write]) -> tuple[list[int], list[Write]]:
    """Return a number for each write, the same for those of which the same is to be known, and one write of each.

    Thousands of rows that were changed between the same synchronisations are alike: that comes to a database once.
    """
    numbers: dict[tuple[object, ...], int] = {}
    numbered: list[int] = []
    firsts: list[Write] = []
    for one in writes:
        number = numbers.setdefault((one.row is None, *one[2:]), len(firsts))
        if number == len(firsts):
            firsts.append(one)
        numbered.append(number)
    return numbered, firsts


# Thousands of rows that were changed between the same synchronisations have the same one.
@lru_cache(maxsize=1 << 12)
def _version(lineage: bytes, last: bytes, columns: bytes | None, *, is_gone: bool) -> RowVersion:
    presence = Presence.DELETED if is_gone else Presence.LIVE
    changed = None if columns is None else decode_columns(columns)
    return RowVersion(presence, Lineage.decode(lineage), Change.decode(last), changed)
