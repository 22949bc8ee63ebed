"""Rows of change tables and bases in a target's columns, in Arrow. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.exact_texts import EXACT, read_exact_texts
from rowtide.cdc.rows.change_columns import column_type
from rowtide.targets.columns import TableShape
from rowtide.targets.errors import KeyUnfit


@dataclass(frozen=True, slots=True)
class ShownColumns:
    """The columns of a target's table, each of which is one of the instance's as readers know it."""

    target: str
    shape: TableShape
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
