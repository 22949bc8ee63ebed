"""The rows that foreign keys' actions change with deleted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import Known

Place = tuple[int, str]
"""A row of an article: its nickname, and its rowguid."""
OtherPlace = tuple[str, str]
"""A row of another table: its name, and what identifies the row in it."""
AnyPlace = tuple[int | str, str]
Reading: TypeAlias = Callable[[Sequence[tuple[Article, Sequence[str]]]], Sequence[Mapping[str, Known]]]
"""Reads what a node knows of rows of articles: see `NodeMetadata.read_known_of`."""


def by_nickname(places: Iterable[AnyPlace]) -> dict[int, list[str]]:
    """Return the rowguids of rows, by their articles' nicknames; rows of other tables are left out."""
    found: dict[int, list[str]] = {}
    for key, rowguid in places:
        if isinstance(key, int):
            found.setdefault(key, []).append(rowguid)
    return found


def read_known(reading: Reading, articles: Mapping[int, Article], places: Iterable[AnyPlace]) -> dict[Place, Known]:
    """Return what a node knows of rows; those of other tables, and those that it never had, are left out."""
    asked = by_nickname(places)
    found = reading([(articles[nickname], rowguids) for nickname, rowguids in asked.items()])
    return {
        (nickname, rowguid): here for nickname, each in zip(asked, found, strict=True) for rowguid, here in each.items()
    }


@dataclass(frozen=True, slots=True)
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


class ReachReader(Protocol):
    """A node whose foreign keys' actions are looked at before rows are deleted."""

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
