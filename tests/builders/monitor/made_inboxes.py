"""Conflicts of databases as the monitor reads them, without databases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from builders.monitor.made_views import HOSTILE, HOSTILE_NAMES, NOW
from rowtide.conflicts.errors import InboxConflictUnknown
from rowtide.conflicts.inbox import (
    Choice,
    ConflictDetail,
    ConflictSource,
    DecisionPreview,
    InboxConflict,
    InboxNote,
    InboxState,
    PreviewedRow,
    WrittenVersion,
    compare_versions,
    differing,
    winner_of,
)
from rowtide.monitor.inboxes import ConflictIndex, InboxReading, UnreadPlace

Values = Mapping[str, str | None]


def make_conflict(
    number: int,
    *,
    publisher: Values | None,
    subscriber: Values | None,
    base: Values | None = None,
    table: str = "public.item",
    node: str = "//db2/shop",
    kind: str = "update_origin_differs",
    won: str | None = "subscriber",
    state: InboxState = InboxState.OPEN,
    cause: str | None = None,
) -> InboxConflict:
    rows = [None if row is None else json.dumps(row) for row in (publisher, subscriber, base)]
    columns = ", ".join(differing(rows[0], rows[1]))
    return InboxConflict(
        conflict_id=f"c{number:011}",
        cause=cause or f"cause-{table}-{columns}",
        source=ConflictSource.REPLICATION,
        publication="stock",
        table=table,
        key=json.dumps({"id": str(number)}),
        kind=kind,
        state=state,
        won=won,
        reason="skipped" if won else "stopped",
        node=node,
        created=NOW - timedelta(hours=3 * number),
        publisher_row=rows[0],
        subscriber_row=rows[1],
        base_row=rows[2],
        publisher_time=NOW - timedelta(hours=3 * number, seconds=4),
        differing_columns=columns,
        settled_by="ann@desk" if state is InboxState.SETTLED else None,
        settled_at=NOW if state is InboxState.SETTLED else None,
        subscriber_time=NOW - timedelta(hours=3 * number, seconds=9),
        decided="publisher" if state is InboxState.SETTLED else None,
    )


def make_update(number: int, **others: Any) -> InboxConflict:
    """A row of a shop that both sides have updated."""
    base = {"id": str(number), "name": "Glass, green", "price": "3.20", "note": None}
    publisher = {**base, "price": "3.50"}
    subscriber = {**base, "price": "2.90", "note": "sale"}
    return make_conflict(number, publisher=publisher, subscriber=subscriber, base=base, **others)


SHOP = (
    *(make_update(number, node=f"//db{2 + number % 3}/shop") for number in range(1, 25)),
    make_conflict(
        30, publisher=None, subscriber={"id": "30", "name": "Plate"}, kind="delete_origin_differs", table="public.plate"
    ),
    make_conflict(
        31,
        publisher={"id": "31", "name": "Cup"},
        subscriber={"id": "31", "name": "Mug"},
        kind="insert_exists",
        won=None,
    ),
    make_update(40, state=InboxState.SETTLED),
)
HOSTILE_CONFLICTS = tuple(
    make_conflict(100 + number, publisher={name: name}, subscriber={name: f"{name}!"}, table=name, node=name)
    for number, name in enumerate(HOSTILE_NAMES)
)


class MadeInboxes:
    """Conflicts, as they were made."""

    def __init__(self, readings: Mapping[str, InboxReading]) -> None:
        self.readings = dict(readings)
        self.failure: str | None = None
        self.asked: list[tuple[str, Choice]] = []

    def read(self, database: str) -> InboxReading | None:
        return self.readings.get(database)

    def show(self, database: str, conflict_id: str) -> ConflictDetail:
        one = self._find(database, conflict_id)
        notes = [InboxNote(NOW, "ben@desk", "Ask <b>the branch</b> first.", None)]
        if one.settled_at is not None:
            notes.append(InboxNote(one.settled_at, one.settled_by or "", None, one.decided))
        before = one.created - timedelta(hours=1)
        written = (
            WrittenVersion("publisher", None, one.created, one.created),
            WrittenVersion("subscriber", one.node, before, one.created),
        )
        return ConflictDetail(one, compare_versions(one), tuple(notes), written)

    def preview(self, database: str, name: str, choice: Choice) -> Sequence[DecisionPreview]:
        self.asked.append((name, choice))
        chosen = [one for one in self.readings[database].conflicts if name in (one.conflict_id, one.cause)]
        return [self._preview(number, one, choice) for number, one in enumerate(chosen[:20])]

    def settle(self, database: str, conflict_id: str) -> None:
        """Have somebody decide about a conflict elsewhere."""
        settled: dict[str, Any] = {
            "state": InboxState.SETTLED,
            "settled_by": "ann@desk",
            "settled_at": NOW,
            "decided": "publisher",
        }
        reading = self.readings[database]
        self.readings[database] = replace(
            reading,
            index=ConflictIndex.make(
                replace(one, **settled) if one.conflict_id == conflict_id else one for one in reading.conflicts
            ),
        )

    def _find(self, database: str, conflict_id: str) -> InboxConflict:
        for one in self.readings[database].conflicts:
            if one.conflict_id == conflict_id:
                return one
        raise InboxConflictUnknown(conflict_id)

    def _preview(self, number: int, one: InboxConflict, choice: Choice) -> DecisionPreview:
        winner = winner_of(one, choice)
        if self.failure is not None:
            return DecisionPreview(one.conflict_id, winner, failure=self.failure)
        if winner == one.won:
            return DecisionPreview(one.conflict_id, winner)
        later = "it has changed since" if number == 1 else None
        row = PreviewedRow(one.table, one.key or "", one.subscriber_row, one.publisher_row, later)
        return DecisionPreview(one.conflict_id, winner, (row,), 3)


def make_inboxes() -> MadeInboxes:
    """Conflicts of three databases; of the others nothing may be read."""
    since = NOW - timedelta(hours=2)
    unread = UnreadPlace("//db4/shop", since, "RT-1101: the database cannot be reached: connection refused")
    return MadeInboxes(
        {
            "shop": InboxReading(ConflictIndex.make(SHOP), (unread,), NOW),
            "crm": InboxReading(read_at=NOW),
            HOSTILE.name: InboxReading(ConflictIndex.make(HOSTILE_CONFLICTS), (), NOW),
            "gone": InboxReading(failure="RT-1101: the database cannot be reached: connection refused"),
        }
    )
