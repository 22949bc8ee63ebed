"""Events as followers give them to sinks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rowtide.cdc.following.row_events import EVENT, EVENT_ID
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.core.lsn import CommitLsn


def event_rows(*lsns: int, padding: int = 0) -> pa.RecordBatch:
    """Return an insert for each LSN, named `e-` and the LSN and its place."""
    ids = [f"e-{lsn}-{place}" for place, lsn in enumerate(lsns)]
    lines = [f'{{"id": "{name}", "text": "{"x" * padding}"}}\n' for name in ids]
    columns: list[pa.Array[Any]] = [
        pa.array(lsns, pa.int64()),
        pa.array(range(len(lsns)), pa.int64()),
        pa.array([2] * len(lsns), pa.int32()),
        pa.array(ids, pa.string()),
        pa.array(lines, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*ORDER, EVENT_ID, EVENT])


def lsn(value: int) -> CommitLsn:
    return CommitLsn(value)
