"""The log, how far it is read and what is kept for that; capture, its instances, consumers, cleanup, targets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TypeVar, overload

from rowtide.agents.loop import PastError
from rowtide.cdc.consumers.consumers import ListedConsumer
from rowtide.cdc.published import ListedChange
from rowtide.cdc.status import CaptureStatus, CleanupStatus, capture_lag_s, unpublished_segments
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.diagnosis.places import PlaceFacts
from rowtide.diagnosis.postgres.capture_facts import CapturedInstance
from rowtide.diagnosis.postgres.reading import LogFacts, PublishedFacts
from rowtide.diagnosis.result import Known, Unread
from rowtide.monitor.labels import number_of
from rowtide.monitor.snapshot import Cycle, PolledCopy, PolledFigures, PolledSnapshot
from rowtide.targets.definitions import TableState

_HOUR_S = 3600.0
_MOST_SCHEMA_CHANGES = 20
Item_co = TypeVar("Item_co", covariant=True)


class MadeLater(Sequence[Item_co]):
    """A sequence that is computed when it is first read: few polls are followed by a page that shows all instances."""

    def __init__(self, make: Callable[[], Sequence[Item_co]]) -> None:
        self._make = make

    @cached_property
    def _items(self) -> Sequence[Item_co]:
        return self._make()

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | Sequence[Item_co]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)


@frozen
class GapView:
    """Transactions in [`after`, `before`) that the log store lacks; `reason` says why."""

    after: CommitLsn
    before: CommitLsn
    reason: str
    is_bridged: bool


@frozen
class FailureView:
    """The newest error of something that has not succeeded since, by its number, or its class."""

    at: datetime
    number: str | None


@frozen
class IntervalView:
    """The LSNs that may be read of an instance, both inclusive, and when their transactions committed, if known.

    `missing` are transactions in it whose changes the instance lacks.
    """

    low: CommitLsn
    high: CommitLsn
    low_at: datetime | None
    high_at: datetime | None
    missing: tuple[CommitLsn, ...]

    def share_of(self, lsn: CommitLsn) -> float:
        """Return the fraction at which an LSN lies between low (0) and high (1), by bytes of the log."""
        if lsn <= self.low:
            return 0.0
        if lsn >= self.high:
            return 1.0
        return (lsn.value - self.low.value) / (self.high.value - self.low.value)

    def share_of_time(self, at: datetime) -> float | None:
        """Return where a time lies between low (0) and high (1), None where one of their times is not known."""
        if self.low_at is None or self.high_at is None:
            return None
        whole_s = (self.high_at - self.low_at).total_seconds()
        if whole_s <= 0:
            return 0.0 if at < self.high_at else 1.0
        return min(max((at - self.low_at).total_seconds() / whole_s, 0.0), 1.0)


@frozen
class SchemaChangeView:
    """A statement that changed the table of an instance. Its text is not here: literals in it may be values of rows.

    `is_inferred`: no event trigger recorded it. `changes_type`: of a captured column. `rewrites_values`: the server
    wrote values without change rows.
    """

    at: datetime
    lsn: CommitLsn
    changes_type: bool
    is_inferred: bool
    rewrites_values: bool


@frozen
class InstanceView:
    """A capture instance; `interval` is None until something of it is published, and where the lake was not read.

    `is_read`: the log reader knows it. `columns` are those captured, None until then; `copy` is what is copied of its
    snapshot now. `consumers` are the names of those that read it, `gaps` those of the log store.
    """

    name: str
    schema: str
    table: str
    is_dropped: bool
    is_read: bool
    has_key: bool
    is_copied: bool
    columns: tuple[str, ...] | None
    interval: IntervalView | None
    gaps: tuple[GapView, ...]
    consumers: tuple[str, ...]
    copy: PolledCopy | None
    schema_changes: tuple[SchemaChangeView, ...] = ()
    """The last ones, newest first."""


@frozen
class CleanupView:
    """The cleanup of change rows; without a job `schedule` and `retention_s` are None. `agent` runs the job."""

    schedule: str | None
    retention_s: float | None
    last_cleaned: datetime | None
    failure: FailureView | None
    agent: str | None


@frozen
class CaptureView:
    """The progress of capture; `gaps` counts those that are recorded in the log store, which are `recorded_gaps`.

    `cycles` are the last, oldest first. `captured_by` is the host and process that captures; all that was committed by
    `published_at` is published.
    """

    lag_s: float | None
    gaps: int | None
    copying: tuple[PolledCopy, ...] = ()
    captured_by: str | None = None
    published_at: datetime | None = None
    published_lsn: CommitLsn | None = None
    failure: FailureView | None = None
    failed_snapshots: tuple[str, ...] = ()
    cycles: tuple[Cycle, ...] | None = None
    cleanup: CleanupView | None = None
    instances: Sequence[InstanceView] = ()
    recorded_gaps: tuple[GapView, ...] = ()


@frozen
class ConsumerView:
    """A named consumer; `margin_s` is how long cleanup still waits for it, negative if it no longer does.

    Everything up to `acknowledged_lsn`, committed by `acknowledged_at`, is acknowledged; None before the first time.
    """

    name: str
    lag_s: float
    margin_s: float
    instances: tuple[str, ...] = ()
    acknowledged_lsn: CommitLsn | None = None
    acknowledged_at: datetime | None = None
    limit_s: float | None = None
    is_at_risk: bool = False


@frozen
class TargetView:
    """A table of a target; `lag_s` is None before the first apply. `state` is new, member or stopped."""

    target: str
    instance: str
    lag_s: float | None
    is_stopped: bool
    kind: str = ""
    format: str = ""
    state: str = ""
    applied_at: datetime | None = None


def view_capture(log: LogFacts, figures: PolledFigures | None) -> CaptureView:
    """Return the progress of capture."""
    state = log.capture.state
    reading = log.reading.status if not isinstance(log.reading, Unread) else None
    capturing = log.capturing if isinstance(log.capturing, CaptureStatus) else None
    published = log.lake.published if isinstance(log.lake.published, PublishedFacts) else None
    copying = _read(figures.copying) if figures is not None else None
    gaps = tuple(_view_gaps(log))
    return CaptureView(
        lag_s=capture_lag_s(state, reading) if state is not None and reading is not None else None,
        gaps=len(state.gaps) if state is not None else None,
        copying=copying or (),
        captured_by=capturing.capture if capturing is not None else None,
        published_at=published.time if published is not None else None,
        published_lsn=published.lsn if published is not None else None,
        failure=_view_failure(capturing.last_error, capturing.published_as_of) if capturing is not None else None,
        failed_snapshots=tuple(name for name, _ in capturing.failed_snapshots) if capturing is not None else (),
        cycles=_read(figures.cycles) if figures is not None else None,
        cleanup=_view_cleanup(log.cleanup) if isinstance(log.cleanup, CleanupStatus) else None,
        instances=MadeLater(lambda: tuple(_view_instances(log, published, figures, gaps))),
        recorded_gaps=gaps,
    )


def view_consumers(log: LogFacts) -> Iterator[ConsumerView]:
    """Yield the consumers, by name."""
    for one in log.capture.consumers:
        yield ConsumerView(
            one.consumer,
            one.lag_seconds,
            one.hours_left * _HOUR_S,
            one.instances,
            one.acknowledged_lsn,
            one.acknowledged_time,
            one.limit_hours * _HOUR_S,
            one.is_at_risk,
        )


def view_targets(log: LogFacts) -> Iterator[TargetView]:
    """Yield the tables of all targets."""
    if not isinstance(log.lake.targets, Unread):
        for one in log.lake.targets:
            is_stopped = one.state == TableState.STOPPED
            yield TargetView(
                one.target, one.instance, one.lag_seconds, is_stopped, one.kind, one.format, one.state, one.applied_at
            )


def _read(found: tuple[Known, ...] | Unread) -> tuple[Known, ...] | None:
    return None if isinstance(found, Unread) else found


def _view_gaps(log: LogFacts) -> Iterator[GapView]:
    for gap in log.capture.state.gaps if log.capture.state is not None else ():
        yield GapView(CommitLsn(gap.after.value), CommitLsn(gap.before.value), gap.reason, bool(gap.bridged))


def _view_failure(error: PastError | None, succeeded_at: datetime | None) -> FailureView | None:
    if error is None or (succeeded_at is not None and error.time <= succeeded_at):
        return None
    return FailureView(error.time, number_of(error.text))


def _view_cleanup(facts: CleanupStatus) -> CleanupView:
    return CleanupView(
        facts.schedule,
        facts.retention.total_seconds() if facts.retention is not None else None,
        facts.last_cleaned,
        _view_failure(facts.last_failure, facts.last_cleaned),
        facts.agent,
    )


def _view_instances(
    log: LogFacts, published: PublishedFacts | None, figures: PolledFigures | None, gaps: tuple[GapView, ...]
) -> Iterator[InstanceView]:
    times: Mapping[CommitLsn, datetime] = figures.low_times if figures is not None else {}
    copies = {one.instance: one for one in (_read(figures.copying) if figures is not None else None) or ()}
    consumers = _find_consumers(log.capture.consumers)
    changes = {} if isinstance(log.lake.schema_changes, Unread) else log.lake.schema_changes
    for one in log.capture.instances:
        interval = _view_interval(one.name, published, times)
        yield InstanceView(
            name=one.name,
            schema=one.schema,
            table=one.table,
            is_dropped=one.is_dropped,
            is_read=one.definition is not None,
            has_key=one.definition is not None and bool(one.definition.index_columns),
            is_copied=one.is_copied,
            columns=_list_columns(one),
            interval=interval,
            gaps=tuple(_list_within(gaps, interval)),
            consumers=tuple(sorted(consumers.get(one.name, ()))),
            copy=copies.get(one.name),
            schema_changes=tuple(_view_schema_changes(changes.get(one.name, ()))),
        )


def _view_schema_changes(changes: Sequence[ListedChange]) -> Iterator[SchemaChangeView]:
    for one in reversed(changes[-_MOST_SCHEMA_CHANGES:]):
        yield SchemaChangeView(one.ddl_time, one.ddl_lsn, one.required_column_update, one.inferred, one.rewrites_values)


def _find_consumers(consumers: Iterable[ListedConsumer]) -> Mapping[str, Sequence[str]]:
    """Return the consumers of each instance. Many consumers have the same instances."""
    together: dict[tuple[str, ...], list[str]] = {}
    for consumer in consumers:
        together.setdefault(consumer.instances, []).append(consumer.consumer)
    found: dict[str, list[str]] = {}
    for instances, names in together.items():
        for instance in instances:
            found.setdefault(instance, []).extend(names)
    return found


def _list_columns(one: CapturedInstance) -> tuple[str, ...] | None:
    return tuple(column.name for column in one.definition.columns) if one.definition is not None else None


def _view_interval(
    name: str, published: PublishedFacts | None, times: Mapping[CommitLsn, datetime]
) -> IntervalView | None:
    low = published.low_endpoints.get(name) if published is not None else None
    if published is None or low is None:
        return None
    high = published.lsn if published.lsn is not None and published.lsn > low else low
    return IntervalView(low, high, times.get(low), published.time, published.missing.get(name, ()))


def _list_within(gaps: Iterable[GapView], interval: IntervalView | None) -> Iterator[GapView]:
    for gap in gaps:
        if interval is not None and interval.low <= gap.before and gap.after <= interval.high:
            yield gap


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
    """The progress of the log reader, and the log store."""

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
