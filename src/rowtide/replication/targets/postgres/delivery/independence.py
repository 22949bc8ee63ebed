"""Which articles' calls can influence each other at a subscriber. Pure.

A generated procedure reads and writes only its own table. Its effects reach other tables by foreign keys, in either
direction and through any number of tables; and any table by what users have defined on a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableRelations:
    """Relations between a subscriber's tables, from its catalogue; tables are identified by oid.

    `tables` are those of articles, by article id; `references` the pairs of tables joined by foreign keys. `entangled`
    tables have users' triggers, rules, row security or functions, or share their rows with other tables.
    """

    tables: Mapping[str, int]
    references: Iterable[tuple[int, int]]
    entangled: Set[int]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which reordering and batching of articles' calls is safe.

    `groups`: articles of different groups cannot influence each other. `plain`: articles whose rows can be changed many
    at a time, without any observable difference.
    """

    groups: Mapping[str, int]
    plain: Set[str]


def group_articles(relations: TableRelations, opaque: Set[str]) -> Grouping:
    """Group articles that can influence each other.

    `opaque` articles run users' code, which may do anything: with one of them, all articles form a single group. The
    same holds if an article's effects reach an entangled table.
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
    """Connected components of tables, each identified by one of them (union-find)."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def find(self, table: int) -> int:
        while (parent := self._parents.get(table, table)) != table:
            table = parent
        return table

    def join(self, one: int, other: int) -> None:
        self._parents[self.find(one)] = self.find(other)
