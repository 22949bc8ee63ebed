"""Compare two nodes' versions of a row: one is newer, or both changed concurrently. Pure.

(SQL Server: sp_MSgetmetadata.) A version is identified by the change that made it, and has a lineage: all changes that
it includes or has overridden. A row without metadata, from the snapshot or after a purge, has no such change: any
change that its lineage does not include is newer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from rowtide.core.values import frozen

_ENTRY = struct.Struct(">HII")
"""A nickname of 48 bits, in two parts, and a version."""
_PLACE = struct.Struct(">H")
_LOW_BITS = 32
_LOW = (1 << _LOW_BITS) - 1
MOST_VERSIONS = 1 << 32
"""A version is a number below."""
_MOST_NODES = 1 << 14
"""More nodes than ever change one row."""
_MOST_COLUMNS = 1 << 12


class Malformed(ValueError):
    """Metadata that no node has written."""


def _require_size(encoded: bytes, size: int, most: int, name: str) -> None:
    if len(encoded) % size or len(encoded) > size * most:
        raise Malformed(f"its {name} has {len(encoded):,} bytes: no multiple of {size}, or more than {size * most:,}")


@frozen(order=True)
class NodeChange:
    """A node's change of a row, or of a column of it; the version is the node's generation."""

    nickname: int
    version: int

    @classmethod
    def decode(cls, encoded: bytes) -> NodeChange:
        """Read what `encode` wrote."""
        return _decode_change(encoded)

    def encode(self) -> bytes:
        """Return it in 10 bytes, big-endian."""
        return _ENTRY.pack(self.nickname >> _LOW_BITS, self.nickname & _LOW, self.version)


@frozen
class Lineage:
    """The last change of each node that a version of a row includes; by nickname, ascending."""

    changes: tuple[NodeChange, ...] = ()
    _versions: dict[int, int] = field(init=False, compare=False, repr=False)

    EMPTY: ClassVar[Lineage]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_versions", {change.nickname: change.version for change in self.changes})

    @classmethod
    def of(cls, changes: Iterable[NodeChange]) -> Lineage:
        """Return the lineage of changes in any order; of each node only the last counts."""
        last: dict[int, int] = {}
        for change in changes:
            last[change.nickname] = max(change.version, last.get(change.nickname, 0))
        return cls(tuple(NodeChange(nickname, last[nickname]) for nickname in sorted(last)))

    @classmethod
    def decode(cls, encoded: bytes) -> Lineage:
        """Read what `encode` wrote."""
        return _decode_lineage(encoded)

    def encode(self) -> bytes:
        """Return it in 10 bytes for each node, by nickname."""
        return b"".join(change.encode() for change in self.changes)

    def version_of(self, nickname: int) -> int:
        """Return the number of a node's last included change, 0 if there is none."""
        return self._versions.get(nickname, 0)

    def includes(self, change: NodeChange) -> bool:
        """Return whether a change is included."""
        return self._versions.get(change.nickname, 0) >= change.version

    def joined(self, other: Lineage) -> Lineage:
        """Return the union of two lineages."""
        return Lineage.of((*self.changes, *other.changes))

    def with_change(self, change: NodeChange) -> Lineage:
        """Return the lineage with a change added."""
        return Lineage.of((*self.changes, change))


Lineage.EMPTY = Lineage()


# Thousands of rows that were changed between the same synchronisations have the same ones.
@lru_cache(maxsize=1 << 14)
def _decode_change(encoded: bytes) -> NodeChange:
    if len(encoded) != _ENTRY.size:
        raise Malformed(f"a change has {len(encoded):,} bytes instead of {_ENTRY.size}")
    high, low, version = _ENTRY.unpack(encoded)
    return NodeChange(high << _LOW_BITS | low, version)


@lru_cache(maxsize=1 << 14)
def _decode_lineage(encoded: bytes) -> Lineage:
    _require_size(encoded, _ENTRY.size, _MOST_NODES, "lineage")
    entries = _ENTRY.iter_unpack(encoded)
    return Lineage(tuple(NodeChange(high << _LOW_BITS | low, version) for high, low, version in entries))


def include(lineage: bytes, change: NodeChange) -> bytes:
    """Return an encoded lineage with a change added."""
    return Lineage.decode(lineage).with_change(change).encode()


def encode_columns(columns: Mapping[int, NodeChange]) -> bytes:
    """Return the last changes of columns (SQL Server: colvl): for each, its position in 2 bytes, and the change."""
    return b"".join(_PLACE.pack(place) + columns[place].encode() for place in sorted(columns))


def move_columns(encoded: bytes, kept: Sequence[int]) -> bytes:
    """Return the last changes of the columns at some positions, at their places among these."""
    found = decode_columns(encoded)
    return encode_columns({index: found[was] for index, was in enumerate(kept) if was in found})


def in_all_columns(last: bytes, columns: int) -> bytes:
    """Return the last changes of columns that one change has all written."""
    return encode_columns(dict.fromkeys(range(columns), NodeChange.decode(last)))


def decode_columns(encoded: bytes) -> dict[int, NodeChange]:
    """Read what `encode_columns` wrote."""
    size = _PLACE.size + _ENTRY.size
    _require_size(encoded, size, _MOST_COLUMNS, "columns' changes")
    pieces = (encoded[start : start + size] for start in range(0, len(encoded), size))
    return {_PLACE.unpack(piece[: _PLACE.size])[0]: NodeChange.decode(piece[_PLACE.size :]) for piece in pieces}


class Presence(Enum):
    """Whether a row exists at a node."""

    UNKNOWN = "unknown"
    LIVE = "live"
    DELETED = "deleted"


@frozen
class RowVersion:
    """A row as a node knows it.

    `last` is the change that made it, None without metadata. `columns` are the last changes of tracked columns, by the
    column's position in the article; other columns are as inserted. It is None without column tracking.
    """

    presence: Presence
    lineage: Lineage
    last: NodeChange | None
    columns: Mapping[int, NodeChange] | None = None


@frozen
class Nothing:
    """The receiver includes everything that the sender has."""


@frozen
class Accept:
    """The sender's version is newer."""


@frozen
class Join:
    """Both have deleted the row: one tombstone replaces both."""


@frozen
class Combine:
    """Concurrent changes to different columns; these positions are the sender's."""

    columns: frozenset[int]


class ConcurrentChangeKind(Enum):
    """The kind of the conflicting changes; the first word is the sender's."""

    UPDATE_UPDATE = "update-update"
    UPDATE_DELETE = "update-delete"
    DELETE_UPDATE = "delete-update"


@frozen
class Conflict:
    """Concurrent changes; with column tracking, `columns` are the positions that both changed."""

    kind: ConcurrentChangeKind
    columns: frozenset[int] = frozenset()


Comparison = Nothing | Accept | Join | Combine | Conflict


def compare(sent: RowVersion, known: RowVersion) -> Comparison:
    """Compare a sender's version of a row with a receiver's; a sender's always has a last change."""
    assert sent.last is not None
    # A version includes the change that made it and all that it was made from. A receiver that includes that change has
    # everything that the sender has.
    if known.lineage.includes(sent.last):
        return Nothing()
    if known.last is None or sent.lineage.includes(known.last):
        return Accept()
    # A delete is of the whole row: it conflicts with a concurrent change of any column.
    if sent.presence is Presence.DELETED or known.presence is Presence.DELETED:
        return _compare_deleted(sent, known)
    # Without column tracking it is unknown whether the columns overlap.
    if sent.columns is None or known.columns is None:
        return Conflict(ConcurrentChangeKind.UPDATE_UPDATE)
    ahead, behind = changed_concurrently(sent, known)
    both = ahead & behind
    return Conflict(ConcurrentChangeKind.UPDATE_UPDATE, both) if both else Combine(ahead)


def concurrent_columns(sent: RowVersion, known: RowVersion) -> frozenset[int]:
    """Return the positions of the columns that each side changed concurrently with the other."""
    ahead, behind = changed_concurrently(sent, known)
    return ahead | behind


def changed_concurrently(sent: RowVersion, known: RowVersion) -> tuple[frozenset[int], frozenset[int]]:
    """Return the positions of the columns that the sender, and the receiver, changed without the other's knowledge."""
    return _unknown_to(known.lineage, sent.columns or {}), _unknown_to(sent.lineage, known.columns or {})


def columns_lost(lost: RowVersion, won: RowVersion) -> frozenset[int] | None:
    """Return the positions of the columns that a version changed without the other's knowledge; None: the whole row."""
    is_tracked = lost.columns is not None and won.columns is not None
    if not is_tracked or Presence.DELETED in (lost.presence, won.presence):
        return None
    return changed_concurrently(lost, won)[0] or None


def _compare_deleted(sent: RowVersion, known: RowVersion) -> Comparison:
    if sent.presence is known.presence:
        return Join()
    if sent.presence is Presence.DELETED:
        return Conflict(ConcurrentChangeKind.DELETE_UPDATE)
    return Conflict(ConcurrentChangeKind.UPDATE_DELETE)


def _unknown_to(lineage: Lineage, columns: Mapping[int, NodeChange]) -> frozenset[int]:
    return frozenset(place for place, change in columns.items() if not lineage.includes(change))
