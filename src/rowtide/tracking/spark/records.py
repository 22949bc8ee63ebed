"""Records that the tasks of an enumeration write: one per change, and one outcome per device. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from rowtide.core.json_records import JsonOf
from rowtide.core.values import frozen
from rowtide.databases.kinds import DatabaseKind
from rowtide.tracking.changes import Change, DeclaredColumn, Operation

OPERATIONS = {Operation.DELETE: 1, Operation.INSERT: 2, Operation.UPDATE: 4}
"""`__$operation` in SQL Server's numbers, as in change tables."""

CHANGE = "device string, operation int, texts array<string>, outcome string"
RECORD = f"part string, {CHANGE}"
"""The schema of records; `part` separates outcomes, and changes of one table with one shape.

`texts` are a row's values in the order of the shape's columns, null also where a delete does not have them.
"""
OUTCOMES = "outcomes"

_TYPES: list[tuple[str, pa.DataType]] = [
    ("part", pa.string()),
    ("device", pa.string()),
    ("operation", pa.int32()),
    ("texts", pa.list_(pa.string())),
    ("outcome", pa.string()),
]
_ARROW = pa.schema(_TYPES)
_BATCH_RECORDS = 10_000
_BATCH_LETTERS = 8 * 1024 * 1024

Record = tuple[str, str, int | None, list[str | None] | None, str | None]


@frozen
class TrackedColumns:
    """A table's columns on one kind of database; `place` is the table's position among the requested ones."""

    place: int
    kind: DatabaseKind
    columns: tuple[DeclaredColumn, ...]

    @property
    def part(self) -> str:
        """The name of the part with such rows."""
        return f"{self.place}-{hashlib.sha256(repr(self).encode()).hexdigest()[:16]}"


@frozen
class DeviceOutcome:
    """One device's outcome: its next anchor, or why it failed.

    `shapes` are its tables', in the requested order; `rows` counts the changes of each that were written, also by a
    device that failed later.
    """

    device: str
    anchor: str | None
    failure: str | None
    shapes: tuple[TrackedColumns, ...] = ()
    rows: tuple[int, ...] = ()

    def as_record(self) -> Record:
        """Return the record of the outcome."""
        return OUTCOMES, self.device, None, None, _OUTCOME.encode(self)


_OUTCOME = JsonOf[DeviceOutcome](DeviceOutcome)


def read_outcome(text: str) -> DeviceOutcome:
    """Return the outcome from its record."""
    return _OUTCOME.decode(text)


def change_record(device: str, change: Change, shape: TrackedColumns) -> Record:
    """Return the record of a change; its values are texts."""
    texts: dict[str, str | None] = {
        name: None if text is None else str(text) for name, text in change.as_dict().items()
    }
    row = [texts.get(column.name) for column in shape.columns]
    return shape.part, device, OPERATIONS[change.operation], row, None


def make_batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """Yield records in batches that fit in memory, with the columns of `RECORD`."""
    batch: list[Record] = []
    letters = 0
    for record in records:
        batch.append(record)
        letters += sum(len(text) for text in record[3] or () if text is not None)
        if len(batch) == _BATCH_RECORDS or letters >= _BATCH_LETTERS:
            yield _make_batch(batch)
            batch, letters = [], 0
    yield _make_batch(batch)


def _make_batch(records: list[Record]) -> pa.RecordBatch:
    columns = zip(*records, strict=True) if records else [()] * len(_ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
