"""The data files of a cycle's change rows: which records become the rows of which change table, and their conversion.

A cycle is divided into parts, each of some segments, in log order. A part becomes at most one file of each change
table, wherever it is converted: in this process, or in a task of Spark. Nothing of it counts before it is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from rowtide.cdc.capture.planning import CyclePlan, InstanceWork
from rowtide.cdc.capture.segment_reader import SegmentReader
from rowtide.cdc.instances import Instance
from rowtide.cdc.rows.conversion import LsnRange, convert_records, count_rows
from rowtide.cdc.rows.row_images import ImageMalformed
from rowtide.core.tables import TableVersion
from rowtide.core.values import frozen
from rowtide.delta.actions import AddFile
from rowtide.delta.snapshot import Location
from rowtide.delta.writing.appends import name_data_file, write_rows
from rowtide.delta.writing.commits import PriorVersion
from rowtide.log.errors import SegmentCorrupt
from rowtide.log.store.entries import Segment

PART_ROWS = 250_000
PART_BYTES = 64 * 1024 * 1024
"""A part ends with the segment that reaches one of these: so much is in memory at a time."""

_CONVERTED = ("commit_lsn", "seqval", "operation", "table_id", "image", "before", "after", "absent")


@frozen
class Destination:
    """A change table as of the moment at which files are written for it."""

    location: Location
    state: PriorVersion


@frozen
class Selection:
    """The records of a table version that an instance takes: those in a range, of segments given by their paths."""

    instance: Instance
    version: TableVersion
    lsns: LsnRange
    paths: frozenset[str]


@frozen
class SegmentGroup:
    """Segments that are converted together, and who takes what of them."""

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
