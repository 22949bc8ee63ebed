"""Rows of merged tables at a node, and the rows that foreign keys' actions change with deleted ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import field
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.partitions.belonging import Link
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row


class Rows(Protocol):
    """Reads rows by rowguid, by values, and by the links of logical records."""

    def read(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that exist."""

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        """Return an article's rows that have one of some keys, none of them with NULL, in these columns."""

    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        """Return those of an article's rows that are in a partition."""

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the local row with the same primary key as a received row."""

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        """Return the function's rows, for rows by rowguid and the subscriber's versions of them; None where it is NULL.

        The function is that of the article's resolver. Within a transaction. Raises `HandlerFailed`.
        """

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguid of each row's parent as the tables have it now; rows without one are omitted."""

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguids of the rows that have any of some parents, each with its parent's."""

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        """Return for each row, as it travels, the rowguid of the local row that its foreign key references, if any."""


def read_all(rows: Rows, asked: Iterable[tuple[Article, str]]) -> dict[int, Mapping[str, Row]]:
    """Return those of some articles' rows, given by rowguid, that exist, by the articles' nicknames."""
    listed: dict[int, tuple[Article, list[str]]] = {}
    for article, rowguid in asked:
        listed.setdefault(article.nickname, (article, []))[1].append(rowguid)
    return {nickname: rows.read(article, rowguids) for nickname, (article, rowguids) in listed.items()}


Place = tuple[int, str]
"""A row of an article: its nickname, and its rowguid."""
OtherPlace = tuple[str, str]
"""A row of another table: its name, and what identifies the row in it."""
AnyPlace = tuple[int | str, str]


def by_nickname(places: Iterable[AnyPlace]) -> dict[int, list[str]]:
    """Return the rowguids of rows, by their articles' nicknames; rows of other tables are omitted."""
    found: dict[int, list[str]] = {}
    for key, rowguid in places:
        if isinstance(key, int):
            found.setdefault(key, []).append(rowguid)
    return found


@frozen
class Reach:
    """Rows that reference others by foreign keys with an action on delete, as the tables have them.

    `below` are the rows that reference a row, `others` the values of rows of tables that are not articles, by column.
    """

    below: dict[AnyPlace, set[AnyPlace]] = field(default_factory=dict)
    others: dict[OtherPlace, Mapping[str, str | None]] = field(default_factory=dict)

    def add(self, other: Reach) -> None:
        """Add what is known of further rows."""
        for place, children in other.below.items():
            self.below.setdefault(place, set()).update(children)
        self.others.update(other.others)

    def under(self, places: Iterable[AnyPlace]) -> Set[AnyPlace]:
        """Return the rows below some rows, at any depth."""
        found: set[AnyPlace] = set()
        left = list(places)
        while left:
            new = self.below.get(left.pop(), set()) - found
            found |= new
            left += new
        return found


class ForeignKeyActions(Protocol):
    """Finds what foreign keys' actions would change, before rows are deleted or get other keys."""

    def find_acting(self, articles: Sequence[Article]) -> Set[int]:
        """Return the nicknames of those articles that foreign keys with an action on delete reference."""

    def find_clearing(self, article: Article) -> Set[str]:
        """Return the columns whose change sets what references them to NULL or a default, by a foreign key's action."""

    def find_reach(
        self, article: Article, rowguids: Sequence[str], merged: Mapping[int, Article], *, is_update: bool = False
    ) -> Reach:
        """Return what would be changed with an article's rows if these were deleted, at any depth.

        With `is_update`, what would be set to NULL or a default if their keys were changed. `merged` are the articles
        by nickname; of other tables the rows that this node may read are found.
        """
