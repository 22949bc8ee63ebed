"""What two nodes know of one row, compared: whether one is newer, or both changed concurrently. Pure.

(SQL Server: sp_MSgetmetadata.) A version is known by the change that made it, and by its lineage: all changes that it
includes or has put aside knowingly. A row without metadata, as the snapshot brought it or after a purge, was made by
no change that anybody still asks for: whatever its lineage does not include is newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum

from rowtide.merge.versions.lineage import Change, Lineage


class Presence(Enum):
    """Whether a node has a row."""

    UNKNOWN = "unknown"
    LIVE = "live"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A row as a node knows it.

    `last` is the change that made it, None without metadata. `columns` are the last changes of tracked columns, by the
    column's place in the article; those that are not named are as the row was inserted. Without column tracking it is
    None.
    """

    presence: Presence
    lineage: Lineage
    last: Change | None
    columns: Mapping[int, Change] | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """The receiver has all that the sender has."""


@dataclass(frozen=True, slots=True)
class Take:
    """The sender's version is newer."""


@dataclass(frozen=True, slots=True)
class Join:
    """Both have deleted the row: one tombstone is to stand for both."""


@dataclass(frozen=True, slots=True)
class Combine:
    """Both changed concurrently, in different columns; the sender's are these, by their places."""

    columns: frozenset[int]


class ConflictKind(Enum):
    """Which changes are at odds; the first word is what the sender did."""

    UPDATE_UPDATE = "update-update"
    UPDATE_DELETE = "update-delete"
    DELETE_UPDATE = "delete-update"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Both changed concurrently; `columns` are the places of those that both changed, where columns are tracked."""

    kind: ConflictKind
    columns: frozenset[int] = frozenset()


Comparison = Nothing | Take | Join | Combine | Conflict


def compare(sent: RowVersion, known: RowVersion) -> Comparison:
    """Say what a sender's version of a row is to a receiver's; a sender's always has a last change."""
    assert sent.last is not None
    if known.lineage.includes(sent.last):
        return Nothing()
    if known.last is None or sent.lineage.includes(known.last):
        return Take()
    if sent.presence is Presence.DELETED or known.presence is Presence.DELETED:
        return _compare_deleted(sent, known)
    if sent.columns is None or known.columns is None:
        return Conflict(ConflictKind.UPDATE_UPDATE)
    ahead, behind = _unknown_to(known.lineage, sent.columns), _unknown_to(sent.lineage, known.columns)
    both = ahead & behind
    return Conflict(ConflictKind.UPDATE_UPDATE, frozenset(both)) if both else Combine(frozenset(ahead))


def concurrent_columns(sent: RowVersion, known: RowVersion) -> frozenset[int]:
    """Return the places of the columns that either changed concurrently with the other."""
    ahead, behind = _unknown_to(known.lineage, sent.columns or {}), _unknown_to(sent.lineage, known.columns or {})
    return frozenset(ahead | behind)


def _compare_deleted(sent: RowVersion, known: RowVersion) -> Comparison:
    if sent.presence is known.presence:
        return Join()
    if sent.presence is Presence.DELETED:
        return Conflict(ConflictKind.DELETE_UPDATE)
    return Conflict(ConflictKind.UPDATE_DELETE)


def _unknown_to(lineage: Lineage, columns: Mapping[int, Change]) -> Set[int]:
    return {place for place, change in columns.items() if not lineage.includes(change)}
