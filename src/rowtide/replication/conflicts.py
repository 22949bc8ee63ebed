"""Conflicts of delivered changes with other writes at a subscriber, and decisions about them. Pure.

The other writes are those of the subscriber's own sessions and of other publishers. Kinds are PostgreSQL 18's
(documentation, "Logical Replication: Conflicts"). A change of another origin counts only if the row is not what the
delivered change was made of: what was read there before it was changed is no conflict.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from rowtide.core.operations import Operation
from rowtide.core.redaction import MASK
from rowtide.core.values import frozen


class ConflictKind(StrEnum):
    """What a delivered change finds at the subscriber."""

    INSERT_EXISTS = "insert_exists"
    """Another row has the key, or unique values, of the inserted one."""
    UPDATE_ORIGIN_DIFFERS = "update_origin_differs"
    """The row was changed by others, and is not what was updated."""
    UPDATE_EXISTS = "update_exists"
    """Another row has the key, or unique values, of the updated one."""
    UPDATE_MISSING = "update_missing"
    DELETE_ORIGIN_DIFFERS = "delete_origin_differs"
    """The row was changed by others, and is not what was deleted."""
    DELETE_MISSING = "delete_missing"
    MULTIPLE_UNIQUE_CONFLICTS = "multiple_unique_conflicts"
    """Several rows have unique values of the inserted or updated one."""


class Resolver(StrEnum):
    """What is done about a conflict."""

    NONE = "none"
    """Conflicts are not looked for."""
    STOP = "stop"
    """The subscription stops."""
    APPLY = "apply"
    """The delivered change is made, whatever is there."""
    SKIP = "skip"
    """What is there stays."""
    LAST_COMMIT_TIME = "last-commit-time"
    """The change that committed later stays; at the same time, the one of the greater originator."""


class Resolution(StrEnum):
    """What was done about a conflict."""

    STOPPED = "stopped"
    APPLIED = "applied"
    SKIPPED = "skipped"


@frozen(order=True)
class Version:
    """When a row's last change committed, in microseconds since 1970, and in which database."""

    committed_us: int
    originator: str


@frozen
class PresentRow:
    """A row at the subscriber, with the published values as texts.

    `version` None: not known. `is_as_before`: it is what the change was made of. `is_own`: this transaction wrote it.
    """

    values: tuple[str | None, ...]
    version: Version | None = None
    is_as_before: bool = False
    is_own: bool = False


@frozen
class Found:
    """What a change finds: the row of its key, and other rows with unique values of its new row.

    The key is that before the change, of an insert the new one. `deleted`: when the key was deleted, if it is known;
    `released`: the last version that had one of its unique values and has it no longer.
    """

    target: PresentRow | None = None
    others: Sequence[PresentRow] = ()
    deleted: Version | None = None
    released: Version | None = None


def detect(operation: Operation, found: Found) -> ConflictKind | None:
    """Return the conflict of an insert, an update or a delete; None if there is none."""
    match operation:
        case Operation.INSERT:
            return _detect_duplicate(ConflictKind.INSERT_EXISTS, len(found.others) + (found.target is not None))
        case Operation.UPDATE:
            if found.target is None:
                return ConflictKind.UPDATE_MISSING
            duplicate = _detect_duplicate(ConflictKind.UPDATE_EXISTS, len(found.others))
            return duplicate or _detect_change(ConflictKind.UPDATE_ORIGIN_DIFFERS, found.target)
        case _:
            if found.target is None:
                return ConflictKind.DELETE_MISSING
            return _detect_change(ConflictKind.DELETE_ORIGIN_DIFFERS, found.target)


def _detect_duplicate(kind: ConflictKind, rows: int) -> ConflictKind | None:
    return None if rows == 0 else kind if rows == 1 else ConflictKind.MULTIPLE_UNIQUE_CONFLICTS


def _detect_change(kind: ConflictKind, target: PresentRow) -> ConflictKind | None:
    return None if target.is_own or target.is_as_before else kind


_ALWAYS = {
    Resolver.STOP: Resolution.STOPPED,
    Resolver.APPLY: Resolution.APPLIED,
    Resolver.SKIP: Resolution.SKIPPED,
}


@frozen
class Decision:
    """What is done about a change, and the conflict if there is one.

    By last commit time `displaced` rows, which have unique values of the change's row, give way to it. `is_hidden`: its
    row itself gives way; it is the last of its key, and not there.
    """

    resolution: Resolution
    kind: ConflictKind | None
    displaced: Sequence[PresentRow] = ()
    is_hidden: bool = False


def decide(resolver: Resolver, operation: Operation, found: Found, incoming: Version | None) -> Decision:
    """Return what is done about a change, whose version only the last commit time needs."""
    kind = detect(operation, found)
    if resolver is Resolver.LAST_COMMIT_TIME:
        return _decide_last(operation, found, incoming, kind)
    return Decision(Resolution.APPLIED if kind is None else _ALWAYS[resolver], kind)


def _decide_last(operation: Operation, found: Found, incoming: Version | None, kind: ConflictKind | None) -> Decision:
    """Keep the last version of each key, its absence included, and of rows of several keys with the same unique value
    the last: so all databases come to the same rows.

    A row gives way to every later one that ever had its value, also if that is gone by now, or was never there because
    it had to give way itself: what arrives first would decide otherwise. A version that is not known is older than any.
    """
    assert incoming is not None
    displaced = tuple(row for row in found.others if row.version is None or row.version < incoming)
    is_hidden = len(displaced) < len(found.others) or _is_later(found.released, incoming)
    if is_hidden and kind is None:
        kind = ConflictKind.INSERT_EXISTS if operation is Operation.INSERT else ConflictKind.UPDATE_EXISTS
    present = found.target.version if found.target is not None else None
    if _is_later(present, incoming) or _is_later(found.deleted, incoming):
        has_lost = found.target is not None and operation is not Operation.INSERT
        return Decision(Resolution.SKIPPED, kind or (_CHANGED[operation] if has_lost else None), displaced)
    return Decision(Resolution.SKIPPED if is_hidden else Resolution.APPLIED, kind, displaced, is_hidden)


def _is_later(version: Version | None, than: Version) -> bool:
    return version is not None and version > than


_CHANGED = {
    Operation.UPDATE: ConflictKind.UPDATE_ORIGIN_DIFFERS,
    Operation.DELETE: ConflictKind.DELETE_ORIGIN_DIFFERS,
}


# What a person's decision about a conflict of delivery makes of the subscriber's rows. Pure. A kept conflict has the
# delivered rows and those that were there, all by the names of their columns, as texts. Each of its two sides is a
# state of the keys that it touches: the row of each, or none.

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
    """Return whether a row has the kept values; columns that were added since are of no account."""
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
    """Return the changes that make rows what they are to be, in an order in which each makes way for the next.

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
    """What a person decides about a conflict that a subscriber keeps; with `is_preview` nothing is written.

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
