"""Changes of a table of current rows, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.rows.change_columns import DELETE, TRUNCATE
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.actions import AddFile
from rowtide.delta.snapshot import Snapshot
from rowtide.delta.statistics import Between
from rowtide.delta.writing.edits import Indexes
from rowtide.targets.direct.tables import DirectTable, KeySet, ShownColumns
from rowtide.targets.errors import KeyUnfit
from rowtide.targets.keeping import TargetWindow

_OPERATION = "__$operation"


@frozen
class DirectCurrent:
    """A table of current rows, and the changes that come to it."""

    lake: str
    table: DirectTable
    shown: ShownColumns

    own_columns: ClassVar[Sequence[tuple[str, str]]] = ()

    def follow(self, window: TargetWindow, found: Snapshot) -> bool:
        """Apply a window of changes; return False if that is for Spark."""
        name = window.instance.capture_instance
        changes = Lake(self.lake).get_all_changes(name, window.start, window.end)
        try:
            batches = [self.shown.show(batch, [_OPERATION]) for batch in changes.batches()]
        except KeyUnfit:
            # Of the net changes none may have such a key.
            return False
        if not batches:
            return True
        rows = pa.Table.from_batches(batches)
        truncates = np.flatnonzero(rows[_OPERATION].to_numpy() == TRUNCATE)
        rows = rows.slice(truncates[-1] + 1 if len(truncates) else 0)
        keys = KeySet(rows, self.shown.keys)
        left = _last_rows(rows, keys.find(rows))
        if len(truncates):
            self.table.replace(window.end, found, left.to_batches)
            return True
        edit = RowsReplaced.of(keys, found)
        if not self.table.can_edit(found, edit):
            return False
        self.table.edit(window.end, found, edit, left.to_batches)
        return True

    def fill(self, at: CommitLsn, _time: datetime | None, found: Snapshot) -> None:
        """Fill an empty table with the rows of the source's as of an LSN."""

        def read() -> Iterator[pa.RecordBatch]:
            name = self.shown.instance.capture_instance
            rows = Lake(self.lake).get_table_as_of(name, at, self.shown.sources)
            return map(self.shown.show, rows.batches())

        self.table.replace(at, found, read)


def _last_rows(rows: pa.Table, keys: Indexes) -> pa.Table:
    """Return the last row of each key, by the keys' numbers, of those that were not deleted."""
    last = np.zeros(keys.max() + 1 if len(keys) else 0, np.int64)
    # Of several rows of a key the last is assigned last.
    last[keys] = np.arange(len(keys))
    operations = rows[_OPERATION].to_numpy()[last]
    return rows.take(pa.array(last[operations != DELETE])).drop_columns([_OPERATION])


@frozen
class RowsReplaced:
    """Rows of some keys that go: those that are changed come again."""

    keys: KeySet
    ranges: Sequence[Between]

    @classmethod
    def of(cls, keys: KeySet, found: Snapshot) -> RowsReplaced:
        """Return what becomes of the rows of a table's version."""
        return cls(keys, list(keys.ranges([field.physical_name for field in found.select(keys.columns).fields])))

    @property
    def columns(self) -> Sequence[str]:
        """The key's."""
        return self.keys.columns

    def may_be_in(self, file: AddFile) -> bool:
        """Return whether, by its statistics, a file may have one of the keys."""
        return all(each.may_be_in(file) for each in self.ranges)

    def find(self, rows: pa.Table) -> Indexes:
        """Return which keys rows have."""
        return self.keys.find(rows)

    def apply(self, rows: pa.RecordBatch, places: Indexes) -> pa.RecordBatch:
        """Return the rows that stay."""
        return rows.filter(pa.array(np.asarray(places < 0)))
