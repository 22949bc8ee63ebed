"""Compare two nodes' versions of a row: one is newer, or both changed concurrently. Pure.

(SQL Server: sp_MSgetmetadata.) A version is identified by the change that made it, and has a lineage: all changes that
it includes or has overridden. A row without metadata, from the snapshot or after a purge, has no such change: any
change that its lineage does not include is newer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rowtide.merge.versions.lineage import Change, Lineage


class Presence(Enum):
    """Whether a row exists at a node."""

    UNKNOWN = "unknown"
    LIVE = "live"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A row as a node knows it.

    `last` is the change that made it, None without metadata. `columns` are the last changes of tracked columns, by the
    column's position in the article; other columns are as inserted. It is None without column tracking.
    """

    presence: Presence
    lineage: Lineage
    last: Change | None
    columns: Mapping[int, Change] | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """The receiver includes everything that the sender has."""


@dataclass(frozen=True, slots=True)
class Take:
    """The sender's version is newer."""


@dataclass(frozen=True, slots=True)
class Join:
    """Both have deleted the row: one tombstone replaces both."""


@dataclass(frozen=True, slots=True)
class Combine:
    """Concurrent changes to different columns; these positions are the sender's."""

    columns: frozenset[int]


class ConflictKind(Enum):
    """The kind of the conflicting changes; the first word is the sender's."""

    UPDATE_UPDATE = "update-update"
    UPDATE_DELETE = "update-delete"
    DELETE_UPDATE = "delete-update"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Concurrent changes; with column tracking, `columns` are the positions that both changed."""

    kind: ConflictKind
    columns: frozenset[int] = frozenset()


Comparison = Nothing | Take | Join | Combine | Conflict


def compare(sent: RowVersion, known: RowVersion) -> Comparison:
    """Compare a sender's version of a row with a receiver's; a sender's always has a last change."""
    assert sent.last is not None
    if known.lineage.includes(sent.last):
        return Nothing()
    if known.last is None or sent.lineage.includes(known.last):
        return Take()
    if sent.presence is Presence.DELETED or known.presence is Presence.DELETED:
        return _compare_deleted(sent, known)
    if sent.columns is None or known.columns is None:
        return Conflict(ConflictKind.UPDATE_UPDATE)
    ahead, behind = changed_apart(sent, known)
    both = ahead & behind
    return Conflict(ConflictKind.UPDATE_UPDATE, both) if both else Combine(ahead)


def concurrent_columns(sent: RowVersion, known: RowVersion) -> frozenset[int]:
    """Return the positions of the columns that each side changed concurrently with the other."""
    ahead, behind = changed_apart(sent, known)
    return ahead | behind


def changed_apart(sent: RowVersion, known: RowVersion) -> tuple[frozenset[int], frozenset[int]]:
    """Return the positions of the columns that the sender, and the receiver, changed without the other's knowledge."""
    return _unknown_to(known.lineage, sent.columns or {}), _unknown_to(sent.lineage, known.columns or {})


def columns_lost(lost: RowVersion, won: RowVersion) -> frozenset[int] | None:
    """Return the positions of the columns that a version changed without the other's knowledge; None: the whole row."""
    is_tracked = lost.columns is not None and won.columns is not None
    if not is_tracked or Presence.DELETED in (lost.presence, won.presence):
        return None
    return changed_apart(lost, won)[0] or None


def _compare_deleted(sent: RowVersion, known: RowVersion) -> Comparison:
    if sent.presence is known.presence:
        return Join()
    if sent.presence is Presence.DELETED:
        return Conflict(ConflictKind.DELETE_UPDATE)
    return Conflict(ConflictKind.UPDATE_DELETE)


def _unknown_to(lineage: Lineage, columns: Mapping[int, Change]) -> frozenset[int]:
    return frozenset(place for place, change in columns.items() if not lineage.includes(change))
