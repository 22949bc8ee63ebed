"""The metadata of rows at a node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.nodes.roles.transactions import Transactions
from rowtide.merge.versions.changes import Known, Row


@dataclass(frozen=True, slots=True)
class Holder:
    """A subscriber that has some of the rows of the articles with some nicknames, and all of others."""

    subscriber: int
    filtered: Collection[int]

    def of(self, article: Article) -> int | None:
        """Return the subscriber if it has some rows only of an article."""
        return self.subscriber if article.nickname in self.filtered else None


class RowMetadata(Transactions, Protocol):
    """A node that keeps versions of rows, by which it decides about received ones."""

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Known]:
        """Return the metadata of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that this node never had is left out.
        """

    def read_known_of(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, Known]]:
        """Return what `read_known` does for rows of several articles, in one round trip."""

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, Known]], list[Mapping[str, Row]]]:
        """Return what `read_known_of` does, and of other articles' rows what `read_rows` does, in one round trip.

        With a holder, the metadata say whether it has the rows.
        """

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        """Return the rowguids of tombstones after a generation that came not from a node.

        Not within a transaction; the log is to be applied before.
        """

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        """Store the values that an additive column was sent with, by rowguid, within a transaction; see `bases`."""

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        """Log as this node's changes the rows that have values in any of some columns, within a transaction.

        Rows in `without` are left out.
        """

    def log_update(self, article: Article, rowguid: str) -> bool:
        """Log a row as updated by this node, within a transaction; return whether the row exists."""


class MetadataUpkeep(Transactions, Protocol):
    """A node whose metadata are removed when no synchronisation needs them any more."""

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, without this node's own changes."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove metadata of rows up to a generation, within a transaction; return how many."""
