from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders.log.log_stores import NOW, SOURCE, segment
from rowtide.core.lsn import Position
from rowtide.log.store.entries import Segment
from rowtide.log.store.maintenance import (
    MAX_MERGED_BYTES,
    MAX_MERGED_FILES,
    MAX_MERGED_ROWS,
    MIN_MERGED_FILES,
    SMALL_SEGMENT_BYTES,
    plan_merge,
)
from rowtide.log.store.manifest import LOG_STORE
from rowtide.log.store.state import ManifestState, Reader


def store_with(segments: list[Segment]) -> ManifestState:
    return ManifestState(
        format=LOG_STORE.recorded,
        version=1,
        source=SOURCE,
        epoch=0,
        low=Position(0),
        position=Position(10_000),
        segments=tuple(segments),
        tables={},
        members=(),
        events=(),
        readers={},
        leases={},
        pending_deletions=(),
        gaps=(),
    )


def run_of(count: int, size: int = 1000, rows: int = 10) -> list[Segment]:
    return [segment(100 + index, size=size, rows=rows) for index in range(count)]


def planned(segments: list[Segment]) -> list[int]:
    return [found.first.value - 100 for found in plan_merge(store_with(segments), NOW)]


def test_a_run_of_small_old_neighbours_is_merged() -> None:
    assert planned(run_of(MIN_MERGED_FILES)) == list(range(MIN_MERGED_FILES))


def test_too_few_are_left_alone() -> None:
    assert planned(run_of(MIN_MERGED_FILES - 1)) == []


@pytest.mark.parametrize(
    "odd",
    [
        segment(107, size=SMALL_SEGMENT_BYTES),
        segment(107, age=timedelta(seconds=59)),
        segment(107, path="pending/part.parquet"),
    ],
    ids=["large", "young", "part of a large transaction"],
)
def test_only_neighbours_are_merged(odd: Segment) -> None:
    segments = run_of(20)
    segments[7] = odd

    assert planned(segments) == list(range(8, 20))


def test_a_run_has_at_most_so_many_files() -> None:
    assert planned(run_of(100)) == list(range(MAX_MERGED_FILES))


def test_a_run_has_at_most_so_many_bytes() -> None:
    size = SMALL_SEGMENT_BYTES - 1

    assert planned(run_of(40, size=size)) == list(range(MAX_MERGED_BYTES // size))


def test_a_run_has_at_most_so_many_rows() -> None:
    assert planned(run_of(40, rows=MAX_MERGED_ROWS // 10)) == list(range(10))


def test_what_no_reader_needs_is_not_merged() -> None:
    state = replace(store_with(run_of(30)), readers={"cdc": Reader(Position(110), 0)})

    assert [found.first.value for found in plan_merge(state, NOW)] == list(range(110, 130))
