"""From the segments of a scan cycle to the data files of its change rows: read, divided into parts, and converted.

A cycle is divided into parts, each of some segments, in log order. A part becomes at most one file of each change
table, wherever it is converted: in this process, or in a task of Spark. It becomes visible by a commit.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.capture.planning import CyclePlan, InstanceWork
from rowtide.cdc.ddl.schema_changes import InstanceSchemaChange
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import DDL_HISTORY, LSN_TIME_MAPPING, arrow_schema
from rowtide.cdc.rows.conversion import LsnRange, convert_records, count_rows
from rowtide.cdc.rows.row_images import ImageMalformed
from rowtide.core.lsn import Position
from rowtide.core.operations import NO_TABLE, Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Location
from rowtide.delta.writing.appends import name_data_file, write_rows
from rowtide.delta.writing.commits import PriorVersion
from rowtide.log.errors import SegmentCorrupt
from rowtide.log.membership import Heartbeat
from rowtide.log.store.entries import Segment
from rowtide.log.store.segments import read_segment
from rowtide.storage.store import Store

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""The limit in memory: as much as a part that is converted."""
_AT_ONCE = 8
# Payloads, of announcements and messages, may be large, and no change row has any.
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
        # The lock is held while reading, so that the second of two threads which need a segment finds it in memory.
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
_ROW_CHANGES = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
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


@frozen
class InstanceChanges:
    """How many changes of an instance's table a cycle has read."""

    capture_instance: str
    inserts: int
    updates: int
    deletes: int


def count_by_instance(captured: Mapping[str, pa.Table], plan: CyclePlan) -> Iterator[InstanceChanges]:
    """Yield how many of `read_captured`'s records are changes of each instance's table, of those that have any."""
    records = pa.concat_tables([_NOTHING, *captured.values()])
    found = records.group_by(["table_id", "operation"]).aggregate([([], "count_all")]).to_pylist()
    counts = {(row["table_id"], row["operation"]): int(row["count_all"]) for row in found}
    for work in plan.work:
        tables = {piece.version.table_id for piece in work.slices}
        rows = [sum(counts.get((table, operation), 0) for table in tables) for operation in _ROW_CHANGES]
        if any(rows):
            yield InstanceChanges(work.lifetime.instance.capture_instance, *rows)


def list_transactions(captured: Mapping[str, pa.Table], last_time: datetime | None) -> pa.Table:
    """Return the transactions of `read_captured`'s records, in LSN order.

    Schema `TRANSACTION`. Commit times are not monotone: `tran_end_time` is their running maximum in LSN order, starting
    from `last_time`.
    """
    records = pa.concat_tables([_NOTHING, *captured.values()])
    found = records.group_by("commit_lsn").aggregate([("commit_time", "min"), ("xid", "min")]).sort_by("commit_lsn")
    times = found["commit_time_min"].cast(pa.int64()).to_numpy()
    # PostgreSQL takes a commit's time before its record gets a position in the log, and clocks may be set back: only a
    # running maximum maps times to LSNs in order.
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


def history_rows(cycle: int, history: Sequence[InstanceSchemaChange], transactions: pa.Table) -> pa.Table:
    """Return a cycle's rows of `ddl_history`, in log order; times are those of its `transactions`."""
    times = dict(zip(*(transactions[name].to_pylist() for name in ("start_lsn", "tran_commit_time")), strict=True))
    rows = [
        {
            "cycle": cycle,
            "ordinal": ordinal,
            "source_object_id": change.instance.source_id,
            "source_schema": change.instance.source_schema,
            "source_table": change.instance.source_table,
            "capture_instance": change.instance.capture_instance,
            "member_id": change.instance.member_id,
            "required_column_update": change.required_column_update,
            "ddl_command": change.command,
            "ddl_lsn": change.lsn.value,
            "ddl_time": times[change.lsn.value],
            "inferred": change.is_inferred,
            "rewrites_values": change.rewrites_values,
        }
        for ordinal, change in enumerate(history)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(DDL_HISTORY))


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


PART_ROWS = 250_000
PART_BYTES = 64 * 1024 * 1024
"""A part ends with the segment that reaches one of these: one part is in memory at a time."""

_CONVERTED = ("commit_lsn", "seqval", "operation", "table_id", "image", "before", "after", "absent")


@frozen
class Destination:
    """A change table as of the moment at which files are written for it."""

    location: Location
    state: PriorVersion


@frozen
class Selection:
    """The records of a table version that belong to an instance: those in a range, of segments given by their paths."""

    instance: Instance
    version: LoggedTable
    lsns: LsnRange
    paths: frozenset[str]


@frozen
class SegmentGroup:
    """Segments that are converted together, and the instances' selections of their records."""

    segments: tuple[Segment, ...]
    selections: tuple[Selection, ...]


@frozen
class ChangeFile:
    """A durable data file that no version of its table has yet, with its number of rows."""

    member_id: str
    file: AddFile
    rows: int


def select_records(plan: CyclePlan) -> list[Selection]:
    """Return which records of a cycle become rows of change tables."""
    return [
        Selection(
            work.lifetime.instance,
            piece.version,
            _range_of(plan, work),
            frozenset(segment.path for segment in piece.segments),
        )
        for work in plan.work
        for piece in work.slices
    ]


def divide(segments: Sequence[Segment], selections: Sequence[Selection]) -> list[SegmentGroup]:
    """Divide a cycle's segments, in log order, into parts."""
    needed = frozenset[str]().union(*(selection.paths for selection in selections))
    groups = _group([segment for segment in segments if segment.path in needed])
    return [SegmentGroup(group, _selections_of(group, selections)) for group in groups]


def convert_part(segments: SegmentReader, part: SegmentGroup) -> Mapping[str, pa.Table]:
    """Return the change rows of a part, by the instances' member ids.

    Raises `SegmentCorrupt`, `LogStoreReadFailed`, `Missing`.
    """
    found: dict[str, list[pa.Table]] = {}
    for segment in part.segments:
        selections = [selection for selection in part.selections if segment.path in selection.paths]
        try:
            for member_id, rows in convert_segment(segments.read(segment, _CONVERTED), selections):
                found.setdefault(member_id, []).append(rows)
        except ImageMalformed as error:
            raise SegmentCorrupt(segment.path, str(error)) from error
    return {member_id: pa.concat_tables(rows) for member_id, rows in found.items()}


def convert_segment(records: pa.Table, selections: Sequence[Selection]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the change rows of a segment's records, with the member id of their instance. Raises `ImageMalformed`."""
    by_table = dict(_group_by_table(records))
    for selection in selections:
        of_table = by_table.get(selection.version.table_id)
        if of_table is not None:
            rows = convert_records(of_table, selection.instance, selection.version.shape, selection.lsns)
            if rows.num_rows:
                yield selection.instance.member_id, rows


def write_change_rows(destination: Destination, member_id: str, rows: pa.Table, cycle: int) -> ChangeFile:
    """Write change rows to a data file. Raises `RowsUnfit`, `LakeWriteFailed`."""
    state = destination.state
    written = write_rows(destination.location, state.columns, state.metadata, rows, name_data_file(cycle))
    return ChangeFile(member_id, written, rows.num_rows)


def count_change_rows(captured: Mapping[str, pa.Table], selections: Sequence[Selection]) -> Mapping[str, int]:
    """Return how many rows records become in each change table, by the instances' member ids.

    The records are given by their segments' paths; columns `commit_lsn`, `table_id` and `operation` are used.
    """
    # Counted from the log, independently of the conversion. Both numbers are compared before a cycle is committed, so
    # that a fault of the conversion cannot lose rows unnoticed.
    counts: Counter[str] = Counter()
    for path, records in captured.items():
        table_ids = records["table_id"].to_numpy()
        by_table = np.argsort(table_ids, kind="stable")
        table_ids, lsns = table_ids[by_table], records["commit_lsn"].to_numpy()[by_table]
        rows = count_rows(records["operation"].to_numpy()[by_table])
        for selection in selections:
            if path in selection.paths:
                table_id = selection.version.table_id
                first, end = np.searchsorted(table_ids, [table_id, table_id + 1])
                is_counted = selection.lsns.contains(lsns[first:end])
                counts[selection.instance.member_id] += int(rows[first:end][is_counted].sum())
    return counts


def _range_of(plan: CyclePlan, work: InstanceWork) -> LsnRange:
    # A lifetime's begin is exclusive: the transaction that enables an instance has no changes for it.
    return LsnRange(max(plan.from_position.value, work.lifetime.begin.value + 1), plan.to_position.value)


def _group_by_table(records: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the records of each table; a segment has them in this order already."""
    table_ids = records["table_id"].to_numpy()
    if (np.diff(table_ids) < 0).any():
        by_table = np.argsort(table_ids, kind="stable")
        records, table_ids = records.take(by_table), table_ids[by_table]
    begins = np.flatnonzero(np.diff(table_ids, prepend=table_ids[:1] - 1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(table_ids)], strict=True):
        yield int(table_ids[begin]), records.slice(begin, end - begin)


def _group(segments: Sequence[Segment]) -> Iterator[tuple[Segment, ...]]:
    group: list[Segment] = []
    for segment in segments:
        group.append(segment)
        if sum(one.rows for one in group) >= PART_ROWS or sum(one.raw_bytes for one in group) >= PART_BYTES:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)


def _selections_of(segments: Sequence[Segment], selections: Sequence[Selection]) -> tuple[Selection, ...]:
    paths = {segment.path for segment in segments}
    return tuple(selection for selection in selections if paths & selection.paths)
