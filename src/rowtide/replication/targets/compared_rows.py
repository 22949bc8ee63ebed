"""The rows of a publisher or a subscriber as they are compared and repaired: one interface for all kinds.

Rows are divided into buckets, by ranges of a key's value or by its hash, and compared by hashes of their values' texts.
"""

from __future__ import annotations

import hashlib
import math
import struct
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, Protocol

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TIMES, TypeKind
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.distribution.delivery_interface import DeliveryProgress
from rowtide.replication.snapshot.target import SnapshotStatus

NULL = "-"
SEPARATOR = ","
_PLAIN = {TypeKind.WHOLE_NUMBER, TypeKind.NUMERIC, TypeKind.UUID, *TIMES}
_HALF, _WHOLE = 1 << 63, 1 << 64


class TextForm(Enum):
    """How a value's text is a part of its row's."""

    PLAIN = "plain"
    """It has no separator, which ends it, and is not the sign of NULL."""
    BITS = "bits"
    """Its text differs between databases: its bits in hexadecimal, as any text."""
    SIZED = "sized"
    """Its length in bytes comes before it."""


def form_of(column: PublishedColumn) -> TextForm:
    """Return the form of a column's texts."""
    kind = kind_of(column.value_type_text)
    if kind is TypeKind.FLOAT:
        return TextForm.BITS
    return TextForm.PLAIN if kind in _PLAIN else TextForm.SIZED


Row = tuple[bytes | None, ...]
"""The texts of a row's published values, or of its key, as the log has them; None is NULL."""


def key_of(article: Article, row: Row) -> Row:
    """Return a row's key, in key order."""
    return tuple(row[article.columns.index(column)] for column in article.key_columns)


def hash_row(columns: Sequence[PublishedColumn], row: Row) -> int:
    """Return the hash of a row's values, or of a key."""
    return hash_parts(part_of(form_of(column), text) for column, text in zip(columns, row, strict=True))


def hash_parts(parts: Iterable[bytes]) -> int:
    """Return the hash of a canonical text, given its parts, as a signed 64-bit integer."""
    number = int.from_bytes(hashlib.sha256(b"".join(parts)).digest()[:8])
    return number - _WHOLE if number >= _HALF else number


def part_of(form: TextForm, text: bytes | None) -> bytes:
    """Return what a value's text, as the log has it, is in its row's."""
    if text is None:
        return _PLAIN_NULL if form is TextForm.PLAIN else _NULL
    if form is TextForm.PLAIN and _SEPARATOR not in text and text != _NULL:
        return text + _SEPARATOR
    sized = bits_of(text) if form is TextForm.BITS else text
    return b"%d:%s" % (len(sized), sized)


_NULL, _SEPARATOR = NULL.encode(), SEPARATOR.encode()
_PLAIN_NULL = _NULL + _SEPARATOR


def bits_of(text: bytes) -> bytes:
    """Return a floating point number's bits in hexadecimal; minus zero is zero.

    The text itself if it is no number, which only a SQLite file has in such a column.
    """
    try:
        number = float(text)
    except ValueError:
        return text
    return struct.pack(">d", math.nan if math.isnan(number) else number + 0.0).hex().encode()


_FEWEST_BOUNDS = 32
"""With fewer bounds hashes divide better."""
_BUCKETS = 1 << 14
SAMPLED = 1 << 8
"""Ranges that have equally many rows of a sample; each is divided further into equal parts of its values."""


class Order(Enum):
    """How values are ordered in every database."""

    NUMBER = "number"
    UUID = "uuid"


_ORDERS = {TypeKind.WHOLE_NUMBER: Order.NUMBER, TypeKind.UUID: Order.UUID}


@frozen
class Hashed:
    """By the key's hash, modulo a number of buckets that is a power of two."""

    buckets: int


@frozen
class Ranges:
    """By a column of the key: bucket n has the values from bound n - 1, inclusive, up to bound n.

    Bounds are ascending integers, also of UUIDs. NULL, and what is no such value in a SQLite file, are in bucket 0.
    """

    column: PublishedColumn
    order: Order
    bounds: Sequence[int]

    def bucket_of(self, text: bytes | None) -> int:
        """Return the bucket of a value, given by its text."""
        try:
            return 0 if text is None else bisect_right(self.bounds, as_number(self.order, text))
        except ValueError:
            return 0


Division = Hashed | Ranges
WHOLE = Hashed(1)
"""All rows in one bucket, also of a table without key."""
BY_HASH = Hashed(_BUCKETS)


def order_of(column: PublishedColumn) -> Order | None:
    """Return the order of a column's values; None if it is not the same in every database."""
    return _ORDERS.get(kind_of(column.value_type_text))


def as_number(order: Order, text: bytes) -> int:
    """Return a value as a number, in the same order. Raises `ValueError`."""
    return int(text) if order is Order.NUMBER else int(text.replace(b"-", b""), 16)


def make_ranges(column: PublishedColumn, order: Order, sampled: Iterable[bytes]) -> Ranges:
    """Return ranges between sampled values, given by their texts, and within them."""
    known = sorted({as_number(order, text) for text in sampled})
    parts = _BUCKETS // SAMPLED
    within = (low + (high - low) * part // parts for low, high in pairwise(known) for part in range(parts))
    return Ranges(column, order, sorted({*within, *known}))


def divide(possible: Sequence[Ranges]) -> Division:
    """Return the finest of ranges by several columns; hashes if none is fine enough."""
    finest = max(possible, key=lambda one: len(one.bounds), default=None)
    return BY_HASH if finest is None or len(finest.bounds) < _FEWEST_BOUNDS else finest


def bucket_of(article: Article, division: Division, key: Row) -> int:
    """Return the bucket of a key, given by its texts."""
    if not isinstance(division, Hashed):
        return division.bucket_of(key[article.key_columns.index(division.column)])
    return hash_row(article.key_columns, key) & division.buckets - 1 if division.buckets > 1 else 0


def runs_of(buckets: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of adjacent buckets in ascending order, each by its first and last."""
    ordered = sorted(buckets)
    ends = [index for index, (one, other) in enumerate(pairwise(ordered)) if other != one + 1]
    for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(ordered) - 1], strict=True):
        yield ordered[first], ordered[last]


@frozen
class Fingerprint:
    """The number of rows, and optionally the sum of their hashes."""

    rows: int
    checksum: int | None


EMPTY = Fingerprint(0, 0)
Buckets = Mapping[int, Fingerprint]
"""Fingerprints of the rows of each bucket that has any."""


class HashedRow(NamedTuple):
    """A row by the hashes of its key and of all its values, with its key."""

    key_hash: int
    row_hash: int
    key: Row


class ComparedRows(Protocol):
    """The rows of a database's articles, in one snapshot, as they are compared."""

    def read_buckets(self, article: Article, division: Division, *, with_checksum: bool) -> Buckets:
        """Return the fingerprints of an article's rows."""

    def list_rows(self, article: Article, division: Division, chosen: Collection[int]) -> Iterator[HashedRow]:
        """Yield the rows of some buckets, ordered by the hash of their key."""

    def find_rows(self, article: Article, keys: Sequence[Row]) -> Sequence[Row]:
        """Return the rows that have one of some keys."""


@frozen
class SubscribedRows:
    """A subscriber's rows, with the position that the snapshot has, and the articles as it has them.

    `constraints` say why an article's rows cannot be read, by id.
    """

    rows: ComparedRows
    progress: DeliveryProgress
    status: SnapshotStatus
    articles: tuple[Article, ...]
    constraints: Mapping[str, str]


@frozen
class RowCorrection:
    """What makes a row equal to the published one: `row` has all its values, of which an update sets `columns`."""

    article: Article
    operation: Operation
    key: Row
    row: Row
    columns: tuple[str, ...] = ()


def replace_updates(
    changes: Sequence[RowCorrection], replaced: Collection[RowCorrection]
) -> tuple[list[RowCorrection], list[RowCorrection]]:
    """Return deletions that come first, and the changes with insertions in place of updates that are replaced."""
    deletions = [replace(one, operation=Operation.DELETE) for one in replaced]
    return deletions, [replace(one, operation=Operation.INSERT) if one in replaced else one for one in changes]


@frozen
class RepairRecord:
    """What a repair did to a row, as JSON; `repair_id` and `ordinal` are its identity."""

    repair_id: str
    ordinal: int
    record: str


class RepairTransaction(Protocol):
    """A transaction at a subscriber that repairs rows at the position that it has; delivery waits for its end.

    It is a batch under the epoch of the subscription's agent, who continues after it: neither epoch nor position
    change.
    """

    @property
    def subscribed(self) -> SubscribedRows:
        """The subscriber's rows, which nobody else writes once they are read."""

    def try_change(self, change: RowCorrection) -> str | None:
        """Make a change; return why the subscriber refuses it, and then it is undone."""

    def try_together(self, changes: Sequence[RowCorrection]) -> Mapping[RowCorrection, str]:
        """Make changes that need each other, all or none; return why the subscriber refuses some.

        Deferrable constraints are checked at their end. Rows that are updated first give up the unique values that
        they lose, for others of them.
        """

    def commit(self, records: Sequence[RepairRecord]) -> None:
        """Commit the changes, with what they were."""


class RepairOutbox(Protocol):
    """What repairs did at a subscriber and the publisher does not have yet."""

    def read(self) -> Sequence[RepairRecord]:
        """Return the records, in the order of their identities."""

    def forget(self, records: Sequence[RepairRecord]) -> None:
        """Delete records that the publisher has. Idempotent."""
