"""The transactions of one scan cycle, as `lsn_time_mapping` lists them; read from the segments without a Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.capture.planning import CyclePlan
from rowtide.cdc.capture.segment_reader import SegmentReader
from rowtide.cdc.lake_tables import LSN_TIME_MAPPING, arrow_schema
from rowtide.core.lsn import Position
from rowtide.core.operations import NO_TABLE
from rowtide.core.records import RECORD
from rowtide.log.membership import Heartbeat

TRANSACTION = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time", "tran_id", "tran_commit_time")
_TIME = TRANSACTION.field("tran_end_time").type
_COLUMNS = ("commit_lsn", "commit_time", "xid", "table_id", "operation")
_NOTHING = pa.schema([RECORD.field(name) for name in _COLUMNS]).empty_table()


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
        records = segments.read(segment, _COLUMNS)
        commit_lsns = records["commit_lsn"]
        is_captured = pc.or_(pc.is_in(records["table_id"], tables), pc.is_in(commit_lsns, lsns))
        is_in_range = pc.and_(pc.greater_equal(commit_lsns, low), pc.less(commit_lsns, high))
        yield segment.path, records.filter(pc.and_(is_captured, is_in_range))
