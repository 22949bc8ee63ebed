"""What two nodes know of one row, compared: whether one is newer, or both were changed apart. Pure.

(SQL Server: sp_MSgetmetadata.) A row that is gone is known by its tombstone. A row of which nothing is known has an
empty lineage: anything is newer.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from enum import Enum

from rowtide.merge.lineage import Change, Lineage


class Presence(Enum):
    """Whether a node has a row."""

    UNKNOWN = "unknown"
    LIVE = "live"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A row as a node knows it.

    `last` is its last change, and `priority` that change's. `columns` are the last changes of tracked columns; those
    that are not named are as the row was inserted. Without column tracking it is None.
    """

    presence: Presence
    lineage: Lineage
    last: Change | None
    columns: Mapping[str, Change] | None = None
    priority: float = 0.0


UNKNOWN = RowVersion(Presence.UNKNOWN, Lineage.EMPTY, None)


@dataclass(frozen=True, slots=True)
class Nothing:
    """The receiver has all that the sender has."""


@dataclass(frozen=True, slots=True)
class Take:
    """The sender's version is newer."""


@dataclass(frozen=True, slots=True)
class Join:
    """Both come to the same: the receiver notes that, and its row stays as it is."""


@dataclass(frozen=True, slots=True)
class Combine:
    """Both were changed apart, in different columns; of the sender are these."""

    columns: frozenset[str]


class ConflictKind(Enum):
    """Which changes are at odds; the first word is what the sender did."""

    UPDATE_UPDATE = "update-update"
    UPDATE_DELETE = "update-delete"
    DELETE_UPDATE = "delete-update"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Both were changed apart; `columns` are those that both have changed, where columns are tracked."""

    kind: ConflictKind
    columns: frozenset[str] = frozenset()


Comparison = Nothing | Take | Join | Combine | Conflict


def compare(sent: RowVersion, known: RowVersion) -> Comparison:
    """Say what a sender's version of a row is to a receiver's."""
    if known.lineage.covers(sent.lineage):
        return Nothing()
    if sent.lineage.covers(known.lineage):
        return Take()
    if sent.presence is Presence.DELETED or known.presence is Presence.DELETED:
        return _compare_deleted(sent, known)
    if sent.columns is None or known.columns is None:
        return Conflict(ConflictKind.UPDATE_UPDATE)
    ahead, behind = _unknown_to(known.lineage, sent.columns), _unknown_to(sent.lineage, known.columns)
    both = ahead & behind
    return Conflict(ConflictKind.UPDATE_UPDATE, frozenset(both)) if both else Combine(frozenset(ahead))


def _compare_deleted(sent: RowVersion, known: RowVersion) -> Comparison:
    if sent.presence is known.presence:
        return Join()
    if sent.presence is Presence.DELETED:
        return Conflict(ConflictKind.DELETE_UPDATE)
    return Conflict(ConflictKind.UPDATE_DELETE)


def _unknown_to(lineage: Lineage, columns: Mapping[str, Change]) -> Set[str]:
    return {name for name, change in columns.items() if not lineage.includes(change)}
