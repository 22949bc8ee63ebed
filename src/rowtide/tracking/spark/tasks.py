"""A Spark task: enumerates some devices, one after the other. Runs in Spark's Python workers.

The databases of a call, each a device with a name under which its anchor is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.core.errors import RowtideError
from rowtide.core.places import local_path
from rowtide.core.values import frozen
from rowtide.databases.kinds import DatabaseKind
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.tracking.changes import Changes
from rowtide.tracking.connecting import open_tracking
from rowtide.tracking.errors import NoDatabaseFound
from rowtide.tracking.spark.records import DeviceOutcome, Record, TrackedColumns, change_record


@frozen
class Device:
    """A database; `name` is the path of a file, or a URL without its password."""

    name: str
    url: DatabaseUrl

    @property
    def kind(self) -> DatabaseKind:
        """The kind of database."""
        return self.url.kind


def find_devices(databases: str | Sequence[str]) -> tuple[Device, ...]:
    """Return the databases of URLs, and of the SQLite files that paths and patterns (`/data/devices/*.db`) match now.

    Each is returned once, in name order. Raises `NoDatabaseFound` for a path or pattern that matches no file.
    """
    named = [databases] if isinstance(databases, str) else databases
    if not named:
        raise NoDatabaseFound("")
    found = {device.name: device for text in named for device in _find(text)}
    return tuple(found[name] for name in sorted(found))


def _find(text: str) -> list[Device]:
    path = local_path(text)
    if path is None:
        return [_of_url(parse_url(text))]
    files = [path] if Path(path).is_file() else [file for file in glob(path, recursive=True) if Path(file).is_file()]
    if not files:
        raise NoDatabaseFound(text)
    return [_of_file(file) for file in files]


def _of_url(url: DatabaseUrl) -> Device:
    return _of_file_url(url) if url.kind.is_file else _of_server(url)


def _of_file_url(url: DatabaseUrl) -> Device:
    if url.database is None:
        raise NoDatabaseFound(str(url))
    return _of_file(url.database)


def _of_file(path: str) -> Device:
    """Return the device of a file, by its absolute path, under which workers find it too."""
    absolute = str(Path(path).absolute())
    return Device(absolute, DatabaseUrl(DatabaseKind.SQLITE, database=absolute))


def _of_server(url: DatabaseUrl) -> Device:
    return Device(str(url.without_secrets()), url)


@frozen
class Work:
    """What to enumerate on all devices, each from its anchor; `devices` are identified by position."""

    devices: tuple[Device, ...]
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


def _enumerate(work: Work, device: Device) -> Iterator[Record]:
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


def _shapes(device: Device, changes: Changes) -> tuple[TrackedColumns, ...]:
    return tuple(TrackedColumns(place, device.kind, table.columns) for place, table in enumerate(changes.tables))
