"""A table as of an LSN without the values of columns that its source had dropped by then: null in all rows.

Rows that were copied or changed before the drop have values, in the lake as before; rows since then have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.exact_texts import EXACT
from rowtide.cdc.lake_readers.last_rows import ABSENT, exact_columns
from rowtide.cdc.lake_readers.packed_bits import Bits
from rowtide.cdc.rows.exact_values import ExactValues
from rowtide.cdc.rows.masks import as_binary, empty_masks, set_bits


class ReadsTable(Protocol):
    """Reads columns of a table as of an LSN."""

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns."""
        ...

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, in no order."""
        ...


@dataclass(frozen=True, slots=True)
class WithoutDropped:
    """The same table, some columns of which, by ordinal, are null."""

    table: ReadsTable
    instance: Instance
    dropped: Sequence[int]

    @property
    def schema(self) -> pa.Schema:
        """The wanted columns."""
        return self.table.schema

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows. Raises as the table does."""
        return map(self._without, self.table.read())

    def _without(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = {self.instance.columns[ordinal - 1].lake_name for ordinal in self.dropped}
        values = {
            field.name: pa.nulls(rows.num_rows, field.type) if field.name in names else rows.column(field.name)
            for field in rows.schema
        }
        if ABSENT in values and values[ABSENT].null_count < rows.num_rows:
            values[ABSENT] = self._masks(rows)
        if EXACT in values and values[EXACT].null_count < rows.num_rows:
            exact = ExactValues(rows.num_rows)
            for ordinal, texts in sorted(exact_columns(rows).items()):
                if ordinal not in self.dropped:
                    exact.add(ordinal, texts, pa.nulls(rows.num_rows))
            values[EXACT] = exact.as_maps()
        return pa.RecordBatch.from_arrays(list(values.values()), schema=rows.schema)

    def _masks(self, rows: pa.RecordBatch) -> pa.Array[pa.BinaryScalar]:
        count = len(self.instance.columns)
        is_absent, masks = Bits(rows.column(ABSENT), count), empty_masks(rows.num_rows, count)
        for ordinal in range(1, count + 1):
            if ordinal not in self.dropped:
                set_bits(masks, ordinal, is_absent.of(ordinal))
        return as_binary(masks, np.asarray(~masks.any(axis=1)))
