"""Which LSNs are read of each instance, and the change tables' versions that have them.

Offsets of streams, as Spark keeps them in checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange, StreamOffsetUnknown
from rowtide.cdc.lake_readers.change_tables import ChangeTable, ChangeTablePart, open_change_table
from rowtide.cdc.published import ENABLED, RecordedInstance, change_table_path
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.spark_source.options import FileSelection, SourceOptions, SourceShape, choose_shape
from rowtide.core.errors import InvalidLsn
from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen

Recorded = Mapping[str, RecordedInstance]
Bounds = Mapping[str, tuple[CommitLsn, CommitLsn]]
"""First and last LSN by instance; none is beyond the other."""


def require_enabled(recorded: Recorded, name: str) -> RecordedInstance:
    """Return an instance. Raises `InstanceUnknown`."""
    found = recorded.get(name)
    if found is None or found.state != ENABLED:
        raise InstanceUnknown(name)
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
        raise LsnOutOfRange(
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
            raise InstanceUnknown(name)
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
            raise StreamOffsetUnknown(str(found))
        stored = StoredFormat.parse(recorded) if recorded is not None else None
        STREAM_OFFSET.require_writable(_PLACE, stored)
        if stored == STREAM_OFFSET.recorded and found.keys() != _KEYS:
            raise StreamOffsetUnknown(str(found))
        lsn = found["lsn"]
        instances = {
            name: StreamedInstance(str(one["member"]), CommitLsn(one["begin"]))
            for name, one in found["instances"].items()
        }
        if not instances:
            raise StreamOffsetUnknown(str(found))
        return StreamOffset(CommitLsn(lsn) if lsn is not None else None, instances)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidLsn) as error:
        raise StreamOffsetUnknown(str(found)) from error
