"""The rows of a publisher or a subscriber as they are compared: the interface, one implementation per database."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.delivery import Progress
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.divisions import Division
from rowtide.replication.targets.fingerprints import Row


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and optionally the sum of their hashes."""

    rows: int
    checksum: int | None


EMPTY = Fingerprint(0, 0)
Buckets = Mapping[int, Fingerprint]
"""Fingerprints of the rows of each bucket that has any; see `divisions`."""


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
