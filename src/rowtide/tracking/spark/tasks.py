"""A Spark task: enumerates some devices, one after the other. Runs in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.core.errors import RowtideError
from rowtide.tracking.changes import Changes
from rowtide.tracking.connecting import open_tracking
from rowtide.tracking.spark.devices import Device
from rowtide.tracking.spark.records import DeviceOutcome, Record, Shape, change_record


@dataclass(frozen=True, slots=True)
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
    shapes: tuple[Shape, ...] = ()
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


def _shapes(device: Device, changes: Changes) -> tuple[Shape, ...]:
    return tuple(Shape(place, device.kind, table.columns) for place, table in enumerate(changes.tables))
