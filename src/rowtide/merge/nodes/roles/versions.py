"""The metadata of rows at a node: versions that it knows, changes that it logs, and their upkeep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.nodes.roles.rows import AnyPlace, Place, by_nickname
from rowtide.merge.versions.changes import KnownVersion, Row


@frozen
class Holder:
    """A subscriber that has some of the rows of the articles with some nicknames, and all of others."""

    subscriber: int
    filtered: Collection[int]

    def of(self, article: Article) -> int | None:
        """Return the subscriber if it has some rows only of an article."""
        return self.subscriber if article.nickname in self.filtered else None


class RowVersions(Protocol):
    """Reads and writes what a node knows of rows, by which it decides about received ones."""

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, KnownVersion]:
        """Return the metadata of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that this node never had is omitted.
        """

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return what `read_known` does, for each article, and of other articles' rows what `Rows.read` does.

        In one round trip. With a holder, the metadata say whether it has the rows.
        """

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        """Return the rowguids of tombstones after a generation that came not from a node.

        Not within a transaction; the log is to be applied before.
        """

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        """Store the values that an additive column was sent with, by rowguid, within a transaction."""

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        """Log as this node's changes the rows that have values in any of some columns, within a transaction.

        Rows in `without` are omitted.
        """

    def log_update(self, article: Article, rowguid: str) -> bool:
        """Log a row as updated by this node, within a transaction; return whether the row exists."""

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, without this node's own changes."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove metadata of rows up to a generation, within a transaction; return how many."""

    def redefine(self, before: Article, after: Article) -> None:
        """Apply the log by one definition of an article, and move the metadata of rows to another's columns.

        Within a transaction. Where column tracking begins, all columns of changed rows count as changed.
        """


Reading: TypeAlias = Callable[[Sequence[tuple[Article, Sequence[str]]]], Sequence[Mapping[str, KnownVersion]]]
"""Reads what a node knows of rows of articles."""


def read_known(
    reading: Reading, articles: Mapping[int, Article], places: Iterable[AnyPlace]
) -> dict[Place, KnownVersion]:
    """Return what a node knows of rows; those of other tables, and those that it never had, are omitted."""
    asked = by_nickname(places)
    found = reading([(articles[nickname], rowguids) for nickname, rowguids in asked.items()])
    return {
        (nickname, rowguid): here for nickname, each in zip(asked, found, strict=True) for rowguid, here in each.items()
    }
