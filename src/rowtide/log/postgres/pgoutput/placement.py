"""Assigns changes to table versions, and derives the events that follow from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.core.lsn import CommitLsn
from rowtide.log.membership import Event, Reshaped
from rowtide.log.postgres.pgoutput.changes import Changes, LayoutTimeline, by_slot
from rowtide.log.postgres.pgoutput.control import LogOrder, PlacedEvent
from rowtide.log.postgres.pgoutput.relations import Layout, Resolved, TableVersions
from rowtide.log.postgres.pgoutput.transactions import Transactions


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Changes of one layout, in log order, with their table version."""

    resolved: Resolved
    layout: Layout
    changes: Changes

    @property
    def table_id(self) -> int:
        return self.resolved.version.table_id

    @property
    def first_message(self) -> int:
        return int(self.changes.message[0])

    def record_order(self) -> tuple[int, int]:
        """Return the sort key of records: layouts that share a version follow each other in the log."""
        return self.table_id, self.first_message


def place(changes: Changes, timeline: LayoutTimeline, versions: TableVersions) -> list[TableChanges]:
    """Group changes by layout and assign table versions, in the order of their first use in the log."""
    groups = [changes.chosen(indices) for indices in by_slot(changes)]
    groups.sort(key=lambda group: (int(group.message[0]), int(group.seqval[0])))
    return list(_resolve(groups, timeline, versions))


def _resolve(groups: Sequence[Changes], timeline: LayoutTimeline, versions: TableVersions) -> Iterator[TableChanges]:
    for group in groups:
        layout = timeline.layouts[int(group.slot[0])]
        if layout.shape is not None:
            yield TableChanges(versions.resolve(layout.shape), layout, group)


def in_log_order(
    of_messages: Sequence[PlacedEvent], tables: Sequence[TableChanges], transactions: Transactions
) -> tuple[Event, ...]:
    """Return the events of logical messages and of tables together."""
    placed = [*of_messages, *(_reshaping(table, transactions) for table in tables if table.resolved.is_reshaped)]
    return tuple(event for _, event in sorted(placed, key=lambda pair: pair[0]))


def _reshaping(table: TableChanges, transactions: Transactions) -> PlacedEvent:
    """A table takes its new shape before its first change."""
    lsn = CommitLsn(transactions.lsn_of(table.first_message))
    return LogOrder(table.first_message, int(table.changes.seqval[0])), Reshaped(lsn, table.table_id)
