"""Conflicts of merge and of delivery in one form, filtered and grouped by cause. Pure.

In a conflict of delivery the publisher's side is what was delivered, the subscriber's what was there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from rowtide.core.options import Option
from rowtide.core.values import frozen


class ConflictSource(StrEnum):
    """The feature that a conflict is of."""

    MERGE = "merge"
    REPLICATION = "replication"


class InboxState(StrEnum):
    """Whether a person has decided about a conflict."""

    OPEN = "open"
    SETTLED = "settled"


class Choice(StrEnum):
    """What a person decides about a conflict."""

    KEEP = "keep"
    """The side that won stays."""
    OTHERWISE = "otherwise"
    """The other side wins."""
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


@frozen
class InboxConflict:
    """A conflict with both versions, as JSON of texts, null for none.

    `key` is the row's key, of merge its rowguid. `base_row` is what the publisher's change was made of, where that is
    known. `won` is the side that won at first, None where delivery stopped; `reason` says why. `cause` is the group.
    """

    conflict_id: str
    cause: str
    source: ConflictSource
    publication: str
    table: str
    key: str | None
    kind: str
    state: InboxState
    won: str | None
    reason: str
    node: str
    created: datetime
    publisher_row: str | None
    subscriber_row: str | None
    base_row: str | None
    publisher_time: datetime | None
    differing_columns: str
    settled_by: str | None
    settled_at: datetime | None


@frozen
class ConflictGroup:
    """Conflicts with one cause: the same table, kind, node, columns that differ, winner and reason."""

    cause: str
    source: ConflictSource
    publication: str
    table: str
    kind: str
    node: str
    differing_columns: str
    won: str | None
    reason: str
    conflicts: int
    open_conflicts: int
    oldest: datetime
    newest: datetime


@frozen(kw_only=True)
class ConflictFilter:
    """Which conflicts are listed."""

    publication: Annotated[str | None, Option(help="Of this publication.")] = None
    table: Annotated[str | None, Option(help="Of this table.")] = None
    node: Annotated[str | None, Option(help="Of the subscriber whose address has this text.")] = None
    kind: Annotated[str | None, Option(help="Of this kind.")] = None
    state: Annotated[InboxState | None, Option(help="Open or settled; default: both.", show_default=False)] = None
    min_age_days: Annotated[float | None, Option(help="At least so old.")] = None
    max_age_days: Annotated[float | None, Option(help="At most so old.")] = None

    def has(self, conflict: InboxConflict, now: datetime) -> bool:
        """Return whether a conflict is wanted."""
        age = now - conflict.created
        return (
            self.publication in (None, conflict.publication)
            and self.table in (None, conflict.table, conflict.table.partition(".")[2])
            and (self.node is None or self.node in conflict.node)
            and self.kind in (None, conflict.kind)
            and self.state in (None, conflict.state)
            and (self.min_age_days is None or age >= timedelta(days=self.min_age_days))
            and (self.max_age_days is None or age <= timedelta(days=self.max_age_days))
        )


def differing(one: str | None, other: str | None) -> tuple[str, ...]:
    """Return the columns in which two rows differ; none if one is gone."""
    if one is None or other is None:
        return ()
    first, second = json.loads(one), json.loads(other)
    return tuple(name for name, value in first.items() if name in second and second[name] != value)


def identify(*parts: str | None) -> str:
    """Return a short name of texts, the same for the same ones."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def group(conflicts: Iterable[InboxConflict]) -> Sequence[ConflictGroup]:
    """Return conflicts by cause, the largest group first."""
    by_cause: dict[str, list[InboxConflict]] = {}
    for conflict in conflicts:
        by_cause.setdefault(conflict.cause, []).append(conflict)
    groups = [
        ConflictGroup(
            cause,
            found[0].source,
            found[0].publication,
            found[0].table,
            found[0].kind,
            found[0].node,
            found[0].differing_columns,
            found[0].won,
            found[0].reason,
            len(found),
            sum(one.state is InboxState.OPEN for one in found),
            min(one.created for one in found),
            max(one.created for one in found),
        )
        for cause, found in by_cause.items()
    ]
    return sorted(groups, key=lambda one: (-one.conflicts, one.cause))


def winner_of(conflict: InboxConflict, choice: Choice) -> str | None:
    """Return the side that a choice means, None if it means none: nothing was decided yet."""
    if choice in (Choice.PUBLISHER, Choice.SUBSCRIBER):
        return choice.value
    if conflict.won is None or choice is Choice.KEEP:
        return conflict.won
    sides = {"publisher": "subscriber", "subscriber": "publisher"}
    return sides[conflict.won]
