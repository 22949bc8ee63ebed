"""The rate of a snapshot, and how it is left."""

from __future__ import annotations

import time

import pytest

from rowtide.cdc.snapshots.chunk_copies import LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES, CopyLimits
from rowtide.cdc.snapshots.table_copy import CopyInterrupted, Throttle
from rowtide.copying.present_tables import PresentTable


def test_without_a_rate_nothing_waits() -> None:
    throttle = Throttle()
    began = time.monotonic()
    for _ in range(1000):
        throttle.take(1_000_000)
    assert time.monotonic() - began < 1


def test_rows_beyond_the_rate_wait() -> None:
    throttle = Throttle()
    throttle.set(1000, is_stopped=False)
    began = time.monotonic()
    for _ in range(3):
        throttle.take(100)
    assert time.monotonic() - began >= 0.2


def test_a_batch_takes_as_long_as_its_rows() -> None:
    throttle = Throttle()
    throttle.set(1000, is_stopped=False)
    began, passed = time.monotonic(), 0
    for piece in throttle.divide(600):
        throttle.take(piece)
        passed += piece
        assert passed <= 1000 * (time.monotonic() - began) + 1
    assert passed == 600


def test_what_is_stopped_is_interrupted_until_it_is_not() -> None:
    throttle = Throttle()
    throttle.set(None, is_stopped=True)
    with pytest.raises(CopyInterrupted):
        throttle.take(1)
    throttle.set(None, is_stopped=False)
    throttle.take(1)


GIB = 1 << 30


def table(size: int, rows: int | None) -> PresentTable:
    return PresentTable(
        "public", "t", is_partitioned=False, columns={}, generation="", altered_by=(), rows=rows, size=size
    )


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, LEAST_CHUNK_BYTES), (GIB, LEAST_CHUNK_BYTES), (4 * GIB, GIB // 4), (100 * GIB, MOST_CHUNK_BYTES)],
)
def test_chunks_grow_with_the_table_within_bounds(size: int, expected: int) -> None:
    assert CopyLimits(workers=2).choose_chunk_bytes(table(size, 1000), None) == expected


def test_at_a_rate_a_chunk_takes_ten_seconds() -> None:
    hundred_bytes_a_row = table(100_000_000, 1_000_000)

    assert CopyLimits().choose_chunk_bytes(hundred_bytes_a_row, 5000) == 100 * 5000 * 10
    assert CopyLimits().choose_chunk_bytes(table(GIB, None), 5000) == LEAST_CHUNK_BYTES
