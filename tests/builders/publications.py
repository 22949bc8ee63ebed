"""Transactions as capture publishes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from rowtide.cdc.transactions import TRANSACTION


def transactions(*lsns: int) -> pa.Table:
    """Return transactions that committed a second apart."""
    times = [datetime.fromtimestamp(lsn, UTC) for lsn in lsns]
    rows = [
        {"start_lsn": lsn, "tran_end_time": time, "tran_id": 7, "tran_commit_time": time}
        for lsn, time in zip(lsns, times, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=TRANSACTION)
