"""How large the chunks of a table are."""

from __future__ import annotations

import pytest

from rowtide.cdc.snapshots.limits import LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES, CopyLimits
from rowtide.copying.present_tables import PresentTable

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
