"""A stream of published changes: what its next batch ends with, and what a batch reads. Without Spark.

Spark stores the offsets. After a restart it only passes them when it requests a batch's partitions, and it accepts
offsets that go back. A restarted query plans the last batch from its end to its end, whether it was committed or not.
If the first batch was not committed, it is planned from the beginning, which Spark does not store: so each offset has
the first LSN of every instance. Nothing is acknowledged, since Spark calls `commit` one batch late, or not at all with
`availableNow`; cleanup does not wait, and a query that it overtook is refused.

A batch has a window of each instance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rowtide.cdc.errors import querying as errors
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.following.row_events import read_transactions
from rowtide.cdc.lake_readers.as_of.moved_rows import find_moved
from rowtide.cdc.lake_readers.change_tables import ChangeTable, ChangeTablePart, open_change_table
from rowtide.cdc.lake_readers.net_changes import NetChanges
from rowtide.cdc.published import (
    ENABLED,
    LakePublication,
    RecordedInstance,
    change_table_path,
    read_publication,
    read_visible_publication,
)
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.net_changes import net_columns
from rowtide.cdc.queries.windows import InstanceWindow, PublishedLake, RequestedRange, open_window, require_net_changes
from rowtide.cdc.spark_source.options import (
    LATEST,
    Columns,
    FileSelection,
    Planned,
    SourceOptions,
    SourceShape,
    choose_shape,
    cut,
    require_columns,
)
from rowtide.core.errors import InvalidLsn
from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.storage.places import local_folder

# Which LSNs are read of each instance, and the change tables' versions that have them. Offsets of streams, as Spark
# keeps them in checkpoints.

Recorded = Mapping[str, RecordedInstance]
Bounds = Mapping[str, tuple[CommitLsn, CommitLsn]]
"""First and last LSN by instance; none is beyond the other."""


def require_enabled(recorded: Recorded, name: str) -> RecordedInstance:
    """Return an instance. Raises `InstanceUnknown`."""
    found = recorded.get(name)
    if found is None or found.state != ENABLED:
        raise errors.InstanceUnknown(name)
    return found


def order_instances(recorded: Recorded, names: Sequence[str]) -> list[str]:
    """Return instances with the older of a table's first; where that is unknown, as they are named.

    Raises `InstanceUnknown`.
    """
    return sorted(names, key=lambda name: require_enabled(recorded, name).lsn)


def find_shape(recorded: Recorded, options: SourceOptions) -> SourceShape:
    """Return what all changes look like. Raises `InstanceUnknown`."""
    names = order_instances(recorded, options.instances)
    instances = [recorded[name].instance.for_readers() for name in names]
    return choose_shape(instances, are_several=options.are_several)


def find_begin(found: RecordedInstance, wanted: CommitLsn | None, high: CommitLsn) -> CommitLsn:
    """Return the first LSN that is read of an instance if `wanted` is asked for; None: its low endpoint.

    An instance that was enabled later has everything since. Raises `LsnOutOfRange` if changes were removed.
    """
    if wanted is None or (wanted < found.lsn and found.note is None):
        return found.lsn
    if wanted < found.lsn:
        raise errors.LsnOutOfRange(
            instance=found.instance.capture_instance,
            from_lsn=str(wanted),
            to_lsn=str(high),
            low=str(found.lsn),
            high=str(high),
            gap=f" Below it, {found.note}.",
        )
    return wanted


def share(recorded: Recorded, begins: Mapping[str, CommitLsn], high: CommitLsn) -> Bounds:
    """Return what is read of each instance up to an LSN; of a table's, the newer one's begin ends the older.

    Instances of which nothing is read are omitted.
    """
    names, bounds = list(begins), {}
    tables = {name: recorded[name].instance.source_id for name in names}
    for place, name in enumerate(names):
        later = [begins[other].decrement() for other in names[place + 1 :] if tables[other] == tables[name]]
        last = min([*later, high])
        if begins[name] <= last:
            bounds[name] = (begins[name], last)
    return bounds


def open_slices(
    lake: PublishedLake,
    recorded: Recorded,
    bounds: Bounds,
    operations: tuple[int, ...],
    require_whole: Callable[[RecordedInstance, CommitLsn, CommitLsn], None],
) -> Iterator[FileSelection]:
    """Return the rows in bounds, of the tables' current versions.

    The instances are read again after the tables were opened, and `require_whole` raises for those of which a cleanup
    removed rows before. Raises `InstanceUnknown` too.
    """
    tables: dict[str, ChangeTable | None] = {
        name: open_change_table(change_table_path(lake.lake, name), recorded[name].instance) for name in bounds
    }
    _, again = lake.get_published_instances()
    for name, (low, high) in bounds.items():
        found, table = require_enabled(again, name), tables[name]
        if table is None or found.instance.member_id != recorded[name].instance.member_id:
            raise errors.InstanceUnknown(name)
        require_whole(found, low, high)
        yield FileSelection(found.instance.for_readers(), table, ChangeTablePart(low, high, operations))


STREAM_OFFSET = StoreFormat("offset", replacement="start the query with another checkpoint, from an LSN that it has")
_PLACE = "the stream's checkpoint"
_KEYS = {"format", "lsn", "instances"}


@frozen
class StreamedInstance:
    """An instance of a stream, by its identity, and the first LSN that the stream reads of it."""

    member_id: str
    begin: CommitLsn


@frozen
class StreamOffset:
    """Everything up to `lsn` is read; None before the first batch. Of a table's instances the older comes first."""

    lsn: CommitLsn | None
    instances: Mapping[str, StreamedInstance]

    @property
    def read_to(self) -> CommitLsn:
        """The LSN after which the stream resumes."""
        return self.lsn or min(one.begin for one in self.instances.values()).decrement()

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark takes it; equal offsets are equal texts."""
        instances = {name: {"member": one.member_id, "begin": one.begin.value} for name, one in self.instances.items()}
        lsn = self.lsn.value if self.lsn is not None else None
        return {"format": str(STREAM_OFFSET.recorded), "lsn": lsn, "instances": instances}


def parse_offset(found: Mapping[str, Any]) -> StreamOffset:
    """Return the offset of what `as_json` returned.

    An offset is read to write the next one. Raises `StreamOffsetUnknown`, `FormatUnnumbered`, `FormatNewer`,
    `FormatNotMigrated`.
    """
    try:
        recorded = found.get("format")
        if recorded is None and found.keys() != _KEYS - {"format"}:
            # Another source's.
            raise errors.StreamOffsetUnknown(str(found))
        stored = StoredFormat.parse(recorded) if recorded is not None else None
        STREAM_OFFSET.require_writable(_PLACE, stored)
        if stored == STREAM_OFFSET.recorded and found.keys() != _KEYS:
            raise errors.StreamOffsetUnknown(str(found))
        lsn = found["lsn"]
        instances = {
            name: StreamedInstance(str(one["member"]), CommitLsn(one["begin"]))
            for name, one in found["instances"].items()
        }
        if not instances:
            raise errors.StreamOffsetUnknown(str(found))
        return StreamOffset(CommitLsn(lsn) if lsn is not None else None, instances)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidLsn) as error:
        raise errors.StreamOffsetUnknown(str(found)) from error


_LOCAL_LOOKS_S, _REMOTE_LOOKS_S = 0.2, 1.0
"""The least intervals between reads of a lake's publication: Spark asks a hundred times a second, and a read of an
object store is a paid request.
"""


class ChangeStream:
    """One streaming query's view of a lake.

    Calls raise `LakeUnknown`, `LakeReadFailed`, `TableUnreadable`, `InstanceUnknown`, and the errors of this package.
    """

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        """`columns` are those that the query was planned with."""
        self._options, self._columns = options, columns
        self._lake = PublishedLake(options.lake)
        self._looks_s = _REMOTE_LOOKS_S if local_folder(options.lake) is None else _LOCAL_LOOKS_S
        self._looked_at: float | None = None
        self._beginning: StreamOffset | None = None
        self._position: StreamOffset | None = None

    def find_beginning(self) -> StreamOffset:
        """Return the offset before the first batch: never another one for a checkpoint.

        Where a batch was planned, that one's offset has the first LSN of each instance. Raises `LsnOutOfRange`,
        `TimeOutOfRange` too.
        """
        if self._beginning is None:
            self._beginning = self._begin() if self._position is None else replace(self._position, lsn=None)
        return self._beginning

    def find_latest(self) -> StreamOffset:
        """Return the offset that the next batch ends with; that of the last one if there is nothing new."""
        position = self._position or self.find_beginning()
        self._pause()
        published = read_visible_publication(self._lake.lake)
        if published is None:
            raise LakeUnknown(self._lake.lake)
        high = min((lsn for lsn in (published.lsn, self._options.end) if isinstance(lsn, CommitLsn)), default=None)
        if high is None or high <= position.read_to:
            self._require_reached(position, published)
            return position
        _, recorded = self._lake.get_published_instances()
        following = self._carry_on(position, recorded)
        _require_followed(recorded, position, following)
        require_columns(self._columns, find_shape(recorded, self._options).columns)
        # Offsets end between transactions, so that a batch never has half of one.
        high = self._cap(published, position.read_to, high)
        bounds = share(recorded, _find_begins(position, following), high)
        return replace(following, lsn=_stop_before_missing(recorded, bounds, position.read_to, high))

    def plan(self, start: StreamOffset, end: StreamOffset) -> Planned | None:
        """Return a batch, which is the same each time; None if it is empty. Raises `StreamAhead` if it goes back."""
        if end.lsn is None or start == end:
            self._position = end
            return None
        if start.lsn is not None and end.lsn < start.lsn:
            raise errors.StreamAhead(str(start.lsn), self._lake.lake, str(end.lsn))
        # After a restart from its checkpoint Spark plans a batch again, and expects the same rows: `end` cuts off
        # whatever was published since.
        self._position = end
        _, recorded = self._lake.get_published_instances()
        shape = find_shape(recorded, self._options)
        require_columns(self._columns, shape.columns)
        following = self._carry_on(end, recorded)
        _require_followed(recorded, replace(end, lsn=start.lsn), following)
        bounds = share(recorded, _find_begins(start, following), end.lsn)
        slices = open_slices(self._lake, recorded, bounds, self._options.operations, _require_whole)
        return Planned(shape, cut(slices))

    def _begin(self) -> StreamOffset:
        published, recorded = self._lake.get_published_instances()
        names = order_instances(recorded, self._options.instances)
        begins = {name: self._find_begin(published, recorded[name]) for name in names}
        members = {name: recorded[name].instance.member_id for name in names}
        return StreamOffset(None, {name: StreamedInstance(members[name], begins[name]) for name in names})

    def _find_begin(self, published: LakePublication, found: RecordedInstance) -> CommitLsn:
        start, high = self._options.start, published.lsn or found.lsn
        if start == LATEST:
            return max(high.increment(), found.lsn)
        if isinstance(start, datetime):
            start, _ = LsnTimes(self._lake.lake).find_window(found.instance.capture_instance, start, None)
        return find_begin(found, start, high)

    def _pause(self) -> None:
        if self._looked_at is not None:
            time.sleep(max(0.0, self._looked_at + self._looks_s - time.monotonic()))
        self._looked_at = time.monotonic()

    def _require_reached(self, position: StreamOffset, visible: LakePublication) -> None:
        """Raise `StreamAhead` if the lake ends before what was read."""
        if position.lsn is None or _reaches(visible, position.lsn):
            return
        # The end may be invisible for a moment, because of another host's clock.
        published = read_publication(self._lake.lake)
        if published is None or not _reaches(published, position.lsn):
            high = published.lsn if published is not None else None
            raise errors.StreamAhead(str(position.lsn), self._lake.lake, str(high) if high is not None else "no LSN")

    def _carry_on(self, position: StreamOffset, recorded: Recorded) -> StreamOffset:
        """Return the offset with the instances that are asked for now; an added one begins behind the offset."""
        following = {}
        for name in [
            *(name for name in position.instances if name in self._options.instances),
            *(name for name in self._options.instances if name not in position.instances),
        ]:
            found, known = require_enabled(recorded, name), position.instances.get(name)
            if known is None:
                begin = max(position.read_to.increment(), found.lsn)
                known = StreamedInstance(found.instance.member_id, begin)
            elif known.member_id != found.instance.member_id:
                raise errors.StreamedInstanceReplaced(name, str(position.read_to), str(found.lsn))
            following[name] = known
        return replace(position, instances=following)

    def _cap(self, published: LakePublication, read_to: CommitLsn, high: CommitLsn) -> CommitLsn:
        """Return the LSN that leaves at most as many transactions as a batch may have."""
        left = self._options.max_transactions
        if left is None:
            return high
        for part in read_transactions(self._lake.lake, published.cycle, read_to.increment(), high):
            if len(part.lsns) >= left:
                return CommitLsn(int(part.lsns[left - 1]))
            left -= len(part.lsns)
        return high


def _reaches(published: LakePublication, lsn: CommitLsn) -> bool:
    return published.lsn is not None and published.lsn >= lsn


def _require_followed(recorded: Recorded, position: StreamOffset, following: StreamOffset) -> None:
    """Raise `StreamedInstanceNeeded` if changes of a table come from an instance that was omitted."""
    gone = [name for name in position.instances if name not in following.instances and name in recorded]
    tables = {recorded[name].instance.source_id: name for name in gone}
    for name, one in following.instances.items():
        left = tables.get(recorded[name].instance.source_id)
        if left is not None and one.begin > position.read_to.increment():
            at, begin, before = str(position.read_to), str(one.begin), str(one.begin.decrement())
            raise errors.StreamedInstanceNeeded(left, at, name, begin, before)


def _find_begins(after: StreamOffset, following: StreamOffset) -> dict[str, CommitLsn]:
    """Return the first LSN of each instance in the batch that resumes after an offset."""
    if after.lsn is None:
        return {name: one.begin for name, one in following.instances.items()}
    following_lsn = after.lsn.increment()
    return {name: max(following_lsn, one.begin) for name, one in following.instances.items()}


def _stop_before_missing(recorded: Recorded, bounds: Bounds, read_to: CommitLsn, high: CommitLsn) -> CommitLsn:
    """Return the LSN before the first transaction that an instance lacks. Raises `StreamedTransactionMissing`."""
    lacks = [
        (missing.lsn, name, missing.note or "")
        for name, (low, last) in bounds.items()
        for missing in recorded[name].missing
        if low <= missing.lsn <= last
    ]
    if not lacks:
        return high
    first, name, note = min(lacks)
    if first.decrement() <= read_to:
        raise errors.StreamedTransactionMissing(str(first), name, note, str(first.increment()))
    return first.decrement()


def _require_whole(found: RecordedInstance, low: CommitLsn, high: CommitLsn) -> None:
    """Raise unless an instance has all changes in [low, high]."""
    name = found.instance.capture_instance
    if low < found.lsn:
        reason = found.note or "its earlier changes were removed"
        raise errors.StreamOvertaken(str(low), name, str(found.lsn), reason, str(found.lsn.decrement()))
    for missing in found.missing:
        if low <= missing.lsn <= high:
            raise errors.StreamedTransactionMissing(
                str(missing.lsn), name, missing.note or "", str(missing.lsn.increment())
            )


class ChangeBatch:
    """What one batch reads of a lake; `high` is where it ends, unless its options say it."""

    def __init__(self, options: SourceOptions, high: CommitLsn | None) -> None:
        self._options, self._high = options, high
        self._lake = PublishedLake(options.lake)

    def find_columns(self) -> Columns:
        """Return the columns of the rows."""
        _, recorded = self._lake.get_published_instances()
        if not self._options.is_net:
            return find_shape(recorded, self._options).columns
        instance = require_enabled(recorded, self._options.instances[0]).instance.for_readers()
        require_net_changes(instance)
        return net_columns(instance)

    def plan(self, columns: Columns) -> Planned:
        """Return all changes, which have to have these columns. Raises `StreamColumnsChanged` too."""
        _, recorded = self._lake.get_published_instances()
        shape = find_shape(recorded, self._options)
        require_columns(columns, shape.columns)
        slices = [
            FileSelection(
                window.instance, window.table, ChangeTablePart(window.low, window.high, self._options.operations)
            )
            for window in self._open(recorded)
        ]
        return Planned(shape, cut(slices))

    def plan_net(self, columns: Columns) -> NetChanges | None:
        """Return net changes, which have to have these columns; None if there are none. Raises as `plan`."""
        require_columns(columns, self.find_columns())
        _, recorded = self._lake.get_published_instances()
        windows = self._open(recorded)
        if not windows:
            return None
        require_net_changes(windows[0].instance, windows[0].high)
        moved = find_moved(self._lake.lake, windows[0])
        return NetChanges(windows[0], self._options.row_filter_option, moved)

    def _open(self, recorded: Recorded) -> list[InstanceWindow[ChangeTable]]:
        begins, end = {}, self._high
        for name in order_instances(recorded, self._options.instances):
            begins[name], end = self._find_ends(recorded[name])
        assert end is not None
        bounds = share(recorded, begins, end)
        if not bounds and (self._options.start, self._options.end) != (None, None):
            # The oldest refuses it, unless it is the window that comes next.
            bounds = {name: (begin, end) for name, begin in list(begins.items())[:1]}
        return [
            open_window(self._lake, RequestedRange(name, *ends), open_change_table) for name, ends in bounds.items()
        ]

    def _find_ends(self, found: RecordedInstance) -> tuple[CommitLsn, CommitLsn]:
        start, end = self._options.start, self._options.end
        assert start is None or isinstance(start, (CommitLsn, datetime)), "batches have no start that moves"
        first, last = LsnTimes(self._options.lake).find_window(found.instance.capture_instance, start, end)
        high = last or self._high or found.lsn
        return find_begin(found, first, high), high
