"""Copies of a tracked table `t` that are built from enumerations alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowtide.tracking import Anchor, Change, ChangeTracking, Operation


class Replica:
    """A copy of the table that is built from enumerations alone."""

    def __init__(self, tracking: ChangeTracking) -> None:
        self.tracking = tracking
        self.rows: dict[object, tuple[object, ...]] = {}
        self.anchor: Anchor | None = None

    def synchronise(self) -> int:
        """Apply what changed; each change must fit what is there. Return how many changes there were."""
        with self.tracking.changes(["t"], self.anchor) as changes:
            found = list(changes)
        for change in found:
            self.apply(change)
        self.anchor = changes.anchor
        return len(found)

    def apply(self, change: Change) -> None:
        key = change.row[0]
        assert (key in self.rows) == (change.operation is not Operation.INSERT), change
        if change.operation is Operation.DELETE:
            del self.rows[key]
        else:
            self.rows[key] = change.row

    def assert_equals(self, rows: Iterable[Sequence[object]]) -> None:
        """Compare the copy with the table's rows, the key first."""
        assert self.rows == {row[0]: tuple(row) for row in rows}
