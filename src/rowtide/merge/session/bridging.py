"""Changes of a subscriber that has earlier definitions of articles than the hub, brought to the hub's. Pure.

The hub receives the columns that both have: they are the first of its own, in its order. Columns that the subscriber
does not know keep their values, or get their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.lineage import in_all_columns, move_columns

_PRIORITY = "priority"


@dataclass(frozen=True, slots=True)
class Bridge:
    """An article as its sender defines it, and as the receiver writes it; `kept` are the sender's places of columns."""

    sender: Article
    receiver: Article
    kept: tuple[int, ...]

    @property
    def is_needed(self) -> bool:
        """Whether changes are to be carried over at all."""
        is_moved = self.kept != tuple(range(len(self.sender.columns)))
        return is_moved or self.sender.column_tracking != self.receiver.column_tracking

    def carry(self, changes: Sequence[RowChange]) -> list[RowChange]:
        """Return changes with the receiver's columns."""
        return [
            change._replace(
                row=None if change.row is None else tuple(change.row[place] for place in self.kept),
                columns=self._columns(change),
            )
            for change in changes
        ]

    def _columns(self, change: RowChange) -> bytes | None:
        if not self.receiver.column_tracking:
            return None
        if not self.sender.column_tracking:
            return in_all_columns(change.last, len(self.kept))
        return None if change.columns is None else move_columns(change.columns, self.kept)


def bridge(sender: Article, receiver: Article) -> Bridge:
    """Return what carries changes from one definition of an article to a later one."""
    columns = tuple(column for column in receiver.columns if sender.same_column(column) is not None)
    common = replace(receiver, columns=columns)
    column = receiver.resolver.partition(":")[2].partition(":")[0]
    if column and receiver.place_of(column) is not None and common.place_of(column) is None:
        # Its column is new: the subscriber has no value of it.
        common = replace(common, resolver=_PRIORITY)
    return Bridge(sender, common, tuple(common.places_in(sender)))


def bridges_of(known: Iterable[Article], published: Iterable[Article]) -> Mapping[int, Bridge]:
    """Return the bridges of all articles that both have, by nickname."""
    there = {article.nickname: article for article in published}
    return {each.nickname: bridge(each, there[each.nickname]) for each in known if each.nickname in there}
