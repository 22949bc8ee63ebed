"""How far the server's log is read, and what is kept for that: slot, log store and disks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.cdc.status import unpublished_segments
from rowtide.core.values import frozen
from rowtide.diagnosis.places import PlaceFacts
from rowtide.diagnosis.postgres.reading import LogFacts
from rowtide.diagnosis.result import Unread
from rowtide.monitor.snapshot import PolledFigures, PolledSnapshot


@frozen
class SlotView:
    """The replication slot; sizes in bytes, `safe_bytes` None where nothing limits it."""

    name: str
    wal_status: str
    invalidation_reason: str
    retained_bytes: int | None
    safe_bytes: int | None


@frozen
class LogView:
    """How far the log is read, and its store."""

    lag_bytes: int | None
    lag_s: float | None
    slot: SlotView | None
    store_bytes: int | None
    unread_bytes: int | None
    reader: str | None = None
    """The host and process that reads the log."""


@frozen
class PlaceView:
    """A folder that rowtide writes."""

    place: str
    free_bytes: int


def view_log(log: LogFacts, figures: PolledFigures | None) -> LogView:
    """Return how far the log is read."""
    capture, state = log.capture, log.capture.state
    reading = log.reading.status if not isinstance(log.reading, Unread) else None
    slot = capture.slot
    reason = (figures.invalidation if figures is not None else None) or ""
    return LogView(
        lag_bytes=reading.unread_bytes if reading is not None else None,
        lag_s=reading.lag_s if reading is not None else None,
        slot=SlotView(slot.name, slot.wal_status, reason, slot.kept_bytes, slot.safe_bytes)
        if slot is not None
        else None,
        store_bytes=sum(segment.bytes for segment in state.segments) if state is not None else None,
        unread_bytes=sum(segment.bytes for segment in unpublished_segments(state))
        if state is not None and capture.is_enabled
        else None,
        reader=capture.log_reader,
    )


def view_places(snapshot: PolledSnapshot, log: LogFacts | None) -> Iterator[PlaceView]:
    """Yield the folders that are there."""
    places = [*(log.places if log is not None else ()), *([snapshot.place] if snapshot.place is not None else ())]
    for place in places:
        if isinstance(place, PlaceFacts) and not place.is_missing:
            yield PlaceView(place.subject, place.free_bytes)
