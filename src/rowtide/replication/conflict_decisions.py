"""What a person's decision about a conflict of delivery makes of the subscriber's rows. Pure.

A kept conflict has the delivered rows and those that were there, as texts by the names of their columns. Each of its
two sides is a state of the keys that it touches: the row of each, or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from rowtide.core.operations import Operation
from rowtide.core.redaction import MASK
from rowtide.core.values import frozen
from rowtide.replication.conflicts import Resolution

Row = Mapping[str, str | None]
"""A row's texts by column."""
Key = tuple[str | None, ...]
Rows = Mapping[Key, Row | None]
"""The rows of keys; None: there is none."""


class ConflictWinner(StrEnum):
    """The side of a conflict whose rows are to be there."""

    DELIVERED = "delivered"
    """The publisher's change."""
    PRESENT = "present"
    """The rows that the change met at the subscriber."""


class ConflictState(StrEnum):
    """Whether a person has decided about a conflict; what the resolver did is open to that, as in merge."""

    OPEN = "open"
    SETTLED = "settled"


DECIDED = {ConflictWinner.DELIVERED: Resolution.APPLIED, ConflictWinner.PRESENT: Resolution.SKIPPED}
_WINNERS = {resolution: winner for winner, resolution in DECIDED.items()}


@frozen
class Sides:
    """A kept conflict: the delivered rows before and after the change, those that were there, and what was done.

    `left` are the rows as the last decision about it left them, None if there was none; `is_by_time`: commit times
    decided, which may have taken either side for each row.
    """

    old: Row | None
    new: Row | None
    present: Sequence[Row]
    resolution: Resolution
    is_by_time: bool = False
    left: Sequence[tuple[Sequence[str | None], Row | None]] | None = None

    @classmethod
    def parse(
        cls,
        old_row: str | None,
        new_row: str | None,
        present_rows: str,
        present_times: str,
        resolution: str,
        left_rows: str | None,
    ) -> Sides:
        """Return what the texts of a kept conflict say."""
        return cls(
            None if old_row is None else json.loads(old_row),
            None if new_row is None else json.loads(new_row),
            json.loads(present_rows),
            Resolution(resolution),
            any(json.loads(present_times)),
            None if left_rows is None else json.loads(left_rows),
        )

    @property
    def winner(self) -> ConflictWinner | None:
        """The side that the resolver took; None if it stopped."""
        return _WINNERS.get(self.resolution)

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the rows have."""
        return frozenset(name for row in self._rows() for name in row)

    @property
    def has_values(self) -> bool:
        """Whether the rows were kept with their values, and not with `--hide-keys`."""
        return all(value != MASK for row in self._rows() for value in row.values())

    @property
    def differing_columns(self) -> tuple[str, ...]:
        """The columns in which the delivered row differs from the one that was there; none if one is gone."""
        if self.new is None or not self.present:
            return ()
        (there, *_), new = self.present, self.new
        return tuple(name for name, value in new.items() if name in there and there[name] != value)

    def renamed(self, key_columns: Sequence[str]) -> frozenset[Key]:
        """Return the keys of a row before and after the change, if it changed the key."""
        if self.old is None or self.new is None:
            return frozenset()
        keys = frozenset((key_of(self.old, key_columns), key_of(self.new, key_columns)))
        return keys if len(keys) > 1 else frozenset()

    def state_of(self, winner: ConflictWinner, key_columns: Sequence[str]) -> Rows:
        """Return the rows of all touched keys if a side wins."""
        touched: dict[Key, Row | None] = {key_of(row, key_columns): None for row in self._rows()}
        rows = self.present if winner is ConflictWinner.PRESENT else () if self.new is None else (self.new,)
        return touched | {key_of(row, key_columns): row for row in rows}

    def is_left(self, key: Key, now: Row | None, key_columns: Sequence[str]) -> bool:
        """Return whether a row is as the conflict, or the last decision about it, left it."""
        if self.left is not None:
            return any(is_same(row, now) for left, row in self.left if tuple(left) == key)
        sides = {winner: self.state_of(winner, key_columns) for winner in ConflictWinner}
        if self.is_by_time and len(sides[ConflictWinner.PRESENT]) > 1:
            # A row that gave way to another key's is gone, whichever side has it.
            return now is None or any(is_same(rows[key], now) for rows in sides.values())
        return is_same(sides[self.winner or ConflictWinner.PRESENT][key], now)

    def _rows(self) -> Iterator[Row]:
        yield from (row for row in (self.old, self.new, *self.present) if row is not None)


def key_of(row: Row, key_columns: Sequence[str]) -> Key:
    """Return a row's key."""
    return tuple(row.get(name) for name in key_columns)


def is_same(kept: Row | None, now: Row | None) -> bool:
    """Return whether a row has the kept values; columns that were added since are ignored."""
    if kept is None or now is None:
        return kept is now
    return all(name in now and now[name] == value for name, value in kept.items())


@frozen
class SettledRow:
    """What a decision changes of a row: `before` as it is, `after` as it will be; None: there is none."""

    operation: Operation
    key: Key
    before: Row | None
    after: Row | None


def plan(
    wanted: Rows, now: Rows, *, renamed: frozenset[Key] = frozenset(), resends: bool = False
) -> tuple[SettledRow, ...]:
    """Return the changes that make rows what they are to be, in an order in which each releases what the next needs.

    With `resends` a row that is there already is written again, so that other databases get it. Of the keys `renamed`
    one replaces the other by an update: what references the row, and columns that are not published, stay.
    """
    gone = [key for key, row in wanted.items() if row is None and now.get(key) is not None]
    new = [key for key, row in wanted.items() if row is not None and now.get(key) is None]
    moved = []
    if len(gone) == len(new) == 1 and renamed == {*gone, *new}:
        (old_key,), (new_key,) = gone, new
        moved = [SettledRow(Operation.UPDATE, old_key, now[old_key], wanted[new_key])]
        gone, new = [], []
    updated = [
        SettledRow(Operation.UPDATE, key, now[key], row)
        for key, row in wanted.items()
        if row is not None and now.get(key) is not None and (resends or not is_same(row, now[key]))
    ]
    return (
        *(SettledRow(Operation.DELETE, key, now[key], None) for key in gone),
        *moved,
        *updated,
        *(SettledRow(Operation.INSERT, key, None, wanted[key]) for key in new),
    )


@frozen
class KeptConflict:
    """A conflict at a subscriber: rows as JSON objects of texts, null for none.

    `present_rows` are those that the change met, `present_times` when and where each was written last, where that is
    known. `winner` is what a person chose, None if nobody did: a stopped one is settled, too, once the change was
    delivered after all.
    """

    conflict_id: str
    logged_at: datetime
    publication: str
    subscriber: str
    article: str
    kind: str
    resolution: str
    operation: str
    xact_seqno: str
    command_id: int
    old_row: str | None
    new_row: str | None
    present_rows: str
    commit_time: datetime | None
    present_times: str
    state: str
    winner: str | None
    settled_by: str | None
    settled_at: datetime | None


@frozen
class ListedConflicts:
    """The conflicts of a subscription, newest first, and a mark that differs once one was kept, deleted or settled."""

    mark: tuple[int, ...] = ()
    conflicts: tuple[KeptConflict, ...] = ()


@frozen
class ConflictDecision:
    """A person's decision about a stored conflict; with `is_preview` its outcome is computed, and nothing is written.

    `over_later_changes`: rows that have changed since are replaced. `again`: an earlier decision is changed.
    """

    conflict_id: int
    winner: ConflictWinner
    decided_by: str | None = None
    over_later_changes: bool = False
    again: bool = False
    is_preview: bool = False


@frozen
class ConflictOutcome:
    """What a decision about a conflict writes at the subscriber, as the subscriber's own change.

    `changed_since` are the rows that are not as the conflict left them: what the decision would replace. `sent_to` are
    the databases that the subscriber delivers the table to. `waits`: delivery, which the conflict has stopped, makes or
    skips the change when it continues. `is_settled`: the same was decided before.
    """

    conflict_id: str
    subscriber: str
    table: str
    winner: ConflictWinner
    rows: tuple[SettledRow, ...]
    changed_since: tuple[SettledRow, ...] = ()
    sent_to: tuple[str, ...] = ()
    waits: bool = False
    is_settled: bool = False
