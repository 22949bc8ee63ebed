"""Which articles' calls can influence each other at a subscriber. Pure.

A generated procedure reads and writes its own table alone. What it does there reaches other tables by foreign keys, in
either direction and over any number of tables; and anywhere by what users have put on a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableRelations:
    """What a subscriber's catalogue says of its tables, which are known by their oids.

    `tables` are those of articles, by article id; `references` the pairs that foreign keys make. `entangled` have
    triggers, rules, row security or functions of users, or share their rows with other tables.
    """

    tables: Mapping[str, int]
    references: Iterable[tuple[int, int]]
    entangled: Set[int]


@dataclass(frozen=True, slots=True)
class Grouping:
    """What may be done with articles' calls.

    `groups`: articles of different ones cannot influence each other. `plain`: whose rows can be changed many at a time,
    since nothing at the subscriber can tell.
    """

    groups: Mapping[str, int]
    plain: Set[str]


def group_articles(relations: TableRelations, opaque: Set[str]) -> Grouping:
    """Return which articles can influence each other.

    `opaque` are articles that run what users wrote, which may do anything: with one all are a single group. So it is
    with an entangled table among those that an article's reaches.
    """
    roots = _Roots()
    for referencing, referenced in relations.references:
        roots.join(referencing, referenced)
    groups = {article: roots.find(table) for article, table in relations.tables.items()}
    reached = {roots.find(table) for table in relations.entangled}
    plain = {article for article, group in groups.items() if group not in reached}
    if opaque or len(plain) < len(groups):
        groups = dict.fromkeys(groups, 0)
    return Grouping(groups, plain)


class _Roots:
    """Tables joined to connected components, each known by one of them."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, table: int) -> int:
        while (parent := self._parents.get(table, table)) != table:
            table = parent
        return table

    def join(self, one: int, other: int) -> None:
        self._parents[self.find(one)] = self.find(other)
