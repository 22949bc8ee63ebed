"""Metadata of rows as it is stored: read with every length checked, and composed. Pure.

A tombstone counts only while no row has its rowguid, a row's metadata only while the row exists. So a trigger need not
maintain both, and changes that bypass triggers are still reported correctly. Of an additive column earlier values are
stored, from which the changes of two nodes can be added up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import isfinite

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType
from rowtide.merge.versions.comparison import (
    MOST_VERSIONS,
    Lineage,
    Malformed,
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


# Read stored metadata of rows: every length and every number is checked. Pure. The owner of a device can write
# anything into its file. What is read of it is parsed here and in `comparison`, and nowhere else; what is wrong
# raises `Malformed`, and the reader, who knows the row, says which one it is.

_NICKNAMES = 1 << 48
_PLACES = 1 << 16
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_LINES = re.compile(f"(?:{_UUID.pattern}\n)*")
_SHOWN = 40
_STAMP_DIGITS = 16
_MOST_BASES = 100
_UUID_LENGTH = 36
_DIGITS = frozenset("0123456789abcdefABCDEF")


def read_rowguid(value: object) -> str:
    """Return a row's rowguid: a UUID as a server writes it, which would take other texts of one for the same row."""
    if isinstance(value, str) and _UUID.fullmatch(value) is not None:
        return value
    raise Malformed(f"{str(value)[:_SHOWN]!a} is no UUID in lower case")


def are_rowguids(values: Sequence[object]) -> bool:
    """Whether all values are rowguids: thousands are checked together."""
    lines = "".join([f"{value}\n" for value in values])
    return _UUID_LINES.fullmatch(lines) is not None and len(lines) == (_UUID_LENGTH + 1) * len(values)


def read_version(value: object) -> int:
    """Return the number of a generation or of a stamp."""
    return _number(value, "generation", MOST_VERSIONS)


def read_origin(value: object) -> int | None:
    """Return a node's nickname."""
    return None if value is None else _number(value, "origin", _NICKNAMES)


def _number(value: object, name: str, most: int) -> int:
    if isinstance(value, int) and 0 <= value < most:
        return value
    raise Malformed(f"its {name} is no number below {most}")


def read_priority(value: object) -> float | None:
    """Return a version's weight."""
    if value is None:
        return None
    if isinstance(value, int | float) and isfinite(value):
        return float(value)
    raise Malformed("its priority is no number")


def read_lineage(value: object) -> bytes | None:
    """Return an encoded lineage that `Lineage.decode` reads."""
    encoded = _bytes(value, "lineage")
    if encoded is not None:
        Lineage.decode(encoded)
    return encoded


def read_last(value: object) -> bytes | None:
    """Return an encoded change that `NodeChange.decode` reads."""
    encoded = _bytes(value, "last change")
    if encoded is not None:
        NodeChange.decode(encoded)
    return encoded


def read_columns(value: object) -> bytes | None:
    """Return encoded changes of columns that `decode_columns` reads."""
    encoded = _bytes(value, "columns' changes")
    if encoded is not None:
        decode_columns(encoded)
    return encoded


def _bytes(value: object, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise Malformed(f"its {name} are no bytes")


def read_own_columns(text: object) -> dict[int, int]:
    """Return the stamps of the columns that the node changed, by position, from 16 hexadecimal digits for each."""
    if text is None:
        return {}
    if not isinstance(text, str) or len(text) % _STAMP_DIGITS or len(text) > _PLACES * _STAMP_DIGITS:
        raise Malformed("its columns' stamps are no digits of columns")
    if not _DIGITS.issuperset(text):
        raise Malformed("its columns' stamps are no digits")
    pieces = (text[start : start + _STAMP_DIGITS] for start in range(0, len(text), _STAMP_DIGITS))
    return {index: read_version(stamp) for index, stamp in enumerate(int(piece, 16) for piece in pieces) if stamp}


def read_bases(text: object) -> str | None:
    """Return the values that an additive column was sent with; see `append`."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise Malformed("its earlier values are no text")
    try:
        pairs = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("its earlier values are no list") from error
    if not isinstance(pairs, list) or not 0 < len(pairs) <= _MOST_BASES or not all(map(_is_base, pairs)):
        raise Malformed("its earlier values are no list of numbers and values")
    return text


def _is_base(pair: object) -> bool:
    return (
        isinstance(pair, list)
        and [type(part) for part in pair] in ([int, str], [int, type(None)])
        and 0 <= pair[0] < MOST_VERSIONS
    )


def read_tombstone_type(value: object) -> TombstoneType:
    """Return why a row is absent."""
    if isinstance(value, int) and value in TombstoneType.__members__.values():
        return TombstoneType(value)
    raise Malformed("its tombstone is of no known type")


def require_complete(origin: int | None, lineage: bytes | None, last: bytes | None) -> None:
    """Raise unless a version that was received has its lineage and its change."""
    if origin is not None and (lineage is None or last is None):
        raise Malformed("its version was received, and has no lineage or no last change")
