"""Which changes of a log are the database's own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rowtide.replication.distribution.origins import are_local

MARKED = "rowtide.origin/8ea9"


@pytest.mark.parametrize(
    "origins", [[], [None, None], [None, MARKED, "native", None, MARKED], [MARKED], ["rowtide.origin"]]
)
def test_marked_records_are_not_local(origins: list[str | None]) -> None:
    parts = [pa.table({"origin": pa.array(part, pa.string())}) for part in (origins[:2], origins[2:])]
    records = pa.concat_tables(parts)

    assert are_local(records).tolist() == [name != MARKED for name in origins]
