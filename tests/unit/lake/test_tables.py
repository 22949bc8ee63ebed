"""Which small files are merged: by their bytes, their number and their age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rowtide.delta.replay import AddFile
from rowtide.delta.writing.compaction import SMALL_BYTES
from rowtide.lake.tables import COMPACTION_INTERVAL, OLD, choose_worthwhile

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KB = 1024
MANY = COMPACTION_INTERVAL // 2
YOUNG = timedelta(minutes=1)


def files(*sizes: int, age: timedelta = YOUNG) -> list[AddFile]:
    return [AddFile(f"{number}", size, int((NOW - age).timestamp() * 1000)) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (files(KB), 0),
        (files(*[KB] * (MANY - 1)), 0),
        (files(*[KB] * MANY), MANY),
        (files(*[KB] * 2, age=OLD), 2),
        (files(SMALL_BYTES - KB, KB // 2), 0),
        (files(SMALL_BYTES - KB, KB // 2, age=OLD), 0),
        (files(SMALL_BYTES - KB, KB), 2),
        (files(SMALL_BYTES // 2, *[KB] * MANY), MANY),
        (files(4 * MANY * KB, *[KB] * MANY), MANY + 1),
    ],
    ids=[
        "one",
        "few",
        "many",
        "two old",
        "heavy",
        "heavy and old",
        "enough bytes",
        "many beside heavy",
        "not so heavy",
    ],
)
def test_files_are_merged_when_it_is_worth_it(given: list[AddFile], chosen: int) -> None:
    found = choose_worthwhile(given, NOW)
    assert (len(found) if len(found) > 1 else 0) == chosen


def test_a_busy_table_has_few_files_and_writes_no_row_often() -> None:
    """A file a cycle, for ten thousand cycles, and a compaction at each turn."""
    there: list[AddFile] = []
    written = 0
    most = 0
    for cycle in range(1, 10_001):
        there += files(2 * KB)
        most = max(most, len(there))
        if cycle % COMPACTION_INTERVAL == 0:
            small = [file for file in there if file.size < SMALL_BYTES]
            chosen = choose_worthwhile(small, NOW)
            if len(chosen) > 1:
                merged = sum(file.size for file in chosen)
                written += merged
                there = [file for file in there if not any(file is one for one in chosen)] + files(merged)
    assert most < 2 * COMPACTION_INTERVAL
    assert written < 8 * 10_000 * 2 * KB
