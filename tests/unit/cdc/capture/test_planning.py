from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from builders.capture.capture_instances import alteration_of, enabled, instance, source_table, version_of
from builders.log.log_stores import NOW, opened, range_to, segment
from rowtide.cdc.capture import planning
from rowtide.cdc.capture.planning import (
    LONGEST_SILENCE,
    CyclePlan,
    Skipped,
    find_misfit,
    find_too_large,
    is_heartbeat_due,
    plan_cycle,
    plan_gap,
    plan_range,
)
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import RelationChanged
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import NO_TABLE
from rowtide.core.tables import BeforeImages, ImageKind, LoggedTable, TableShape
from rowtide.log.membership import Altered, Disabled, Event, Heartbeat, Reshaped
from rowtide.log.store.entries import (
    Entry,
    LeaseTaken,
    ReaderAdvanced,
    Segment,
    TableGiven,
    TransactionOmitted,
    TransactionSkipped,
)
from rowtide.log.store.replay import apply
from rowtide.log.store.state import ManifestState

TABLE = source_table()
WIDER = source_table([("id", "bigint"), ("name", "text")])
M1 = instance("m1", table=TABLE)
START = Position(100)
ACTIVE = {"m1": InstanceLifetime(M1, CommitLsn(50))}


def log_of(
    segments: Sequence[Segment] = (),
    events: Sequence[Event] = (),
    *,
    end: int = 900,
    versions: Sequence[LoggedTable] = (version_of(TABLE),),
) -> ManifestState:
    """A manifest whose one range from 100 to `end` has these segments and events."""
    state = apply(None, 1, opened(log=100))
    state = apply(state, 2, LeaseTaken("log", "us", NOW))
    entries: list[Entry] = [TableGiven(2, version) for version in versions]
    for entry in entries:
        state = apply(state, state.version + 1, entry)
    return apply(state, state.version + 1, range_to(state, end, segments, events))


def worked_paths(plan: CyclePlan) -> dict[str, list[str]]:
    return {
        work.lifetime.instance.member_id: [part.path for piece in work.slices for part in piece.segments]
        for work in plan.work
    }


def test_cycle_reaches_log_end_and_reads_only_segments_it_needs() -> None:
    state = log_of(
        [segment(200, 210, path="ours"), segment(300, 310, path="other", tables=(2,))],
        versions=(
            version_of(TABLE),
            version_of(source_table(source_id=9, name="t2"), 2),
        ),
    )

    plan = plan_cycle(state, ACTIVE, START)

    assert (plan.from_position, plan.to_position) == (START, Position(900))
    assert worked_paths(plan) == {"m1": ["ours"]}


def test_a_range_without_our_tables_is_an_empty_plan() -> None:
    assert plan_cycle(log_of(), ACTIVE, START).is_empty


def test_instance_begins_at_its_published_enable_message() -> None:
    state = log_of([segment(200, 400, path="both", tables=(NO_TABLE, 1))], [enabled(300, M1)])

    plan = plan_cycle(state, {}, START)

    assert [lifetime.begin for lifetime in plan.begun] == [CommitLsn(300)]
    assert worked_paths(plan) == {"m1": ["both"]}
    assert plan.event_lsns == (CommitLsn(300),)


def test_segments_wholly_before_the_enable_message_are_not_read() -> None:
    state = log_of([segment(200, 210), segment(300, tables=(NO_TABLE,), path="message")], [enabled(300, M1)])

    plan = plan_cycle(state, {}, START)

    assert plan.work == ()
    assert [part.path for part in plan.event_segments] == ["message"]


def test_instance_that_ends_in_the_range_gets_no_more_rows() -> None:
    state = log_of([segment(200, 210)], [Disabled(CommitLsn(300), "m1")])

    plan = plan_cycle(state, ACTIVE, START)

    assert plan.work == ()
    assert [lifetime.end for lifetime in plan.ended] == [CommitLsn(300)]


def test_a_name_that_is_used_again_begins_in_a_cycle_of_its_own() -> None:
    again = instance("m2", table=TABLE)
    events: list[Event] = [Disabled(CommitLsn(300), "m1"), enabled(400, again)]
    state = log_of([segment(200, 210, path="old"), segment(500, 510, path="new")], events)

    ending = plan_cycle(state, ACTIVE, START)
    beginning = plan_cycle(state, {}, ending.to_position)

    assert [lifetime.instance.member_id for lifetime in ending.ended] == ["m1"]
    assert (ending.work, ending.to_position) == ((), Position(400))
    assert [lifetime.instance.member_id for lifetime in beginning.begun] == ["m2"]
    assert worked_paths(beginning) == {"m2": ["new"]}


KEYED = version_of(TABLE, 2, ImageKind.KEY)


def test_incompatible_shape_stops_capture_before_its_first_row() -> None:
    events = [Reshaped(CommitLsn(500), 2)]
    state = log_of([segment(200, 210), segment(500, tables=(2,))], events, versions=(version_of(TABLE), KEYED))

    plan = plan_cycle(state, ACTIVE, START)

    assert plan.to_position == Position(500)
    with pytest.raises(RelationChanged, match="its replica identity is no longer full"):
        plan_cycle(state, ACTIVE, plan.to_position)


def test_incompatible_shape_is_ignored_if_instance_is_disabled() -> None:
    events: list[Event] = [Reshaped(CommitLsn(500), 2), Disabled(CommitLsn(600), "m1")]
    state = log_of([segment(200, 210), segment(500, tables=(2,))], events, versions=(version_of(TABLE), KEYED))

    plan = plan_cycle(state, ACTIVE, START)

    assert (plan.to_position, plan.work) == (Position(900), ())
    assert [lifetime.end for lifetime in plan.ended] == [CommitLsn(600)]


def test_incompatible_shape_at_the_position_stops_at_once() -> None:
    state = log_of([segment(500, tables=(2,))], [Reshaped(CommitLsn(500), 2)], versions=(version_of(TABLE), KEYED))

    with pytest.raises(RelationChanged):
        plan_cycle(state, ACTIVE, START)


def test_cycle_ends_before_a_type_change_where_the_next_starts() -> None:
    events = [Reshaped(CommitLsn(500), 2)]
    versions = (version_of(TABLE), version_of(WIDER, 2))
    state = log_of([segment(200, 210), segment(500, 510, tables=(2,))], events, versions=versions)

    before = plan_cycle(state, ACTIVE, START)
    after = plan_cycle(state, ACTIVE, before.to_position)

    assert (before.to_position, before.altered, before.history) == (Position(500), (), ())
    assert after.to_position == Position(900)
    assert [(altered.lsn, altered.lifetime.instance.columns[0].type_text) for altered in after.altered] == [
        (CommitLsn(500), "bigint")
    ]
    assert after.work[0].lifetime == after.altered[0].lifetime
    assert plan_range(state, ACTIVE, after.from_position, after.to_position) == after


def test_cycle_includes_and_publishes_ddl_that_keeps_types() -> None:
    altered = alteration_of(source_table(name="renamed"))
    state = log_of([segment(400, tables=(NO_TABLE,), path="message")], [Altered(CommitLsn(400), altered)])

    plan = plan_cycle(state, ACTIVE, START)

    assert [(change.lsn, change.command) for change in plan.history] == [(CommitLsn(400), "alter …")]
    assert [altered.lifetime.instance.source_table for altered in plan.altered] == ["renamed"]
    assert (plan.event_lsns, [part.path for part in plan.event_segments]) == ((CommitLsn(400),), ["message"])
    assert not plan.is_empty


def test_ddl_before_begin_or_in_the_last_cycle_is_not_history() -> None:
    events = [Altered(CommitLsn(lsn), alteration_of(WIDER)) for lsn in (40, 300)]
    state = log_of([segment(200, 210)], [*events[1:], Disabled(CommitLsn(400), "m1")])

    assert plan_cycle(state, ACTIVE, START).history == ()
    assert plan_cycle(log_of(events=events[1:]), {"m1": InstanceLifetime(M1, CommitLsn(350))}, START).history == ()


def test_both_instances_follow_the_table_from_their_own_begin() -> None:
    second = instance("m2", table=TABLE, name="second")
    events: list[Event] = [
        Altered(CommitLsn(200), alteration_of(source_table(name="once"))),
        enabled(300, second),
        Altered(CommitLsn(400), alteration_of(source_table(name="twice"))),
    ]

    plan = plan_cycle(log_of(events=events), ACTIVE, START)

    assert [(change.instance.member_id, change.instance.source_table) for change in plan.history] == [
        ("m1", "once"),
        ("m1", "twice"),
        ("m2", "twice"),
    ]
    assert [altered.lifetime.instance.member_id for altered in plan.altered] == ["m1"]
    assert [lifetime.instance.source_table for lifetime in plan.begun] == ["twice"]


def test_incompatible_shape_after_the_instance_ended_is_ignored() -> None:
    events: list[Event] = [Disabled(CommitLsn(300), "m1"), Reshaped(CommitLsn(500), 2)]
    state = log_of([segment(500, tables=(2,))], events, versions=(version_of(TABLE), KEYED))

    assert plan_cycle(state, ACTIVE, START).to_position == Position(900)


def test_a_new_column_is_ignored() -> None:
    added = source_table([("id", "integer"), ("name", "text"), ("more", "text")])
    events = [Reshaped(CommitLsn(500), 2)]
    state = log_of([segment(500, tables=(2,))], events, versions=(version_of(TABLE), version_of(added, 2)))

    assert worked_paths(plan_cycle(state, ACTIVE, START)) == {"m1": ["segments/500-500.parquet"]}


def test_a_cycle_is_bounded_by_rows_at_the_end_of_a_segment() -> None:
    half = planning.MAX_CYCLE_ROWS // 2
    state = log_of([segment(200, 210, rows=half), segment(300, 310, rows=half), segment(400, 410, rows=half)])

    plan = plan_cycle(state, ACTIVE, START)

    assert plan.to_position == Position(311)
    assert plan_cycle(state, ACTIVE, plan.to_position).to_position == Position(900)


def test_parts_of_one_transaction_are_in_one_cycle() -> None:
    rows = planning.MAX_CYCLE_ROWS
    state = log_of([segment(200, rows=rows, path="a"), segment(200, rows=rows, path="b"), segment(300, path="c")])

    plan = plan_cycle(state, ACTIVE, START)

    assert plan.to_position == Position(201)
    assert worked_paths(plan) == {"m1": ["a", "b"]}


def test_recorded_range_gives_the_same_plan_after_the_log_grew() -> None:
    events = [enabled(250, instance("m2", table=TABLE, name="second"))]
    segments = [segment(200, 210), segment(250, tables=(NO_TABLE,)), segment(300, 310)]
    plan = plan_cycle(log_of(segments, events), ACTIVE, START)
    later = log_of([*segments, segment(950, 960)], events, end=1000)

    assert plan_range(later, ACTIVE, plan.from_position, plan.to_position) == plan


def test_a_gap_suspends_every_instance_and_has_no_rows() -> None:
    state = log_of([segment(200, 210)])
    state = apply(state, state.version + 1, opened(1, 70, "restored"))

    plan = plan_gap(state, ACTIVE, Position(900))

    assert plan.to_position == Position.of(1, 70)
    assert (plan.work, plan.begun, plan.ended) == ((), (), (ACTIVE["m1"],))


def skipping(lsn: int, *, end: int) -> ManifestState:
    """A log of which the transaction at an LSN, behind the range to 900, was skipped; it continues to `end`."""
    state = log_of([segment(200, 210)])
    state = apply(state, state.version + 1, TransactionSkipped(2, CommitLsn(lsn), "too large"))
    return apply(state, state.version + 1, range_to(state, end))


def test_skipped_transaction_is_noted_for_affected_instances() -> None:
    later, ended = instance("m2", table=TABLE, name="later"), instance("m3", table=TABLE, name="ended")
    active = {
        **ACTIVE,
        "m2": InstanceLifetime(later, CommitLsn(950)),
        "m3": InstanceLifetime(ended, CommitLsn(50), CommitLsn(800)),
    }
    plan = plan_cycle(skipping(950, end=990), active, Position(900))

    assert plan.skipped == (Skipped(ACTIVE["m1"], CommitLsn(950), "the transaction was skipped: too large"),)
    assert not plan.is_empty


def test_a_skipped_transaction_is_noted_once() -> None:
    state = skipping(950, end=990)

    assert plan_range(state, ACTIVE, START, Position(950)).skipped == ()
    assert len(plan_range(state, ACTIVE, Position(950), Position(951)).skipped) == 1
    assert plan_range(state, ACTIVE, Position(951), Position(990)).is_empty


def test_a_gap_between_epochs_is_no_skipped_transaction() -> None:
    state = skipping(950, end=990)
    state = apply(state, state.version + 1, opened(1, 70, "restored"))
    state = apply(state, state.version + 1, TransactionSkipped(2, CommitLsn.of(1, 80), "too large"))

    assert plan_gap(state, ACTIVE, Position(990)).to_position == Position.of(1, 70)


def test_a_generated_column_that_the_log_never_carries_fits() -> None:
    assert find_misfit(M1, version_of(TABLE).shape) is None


@pytest.mark.parametrize("identity", [ImageKind.KEY, ImageKind.FULL])
def test_an_instance_of_key_images_takes_keys_and_whole_rows(identity: ImageKind) -> None:
    keyed = instance(table=TABLE, before_images=BeforeImages.KEY)

    assert find_misfit(keyed, version_of(TABLE, identity=identity).shape) is None


@pytest.mark.parametrize(
    "shape",
    [
        version_of(source_table(key=("name",)), identity=ImageKind.KEY).shape,
        version_of(source_table(key=()), identity=ImageKind.NONE).shape,
    ],
)
def test_key_image_instance_does_not_fit_an_identity_without_key(shape: TableShape) -> None:
    keyed = instance(table=TABLE, before_images=BeforeImages.KEY)

    assert find_misfit(keyed, shape) == "its replica identity no longer has the key"


def beaten(lsn: int, after: timedelta = timedelta(0)) -> Heartbeat:
    return Heartbeat(CommitLsn(lsn), NOW + after)


def test_a_plan_knows_the_last_heartbeat_of_its_range() -> None:
    state = log_of(events=[beaten(200), beaten(300), beaten(400)])

    assert plan_range(state, ACTIVE, START, Position(350)).heartbeat == beaten(300)
    assert plan_cycle(state, ACTIVE, Position(500)).heartbeat is None


def test_without_instances_no_heartbeat_is_published() -> None:
    assert plan_cycle(log_of(events=[beaten(200)]), {}, START).heartbeat is None


@pytest.mark.parametrize(
    ("last_time", "is_due"),
    [(NOW, False), (NOW - LONGEST_SILENCE + timedelta(seconds=1), False), (NOW - LONGEST_SILENCE, True), (None, True)],
)
def test_a_heartbeat_is_due_when_nothing_was_published_for_long(last_time: datetime | None, *, is_due: bool) -> None:
    plan = plan_cycle(log_of(events=[beaten(200)]), ACTIVE, START)

    assert plan.is_empty
    assert is_heartbeat_due(plan, last_time) is is_due


def test_a_range_without_heartbeats_is_never_due() -> None:
    assert not is_heartbeat_due(plan_cycle(log_of(), ACTIVE, START), None)


LARGE = replace(segment(300, path="large"), rows=1, raw_bytes=100 << 20)


def large_rows(*segments: Segment) -> ManifestState:
    """A log of which capture reads segments, behind an ordinary one."""
    state = log_of([segment(200, 210, path="ours"), *segments])
    return apply(state, state.version + 1, ReaderAdvanced(READER, START))


def test_rows_too_large_for_spark_are_found_per_instance() -> None:
    later = InstanceLifetime(instance("m2", table=TABLE), CommitLsn(300))
    other = InstanceLifetime(instance("m3", table=source_table(source_id=9, name="t2")), CommitLsn(50))
    many = replace(LARGE, path="many", rows=2)
    found = find_too_large(large_rows(LARGE, many), {**ACTIVE, "m2": later, "m3": other}, START, 90 << 20, lake_token=7)

    reason = "a row takes 104,857,600 bytes, of at most 94,371,840 that memory is enough for"
    assert list(found) == [TransactionOmitted(READER, "m1", CommitLsn(300), reason, lake_token=7)]


def test_rows_that_sparks_memory_is_enough_for_are_read() -> None:
    state = large_rows(LARGE)

    assert list(find_too_large(state, ACTIVE, START, 100 << 20, lake_token=7)) == []
    assert worked_paths(plan_cycle(state, ACTIVE, START)) == {"m1": ["ours", "large"]}


def test_left_out_transaction_is_not_read_with_more_memory_later() -> None:
    state = large_rows(LARGE, segment(310, path="behind"))
    state = apply(state, state.version + 1, TransactionOmitted(READER, "m1", CommitLsn(300), "large"))
    plan = plan_cycle(state, ACTIVE, START)

    assert worked_paths(plan) == {"m1": ["ours", "behind"]}
    assert plan.skipped == (Skipped(ACTIVE["m1"], CommitLsn(300), "changes of the transaction were omitted: large"),)
