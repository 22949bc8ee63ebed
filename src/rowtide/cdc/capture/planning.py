"""Plans a scan cycle of capture from the manifest and the lake's state alone. Pure.

A cycle's range is [from, to). The same state gives the same plan: a recorded range is redone after a crash.

A plan also says how the range changes the lifetimes of capture instances, and their tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rowtide.cdc.change_columns import find_indexes
from rowtide.cdc.ddl.schema_changes import (
    AlteredInstance,
    InstanceLifetime,
    InstanceSchemaChange,
    apply_events,
    find_altered,
)
from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import RelationChanged
from rowtide.cdc.instances import Instance
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import NO_TABLE
from rowtide.core.tables import BeforeImages, ImageKind, LoggedTable, TableShape
from rowtide.core.values import frozen
from rowtide.log.membership import Altered, ChangesOmitted, Disabled, Enabled, Heartbeat, Reshaped
from rowtide.log.store.entries import Segment, TransactionOmitted
from rowtide.log.store.state import (
    LogGap,
    ManifestState,
    bounded_end,
    events_between,
    segments_between,
    skipped_between,
)

# The limit of a cycle. After an outage, changes become readable in steps, and a cycle that is redone repeats no more
# than this.
MAX_CYCLE_ROWS = 2_000_000
# More than a batch of the log reader holds: only a segment with a single row can be larger.
LARGE_SEGMENT_BYTES = 48 * 1024 * 1024
LONGEST_SILENCE = timedelta(minutes=5)
"""While captured tables are idle, a heartbeat is published this often, so that the maximum LSN and its time advance."""


@frozen
class VersionRows:
    """The rows of one table version that belong to an instance in a cycle."""

    version: LoggedTable
    segments: tuple[Segment, ...]


@frozen
class InstanceWork:
    """What a cycle appends to one change table: rows after `lifetime.begin`, before `lifetime.end`."""

    lifetime: InstanceLifetime
    slices: tuple[VersionRows, ...]


@frozen
class Skipped:
    """A transaction of which an instance lacks changes: it was skipped, or these were omitted. `note` says why."""

    lifetime: InstanceLifetime
    lsn: CommitLsn
    note: str


@frozen
class CyclePlan:
    """One cycle: its range, the work for each instance, the instances that begin and end in it, and what they miss.

    `altered` are earlier instances whose tables were altered, `history` the schema changes, in log order. A change
    table's columns have one type in a cycle, that of its end. `event_segments` hold the transactions of all these
    events; `heartbeat` is the last one in the range.
    """

    from_position: Position
    to_position: Position
    work: tuple[InstanceWork, ...] = ()
    begun: tuple[InstanceLifetime, ...] = ()
    ended: tuple[InstanceLifetime, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    altered: tuple[AlteredInstance, ...] = ()
    history: tuple[InstanceSchemaChange, ...] = ()
    event_segments: tuple[Segment, ...] = ()
    heartbeat: Heartbeat | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.work or self.begun or self.ended or self.skipped or self.altered or self.history)

    @property
    def event_lsns(self) -> tuple[CommitLsn, ...]:
        """The transactions in which instances begin or end, or their tables are altered."""
        ends = (lifetime.end for lifetime in self.ended if lifetime.end is not None)
        return tuple(
            sorted({*(lifetime.begin for lifetime in self.begun), *ends, *(change.lsn for change in self.history)})
        )

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments that the cycle reads, in log order."""
        slices = (piece for work in self.work for piece in work.slices)
        found = {segment.path: segment for piece in slices for segment in piece.segments}
        found.update({segment.path: segment for segment in self.event_segments})
        return tuple(sorted(found.values(), key=lambda segment: (segment.first, segment.path)))


def plan_cycle(state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position) -> CyclePlan:
    """Plan the next cycle: to the end of the log store, bounded by rows, and by the first event that stops capture.

    It also ends before a column changes its type; the next cycle begins with that.

    Raises `RelationChanged` if that event comes first.
    """
    to_position = _before_reuse(state, active, from_position, bounded_end(state, from_position, MAX_CYCLE_ROWS))
    to_position = _before_retyping(state, active, from_position, to_position)
    lifetimes = apply_events(state, active, from_position, to_position).lifetimes
    blocker = min(
        _blockers(state, lifetimes, from_position, to_position), key=lambda found: found[0].value, default=None
    )
    if blocker is not None:
        lsn, error = blocker
        # Everything before the blocker is published first; the error is raised when nothing else can be published.
        if lsn.value <= from_position.value or not _has_work(state, from_position, Position(lsn.value)):
            raise error
        to_position = Position(lsn.value)
    return plan_range(state, active, from_position, to_position)


def plan_range(
    state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position, to_position: Position
) -> CyclePlan:
    """Plan a cycle of a given range: that of `plan_cycle`, or a recorded one that is redone."""
    applied = apply_events(state, active, from_position, to_position)
    lifetimes = applied.lifetimes
    segments = _segments_by_version(segments_between(state, from_position, to_position))
    versions = _versions_by_table(state)
    work = (
        InstanceWork(lifetime, _slices(state, lifetime, versions.get(lifetime.instance.source_id, ()), segments))
        for lifetime in lifetimes
        # Rows of an instance that ends in the cycle would never be visible.
        if lifetime.end is None
    )
    plan = CyclePlan(
        from_position=from_position,
        to_position=to_position,
        work=tuple(piece for piece in work if piece.slices),
        begun=tuple(lifetime for lifetime in lifetimes if lifetime.begin.value >= from_position.value),
        ended=tuple(lifetime for lifetime in lifetimes if lifetime.end is not None),
        skipped=tuple(_skipped(state, lifetimes, from_position, to_position)),
        altered=tuple(find_altered(applied, active)),
        history=applied.history,
        # Without instances no query reads the maximum LSN, and an idle lake stays as it is.
        heartbeat=_last_heartbeat(state, from_position, to_position) if lifetimes else None,
    )
    return replace(plan, event_segments=_event_segments(state, plan))


def find_too_large(
    state: ManifestState,
    active: Mapping[str, InstanceLifetime],
    from_position: Position,
    most_bytes: int,
    *,
    lake_token: int,
) -> Iterator[TransactionOmitted]:
    """Return the transactions after a position that instances omit, for a row that memory cannot hold."""
    large = [
        segment
        for segment in segments_between(state, from_position, state.position)
        if _is_large_row(segment) and segment.raw_bytes > most_bytes
    ]
    if not large:
        return
    lifetimes = apply_events(state, active, from_position, state.position).lifetimes
    versions = _versions_by_table(state)
    for segment in large:
        reason = f"a row takes {segment.raw_bytes:,} bytes, of at most {most_bytes:,} that memory is enough for"
        for lifetime in lifetimes:
            table_ids = {version.table_id for version in versions.get(lifetime.instance.source_id, ())}
            if lifetime.contains(segment.first) and table_ids & set(segment.tables):
                yield TransactionOmitted(READER, lifetime.instance.member_id, segment.first, reason, lake_token)


def _is_large_row(segment: Segment) -> bool:
    return segment.rows == 1 and segment.raw_bytes > LARGE_SEGMENT_BYTES


def is_heartbeat_due(plan: CyclePlan, last_time: datetime | None) -> bool:
    """Return whether a range without changes is published, because nothing was for `LONGEST_SILENCE` as of
    `last_time`.
    """
    return plan.heartbeat is not None and (
        last_time is None or plan.heartbeat.committed_at - last_time >= LONGEST_SILENCE
    )


def plan_gap(state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position) -> CyclePlan:
    """Plan the cycle that moves the lake over a gap into the log's epoch: no rows, and every instance suspended for
    which the log does not have what the gap changed.
    """
    gap = last_gap(state)
    ended = (lifetime for member_id, lifetime in active.items() if member_id not in gap.bridged)
    return CyclePlan(from_position, gap.before, ended=tuple(ended))


def last_gap(state: ManifestState) -> LogGap:
    """Return the gap before the log's epoch."""
    return next(gap for gap in reversed(state.gaps) if gap.after.epoch < gap.before.epoch == state.epoch)


def _before_reuse(
    state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position, to_position: Position
) -> Position:
    """End the range before a name is reused, so that its change table is emptied only after readers see the end."""
    names = {lifetime.instance.capture_instance for lifetime in active.values()}
    reused = (
        Position(event.commit_lsn.value)
        for event in events_between(state, from_position, to_position)
        if isinstance(event, Enabled) and event.member.name in names and event.member.member_id not in active
    )
    return next(reused, to_position)


def _before_retyping(
    state: ManifestState, active: Mapping[str, InstanceLifetime], from_position: Position, to_position: Position
) -> Position:
    """End the range before a column of a change table changes its type, unless it begins with that.

    Whether the values fit is tested before the next cycle is recorded, because a recorded cycle that is impossible
    would be redone for ever.
    """
    history = apply_events(state, active, from_position, to_position).history
    retyped = (change.lsn for change in history if change.required_column_update)
    return next((Position(lsn.value) for lsn in retyped if lsn.value > from_position.value), to_position)


def _slices(
    state: ManifestState,
    lifetime: InstanceLifetime,
    versions: Sequence[LoggedTable],
    segments: Mapping[int, Sequence[Segment]],
) -> tuple[VersionRows, ...]:
    """Return what an instance takes of a range's segments, given by the versions that they have rows of."""
    member_id = lifetime.instance.member_id
    omitted = {lacking.lsn for lacking in state.list_omitted_by(READER) if lacking.member_id == member_id}
    slices = (
        VersionRows(
            version,
            tuple(
                segment
                for segment in segments.get(version.table_id, ())
                # The segments' statistics suffice here; rows are selected by their own LSN when they are read.
                if segment.last > lifetime.begin and not (segment.first in omitted and _is_large_row(segment))
            ),
        )
        for version in versions
    )
    return tuple(piece for piece in slices if piece.segments)


def _segments_by_version(segments: Sequence[Segment]) -> dict[int, list[Segment]]:
    """Return the segments that have rows of a version of a table, by its id."""
    found: dict[int, list[Segment]] = {}
    for segment in segments:
        for table_id in segment.tables:
            found.setdefault(table_id, []).append(segment)
    return found


def _skipped(
    state: ManifestState, lifetimes: Sequence[InstanceLifetime], from_position: Position, to_position: Position
) -> Iterator[Skipped]:
    for gap in skipped_between(state, from_position, to_position):
        lsn = CommitLsn(gap.after.value)
        note = f"the transaction was skipped: {gap.reason}"
        yield from (Skipped(lifetime, lsn, note) for lifetime in lifetimes if lifetime.contains(lsn))
    events = events_between(state, from_position, to_position)
    omitted = [
        (event.member_id, event.commit_lsn, event.reason) for event in events if isinstance(event, ChangesOmitted)
    ]
    omitted += (
        (one.member_id, one.lsn, one.reason)
        for one in state.list_omitted_by(READER)
        if to_position.covers(one.lsn) and not from_position.covers(one.lsn)
    )
    # Several changes of a transaction count once.
    for (member_id, lsn), reason in {(member_id, lsn): reason for member_id, lsn, reason in omitted}.items():
        for lifetime in lifetimes:
            if lifetime.instance.member_id == member_id and lifetime.contains(lsn):
                yield Skipped(lifetime, lsn, f"changes of the transaction were omitted: {reason}")


def _last_heartbeat(state: ManifestState, from_position: Position, to_position: Position) -> Heartbeat | None:
    events = reversed(events_between(state, from_position, to_position))
    return next((event for event in events if isinstance(event, Heartbeat)), None)


def _event_segments(state: ManifestState, plan: CyclePlan) -> tuple[Segment, ...]:
    return tuple(
        segment
        for segment in segments_between(state, plan.from_position, plan.to_position)
        # An instance that begins without a row needs its transaction's time for `lsn_time_mapping`, as its low
        # endpoint.
        if NO_TABLE in segment.tables and any(segment.first <= lsn <= segment.last for lsn in plan.event_lsns)
    )


def _has_work(state: ManifestState, from_position: Position, to_position: Position) -> bool:
    events = events_between(state, from_position, to_position)
    return bool(segments_between(state, from_position, to_position)) or any(
        isinstance(event, Enabled | Disabled | Altered | ChangesOmitted) for event in events
    )


def _blockers(
    state: ManifestState, lifetimes: Sequence[InstanceLifetime], from_position: Position, to_position: Position
) -> Iterator[tuple[CommitLsn, RelationChanged]]:
    # An instance that ends in the range gets no more rows, so that disabling it removes the blocker.
    continuing: dict[int, list[InstanceLifetime]] = {}
    for lifetime in lifetimes:
        if lifetime.end is None:
            continuing.setdefault(lifetime.instance.source_id, []).append(lifetime)
    for event in events_between(state, from_position, to_position):
        if not isinstance(event, Reshaped):
            continue
        shape = state.tables[event.table_id].shape
        for lifetime in continuing.get(shape.source_id, ()):
            change = find_misfit(lifetime.instance, shape) if lifetime.contains(event.commit_lsn) else None
            if change is not None:
                lsn, name = event.commit_lsn, lifetime.instance.capture_instance
                yield lsn, RelationChanged(shape.qualified_name, str(lsn), change, name)


def _versions_by_table(state: ManifestState) -> dict[int, list[LoggedTable]]:
    """Return the versions of each table, by the table's id in the source."""
    versions: dict[int, list[LoggedTable]] = {}
    for version in state.tables.values():
        versions.setdefault(version.shape.source_id, []).append(version)
    return versions


def find_misfit(instance: Instance, shape: TableShape) -> str | None:
    """Return what rows of a shape lack that an instance requires, None if nothing."""
    if shape.identity is ImageKind.FULL:
        return None
    if instance.before_images is BeforeImages.FULL:
        return "its replica identity is no longer full"
    indexes = find_indexes(instance, shape)
    in_key = (indexes.get(column.name) for column in instance.index_columns)
    if all(index is not None and shape.columns[index].is_key for index in in_key):
        return None
    return "its replica identity no longer has the key"
