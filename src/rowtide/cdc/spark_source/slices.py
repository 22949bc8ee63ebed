"""Slices of change tables: what a Spark task reads of them, and reading it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.change_tables import ChangeTable, Part
from rowtide.cdc.lake_readers.ordering import Source, gather, merge
from rowtide.cdc.rows.change_columns import shown_columns
from rowtide.cdc.spark_source.shapes import Shape
from rowtide.databases.lake_values.arrow_types import arrow_schema

_TASK_BYTES = 32 * 1024 * 1024
"""So much of files is read by a task: some seconds' work."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some files of an instance's change table, and the rows that are read of them."""

    instance: Instance
    table: ChangeTable
    part: Part

    def read(self, shape: Shape) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order. Raises as `ChangeTable.stream`."""
        columns = [name for name, _ in shown_columns(self.instance)]
        return (shape.present(rows, self.instance) for rows in self.table.stream(self.part, columns))


@dataclass(frozen=True, slots=True)
class Planned:
    """What is read: slices by task, and what their rows look like."""

    shape: Shape
    tasks: list[tuple[Slice, ...]]


def cut(slices: Iterable[Slice]) -> list[tuple[Slice, ...]]:
    """Divide slices into the tasks that read them: a large one among several, small ones together."""
    tasks: list[tuple[Slice, ...]] = []
    held: list[Slice] = []
    held_bytes = 0
    for whole in slices:
        for table, size in whole.table.cut(whole.part, _TASK_BYTES):
            if held and held_bytes + size > _TASK_BYTES:
                tasks.append(tuple(held))
                held, held_bytes = [], 0
            held.append(Slice(whole.instance, table, whole.part))
            held_bytes += size
    return [*tasks, tuple(held)] if held else tasks


def read_slices(slices: Iterable[Slice], shape: Shape) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task's slices in one order over all of them, in batches of some megabytes."""
    schema = arrow_schema(shape.columns)
    sources = [Source(one.part.low.value, one.part.high.value, partial(one.read, shape)) for one in slices]
    for rows in gather(merge(sources)):
        columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
