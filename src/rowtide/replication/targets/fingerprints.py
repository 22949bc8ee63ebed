"""How rows of two databases are compared: by hashes of their values' texts, in buckets by the hash of their key.

A row's canonical text consists of its published values' texts as the log has them, each preceded by its length in
bytes; NULL has its own sign, and a floating point number is represented by its bits. The row's hash is the first 64
bits of that text's SHA-256, as a signed integer. The sum of hashes does not depend on row order, and counts duplicates.
A key's hash is formed in the same way, from the key's columns in key order.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rowtide.replication.articles import Article, PublishedColumn
from rowtide.replication.distribution.delivery import Progress
from rowtide.replication.snapshot.target import SnapshotStatus

FLOATING = ("real", "double precision")
"""Types whose text form differs between databases: compared by their bits."""
_NULL = b"-"
_HALF, _WHOLE = 1 << 63, 1 << 64

Row = tuple[bytes | None, ...]
"""The texts of a row's published values, or of its key, as the log has them; None is NULL."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and optionally the sum of their hashes."""

    rows: int
    checksum: int | None


EMPTY = Fingerprint(0, 0)
Buckets = Mapping[int, Fingerprint]
"""Fingerprints of the rows of each bucket that has any; the bucket is the key's hash modulo their number."""


class HashedRow(NamedTuple):
    """A row by the hashes of its key and of all its values, with its key."""

    key_hash: int
    row_hash: int
    key: Row


class ComparedRows(Protocol):
    """The rows of a database's articles, in one snapshot, as they are compared."""

    def read_buckets(self, article: Article, buckets: int, *, with_checksum: bool) -> Buckets:
        """Return the fingerprints of an article's rows; `buckets` is a power of two, 1 for an article without key."""

    def list_rows(self, article: Article, buckets: int, chosen: Collection[int]) -> Iterator[HashedRow]:
        """Yield the rows of some buckets, ordered by the hash of their key."""

    def find_rows(self, article: Article, keys: Sequence[Row]) -> Sequence[Row]:
        """Return the rows that have one of some keys."""


@dataclass(frozen=True, slots=True)
class SubscribedRows:
    """A subscriber's rows, with the position that the snapshot has, and the articles as it has them.

    `obstacles` say why an article's rows cannot be read, by id.
    """

    rows: ComparedRows
    progress: Progress
    status: SnapshotStatus
    articles: tuple[Article, ...]
    obstacles: Mapping[str, str]


def key_of(article: Article, row: Row) -> Row:
    """Return a row's key, in key order."""
    return tuple(row[article.columns.index(column)] for column in article.key_columns)


def hash_row(columns: Sequence[PublishedColumn], row: Row) -> int:
    """Return the hash of a row's values, or of a key."""
    return hash_texts([_canonical(column, text) for column, text in zip(columns, row, strict=True)])


def hash_texts(texts: Sequence[bytes | None]) -> int:
    """Return the hash of canonical texts, as a signed 64-bit integer."""
    text = b"".join(_NULL if value is None else b"%d:%s" % (len(value), value) for value in texts)
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    return number - _WHOLE if number >= _HALF else number


def bits_of(number: float) -> bytes:
    """Return a floating point number's bits in hexadecimal; minus zero is zero."""
    return struct.pack(">d", math.nan if math.isnan(number) else number + 0.0).hex().encode()


def _canonical(column: PublishedColumn, text: bytes | None) -> bytes | None:
    return bits_of(float(text)) if text is not None and column.value_type_text in FLOATING else text
