"""Metadata of rows as it is stored: read with every length checked, and composed. Pure.

A tombstone counts only while no row has its rowguid, a row's metadata only while the row exists. So a trigger need not
maintain both, and changes that bypass triggers are still reported correctly. Of an additive column earlier values are
stored, from which the changes of two nodes can be added up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType
from rowtide.merge.versions.comparison import (
    Lineage,
    NodeChange,
    Presence,
    RowVersion,
    decode_columns,
    encode_columns,
)


@frozen
class Contents:
    """A row of MSmerge_contents. `origin` is None for this node's own change, made on top of the received version.

    `version` is that change's number, its generation; `own_columns` are those of changed columns, by position.
    """

    version: int
    origin: int | None
    priority: float | None
    lineage: bytes | None
    last: bytes | None
    columns: bytes | None
    own_columns: Mapping[int, int]
    bases: str | None = None


@frozen
class Tombstone:
    """A row of MSmerge_tombstone, with the same fields."""

    version: int
    origin: int | None
    priority: float | None
    lineage: bytes | None
    last: bytes | None
    kind: TombstoneType


@frozen
class Composer:
    """Composes the metadata of an article's rows at node `own`; rows without metadata include `purged`."""

    article: Article
    own: int
    purged: bytes

    def live(self, rowguid: str, row: Row, contents: Contents | None, tombstone: Tombstone | None) -> RowChange:
        """Return an existing row as a change; without metadata it has the number 0."""
        if contents is None:
            # No change of the row is recorded: it was there before the table was merged, or its metadata were purged.
            # Every lineage includes the number 0.
            untouched = b"" if self.article.column_tracking else None
            return RowChange(rowguid, self._base(tombstone), NodeChange(self.own, 0).encode(), untouched, row)
        columns = self._columns(contents)
        # A received version is passed on as its sender composed it: only changes made here get this node's number.
        if contents.origin is not None:
            assert contents.lineage is not None
            assert contents.last is not None
            return RowChange(rowguid, contents.lineage, contents.last, columns, row, priority=contents.priority)
        base = contents.lineage if contents.lineage is not None else self._base(tombstone)
        lineage, last = _compose(self.own, contents.version, base)
        return RowChange(rowguid, lineage, last, columns, row, bases=contents.bases, priority=contents.priority)

    def gone(self, rowguid: str, tombstone: Tombstone) -> RowChange:
        """Return an absent row as a change."""
        columns = b"" if self.article.column_tracking else None
        if tombstone.origin is not None:
            assert tombstone.lineage is not None
            assert tombstone.last is not None
            lineage, last = tombstone.lineage, tombstone.last
        else:
            lineage, last = _compose(self.own, tombstone.version, self._base(tombstone))
        return RowChange(rowguid, lineage, last, columns, None, tombstone.kind, priority=tombstone.priority)

    def known(self, *, is_live: bool, contents: Contents | None, tombstone: Tombstone | None) -> KnownVersion | None:
        """Return a row's metadata; None if this node never had the row."""
        if is_live and contents is None:
            lineage = Lineage.decode(self._base(tombstone))
            columns: dict[int, NodeChange] | None = {} if self.article.column_tracking else None
            return KnownVersion(RowVersion(Presence.LIVE, lineage, None, columns), None, None, None)
        if is_live and contents is not None:
            version = self.live("", (), contents, tombstone).version
            return KnownVersion(version, contents.origin, contents.priority, contents.version)
        if tombstone is not None:
            version = self.gone("", tombstone).version
            has_left = tombstone.kind is TombstoneType.LEFT
            return KnownVersion(version, tombstone.origin, tombstone.priority, tombstone.version, has_left)
        return None

    def _base(self, tombstone: Tombstone | None) -> bytes:
        """Return what a change without its own lineage includes: the row may have been deleted in between."""
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
        changes.update({place: NodeChange(self.own, version) for place, version in contents.own_columns.items()})
        return encode_columns(changes)


@lru_cache(maxsize=4096)
def _compose(own: int, version: int, base: bytes) -> tuple[bytes, bytes]:
    """Return the encoded lineage and last change of a row that a node changed on top of a lineage."""
    last = NodeChange(own, version)
    return Lineage.decode(base).with_change(last).encode(), last.encode()


_MOST = 10
"""Number of sent values that are kept: that many interrupted synchronisations in a row can be added up."""


def append(bases: str, version: int, value: str | None) -> str:
    """Return bases with the value about to be sent. Idempotent."""
    pairs: list[list[int | str | None]] = json.loads(bases)
    if pairs[-1][0] == version:
        return bases
    later = [*pairs[1:], [version, value]]
    return json.dumps([pairs[0], *later[-_MOST:]])


def add_up(bases: str, lineage: Lineage, sender: int, sent: str | None, known: str | None) -> str | None:
    """Return the local value plus the sender's changes since; of NULL and a number, the number.

    `lineage` is what the receiver includes. None if the sum cannot be computed.
    """
    if sent is None or known is None:
        return known if sent is None else sent
    included = [value for version, value in json.loads(bases) if lineage.includes(NodeChange(sender, version))]
    # The last value of the sender that the receiver has. What the sender added since is its difference from the sent
    # one.
    base = included[-1] if included else None
    if base is None:
        return None
    try:
        total = Decimal(known) + Decimal(sent) - Decimal(base)
    except InvalidOperation:
        return None
    return format(total, "f") if total.is_finite() else None
