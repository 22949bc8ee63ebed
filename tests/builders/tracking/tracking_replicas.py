"""Copies of a tracked table `t` that are built from enumerations alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from rowtide.tracking import Anchor, Change, ChangeTracking, NetOperation

Key = tuple[object, ...]
Row = dict[str, object]


def images(names: Iterable[str], rows: Iterable[Sequence[object]]) -> list[Row]:
    """Return rows by their columns' names, without what tracking keeps in them."""
    named = list(names)
    return [
        {name: value for name, value in zip(named, row, strict=True) if not name.startswith("__sys")} for row in rows
    ]


@dataclass
class Replica:
    """A copy of the table; with a context it writes to the table too, and leaves that out later."""

    tracking: ChangeTracking
    key: tuple[str, ...] = ("id",)
    context: UUID | None = None
    anchor: Anchor | None = None
    rows: dict[Key, Row] = field(default_factory=dict)

    def synchronise(self, once_open: Callable[[], object] = lambda: None) -> int:
        """Apply what changed; each change must fit what is there. Return how many changes there were.

        `once_open` is called when the snapshot is taken and nothing has been read yet.
        """
        with self.tracking.changes(["t"], self.anchor, exclude_context=self.context) as changes:
            once_open()
            found = list(changes)
        if self.anchor is None:
            self.rows = {}
        for change in found:
            self.apply(change)
        self.anchor = changes.anchor
        return len(found)

    def apply(self, change: Change) -> None:
        """Apply a change. Who omits its own has no claim on what others' are called: they may touch one row.

        Nor has any reader of rows that may have shared a key, with a null in it.
        """
        row = change.as_dict()
        key = self.key_of(row)
        if self.context is None and None not in key:
            assert (key in self.rows) == (change.operation is not NetOperation.INSERT), change
        if change.operation is NetOperation.DELETE:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row

    def put(self, rows: Iterable[Row]) -> None:
        """Have rows as their owner inserted them."""
        self.rows.update({self.key_of(row): row for row in rows})

    def amend(self, keys: Iterable[Key], values: Row) -> None:
        """Change some columns of rows that are there, as their owner did: of the others it knows nothing."""
        for key in [key for key in keys if key in self.rows]:
            row = self.rows.pop(key) | values
            self.rows[self.key_of(row)] = row

    def drop(self, keys: Iterable[Key]) -> None:
        """Lose rows that their owner deleted."""
        for key in keys:
            self.rows.pop(key, None)

    def key_of(self, row: Row) -> Key:
        """Return a row's key."""
        return tuple(row[name] for name in self.key)

    def assert_equals(self, rows: Iterable[Row]) -> None:
        """Compare the copy with the table's rows."""
        assert self.rows == {self.key_of(row): row for row in rows}
