"""Spark tasks: each enumerates some devices and writes records of changes and outcomes.

The databases of a call, each a device with a name under which its anchor is stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from rowtide.core.anchors import Anchor
from rowtide.core.errors import RowtideError
from rowtide.core.json_records import JsonOf
from rowtide.core.values import frozen
from rowtide.databases.urls import DatabaseKind, DatabaseUrl, parse_url
from rowtide.storage.places import local_path
from rowtide.tracking.api import open_tracking
from rowtide.tracking.changes import Change, DeclaredColumn, NetOperation, TrackedChanges
from rowtide.tracking.errors import NoDatabaseFound

OPERATIONS = {NetOperation.DELETE: 1, NetOperation.INSERT: 2, NetOperation.UPDATE: 4}
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


@frozen
class TrackedDatabase:
    """A database; `name` is the path of a file, or a URL without its password."""

    name: str
    url: DatabaseUrl

    @property
    def kind(self) -> DatabaseKind:
        """The kind of database."""
        return self.url.kind


def find_devices(databases: str | Sequence[str]) -> tuple[TrackedDatabase, ...]:
    """Return the databases of URLs, and of the SQLite files that paths and patterns (`/data/devices/*.db`) match now.

    Each is returned once, in name order. Raises `NoDatabaseFound` for a path or pattern that matches no file.
    """
    named = [databases] if isinstance(databases, str) else databases
    if not named:
        raise NoDatabaseFound("")
    found = {device.name: device for text in named for device in _find(text)}
    return tuple(found[name] for name in sorted(found))


def _find(text: str) -> list[TrackedDatabase]:
    path = local_path(text)
    if path is None:
        return [_of_url(parse_url(text))]
    files = [path] if Path(path).is_file() else [file for file in glob(path, recursive=True) if Path(file).is_file()]
    if not files:
        raise NoDatabaseFound(text)
    return [_of_file(file) for file in files]


def _of_url(url: DatabaseUrl) -> TrackedDatabase:
    return _of_file_url(url) if url.kind.is_file else _of_server(url)


def _of_file_url(url: DatabaseUrl) -> TrackedDatabase:
    if url.database is None:
        raise NoDatabaseFound(str(url))
    return _of_file(url.database)


def _of_file(path: str) -> TrackedDatabase:
    """Return the device of a file, by its absolute path, under which workers find it too."""
    absolute = str(Path(path).absolute())
    return TrackedDatabase(absolute, DatabaseUrl(DatabaseKind.SQLITE, database=absolute))


def _of_server(url: DatabaseUrl) -> TrackedDatabase:
    return TrackedDatabase(str(url.without_secrets()), url)


@frozen
class Work:
    """What to enumerate on all devices, each from its anchor; `devices` are identified by position."""

    devices: tuple[TrackedDatabase, ...]
    tables: tuple[str, ...]
    anchors: Mapping[str, str]
    whole: tuple[str, ...]
    exclude_context: UUID | None


def enumerate_devices(work: Work, places: Iterable[int]) -> Iterator[Record]:
    """Yield the records of the devices at some positions: for each, its changes, then its outcome.

    A repeated task enumerates again, with later anchors: only the records of one run belong together.
    """
    for place in places:
        yield from _enumerate(work, work.devices[place])


def _enumerate(work: Work, device: TrackedDatabase) -> Iterator[Record]:
    shapes: tuple[TrackedColumns, ...] = ()
    rows = [0] * len(work.tables)
    try:
        known = work.anchors.get(device.name)
        since = None if known is None else Anchor.parse(known)
        with (
            open_tracking(device.url) as tracking,
            tracking.changes(
                work.tables, since, exclude_context=work.exclude_context, whole=work.whole, as_texts=True
            ) as changes,
        ):
            shapes = _shapes(device, changes)
            places = {table.name: place for place, table in enumerate(changes.tables)}
            for change in changes:
                place = places[change.table]
                rows[place] += 1
                yield change_record(device.name, change, shapes[place])
    except RowtideError as error:
        yield DeviceOutcome(device.name, None, str(error), shapes, tuple(rows)).as_record()
    else:
        yield DeviceOutcome(device.name, str(changes.anchor), None, shapes, tuple(rows)).as_record()


def _shapes(device: TrackedDatabase, changes: TrackedChanges) -> tuple[TrackedColumns, ...]:
    return tuple(TrackedColumns(place, device.kind, table.columns) for place, table in enumerate(changes.tables))
