"""The segments of a scan cycle: how they are read, and the transactions that end in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.capture.planning import CyclePlan
from rowtide.cdc.published import LSN_TIME_MAPPING, arrow_schema
from rowtide.core.lsn import Position
from rowtide.core.operations import NO_TABLE
from rowtide.core.records import RECORD
from rowtide.log.membership import Heartbeat
from rowtide.log.store.entries import Segment
from rowtide.log.store.segments import read_segment
from rowtide.storage.store import Store

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""In memory: as much as a part that is converted."""
_AT_ONCE = 8
_RECORD_COLUMNS = tuple(name for name in RECORD.names if name != "payload")


class SegmentReader:
    """Reads segments of one cycle, and keeps the first ones up to some size; for several threads."""

    def __init__(self, store: Store, most_kept_bytes: int = MOST_KEPT_BYTES) -> None:
        self._store = store
        self._room = most_kept_bytes
        self._kept: dict[str, pa.Table] = {}
        self._lock = threading.Lock()

    def read(self, segment: Segment, columns: Sequence[str]) -> pa.Table:
        """Return columns of a segment's records; never `payload`. Raises as `read_segment`."""
        self.fetch([segment])
        kept = self._kept.get(segment.path)
        if kept is None:
            return read_segment(self._store, segment.path, columns)
        return kept.select(list(columns))

    def fetch(self, segments: Sequence[Segment]) -> None:
        """Read those of the segments that can be kept. Raises as `read_segment`."""
        with self._lock:
            wanted = []
            for segment in segments:
                if segment.path not in self._kept and segment.raw_bytes <= self._room:
                    self._room -= segment.raw_bytes
                    wanted.append(segment.path)
            if len(wanted) == 1:
                self._kept[wanted[0]] = self._read_whole(wanted[0])
            elif wanted:
                with ThreadPoolExecutor(_AT_ONCE, "rowtide-read") as pool:
                    self._kept.update(zip(wanted, pool.map(self._read_whole, wanted), strict=True))

    def _read_whole(self, path: str) -> pa.Table:
        return read_segment(self._store, path, _RECORD_COLUMNS)


TRANSACTION = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time", "tran_id", "tran_commit_time")
_TIME = TRANSACTION.field("tran_end_time").type
_COMMIT_COLUMNS = ("commit_lsn", "commit_time", "xid", "table_id", "operation")
_NOTHING = pa.schema([RECORD.field(name) for name in _COMMIT_COLUMNS]).empty_table()


def read_captured(segments: SegmentReader, plan: CyclePlan) -> Mapping[str, pa.Table]:
    """Return the records of captured changes, and of the transactions in which instances begin or end, by the paths of
    their segments.

    Columns `commit_lsn`, `commit_time`, `xid`, `table_id` and `operation`; unordered.
    """
    segments.fetch(plan.segments)
    return dict(_captured(segments, plan))


def count_changes(captured: Mapping[str, pa.Table]) -> int:
    """Return how many of `read_captured`'s records are row changes."""
    return sum(int(np.count_nonzero(records["table_id"].to_numpy() != NO_TABLE)) for records in captured.values())


def list_transactions(captured: Mapping[str, pa.Table], last_time: datetime | None) -> pa.Table:
    """Return the transactions of `read_captured`'s records, in LSN order.

    Schema `TRANSACTION`. Commit times are not monotone: `tran_end_time` is their running maximum in LSN order, starting
    from `last_time`.
    """
    records = pa.concat_tables([_NOTHING, *captured.values()])
    found = records.group_by("commit_lsn").aggregate([("commit_time", "min"), ("xid", "min")]).sort_by("commit_lsn")
    times = found["commit_time_min"].cast(pa.int64()).to_numpy()
    if last_time is not None:
        times = np.maximum(times, pa.scalar(last_time, _TIME).value)
    columns = {
        "start_lsn": found["commit_lsn"],
        "tran_end_time": pa.array(np.maximum.accumulate(times)).cast(_TIME),
        "tran_id": found["xid_min"],
        "tran_commit_time": found["commit_time_min"],
    }
    return pa.table([columns[name] for name in TRANSACTION.names], schema=TRANSACTION)


def find_end(segments: SegmentReader, plan: CyclePlan, maxtrans: int) -> Position:
    """Return where a plan's range must end to have at most a number of transactions; its own end if it has fewer."""
    found: set[int] = set()
    # Segments are in log order, and a later one has no earlier transaction: those after the end are not read.
    for _, records in _captured(segments, plan):
        found.update(records["commit_lsn"].unique().to_numpy().tolist())
        if len(found) > maxtrans:
            return Position(sorted(found)[maxtrans - 1] + 1)
    return plan.to_position


def dummy_transaction(heartbeat: Heartbeat, last_time: datetime | None = None) -> pa.Table:
    """Return the row for a heartbeat: tran_id 0, with its LSN and time, which is not before `last_time`."""
    time = heartbeat.committed_at
    end_time = time if last_time is None else max(time, last_time)
    row = {"start_lsn": heartbeat.commit_lsn.value, "tran_end_time": end_time, "tran_id": 0, "tran_commit_time": time}
    return pa.Table.from_pylist([row], schema=TRANSACTION)


def with_heartbeat(transactions: pa.Table, heartbeat: Heartbeat) -> pa.Table:
    """Return transactions followed by a heartbeat, if that came last."""
    last = pc.max(transactions["start_lsn"]).as_py()
    if last is not None and last >= heartbeat.commit_lsn.value:
        return transactions
    return pa.concat_tables([transactions, dummy_transaction(heartbeat, pc.max(transactions["tran_end_time"]).as_py())])


def _captured(segments: SegmentReader, plan: CyclePlan) -> Iterator[tuple[str, pa.Table]]:
    """Yield the records that count, by segment."""
    tables = pa.array(sorted({piece.version.table_id for work in plan.work for piece in work.slices}), pa.int32())
    lsns = pa.array([lsn.value for lsn in plan.event_lsns], pa.int64())
    low, high = pa.scalar(plan.from_position.value), pa.scalar(plan.to_position.value)
    for segment in plan.segments:
        records = segments.read(segment, _COMMIT_COLUMNS)
        commit_lsns = records["commit_lsn"]
        is_captured = pc.or_(pc.is_in(records["table_id"], tables), pc.is_in(commit_lsns, lsns))
        is_in_range = pc.and_(pc.greater_equal(commit_lsns, low), pc.less(commit_lsns, high))
        yield segment.path, records.filter(pc.and_(is_captured, is_in_range))
