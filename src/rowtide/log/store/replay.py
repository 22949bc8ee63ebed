"""Applies entries to the manifest's state, and says which entry is legal when.

Pure. Every process that replays the same entries has the same state. A writer applies its entry before it
writes it, so an illegal entry is never written.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from operator import le
from typing import assert_never

from rowtide.core.lsn import Position
from rowtide.core.operations import NO_TABLE
from rowtide.log.errors import IllegalEntry, LeaseLost, LogStoreRelocated, ManifestConflict
from rowtide.log.membership import Altered, ChangesOmitted, Disabled, Enabled, Event, Member, follow_alteration
from rowtide.log.store import entries
from rowtide.log.store.state import (
    Incomplete,
    Lease,
    LogGap,
    ManifestState,
    NewPlace,
    OmittedByReader,
    PendingDeletion,
    Reader,
)


def apply(state: ManifestState | None, number: int, entry: entries.Entry) -> ManifestState:
    """Return the state after an entry.

    Raises `LeaseLost` for a token that is not its lease's, `ManifestConflict` for a range that does not
    begin at the position, `LogStoreRelocated` after a move, `IllegalEntry` for anything else that the state forbids.
    """
    last = state.version if state is not None else 0
    _require(number == last + 1, number, entry, f"the last entry is {last}")
    if state is not None:
        # A process that takes a lease has read in the database that the log store is still here, so the move is
        # cancelled.
        (require_not_moved if isinstance(entry, entries.LeaseTaken | entries.Moved) else require_here)(state)
    if isinstance(entry, entries.Opened):
        return _open(state, number, entry)
    if state is None:
        raise IllegalEntry(number, entry.kind, "the first entry opens epoch 0")
    return _apply(replace(state, version=number), entry)


def require_here(state: ManifestState) -> None:
    """Raise `LogStoreRelocated` if the log store was moved, or is being moved."""
    if state.new_place is not None:
        raise LogStoreRelocated(state.new_place.log_store)


def require_not_moved(state: ManifestState) -> None:
    """Raise `LogStoreRelocated` if the log store was moved, and its database knows."""
    if state.new_place is not None and state.new_place.is_recorded:
        require_here(state)


def _apply(state: ManifestState, entry: entries.Entry) -> ManifestState:
    match entry:
        case entries.RangeAppended():
            return _append_range(state, entry)
        case entries.PartStored():
            return _store_part(state, entry)
        case entries.TableGiven():
            return _give_table(state, entry)
        case entries.LeaseTaken():
            lease = Lease(entry.holder, state.version, entry.taken_at)
            # The new holder has read in the database that the log store is still here, so a move is cancelled. A new
            # log reader begins with the open transaction again.
            parts = () if entry.lease == "log" else state.parts
            return replace(state, leases={**state.leases, entry.lease: lease}, new_place=None, parts=parts)
        case entries.SegmentsMerged():
            return _merge(state, entry)
        case entries.ReaderAdvanced():
            return _advance_reader(state, entry)
        case entries.ReaderLeft():
            others = {name: reader for name, reader in state.readers.items() if name != entry.reader}
            return replace(
                state,
                readers=others,
                omitted_by_readers=tuple(one for one in state.omitted_by_readers if one.reader != entry.reader),
            )
        case entries.TransactionOmitted():
            return _omit(state, entry)
        case entries.TimelineFollowed():
            require_lease(state, "log", entry.token)
            return replace(state, source=replace(state.source, timeline=entry.timeline))
        case entries.TransactionSkipped():
            return _skip_transaction(state, entry)
        case entries.SegmentsTruncated():
            return _truncate(state, entry)
        case entries.FilesDeleted():
            return _forget_files(state, entry)
        case entries.Moved():
            require_lease(state, "log", entry.token)
            return replace(state, new_place=NewPlace(entry.log_store, entry.is_recorded))
        case entries.FormatRaised():
            return _raise_format(state, entry)
        case entries.Opened():
            raise AssertionError("an epoch is opened by apply")
        case _:
            assert_never(entry)


def _open(state: ManifestState | None, number: int, entry: entries.Opened) -> ManifestState:
    epoch = state.epoch + 1 if state is not None else 0
    _require(entry.epoch == epoch, number, entry, f"the next epoch is {epoch}, not {entry.epoch}")
    _require(entry.position.epoch == epoch, number, entry, f"{entry.position} is not in epoch {epoch}")
    if state is None:
        return _empty(number, entry)
    _require(entry.format is None, number, entry, "the store's format is recorded already")
    _require(entry.reason is not None, number, entry, "a new epoch is a gap and needs a reason")
    difference = entry.difference
    if difference is not None:
        _require_difference(state, number, entry, difference)
    bridged, segments = (difference.members, difference.segments) if difference is not None else ((), ())
    before = Position(difference.lsn.value) if difference is not None else entry.position
    gap = LogGap(state.position, before, entry.reason or "", bridged)
    return replace(
        state,
        version=number,
        source=entry.source,
        epoch=epoch,
        position=entry.position,
        segments=(*state.segments, *segments),
        as_of=None,
        # Other members that still exist are announced again after the gap.
        members=tuple(member for member in state.members if member.member_id in bridged),
        incomplete=(),
        omitted_by_readers=(),
        gaps=(*state.gaps, gap),
        control_row=entry.control_row,
        parts=(),
    )


def _raise_format(state: ManifestState, entry: entries.FormatRaised) -> ManifestState:
    before, after = state.format.number, entry.format.number
    _require(before < after, state.version, entry, f"format {after} is not after {before}")
    return replace(state, format=entry.format)


def _require_difference(
    state: ManifestState, number: int, entry: entries.Opened, difference: entries.Difference
) -> None:
    lsn = difference.lsn
    _require(lsn.epoch == entry.epoch and entry.position.covers(lsn), number, entry, f"{lsn} is not before the epoch")
    for segment in difference.segments:
        _require(segment.first == segment.last == lsn, number, entry, f"{segment.path} has other transactions")
        for table_id in segment.tables:
            _require(table_id in state.tables, number, entry, f"table_id {table_id} was never given")
    known = {member.member_id for member in state.members}
    _require(known.issuperset(difference.members), number, entry, "a member of the difference is not known")


def _empty(number: int, entry: entries.Opened) -> ManifestState:
    if entry.format is None:
        raise IllegalEntry(number, entry.kind, "the first entry records the format")
    return ManifestState(
        format=entry.format,
        version=number,
        source=entry.source,
        epoch=entry.epoch,
        low=entry.position,
        position=entry.position,
        segments=(),
        tables={},
        members=(),
        events=(),
        readers={},
        leases={},
        pending_deletions=(),
        gaps=(),
    )


def _append_range(state: ManifestState, entry: entries.RangeAppended) -> ManifestState:
    require_lease(state, "log", entry.token)
    if entry.from_position != state.position:
        raise ManifestConflict(entry.from_position, state.position)
    start, end = entry.from_position, entry.position
    forward = start <= end and start.epoch == end.epoch
    _require(forward, state.version, entry, f"{end} does not follow {start} in its epoch")
    # Readers rely on a range being complete: a segment outside it would be delivered twice, or never.
    lsns = [lsn for segment in entry.segments for lsn in (segment.first, segment.last)]
    for lsn in [*lsns, *(event.commit_lsn for event in entry.events)]:
        _require(end.covers(lsn) and not start.covers(lsn), state.version, entry, f"{lsn} is not in [{start}, {end})")
    for table_id in {table_id for segment in entry.segments for table_id in segment.tables} - {NO_TABLE}:
        _require(table_id in state.tables, state.version, entry, f"table_id {table_id} was never given")
    return replace(
        state,
        position=end,
        segments=(*state.segments, *sorted(entry.segments, key=lambda segment: segment.first)),
        events=(*state.events, *entry.events),
        members=_apply_to_members(state.members, entry.events),
        incomplete=_apply_to_incomplete(state.incomplete, entry.events),
        omitted_by_readers=_apply_to_omitted(state.omitted_by_readers, entry.events),
        as_of=_later(state.as_of, entry.as_of),
        control_row=entry.control_row,
        parts=(),
    )


def _store_part(state: ManifestState, entry: entries.PartStored) -> ManifestState:
    require_lease(state, "log", entry.token)
    earlier, segment = state.parts[: entry.number], entry.segment
    lsn = segment.first
    _require(len(earlier) == entry.number, state.version, entry, f"there are {len(earlier)} parts before")
    # Below the position it is part of a range already: its parts would be delivered a second time.
    is_ahead = lsn.epoch == state.epoch and not state.position.covers(lsn)
    _require(is_ahead, state.version, entry, f"{lsn} is not ahead of the position {state.position}")
    are_one = all(part.first == part.last == lsn for part in (*earlier, segment))
    _require(are_one, state.version, entry, f"{segment.path} has other transactions")
    for table_id in set(segment.tables) - {NO_TABLE}:
        _require(table_id in state.tables, state.version, entry, f"table_id {table_id} was never given")
    return replace(state, parts=(*earlier, segment))


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the later time, if any: commit times are not monotone, and a keepalive may have none."""
    return max((time for time in (one, other) if time is not None), default=None)


def _apply_to_members(members: tuple[Member, ...], events: tuple[Event, ...]) -> tuple[Member, ...]:
    current = {member.member_id: member for member in members}
    for event in events:
        match event:
            case Enabled():
                current[event.member.member_id] = event.member
            case Disabled():
                current.pop(event.member_id, None)
            case Altered():
                current = {key: follow_alteration(member, event.alteration) for key, member in current.items()}
    return tuple(current.values())


def _apply_to_incomplete(incomplete: tuple[Incomplete, ...], events: tuple[Event, ...]) -> tuple[Incomplete, ...]:
    """A member's gaps are listed as long as the member exists; several changes of a transaction count once."""
    listed = list(incomplete)
    for event in events:
        match event:
            case Enabled():
                # Announced again, with its columns.
                listed = [one for one in listed if not (one.is_unclear and one.member_id == event.member.member_id)]
            case Disabled():
                listed = [one for one in listed if one.member_id != event.member_id]
            case ChangesOmitted(lsn, member_id, reason, is_unclear):
                # In log order, so entries of the same transaction are the last ones.
                same = takewhile(partial(le, lsn), (one.lsn for one in reversed(listed)))
                members = (one.member_id for one, _ in zip(reversed(listed), same, strict=False))
                if member_id not in members:
                    listed.append(Incomplete(member_id, lsn, reason, is_unclear))
    return tuple(listed)


def _apply_to_omitted(omitted: tuple[OmittedByReader, ...], events: tuple[Event, ...]) -> tuple[OmittedByReader, ...]:
    ended = {event.member_id for event in events if isinstance(event, Disabled)}
    return tuple(one for one in omitted if one.member_id not in ended) if ended else omitted


def _omit(state: ManifestState, entry: entries.TransactionOmitted) -> ManifestState:
    """Several changes of a transaction count once."""
    _require_lake_lease(state, entry.lake_token)
    _require(entry.reader in state.readers, state.version, entry, f"{entry.reader} does not read the log")
    _require(state.position.covers(entry.lsn), state.version, entry, f"{entry.lsn} is not below {state.position}")
    found = OmittedByReader(entry.reader, entry.member_id, entry.lsn, entry.reason)
    if any(replace(one, reason=found.reason) == found for one in state.omitted_by_readers):
        return state
    return replace(state, omitted_by_readers=(*state.omitted_by_readers, found))


def _give_table(state: ManifestState, entry: entries.TableGiven) -> ManifestState:
    require_lease(state, "log", entry.token)
    table_id = entry.version.table_id
    expected = state.next_table_id
    _require(table_id == expected, state.version, entry, f"the next table_id is {expected}, not {table_id}")
    return replace(state, tables={**state.tables, table_id: entry.version})


def _skip_transaction(state: ManifestState, entry: entries.TransactionSkipped) -> ManifestState:
    require_lease(state, "log", entry.token)
    lsn = entry.lsn
    is_ahead = lsn.epoch == state.epoch and not state.position.covers(lsn)
    _require(is_ahead, state.version, entry, f"{lsn} is not ahead of the position {state.position}")
    behind = Position(lsn.value + 1)
    gap = LogGap(Position(lsn.value), behind, entry.reason)
    return replace(state, position=behind, gaps=(*state.gaps, gap), parts=())


def _merge(state: ManifestState, entry: entries.SegmentsMerged) -> ManifestState:
    require_lease(state, "log", entry.token)
    paths = set(entry.replaced)
    replaced = [segment for segment in state.segments if segment.path in paths]
    merged = entry.segment
    is_known = bool(replaced) and len(replaced) == len(entry.replaced)
    # It was truncated since the merge was planned, or merged by a former holder: the merged file would bring its rows
    # back.
    _require(is_known, state.version, entry, "a replaced segment is not in the store")
    # The replaced files are deleted soon, so a merge that lost rows has to be refused now.
    is_same = (merged.first, merged.last, merged.rows) == (
        min(segment.first for segment in replaced),
        max(segment.last for segment in replaced),
        sum(segment.rows for segment in replaced),
    )
    _require(is_same, state.version, entry, "the merged segment does not hold what it replaces")
    segments = (merged if segment is replaced[0] else segment for segment in state.segments)
    return replace(
        state,
        segments=tuple(segment for segment in segments if segment.path not in paths),
        pending_deletions=(*state.pending_deletions, *_schedule_deletion(replaced, entry.merged_at)),
    )


def _advance_reader(state: ManifestState, entry: entries.ReaderAdvanced) -> ManifestState:
    _require_lake_lease(state, entry.lake_token)
    position, known = entry.position, state.readers.get(entry.reader)
    _require(position <= state.position, state.version, entry, f"{position} is ahead of the log, {state.position}")
    if known is None:
        _require(position >= state.low, state.version, entry, f"what {position} needs is truncated up to {state.low}")
        known = Reader(position, entry.cycle)
    # A time that was recorded for an earlier position does not cover everything below a later one.
    idle_from = entry.idle_from if position >= known.position else known.idle_from
    # After a gap, a target that was restored to an earlier state starts again with a lower cycle.
    cycle = entry.cycle if position.epoch > known.position.epoch else max(known.cycle, entry.cycle)
    # Never back: segments below the slowest reader may have been deleted, so an earlier position could not be served.
    reader = Reader(max(known.position, position), cycle, _later(known.as_of, entry.as_of), idle_from)
    return replace(state, readers={**state.readers, entry.reader: reader})


def _truncate(state: ManifestState, entry: entries.SegmentsTruncated) -> ManifestState:
    require_lease(state, "log", entry.token)
    slowest = state.slowest_reader()
    if slowest is None:
        return state
    # A reader that registered after the writer planned the truncation must still get what it needs.
    low = max(state.low, min(entry.position, slowest))
    truncated = [segment for segment in state.segments if low.covers(segment.last)]
    return replace(
        state,
        low=low,
        segments=tuple(segment for segment in state.segments if not low.covers(segment.last)),
        events=tuple(event for event in state.events if not low.covers(event.commit_lsn)),
        pending_deletions=(*state.pending_deletions, *_schedule_deletion(truncated, entry.truncated_at)),
    )


def _schedule_deletion(segments: list[entries.Segment], since: datetime) -> tuple[PendingDeletion, ...]:
    return tuple(PendingDeletion(segment.path, since) for segment in segments)


def _forget_files(state: ManifestState, entry: entries.FilesDeleted) -> ManifestState:
    require_lease(state, "log", entry.token)
    gone = set(entry.paths)
    are_pending = gone <= {pending.path for pending in state.pending_deletions}
    _require(are_pending, state.version, entry, "a file is not pending deletion")
    return replace(
        state, pending_deletions=tuple(pending for pending in state.pending_deletions if pending.path not in gone)
    )


def require_lease(state: ManifestState, name: entries.LeaseName, token: int) -> None:
    """Raise `LeaseLost` unless the lease's last holder has this token."""
    lease = state.leases.get(name)
    if lease is None or lease.token != token:
        raise LeaseLost(name, lease.holder if lease is not None else "nobody")


def _require_lake_lease(state: ManifestState, token: int | None) -> None:
    # None from subscriptions, which write no lake and hold none of its leases; capture always has one.
    if token is not None:
        require_lease(state, "lake", token)


def _require(legal: bool, number: int, entry: entries.Entry, problem: str) -> None:  # noqa: FBT001 - reads as the rule it is
    if not legal:
        raise IllegalEntry(number, entry.kind, problem)
