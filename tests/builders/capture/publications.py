"""Transactions as capture publishes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import pyarrow as pa

from rowtide.cdc.capture.change_files import TRANSACTION


def transactions(*lsns: int, seconds: Mapping[int, int] = MappingProxyType({})) -> pa.Table:
    """Return transactions that committed at the second of their LSN, but for those that are given others."""
    times = [datetime.fromtimestamp(seconds.get(lsn, lsn), UTC) for lsn in lsns]
    rows = [
        {"start_lsn": lsn, "tran_end_time": time, "tran_id": 7, "tran_commit_time": time}
        for lsn, time in zip(lsns, times, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=TRANSACTION)
