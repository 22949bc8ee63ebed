"""The published transactions of a range of LSNs: when each ended, and its number in the source."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.lake_readers.value_texts import kernels
from rowtide.cdc.lake_tables import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.statistics import Between
from rowtide.lake.small_tables import SmallTable

MOST_TRANSACTIONS = 50_000
"""About how many are followed at a time: what is kept of them in memory, and what a failure repeats at most."""

_COLUMNS = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time", "tran_id", "cycle")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Integers = npt.NDArray[np.int64]


@frozen
class TransactionRange:
    """The transactions of [low, high], by LSN: their ends in microseconds since 1970, and their numbers."""

    low: CommitLsn
    high: CommitLsn
    lsns: Integers
    ends: Integers
    numbers: Integers

    def find_end(self, lsn: CommitLsn) -> datetime | None:
        """Return when the last transaction up to an LSN ended; None if there is none."""
        count = int(np.searchsorted(self.lsns, lsn.value, "right"))
        return _EPOCH + timedelta(microseconds=int(self.ends[:count].max())) if count else None

    def look_up(self, lsns: Integers) -> tuple[Any, Any]:
        """Return the ends and the numbers of transactions, null for an unknown LSN."""
        if not len(self.lsns):
            nothing = pa.nulls(len(lsns), pa.int64())
            return nothing, nothing
        places = np.minimum(np.searchsorted(self.lsns, lsns), len(self.lsns) - 1)
        is_unknown = self.lsns[places] != lsns
        return pa.array(self.ends[places], mask=is_unknown), pa.array(self.numbers[places], mask=is_unknown)


def read_transactions(
    lake: str, cycle: int, low: CommitLsn, high: CommitLsn, most: int = MOST_TRANSACTIONS
) -> Iterator[TransactionRange]:
    """Yield the transactions in [low, high] that are published up to a cycle, some at a time; the parts are seamless.

    Each part is read when it is asked for. Raises `LakeUnknown`, `LakeReadFailed`, `TableUnreadable`.
    """
    while low <= high:
        table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
        if table is None:
            raise LakeUnknown(lake)
        end = table.find_end("start_lsn", low.value, most)
        last = high if end is None else min(high, CommitLsn(end))
        yield _read(table, cycle, low, last)
        low = last.increment()


def _read(table: SmallTable, cycle: int, low: CommitLsn, high: CommitLsn) -> TransactionRange:
    parts = [[np.zeros(0, np.int64)] * 3]
    for rows in table.stream(_COLUMNS, Between("start_lsn", low.value, high.value)):
        lsns, cycles = (rows[name].to_numpy() for name in ("start_lsn", "cycle"))
        is_part = (lsns >= low.value) & (lsns <= high.value) & (cycles <= cycle)
        ends = rows["tran_end_time"].cast(pa.int64()).to_numpy()
        numbers = kernels.fill_null(rows["tran_id"], 0).to_numpy()
        parts.append([column[is_part] for column in (lsns, ends, numbers)])
    lsns, ends, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(lsns, kind="stable")
    return TransactionRange(low, high, lsns[order], ends[order], numbers[order])
