from __future__ import annotations

from collections.abc import Sequence

from builders.capture.capture_instances import instance, source_table, version_of
from builders.log.log_stores import segment
from rowtide.cdc.capture.change_files import PART_BYTES, PART_ROWS, SegmentGroup, divide, select_records
from rowtide.cdc.capture.planning import CyclePlan, InstanceWork, VersionRows
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.cdc.rows.conversion import LsnRange
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.store.entries import Segment

TABLE = source_table()


def work_on(segments: Sequence[Segment], member_id: str = "m1", *, begin: int = 50) -> InstanceWork:
    lifetime = InstanceLifetime(instance(member_id, table=TABLE), CommitLsn(begin))
    return InstanceWork(lifetime, (VersionRows(version_of(TABLE), tuple(segments)),))


def plan_of(*work: InstanceWork, event_segments: Sequence[Segment] = ()) -> CyclePlan:
    return CyclePlan(Position(100), Position(900), work, event_segments=tuple(event_segments))


def parts_of(plan: CyclePlan) -> list[SegmentGroup]:
    return divide(plan.segments, select_records(plan))


def paths_of(plan: CyclePlan) -> list[list[str]]:
    return [[one.path for one in part.segments] for part in parts_of(plan)]


def test_part_ends_with_the_segment_that_reaches_enough_rows() -> None:
    half = PART_ROWS // 2
    sizes = [half, half, 1, half, half - 1, 1, 5 * PART_ROWS, 1]
    segments = [segment(100 + 10 * place, path=str(place), rows=rows) for place, rows in enumerate(sizes)]

    assert paths_of(plan_of(work_on(segments))) == [["0", "1"], ["2", "3", "4"], ["5", "6"], ["7"]]


def test_part_ends_with_the_segment_that_reaches_enough_bytes() -> None:
    sizes = [PART_BYTES - 1, 1, PART_BYTES, 1, 1]
    segments = [segment(100 + 10 * place, path=str(place), size=size) for place, size in enumerate(sizes)]

    assert paths_of(plan_of(work_on(segments))) == [["0", "1"], ["2"], ["3", "4"]]


def test_parts_and_their_segments_are_in_log_order() -> None:
    segments = [segment(lsn, lsn + 5, path=str(lsn), rows=PART_ROWS // 2) for lsn in (300, 100, 200, 400)]

    assert paths_of(plan_of(work_on(segments[1:]), work_on(segments[:1], "m2"))) == [["100", "200"], ["300", "400"]]


def test_segments_that_no_instance_takes_are_left_out() -> None:
    ours = [segment(lsn, path=str(lsn)) for lsn in (200, 400)]
    event = segment(300, path="event", rows=PART_ROWS)
    plan = plan_of(work_on(ours), event_segments=[event])

    assert event in plan.segments
    assert paths_of(plan) == [["200", "400"]]
    assert divide(plan.segments, []) == []


def test_large_row_that_one_instance_leaves_out_is_the_others() -> None:
    before, large, behind = segment(200), segment(300, rows=1, size=PART_BYTES), segment(400)
    plan = plan_of(work_on([before, behind], "m1"), work_on([before, large, behind], "m2"))
    selections = select_records(plan)

    parts = divide(plan.segments, selections)

    assert [part.segments for part in parts] == [(before, large), (behind,)]
    assert [[one.instance.member_id for one in part.selections] for part in parts] == [["m1", "m2"], ["m1", "m2"]]
    takers = [one.instance.member_id for one in selections if large.path in one.paths]
    assert takers == ["m2"]
    assert divide(plan.segments, selections[:1])[0].segments == (before, behind)


def test_part_has_only_the_instances_that_take_its_segments() -> None:
    first, second = segment(200, rows=PART_ROWS), segment(300, rows=PART_ROWS)
    parts = parts_of(plan_of(work_on([first], "m1"), work_on([second], "m2")))

    assert [[one.instance.member_id for one in part.selections] for part in parts] == [["m1"], ["m2"]]


def test_instance_takes_records_after_it_began_within_the_cycle() -> None:
    plan = plan_of(work_on([segment(200)], "m1"), work_on([segment(200)], "m2", begin=250))

    assert [one.lsns for one in select_records(plan)] == [LsnRange(100, 900), LsnRange(251, 900)]
