"""How the rows of a table are divided into buckets that are compared: by ranges of a key's value, or by its hash. Pure.

Ranges are read again by themselves, without the rest of the table, and need no hash of the key. They require an order
that both databases have, and their indexes: that of integers or UUIDs. Keys of other types are divided by hash.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.targets.fingerprints import Row, hash_row

_FEWEST_BOUNDS = 32
"""With fewer bounds hashes divide better."""
_BUCKETS = 1 << 14
SAMPLED = 1 << 8
"""Ranges that have equally many rows of a sample; each is divided further into equal parts of its values."""


class Order(Enum):
    """How values are ordered in every database."""

    NUMBER = "number"
    UUID = "uuid"


_ORDERS = {"smallint": Order.NUMBER, "integer": Order.NUMBER, "bigint": Order.NUMBER, "uuid": Order.UUID}


@dataclass(frozen=True, slots=True)
class Hashed:
    """By the key's hash, modulo a number of buckets that is a power of two."""

    buckets: int


@dataclass(frozen=True, slots=True)
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
    return _ORDERS.get(column.value_type_text)


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
    ends = [place for place, (one, other) in enumerate(pairwise(ordered)) if other != one + 1]
    for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(ordered) - 1], strict=True):
        yield ordered[first], ordered[last]
