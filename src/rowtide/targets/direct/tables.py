"""Delta tables of targets at a path, without Spark: created, read and edited by rowtide's committer; rows in Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.change_columns import column_type
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.bits import EXACT, read_exact_texts
from rowtide.cdc.lake_readers.last_rows import comparable
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between, bounds_of
from rowtide.delta.errors import TableUnreadable, TableUnwritable
from rowtide.delta.formats import FORMAT, OWNER, TARGET_TABLE
from rowtide.delta.schema import parse_schema
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.commit_race import require_writable
from rowtide.delta.writing.commits import create_table
from rowtide.delta.writing.row_edits import Edit, Indexes, MakeRows, Stamp, edit_rows, replace_rows
from rowtide.lake.sql_text import schema_text
from rowtide.lake.stores import locate
from rowtide.targets.columns import TargetColumns
from rowtide.targets.errors import KeyUnfit, TargetOccupied
from rowtide.targets.formats.delta import mapping_properties
from rowtide.targets.table_format import Verify

MOST_BYTES = 1024 * 1024 * 1024
"""The limit of what is read and written of a table; Spark edits larger ones."""


@frozen(slots=False)
class DirectTable:
    """The table of an instance of a target; `columns` are names and types, `verify` is called before each commit."""

    target: str
    target_id: str
    path: str
    columns: Sequence[tuple[str, str]]
    partition_by: Sequence[str]
    verify: Verify

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow."""
        return parse_schema(schema_text(self.columns), is_mapped=False).schema

    def find(self) -> Snapshot | None:
        """Return its present version, None if it is not there. Raises `TargetOccupied`, `LakeReadFailed`."""
        snapshot = open_snapshot(locate(self.path))
        if snapshot is not None and snapshot.properties.get(OWNER) != self.target_id:
            raise TargetOccupied(self.target, self.path)
        return snapshot

    def create(self) -> Snapshot | None:
        """Make it, empty; return it as it is then. Raises `LakeWriteFailed`."""
        properties = {**mapping_properties(self.columns), OWNER: self.target_id}
        properties[FORMAT] = str(TARGET_TABLE.recorded)
        create_table(locate(self.path), schema_text(self.columns), properties, self.partition_by)
        return self.find()

    def is_editable(self, snapshot: Snapshot) -> bool:
        """Return whether a version has exactly these columns, and no features that rowtide's commits do not honour."""
        try:
            require_writable(snapshot)
            found = {field.name: field.type.arrow for field in snapshot.columns.fields}
        except (TableUnreadable, TableUnwritable):
            return False
        wanted: dict[str, Any] = {field.name: field.type for field in self.schema}
        return found == wanted

    def can_edit(self, snapshot: Snapshot, edit: Edit) -> bool:
        """Return whether the files of a version that an edit may have to rewrite are within the limit."""
        return sum(file.size for file in snapshot.files.values() if edit.may_be_in(file)) <= MOST_BYTES

    def edit(self, lsn: CommitLsn, found: Snapshot, edit: Edit, added: MakeRows) -> None:
        """Edit rows of a version and add others, up to an LSN; idempotent, also across processes.

        Raises `EditOutdated` if another process has written the table since.
        """
        with self._committing():
            edit_rows(locate(self.path), edit, added, self._stamp(lsn, found))

    def replace(self, lsn: CommitLsn, found: Snapshot, rows: MakeRows) -> None:
        """Replace its rows by those as of an LSN; idempotent, also across processes. Raises as `edit`."""
        with self._committing():
            replace_rows(locate(self.path), rows, self._stamp(lsn, found))

    @contextmanager
    def _committing(self) -> Iterator[None]:
        self.verify()
        failpoint("target_commit.before")
        yield
        failpoint("target_commit.after")

    def _stamp(self, lsn: CommitLsn, found: Snapshot) -> Stamp:
        return Stamp(self.target_id, lsn.value, found.get_transaction(self.target_id))


@frozen
class ShownColumns:
    """The columns of a target's table, each of which is one of the instance's as readers know it."""

    target: str
    shape: TargetColumns
    instance: Instance

    @property
    def types(self) -> list[tuple[str, str]]:
        """Their names, and their types in the lake."""
        types = [column_type(self.instance, column).name for column in self.instance.columns]
        return [(name, types[ordinal - 1]) for name, ordinal in self._ordinals]

    @property
    def keys(self) -> list[str]:
        """Their names, of those that identify a row."""
        return [column.name for column in self.shape.keys]

    @property
    def sources(self) -> list[str]:
        """The instance's columns that they are made of."""
        return [self._source(ordinal) for _, ordinal in self._ordinals]

    def show(self, rows: pa.RecordBatch, kept: Sequence[str] = ()) -> pa.RecordBatch:
        """Return rows, which have `__$exact`, in these columns, after some that stay as they are. Raises `KeyUnfit`."""
        self._require_fit(rows)
        names = [*kept, *(name for name, _ in self._ordinals)]
        columns = [*kept, *self.sources]
        return pa.RecordBatch.from_arrays([rows.column(name) for name in columns], names=names)

    def _require_fit(self, rows: pa.RecordBatch) -> None:
        """Raise `KeyUnfit` if a value of the key does not fit its type."""
        texts = read_exact_texts(rows.column(EXACT))
        if any(ordinal in texts for name, ordinal in self._ordinals if name in self.keys):
            raise KeyUnfit(self.instance.capture_instance, self.target)

    @property
    def _ordinals(self) -> list[tuple[str, int]]:
        return [(column.name, column.sources[0]) for column in self.shape.columns]

    def _source(self, ordinal: int) -> str:
        return self.instance.columns[ordinal - 1].lake_name


_kernels: Any = pc
_NOWHERE = -1


class KeySet:
    """Keys, each of one row; a row with a null in its key is never found, as in a join."""

    def __init__(self, rows: pa.Table, columns: Sequence[str]) -> None:
        """`columns` are those of the key."""
        self.columns = tuple(columns)
        self._rows = rows
        # From the second column on, the number of the key's prefix and the number of the column's value form a pair.
        self._values = [_kernels.unique(_comparable(rows[name])) for name in columns]
        self._pairs: list[Any] = []
        known = self._known(rows, 0)
        for index in range(1, len(self._values)):
            pairs = self._pair(rows, known, index)
            self._pairs.append(_kernels.unique(pairs))
            known = _kernels.index_in(pairs, value_set=self._pairs[-1], skip_nulls=True)

    def find(self, rows: pa.Table) -> Indexes:
        """Return for each row the number of the row with its key, -1 where none has."""
        known = self._known(rows, 0)
        for index, pairs in enumerate(self._pairs, 1):
            known = _kernels.index_in(self._pair(rows, known, index), value_set=pairs, skip_nulls=True)
        indexes: Indexes = known.fill_null(_NOWHERE).to_numpy().astype(np.int32, copy=False)
        return indexes

    def ranges(self, physical: Sequence[str]) -> Iterator[Between]:
        """Yield the ranges in which all keys are, of integers and texts; `physical` are the columns' names in files.

        Writers differ in the form of times, and of dates in distant years, in statistics.
        """
        for name, in_files in zip(self.columns, physical, strict=True):
            values = self._rows[name]
            if pa.types.is_integer(values.type) or pa.types.is_string(values.type):
                low, high = (bound if isinstance(bound, int | str) else None for bound in bounds_of(values))
                yield Between(in_files, low, high)

    def _known(self, rows: pa.Table, index: int) -> Any:
        values = _comparable(rows[self.columns[index]])
        return _kernels.index_in(values, value_set=self._values[index], skip_nulls=True)

    def _pair(self, rows: pa.Table, known: Any, index: int) -> Any:
        width = pa.scalar(len(self._values[index]), pa.int64())
        return _kernels.add(_kernels.multiply(known.cast(pa.int64()), width), self._known(rows, index).cast(pa.int64()))


def _comparable(values: pa.ChunkedArray[Any]) -> Any:
    chunks = [comparable(chunk) for chunk in values.chunks]
    return pa.chunked_array(chunks) if chunks else comparable(pa.nulls(0, values.type))
