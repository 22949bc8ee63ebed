"""What is known of a row, made of what triggers and the agent wrote: triggers write when, not what. Pure.

A tombstone counts only while no row has its rowguid, the metadata of a row only while it is there. So a trigger need
not look for the other, and what goes on behind its back is still told rightly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import Known, Row, RowChange, TombstoneType
from rowtide.merge.versions.comparison import Presence, RowVersion
from rowtide.merge.versions.lineage import Change, Lineage, decode_columns, encode_columns


@dataclass(frozen=True, slots=True)
class Contents:
    """A row of MSmerge_contents. `origin` is None for a change of this node's own, made on top of what is received.

    `version` is the number of that change: its generation; `own_columns` are those of changed columns, by place.
    """

    version: int
    origin: int | None
    priority: float | None
    lineage: bytes | None
    last: bytes | None
    columns: bytes | None
    own_columns: Mapping[int, int]
    bases: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A row of MSmerge_tombstone, in the same way."""

    version: int
    origin: int | None
    priority: float | None
    lineage: bytes | None
    last: bytes | None
    kind: TombstoneType


@dataclass(frozen=True, slots=True)
class Composer:
    """Composes the metadata of an article's rows at node `own`; rows without any include what is in `purged`."""

    article: Article
    own: int
    purged: bytes

    def live(self, rowguid: str, row: Row, contents: Contents | None, tombstone: Tombstone | None) -> RowChange:
        """Return a row that is there as a change; one without metadata has the number 0."""
        if contents is None:
            untouched = b"" if self.article.column_tracking else None
            return RowChange(rowguid, self._base(tombstone), Change(self.own, 0).encode(), untouched, row)
        columns = self._columns(contents)
        if contents.origin is not None:
            assert contents.lineage is not None
            assert contents.last is not None
            return RowChange(rowguid, contents.lineage, contents.last, columns, row)
        base = contents.lineage if contents.lineage is not None else self._base(tombstone)
        lineage, last = _compose(self.own, contents.version, base)
        return RowChange(rowguid, lineage, last, columns, row, bases=contents.bases)

    def gone(self, rowguid: str, tombstone: Tombstone) -> RowChange:
        """Return a row that is gone as a change."""
        columns = b"" if self.article.column_tracking else None
        if tombstone.origin is not None:
            assert tombstone.lineage is not None
            assert tombstone.last is not None
            lineage, last = tombstone.lineage, tombstone.last
        else:
            lineage, last = _compose(self.own, tombstone.version, self._base(tombstone))
        return RowChange(rowguid, lineage, last, columns, None, tombstone.kind)

    def known(self, *, is_live: bool, contents: Contents | None, tombstone: Tombstone | None) -> Known | None:
        """Return what is known of a row; None where it was never here."""
        if is_live and contents is None:
            lineage = Lineage.decode(self._base(tombstone))
            columns: dict[int, Change] | None = {} if self.article.column_tracking else None
            return Known(RowVersion(Presence.LIVE, lineage, None, columns), None, None, None)
        if is_live and contents is not None:
            version = self.live("", (), contents, tombstone).version
            return Known(version, contents.origin, contents.priority, contents.version)
        if tombstone is not None:
            version = self.gone("", tombstone).version
            return Known(version, tombstone.origin, tombstone.priority, tombstone.version)
        return None

    def _base(self, tombstone: Tombstone | None) -> bytes:
        """Return what a row's changes include that has no lineage of its own: it may have been gone in between."""
        if tombstone is None:
            return self.purged
        if tombstone.origin is None:
            return _compose(self.own, tombstone.version, tombstone.lineage or self.purged)[0]
        assert tombstone.lineage is not None
        return tombstone.lineage

    def _columns(self, contents: Contents) -> bytes | None:
        if not self.article.column_tracking:
            return None
        if contents.origin is not None:
            return contents.columns or b""
        changes = decode_columns(contents.columns or b"")
        changes.update({place: Change(self.own, version) for place, version in contents.own_columns.items()})
        return encode_columns(changes)


@lru_cache(maxsize=4096)
def _compose(own: int, version: int, base: bytes) -> tuple[bytes, bytes]:
    """Return lineage and last change, encoded, of a row that a node changed on top of a lineage."""
    last = Change(own, version)
    return Lineage.decode(base).with_change(last).encode(), last.encode()
