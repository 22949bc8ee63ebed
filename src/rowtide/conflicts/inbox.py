"""Conflicts of merge and of delivery in one form, filtered and grouped by cause. Pure.

In a conflict of delivery the publisher's side is what was delivered, the subscriber's what was there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

    `key` is the row's key, of merge its rowguid. `base_row` is the row before the changes, where that is known: of
    delivery what the publisher's change was made of, of merge the columns that the side that lost had not changed.
    `won` is the side that won at first, None where delivery stopped; `reason` says why. `cause` is the group.
    `decided` is the side that a person chose, None if nobody did. Times are of the changes, where they are known.
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
    subscriber_time: datetime | None = None
    decided: str | None = None


@frozen
class ConflictGroup:
    """Conflicts with one cause, at all nodes: the same table, kind, columns that differ, winner and reason."""

    cause: str
    source: ConflictSource
    publication: str
    table: str
    kind: str
    nodes: int
    differing_columns: str
    won: str | None
    reason: str
    conflicts: int
    open_conflicts: int
    oldest: datetime
    newest: datetime


@frozen
class InboxNote:
    """A comment on a conflict, or a decision about it, of which `decided` is the side; `note` is None then."""

    noted_at: datetime
    noted_by: str
    note: str | None
    decided: str | None


@frozen
class ColumnVersions:
    """A column of a conflict's row, with its values at both sides and before; None is NULL or a row that is not there.

    `is_base_known` says whether the value before is known.
    """

    column: str
    publisher: str | None
    subscriber: str | None
    base: str | None
    is_base_known: bool
    differs: bool


@frozen
class WrittenVersion:
    """Where and when a side's version was written; `node` is None for the publisher.

    Both times are equal where a commit's time is known. Of merge it was written between the synchronisations in which
    its node sent the version before, None if that is not known, and this one.
    """

    side: str
    node: str | None
    earliest: datetime | None
    latest: datetime


@frozen
class ConflictDetail:
    """A conflict with what its columns are at both sides, what was decided and commented, and who wrote the versions.

    Of a version of which nothing is known, `written` has none.
    """

    conflict: InboxConflict
    columns: tuple[ColumnVersions, ...]
    notes: tuple[InboxNote, ...]
    written: tuple[WrittenVersion, ...] = ()


@frozen
class PreviewedRow:
    """A row that a decision writes, as JSON before and after it, None for none; `later` is what it overwrites."""

    table: str
    key: str
    before: str | None
    after: str | None
    later: str | None

    @property
    def changes(self) -> tuple[tuple[str, str | None, str | None], ...]:
        """The columns whose values change, with both; all of a row that comes or goes."""
        before, after = _row_of(self.before), _row_of(self.after)
        names = dict.fromkeys((*before, *after))
        return tuple(
            (name, before.get(name), after.get(name))
            for name in names
            if not (before and after) or before.get(name) != after.get(name)
        )


@frozen
class DecisionPreview:
    """What a decision about a conflict would do; `failure` says why it would be refused, None if it would not.

    `winner` is the side that would win. `nodes` counts the databases that the rows are written at or go to; without
    `is_exact` all of the publication, since the row may enter or leave parts of them. `waits`: delivery, which the
    conflict has stopped, does it when it continues.
    """

    conflict_id: str
    winner: str | None
    rows: tuple[PreviewedRow, ...] = ()
    nodes: int = 0
    is_exact: bool = True
    waits: bool = False
    failure: str | None = None

    @property
    def later_changes(self) -> int:
        """How many rows have changed since the conflict, which the decision would overwrite."""
        return sum(row.later is not None for row in self.rows)


@frozen
class PlannedRow:
    """A row that a decision about a conflict writes, in a list of them; without a row, why there is none."""

    conflict_id: str
    winner: str | None
    nodes: int
    table: str | None
    key: str | None
    before: str | None
    after: str | None
    note: str | None
    """What it overwrites, or why nothing is written."""
    is_exact: bool
    """Whether the number of nodes is exact; otherwise it is an upper bound."""


def list_planned(previews: Iterable[DecisionPreview]) -> Sequence[PlannedRow]:
    """Return what decisions write as rows of a list, at least one for each."""
    return [row for one in previews for row in _list_rows(one)]


def _list_rows(one: DecisionPreview) -> Iterator[PlannedRow]:
    start = (one.conflict_id, one.winner, one.nodes)
    for row in one.rows:
        yield PlannedRow(*start, row.table, row.key, row.before, row.after, row.later, one.is_exact)
    if not one.rows:
        yield PlannedRow(*start, None, None, None, None, reason_for_nothing(one), one.is_exact)


def reason_for_nothing(preview: DecisionPreview) -> str:
    """Return why a decision writes no row."""
    if preview.failure is not None:
        return preview.failure
    if preview.waits:
        return "delivery, which has stopped, does it when it continues"
    return "the row stays as it is"


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


def compare_versions(conflict: InboxConflict) -> tuple[ColumnVersions, ...]:
    """Return the columns of a conflict's row, in their order, with the versions that are known."""
    rows = [_row_of(text) for text in (conflict.publisher_row, conflict.subscriber_row, conflict.base_row)]
    publisher, subscriber, base = rows
    names = list(dict.fromkeys(name for row in rows for name in row))
    return tuple(
        ColumnVersions(
            name,
            publisher.get(name),
            subscriber.get(name),
            base.get(name),
            is_base_known=name in base,
            differs=bool(publisher and subscriber) and publisher.get(name) != subscriber.get(name),
        )
        for name in names
    )


def _row_of(text: str | None) -> Mapping[str, str | None]:
    """Return a version's row; of several rows that a change met, the first."""
    found = json.loads(text or "null") or {}
    row: Mapping[str, str | None] = found[0] if isinstance(found, list) else found
    return row


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
            len({one.node for one in found}),
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
