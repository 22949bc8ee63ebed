from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from builders.log.log_stores import NOW, member, opened, range_to, segment, table_version
from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoredFormat
from rowtide.core.json_records import load_json
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import NO_TABLE
from rowtide.log.errors import IllegalEntry, LeaseLost, LogStoreRelocated, ManifestConflict
from rowtide.log.membership import (
    Alteration,
    Altered,
    AlteredColumn,
    ChangesOmitted,
    ControlRow,
    Disabled,
    Enabled,
    Event,
    Reshaped,
    later_row,
)
from rowtide.log.store.entries import (
    Difference,
    Entry,
    FilesDeleted,
    FormatRaised,
    LeaseTaken,
    Moved,
    Opened,
    PartStored,
    RangeAppended,
    ReaderAdvanced,
    ReaderLeft,
    Segment,
    SegmentsMerged,
    SegmentsTruncated,
    TableGiven,
    TimelineFollowed,
    TransactionOmitted,
    TransactionSkipped,
)
from rowtide.log.store.manifest import LOG_STORE
from rowtide.log.store.replay import apply
from rowtide.log.store.state import (
    Incomplete,
    LogGap,
    ManifestState,
    NewPlace,
    OmittedByReader,
    PendingDeletion,
    Reader,
    decode_state,
    encode_state,
    events_between,
    segments_between,
    skipped_between,
)

ROW = ControlRow(7, "2026-03-01 12:00:00.000001+00")


def replay(*entries: Entry, state: ManifestState | None = None) -> ManifestState:
    for entry in entries:
        state = apply(state, state.version + 1 if state is not None else 1, entry)
    assert state is not None
    return state


def started() -> ManifestState:
    """Return a store with table 1, its log lease taken under token 2, and nothing in it."""
    return replay(opened(), LeaseTaken("log", "the reader", NOW), TableGiven(2, table_version(1)))


def filled() -> ManifestState:
    """Return a store with three segments, [100, 400): a member begins in the first, is reshaped in the last."""
    state = started()
    state = replay(range_to(state, 200, [segment(100, 150)], [Enabled(CommitLsn(100), member())]), state=state)
    state = replay(range_to(state, 300, [segment(200, 250)]), state=state)
    return replay(range_to(state, 400, [segment(300, 350)], [Reshaped(CommitLsn(350), 1)]), state=state)


def moved(*, token: int = 2, is_recorded: bool = False) -> Moved:
    return Moved(token, "/new", "/new/log", NOW, is_recorded=is_recorded)


def paths(state: ManifestState) -> list[str]:
    return [segment.path for segment in state.segments]


MERGED = segment(100, 250, path="segments/merged", rows=20)
STALE = "the log lease is held by the reader"
NO_LAKE_LEASE = "the lake lease is held by nobody"
ILLEGAL: dict[str, tuple[Callable[[ManifestState], Entry], type[RowtideError], str]] = {
    "an epoch twice": (lambda _: opened(0, 500, "why"), IllegalEntry, "the next epoch is 1, not 0"),
    "an epoch skipped": (lambda _: opened(2, 500, "why"), IllegalEntry, "the next epoch is 1, not 2"),
    "an epoch of another format": (
        lambda _: replace(opened(1, 500, "why"), format=opened().format),
        IllegalEntry,
        "the store's format is recorded already",
    ),
    "an epoch without a reason": (lambda _: opened(1, 500), IllegalEntry, "a new epoch is a gap and needs a reason"),
    "an epoch at another's position": (
        lambda _: replace(opened(1, 5, "why"), position=Position(5)),
        IllegalEntry,
        "0/5 is not in epoch 1",
    ),
    "a table_id given twice": (
        lambda _: TableGiven(2, table_version(1)),
        IllegalEntry,
        "the next table_id is 2, not 1",
    ),
    "a table_id skipped": (lambda _: TableGiven(2, table_version(3)), IllegalEntry, "the next table_id is 2, not 3"),
    "a table under a stale token": (lambda _: TableGiven(1, table_version(2)), LeaseLost, STALE),
    "a range under a stale token": (lambda state: range_to(state, 500, token=1), LeaseLost, STALE),
    "a range behind the position": (
        lambda state: replace(range_to(state, 500), from_position=Position(399)),
        ManifestConflict,
        "a range from 0/18F cannot follow the log store's position 0/190",
    ),
    "a range ahead of the position": (
        lambda state: replace(range_to(state, 500), from_position=Position(401)),
        ManifestConflict,
        "a range from 0/191 cannot follow the log store's position 0/190",
    ),
    "a range backwards": (lambda state: range_to(state, 399), IllegalEntry, "0/18F does not follow 0/190 in its epoch"),
    "a range into another epoch": (
        lambda state: replace(range_to(state, 500), position=Position.of(1, 500)),
        IllegalEntry,
        "1:0/1F4 does not follow 0/190 in its epoch",
    ),
    "a segment below its range": (
        lambda state: range_to(state, 500, [segment(399, 450)]),
        IllegalEntry,
        "0/18F is not in [0/190, 0/1F4)",
    ),
    "a segment at its range's end": (
        lambda state: range_to(state, 500, [segment(400, 500)]),
        IllegalEntry,
        "0/1F4 is not in [0/190, 0/1F4)",
    ),
    "an event outside its range": (
        lambda state: range_to(state, 500, events=[Disabled(CommitLsn(500), "m1")]),
        IllegalEntry,
        "0/1F4 is not in [0/190, 0/1F4)",
    ),
    "a segment of an unknown table": (
        lambda state: range_to(state, 500, [segment(400, tables=(2,))]),
        IllegalEntry,
        "table_id 2 was never given",
    ),
    "a part under a stale token": (lambda _: PartStored(1, 0, segment(400)), LeaseLost, STALE),
    "a part of what is stored": (
        lambda _: PartStored(2, 0, segment(399)),
        IllegalEntry,
        "0/18F is not ahead of the position 0/190",
    ),
    "a part of another epoch": (
        lambda _: PartStored(2, 0, segment_at(CommitLsn.of(1, 400))),
        IllegalEntry,
        "1:0/190 is not ahead of the position 0/190",
    ),
    "a part of several transactions": (
        lambda _: PartStored(2, 0, segment(400, 401)),
        IllegalEntry,
        "segments/400-401.parquet has other transactions",
    ),
    "a part without those before it": (
        lambda _: PartStored(2, 1, segment(400)),
        IllegalEntry,
        "there are 0 parts before",
    ),
    "a part of an unknown table": (
        lambda _: PartStored(2, 0, segment(400, tables=(2,))),
        IllegalEntry,
        "table_id 2 was never given",
    ),
    "a merge under a stale token": (
        lambda _: SegmentsMerged(1, ("segments/100-150.parquet", "segments/200-250.parquet"), MERGED, NOW),
        LeaseLost,
        STALE,
    ),
    "a merge of nothing": (
        lambda _: SegmentsMerged(2, (), MERGED, NOW),
        IllegalEntry,
        "a replaced segment is not in the store",
    ),
    "a merge of an unknown segment": (
        lambda _: SegmentsMerged(2, ("segments/100-150.parquet", "segments/x"), MERGED, NOW),
        IllegalEntry,
        "a replaced segment is not in the store",
    ),
    "a merge that loses rows": (
        lambda _: SegmentsMerged(
            2, ("segments/100-150.parquet", "segments/200-250.parquet"), replace(MERGED, rows=19), NOW
        ),
        IllegalEntry,
        "the merged segment does not hold what it replaces",
    ),
    "a merge that begins later": (
        lambda _: SegmentsMerged(
            2, ("segments/100-150.parquet", "segments/200-250.parquet"), replace(MERGED, first=CommitLsn(101)), NOW
        ),
        IllegalEntry,
        "the merged segment does not hold what it replaces",
    ),
    "a merge that ends earlier": (
        lambda _: SegmentsMerged(
            2, ("segments/100-150.parquet", "segments/200-250.parquet"), replace(MERGED, last=CommitLsn(249)), NOW
        ),
        IllegalEntry,
        "the merged segment does not hold what it replaces",
    ),
    "a timeline by another token": (lambda _: TimelineFollowed(1, 2), LeaseLost, STALE),
    "a transaction skipped under a stale token": (
        lambda _: TransactionSkipped(1, CommitLsn(400), "why"),
        LeaseLost,
        STALE,
    ),
    "a transaction skipped that was read": (
        lambda _: TransactionSkipped(2, CommitLsn(399), "why"),
        IllegalEntry,
        "0/18F is not ahead of the position 0/190",
    ),
    "a transaction skipped in another epoch": (
        lambda _: TransactionSkipped(2, CommitLsn.of(1, 400), "why"),
        IllegalEntry,
        "1:0/190 is not ahead of the position 0/190",
    ),
    "a reader ahead of the log": (
        lambda _: ReaderAdvanced("cdc", Position(401)),
        IllegalEntry,
        "0/191 is ahead of the log, 0/190",
    ),
    "a reader under another lake token": (
        lambda _: ReaderAdvanced("cdc", Position(400), lake_token=2),
        LeaseLost,
        NO_LAKE_LEASE,
    ),
    "a transaction omitted ahead of the log": (
        lambda _: TransactionOmitted("queue", "m1", CommitLsn(400), "why"),
        IllegalEntry,
        "0/190 is not below 0/190",
    ),
    "a transaction omitted under another lake token": (
        lambda _: TransactionOmitted("queue", "m1", CommitLsn(399), "why", lake_token=2),
        LeaseLost,
        NO_LAKE_LEASE,
    ),
    "a transaction omitted by nobody": (
        lambda _: TransactionOmitted("no", "m1", CommitLsn(399), "why"),
        IllegalEntry,
        "no does not read the log",
    ),
    "a truncation under a stale token": (lambda _: SegmentsTruncated(1, Position(200), NOW), LeaseLost, STALE),
    "forgetting under a stale token": (lambda _: FilesDeleted(1, ()), LeaseLost, STALE),
    "forgetting a live file": (
        lambda _: FilesDeleted(2, ("segments/100-150.parquet",)),
        IllegalEntry,
        "a file is not pending deletion",
    ),
    "a move under a stale token": (lambda _: moved(token=1), LeaseLost, STALE),
    "a format that is not later": (
        lambda state: FormatRaised(state.format),
        IllegalEntry,
        "is not after",
    ),
}


def segment_at(lsn: CommitLsn) -> Segment:
    return replace(segment(100), first=lsn, last=lsn)


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_entry_is_refused_for_its_own_reason(case: str) -> None:
    entry, error, problem = ILLEGAL[case]
    state = replay(ReaderAdvanced("queue", Position(300)), state=filled())

    with pytest.raises(error, match=re.escape(problem)):
        apply(state, state.version + 1, entry(state))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (LeaseTaken("log", "us", NOW), 'entry 1 of kind "lease_taken" is not legal: the first entry opens epoch 0'),
        (opened(1, 100, "why"), 'entry 1 of kind "opened" is not legal: the next epoch is 0, not 1'),
    ],
    ids=["lease", "epoch 1"],
)
def test_the_first_entry_opens_epoch_0(entry: Entry, problem: str) -> None:
    with pytest.raises(IllegalEntry, match=re.escape(problem)):
        apply(None, 1, entry)


@pytest.mark.parametrize("number", [3, 5])
def test_entries_are_numbered_without_holes(number: int) -> None:
    with pytest.raises(IllegalEntry, match="the last entry is 3"):
        apply(started(), number, LeaseTaken("log", "us", NOW))


def test_a_lost_lease_names_the_holder() -> None:
    state = replay(LeaseTaken("log", "the other", NOW), state=started())

    with pytest.raises(LeaseLost, match="the log lease is held by the other"):
        apply(state, state.version + 1, range_to(state, 500, token=2))


def test_the_lake_lease_leaves_the_log_lease_alone() -> None:
    state = replay(LeaseTaken("lake", "the lake's writer", NOW), state=started())

    assert {name: lease.token for name, lease in state.leases.items()} == {"log": 2, "lake": 4}


def test_a_keepalive_is_a_range_without_segments() -> None:
    state = started()
    state = replay(range_to(state, 500), state=state)

    assert (state.position, state.segments) == (Position(500), ())


def test_a_range_that_ends_where_it_begins_reports_what_it_read() -> None:
    state = filled()
    read = replay(replace(range_to(state, 400), as_of=NOW, control_row=ROW), state=state)

    assert read == replace(state, version=read.version, as_of=NOW, control_row=ROW)


@pytest.mark.parametrize("told", [None, NOW - timedelta(seconds=1), NOW])
def test_the_time_of_the_position_never_goes_back(told: datetime | None) -> None:
    state = replay(replace(range_to(started(), 500), as_of=NOW), state=started())

    assert replay(replace(range_to(state, 600), as_of=told), state=state).as_of == NOW


def test_a_new_epoch_knows_no_time_yet() -> None:
    state = replay(replace(range_to(started(), 500), as_of=NOW), opened(1, 50, "restored"), state=started())

    assert state.as_of is None


def test_a_message_only_segment_needs_no_table() -> None:
    state = started()
    state = replay(range_to(state, 500, [segment(100, tables=(NO_TABLE,))]), state=state)

    assert state.segments[0].tables == (NO_TABLE,)


def test_parts_of_one_transaction_keep_their_written_order() -> None:
    state = started()
    parts = [segment(400, path="pending/c"), segment(400, path="pending/a"), segment(400, path="pending/b")]
    state = replay(range_to(state, 500, [*parts, segment(120, path="segments/z")]), state=state)

    assert paths(state) == ["segments/z", "pending/c", "pending/a", "pending/b"]


def test_a_new_epoch_is_a_recorded_gap() -> None:
    state = replay(opened(1, 50, "restored from backup"), state=filled())

    assert state.gaps == (LogGap(Position(400), Position.of(1, 50), "restored from backup"),)
    assert (state.epoch, state.position, len(state.segments)) == (1, Position.of(1, 50), 3)


def bridged(*segments: Segment, lsn: int = 49, members: tuple[str, ...] = ("m1",)) -> Opened:
    return replace(opened(1, 50, "a lost slot"), difference=Difference(CommitLsn.of(1, lsn), members, segments))


def in_difference(lsn: int = 49, path: str = "pending/d") -> Segment:
    at = CommitLsn.of(1, lsn)
    return replace(segment(100, path=path), first=at, last=at)


def test_an_epoch_may_begin_with_what_its_gap_changed() -> None:
    before = filled()
    before = replay(range_to(before, 450, events=[Enabled(CommitLsn(420), member())]), state=before)
    state = replay(bridged(in_difference()), state=before)

    assert state.gaps == (LogGap(Position(450), Position.of(1, 49), "a lost slot", ("m1",)),)
    assert (state.position, state.members) == (Position.of(1, 50), (member(),))
    assert paths(state)[-1] == "pending/d"
    assert decode_state(load_json(encode_state(state))) == state


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (bridged(lsn=50), "1:0/32 is not before the epoch"),
        (bridged(in_difference(48)), "pending/d has other transactions"),
        (bridged(replace(in_difference(), tables=(99,))), "table_id 99 was never given"),
        (bridged(members=("m9",)), "a member of the difference is not known"),
    ],
)
def test_a_difference_that_is_none_is_illegal(entry: Opened, problem: str) -> None:
    before = filled()
    before = replay(range_to(before, 450, events=[Enabled(CommitLsn(420), member())]), state=before)
    with pytest.raises(IllegalEntry, match=problem):
        replay(entry, state=before)


def test_skipped_transaction_is_a_gap_of_exactly_one_lsn() -> None:
    state = replay(TransactionSkipped(2, CommitLsn(420), "too large"), state=filled())
    gap = LogGap(Position(420), Position(421), "too large")
    assert (state.position, state.epoch, state.gaps) == (Position(421), 0, (gap,))
    assert skipped_between(state, Position(400), Position(421)) == (gap,)
    assert skipped_between(state, Position(400), Position(420)) == ()
    assert skipped_between(state, Position(421), Position(500)) == ()


def test_members_end_with_their_epoch_and_are_enabled_again() -> None:
    state = replay(opened(1, 50, "restored from backup"), state=filled())
    assert state.members == ()

    again = [Enabled(CommitLsn.of(1, 60), member())]
    assert replay(range_to(state, 100, events=again), state=state).members == (member(),)


def test_followed_timeline_replaces_only_the_source_timeline() -> None:
    before = filled()
    after = replay(TimelineFollowed(2, 7), state=before)

    assert after.source == replace(before.source, timeline=7)
    assert after == replace(before, version=before.version + 1, source=after.source)


def test_members_follow_what_was_done_to_their_tables() -> None:
    numbered = replace(member(), column_numbers=(1, 2))
    columns = (AlteredColumn(2, "label", "text", 25, -1, None, is_nullable=True, is_generated=False, default=None),)
    alteration = Alteration(numbered.source_id, "app", "t9", "ALTER TABLE", "", rewrites_values=False, columns=columns)
    state = filled()
    events: list[Event] = [
        Disabled(CommitLsn(400), "m1"),
        Enabled(CommitLsn(401), numbered),
        Altered(CommitLsn(402), alteration),
    ]
    (followed,) = replay(range_to(state, 500, events=events), state=state).members
    assert (followed.schema, followed.table, followed.columns) == ("app", "t9", ("label",))


def test_members_are_those_enabled_and_not_disabled() -> None:
    state = filled()
    events: list[Event] = [
        Enabled(CommitLsn(401), member("m2")),
        Disabled(CommitLsn(402), "m1"),
        Disabled(CommitLsn(403), "m9"),
    ]

    assert replay(range_to(state, 500, events=events), state=state).members == (member("m2"),)


def test_parts_are_known_until_their_transaction_is_stored() -> None:
    first, second = segment(450, path="pending/1"), segment(450, path="pending/2")
    begun = replay(PartStored(2, 0, first), PartStored(2, 1, second), state=filled())
    assert begun.parts == (first, second)
    assert (begun.position, begun.segments) == (filled().position, filled().segments)
    ends: list[Entry] = [
        range_to(begun, 500, [first, second]),
        TransactionSkipped(2, CommitLsn(450), "too large"),
        LeaseTaken("log", "another reader", NOW),
        opened(1, 500, "why"),
    ]
    for end in ends:
        assert replay(end, state=begun).parts == ()
    assert replay(LeaseTaken("lake", "the capture", NOW), state=begun).parts == (first, second)


def test_parts_of_a_transaction_that_is_read_again_begin_anew() -> None:
    first, again = segment(450, path="pending/1"), segment(450, path="pending/2")
    begun = replay(PartStored(2, 0, first), PartStored(2, 1, first), state=filled())
    assert replay(PartStored(2, 0, again), state=begun).parts == (again,)
    with pytest.raises(IllegalEntry, match="has other transactions"):
        replay(PartStored(2, 1, segment(460)), state=begun)


def test_table_ids_are_given_one_after_the_other() -> None:
    state = replay(TableGiven(2, table_version(2)), state=started())

    assert (state.tables[2], state.next_table_id) == (table_version(2), 3)


def test_a_reader_never_goes_back() -> None:
    state = replay(ReaderAdvanced("cdc", Position(300), 7), ReaderAdvanced("cdc", Position(200), 5), state=filled())

    assert state.readers == {"cdc": Reader(Position(300), 7)}


def test_idle_start_belongs_to_the_latest_position_only() -> None:
    state = replay(ReaderAdvanced("queue", Position(300), idle_from=Position(250)), state=filled())
    earlier = ReaderAdvanced("queue", Position(260), idle_from=Position(100))

    assert replay(earlier, state=state).readers["queue"].idle_from == Position(250)
    assert replay(replace(earlier, position=Position(400)), state=state).readers["queue"].idle_from == Position(100)


def test_the_slowest_reader_holds_the_log() -> None:
    state = replay(ReaderAdvanced("cdc", Position(300)), ReaderAdvanced("queue", Position(200)), state=filled())

    assert state.slowest_reader() == Position(200)
    assert replay(ReaderAdvanced("queue", Position(400)), state=state).slowest_reader() == Position(300)


def test_a_reader_that_left_holds_nothing_and_may_leave_twice() -> None:
    state = replay(ReaderAdvanced("cdc", Position(300)), ReaderAdvanced("queue", Position(200)), state=filled())

    left = replay(ReaderLeft("queue"), ReaderLeft("queue"), state=state)
    assert (left.readers, left.slowest_reader()) == ({"cdc": Reader(Position(300), 0)}, Position(300))


def test_truncation_stops_at_the_slowest_of_two_readers() -> None:
    state = replay(
        ReaderAdvanced("cdc", Position(400)),
        ReaderAdvanced("queue", Position(251)),
        SegmentsTruncated(2, Position(400), NOW),
        state=filled(),
    )

    assert paths(state) == ["segments/300-350.parquet"]
    assert state.pending_deletions == tuple(
        PendingDeletion(f"segments/{name}.parquet", NOW) for name in ("100-150", "200-250")
    )
    assert state.events == (Reshaped(CommitLsn(350), 1),)
    assert (state.members, state.low) == ((member(),), Position(251))


def test_truncation_keeps_a_segment_that_reaches_the_position() -> None:
    state = replay(ReaderAdvanced("cdc", Position(250)), SegmentsTruncated(2, Position(250), NOW), state=filled())

    assert paths(state) == ["segments/200-250.parquet", "segments/300-350.parquet"]


def test_without_readers_nothing_is_truncated() -> None:
    state = replay(SegmentsTruncated(2, Position(400), NOW), state=filled())

    assert (len(state.segments), state.low, state.pending_deletions) == (3, Position(100), ())


def test_a_reader_cannot_register_below_what_is_truncated() -> None:
    state = replay(ReaderAdvanced("cdc", Position(300)), SegmentsTruncated(2, Position(300), NOW), state=filled())

    with pytest.raises(IllegalEntry, match="truncated up to 0/12C"):
        replay(ReaderAdvanced("queue", Position(200)), state=state)


def test_a_merge_takes_the_place_of_what_it_replaces() -> None:
    entry = SegmentsMerged(2, ("segments/100-150.parquet", "segments/200-250.parquet"), MERGED, NOW)
    state = replay(entry, state=filled())

    assert paths(state) == ["segments/merged", "segments/300-350.parquet"]
    assert [pending.path for pending in state.pending_deletions] == list(entry.replaced)


def test_deleted_files_are_forgotten() -> None:
    entry = SegmentsMerged(2, ("segments/100-150.parquet", "segments/200-250.parquet"), MERGED, NOW)
    state = replay(entry, FilesDeleted(2, ("segments/100-150.parquet",)), state=filled())

    assert [pending.path for pending in state.pending_deletions] == ["segments/200-250.parquet"]
    assert replay(FilesDeleted(2, ("segments/200-250.parquet",)), state=state).pending_deletions == ()


def test_one_segment_may_be_rewritten_in_its_place() -> None:
    rewritten = segment(200, 250, path="segments/rewritten")
    state = replay(SegmentsMerged(2, ("segments/200-250.parquet",), rewritten, NOW), state=filled())

    assert paths(state) == ["segments/100-150.parquet", "segments/rewritten", "segments/300-350.parquet"]


@pytest.mark.parametrize(
    ("from_", "to", "found"),
    [(100, 400, [100, 200, 300]), (150, 200, [100]), (151, 200, []), (151, 201, [200]), (250, 301, [200, 300])],
)
def test_segments_between_can_hold_the_range(from_: int, to: int, found: list[int]) -> None:
    segments = segments_between(filled(), Position(from_), Position(to))

    assert [segment.first.value for segment in segments] == found


@pytest.mark.parametrize(("from_", "to", "count"), [(100, 400, 2), (101, 350, 0), (350, 351, 1), (100, 101, 1)])
def test_events_between_begin_at_from_and_end_below_to(from_: int, to: int, count: int) -> None:
    assert len(events_between(filled(), Position(from_), Position(to))) == count


def test_every_kind_of_entry_is_tried() -> None:
    always_legal = {LeaseTaken, ReaderLeft}
    tried = {type(entry(filled())) for entry, *_ in ILLEGAL.values()} | always_legal

    assert tried == {
        *(Opened, TableGiven, RangeAppended, PartStored, LeaseTaken, SegmentsMerged),
        *(ReaderAdvanced, ReaderLeft, TimelineFollowed, TransactionSkipped, SegmentsTruncated, FilesDeleted),
        TransactionOmitted,
        Moved,
        FormatRaised,
    }


@pytest.mark.parametrize("entry", [ReaderLeft("cdc"), ReaderAdvanced("cdc", Position(400)), opened(1, 500, "why")])
def test_nothing_follows_a_move(entry: Entry) -> None:
    state = replay(moved(), state=filled())
    assert state.new_place == NewPlace("/new/log", is_recorded=False)
    with pytest.raises(LogStoreRelocated, match="RT-2145: the log store was moved to /new/log"):
        replay(entry, state=state)


def test_whoever_takes_a_lease_ends_a_move() -> None:
    state = replay(moved(), LeaseTaken("lake", "the capture", NOW), ReaderLeft("cdc"), state=filled())
    assert state.new_place is None


def test_a_recorded_move_is_the_end() -> None:
    state = replay(moved(), moved(is_recorded=True), state=filled())
    for entry in (LeaseTaken("log", "the reader", NOW), moved()):
        with pytest.raises(LogStoreRelocated):
            replay(entry, state=state)


def test_what_a_member_lacks_is_known_until_it_ends() -> None:
    state = filled()
    left_out = [ChangesOmitted(CommitLsn(400), "m1", "large"), ChangesOmitted(CommitLsn(400), "m1", "larger")]
    lacking = replay(
        range_to(state, 500, events=[*left_out, ChangesOmitted(CommitLsn(450), "m1", "large")]), state=state
    )
    assert lacking.incomplete == (Incomplete("m1", CommitLsn(400), "large"), Incomplete("m1", CommitLsn(450), "large"))
    assert lacking.members == state.members
    ended = replay(range_to(lacking, 600, events=[Disabled(CommitLsn(500), "m1")]), state=lacking)
    assert ended.incomplete == ()


def test_what_is_unclear_ends_with_the_next_announcement() -> None:
    left_out = [
        ChangesOmitted(CommitLsn(400), "m1", "large"),
        ChangesOmitted(CommitLsn(410), "m1", "which?", is_unclear=True),
    ]
    state = replay(range_to(filled(), 450, events=left_out), state=filled())
    assert [one.reason for one in state.incomplete if one.member_id == "m1"] == ["large", "which?"]
    known = next(member for member in state.members if member.member_id == "m1")
    state = replay(range_to(state, 500, events=[Enabled(CommitLsn(460), known)]), state=state)
    assert [one.reason for one in state.incomplete if one.member_id == "m1"] == ["large"]


def test_left_out_transactions_last_until_reader_or_member_ends() -> None:
    state = replay(ReaderAdvanced("cdc", Position(100)), ReaderAdvanced("s1", Position(100)), state=filled())
    large = TransactionOmitted("cdc", "m1", CommitLsn(300), "large")
    others = [TransactionOmitted("s1", "m1", CommitLsn(300), "large"), replace(large, lsn=CommitLsn(350))]
    lacking = replay(large, replace(large, reason="larger"), *others, state=state)
    assert lacking.list_omitted_by("cdc") == (
        OmittedByReader("cdc", "m1", CommitLsn(300), "large"),
        OmittedByReader("cdc", "m1", CommitLsn(350), "large"),
    )
    assert replay(ReaderLeft("cdc"), state=lacking).omitted_by_readers == lacking.list_omitted_by("s1")
    assert (
        replay(range_to(lacking, 600, events=[Disabled(CommitLsn(500), "m1")]), state=lacking).omitted_by_readers == ()
    )


def test_the_last_row_is_that_of_the_last_range_or_epoch() -> None:
    state = filled()
    read = replay(replace(range_to(state, 500), control_row=ROW), state=state)
    assert read.control_row == ROW
    assert replay(replace(opened(1, 600, "why"), control_row=ROW), state=state).control_row == ROW
    # An earlier build's, which has deleted the row, or may have.
    assert replay(range_to(read, 600), state=read).control_row is None
    assert replay(opened(1, 600, "why"), state=read).control_row is None


@pytest.mark.parametrize(
    ("one", "other", "later"),
    [
        (None, None, None),
        (ROW, None, ROW),
        (None, ROW, ROW),
        (ROW, replace(ROW, xid=6), ROW),
        (replace(ROW, xid=6), ROW, ROW),
        (ROW, replace(ROW, written_at="later"), replace(ROW, written_at="later")),
    ],
)
def test_of_two_rows_that_of_the_later_transaction_is_later(
    one: ControlRow | None, other: ControlRow | None, later: ControlRow | None
) -> None:
    assert later_row(one, other) == later


def test_the_first_entry_records_the_format() -> None:
    with pytest.raises(IllegalEntry, match='entry 1 of kind "opened" is not legal: the first entry records the format'):
        apply(None, 1, replace(opened(), format=None))
    with pytest.raises(IllegalEntry, match="recorded already"):
        replay(replace(opened(1, 600, "why"), format=LOG_STORE.recorded), state=filled())


def test_a_format_is_raised_and_never_lowered() -> None:
    second = StoredFormat(2, 1, 2)
    raised = replay(FormatRaised(second), state=filled())
    assert raised == replace(filled(), version=raised.version, format=second)
    with pytest.raises(IllegalEntry, match="format 2 is not after 2"):
        replay(FormatRaised(second), state=raised)
