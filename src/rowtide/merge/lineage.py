"""Which changes of a row a version of it includes, or has put aside knowingly (SQL Server: lineage). Pure.

Each node counts its own changes of a row. A change is known by the node's nickname and the count; a lineage has, for
each node, the last one that is included. The documents call it a list of nicknames and versions, of 6 and 4 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

_ENTRY = struct.Struct(">HII")
"""A nickname of 48 bits, in two parts, and a version."""
_LOW_BITS = 32


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A node's change of a row: its number among that node's changes of that row, from 1."""

    nickname: int
    version: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The last change of each node that a version of a row includes; by nickname, ascending."""

    changes: tuple[Change, ...] = ()
    _versions: dict[int, int] = field(init=False, compare=False, repr=False)

    EMPTY: ClassVar[Lineage]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_versions", {change.nickname: change.version for change in self.changes})

    @classmethod
    def of(cls, changes: Iterable[Change]) -> Lineage:
        """Return the lineage of changes in any order, with those of one node before the last left out."""
        last: dict[int, int] = {}
        for change in changes:
            last[change.nickname] = max(change.version, last.get(change.nickname, 0))
        return cls(tuple(Change(nickname, last[nickname]) for nickname in sorted(last)))

    @classmethod
    def decode(cls, encoded: bytes) -> Lineage:
        """Read what `encode` wrote."""
        entries = _ENTRY.iter_unpack(encoded)
        return cls(tuple(Change(high << _LOW_BITS | low, version) for high, low, version in entries))

    def encode(self) -> bytes:
        """Return it in 10 bytes for each node, big-endian, by nickname."""
        low = (1 << _LOW_BITS) - 1
        parts = ((change.nickname >> _LOW_BITS, change.nickname & low, change.version) for change in self.changes)
        return b"".join(_ENTRY.pack(*part) for part in parts)

    def version_of(self, nickname: int) -> int:
        """Return the number of a node's last change that is included, 0 if there is none."""
        return self._versions.get(nickname, 0)

    def includes(self, change: Change) -> bool:
        """Tell whether a change is included."""
        return self.version_of(change.nickname) >= change.version

    def covers(self, other: Lineage) -> bool:
        """Tell whether all that another includes is included."""
        return all(map(self.includes, other.changes))

    def joined(self, other: Lineage) -> Lineage:
        """Return what includes all that either does."""
        return Lineage.of((*self.changes, *other.changes))

    def changed_by(self, nickname: int) -> Lineage:
        """Return what includes a node's next change too."""
        return Lineage.of((*self.changes, Change(nickname, self.version_of(nickname) + 1)))


Lineage.EMPTY = Lineage()
