"""When transactions committed, by their LSNs, whatever segments they came in."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from builders.log.log_stores import NOW
from builders.replication.articles import change
from rowtide.core.operations import Operation
from rowtide.replication.distribution.calls_from_log import CommitTimes, are_local


def committed(lsn: int, seconds: int) -> pa.Table:
    row = change(Operation.INSERT, after=("1",), lsn=lsn)
    time = pa.array([NOW + timedelta(seconds=seconds)], row.schema.field("commit_time").type)
    return row.set_column(row.schema.get_field_index("commit_time"), row.schema.field("commit_time"), time)


def test_commit_times_are_found_also_when_clocks_go_back() -> None:
    times = CommitTimes()
    times.add(pa.concat_tables([committed(300, 1), committed(100, 5), committed(100, 5)]))
    times.add(committed(400, 0))

    start_us = int(NOW.timestamp() * 1_000_000)
    assert [times.find(lsn) for lsn in (100, 300, 400)] == [start_us + 5_000_000, start_us + 1_000_000, start_us]
    assert [times.find(lsn) for lsn in (99, 200, 500)] == [None, None, None]


MARKED = "rowtide.origin/8ea9"


@pytest.mark.parametrize(
    "origins", [[], [None, None], [None, MARKED, "native", None, MARKED], [MARKED], ["rowtide.origin"]]
)
def test_marked_records_are_not_local(origins: list[str | None]) -> None:
    parts = [pa.table({"origin": pa.array(part, pa.string())}) for part in (origins[:2], origins[2:])]
    records = pa.concat_tables(parts)

    assert are_local(records).tolist() == [name != MARKED for name in origins]
