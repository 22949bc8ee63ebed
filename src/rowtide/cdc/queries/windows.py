"""What a lake publishes, without its change rows, and windows of changes in it.

Neither Spark nor a database connection is needed. Every reader opens its windows here: the last publication is read
first, then the table's version, then the low endpoint. So no published row is missing, and no row that a cleanup
removed lies above the low endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from rowtide.cdc.errors import querying as errors
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import (
    ENABLED,
    LakePublication,
    ListedChange,
    RecordedInstance,
    change_table_path,
    read_history,
    read_instances,
    read_visible_publication,
)
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate


@frozen
class ValidityInterval:
    """The LSNs that may be queried of an instance, both inclusive."""

    low: CommitLsn
    high: CommitLsn


class PublishedLake:
    """The system tables of one lake, as readers see them. Calls raise `LakeUnknown`, `LakeReadFailed`."""

    def __init__(self, lake: str) -> None:
        self.lake = lake

    def get_max_lsn(self) -> CommitLsn | None:
        """Return the last published LSN, None before the first (SQL Server: fn_cdc_get_max_lsn)."""
        return self._published().lsn

    def get_min_lsn(self, capture_instance: str) -> CommitLsn:
        """Return an instance's low endpoint (SQL Server: fn_cdc_get_min_lsn). Raises `InstanceUnknown`."""
        return self.get_recorded_instance(capture_instance).lsn

    def list_recorded_instances(self) -> tuple[RecordedInstance, ...]:
        """Return the enabled instances that capture has read, by name."""
        enabled = (recorded for recorded in self.get_published_instances()[1].values() if recorded.state == ENABLED)
        return tuple(sorted(enabled, key=lambda recorded: recorded.instance.capture_instance))

    def get_published_instances(self) -> tuple[LakePublication, Mapping[str, RecordedInstance]]:
        """Return the last publication, and all instances as of it, by name."""
        published = self._published()
        return published, read_instances(self.lake, published.cycle)

    def get_ddl_history(self, capture_instance: str) -> tuple[ListedChange, ...]:
        """Return the DDL on an instance's table since it was enabled, in log order. Raises `InstanceUnknown`."""
        member_id = self.get_recorded_instance(capture_instance).instance.member_id
        return read_history(self.lake, member_id, self._published().cycle)

    def get_recorded_instance(self, capture_instance: str) -> RecordedInstance:
        """Return one instance. Raises `InstanceUnknown`."""
        return self.read_instance_and_high(capture_instance)[0]

    def get_validity_interval(self, capture_instance: str) -> ValidityInterval:
        """Return the interval that may be queried. Raises `InstanceUnknown`."""
        recorded, high = self.read_instance_and_high(capture_instance)
        return ValidityInterval(recorded.lsn, high)

    def read_instance_and_high(self, capture_instance: str) -> tuple[RecordedInstance, CommitLsn]:
        """Return an instance and the last published LSN, both of one publication."""
        published, instances = self.get_published_instances()
        recorded = instances.get(capture_instance)
        if recorded is None or recorded.state != ENABLED:
            raise errors.InstanceUnknown(capture_instance)
        return recorded, published.lsn if published.lsn is not None else recorded.lsn

    def _published(self) -> LakePublication:
        published = read_visible_publication(self.lake)
        if published is None:
            raise LakeUnknown(self.lake)
        return published


Table = TypeVar("Table")


@frozen
class InstanceWindow(Generic[Table]):
    """The rows of a version of an instance's change table in [low, high]."""

    instance: Instance
    table: Table
    low: CommitLsn
    high: CommitLsn


@frozen
class RequestedRange:
    """A range of an instance's changes as a reader asks for it; None: the validity interval's own end."""

    capture_instance: str
    from_lsn: CommitLsn | None = None
    to_lsn: CommitLsn | None = None


def open_window(
    lake: PublishedLake, asked: RequestedRange, open_table: Callable[[str, Instance], Table | None]
) -> InstanceWindow[Table]:
    """Return the window that is asked for.

    `open_table` returns the current version of an instance's table at a path, its columns under the readers' names, or
    None where it has not the instance's identity. Raises `InstanceUnknown`, `LsnOutOfRange`, `RangeOverGap`,
    `LakeReadFailed`.
    """
    name = asked.capture_instance
    # The end is read before the table, so that any later version has all rows up to it.
    known, high = lake.read_instance_and_high(name)
    table = open_table(change_table_path(lake.lake, name), known.instance)
    # The low endpoint is read again after the table: cleanup moves it before it deletes, so rows that this version
    # lacks are below it.
    recorded, _ = lake.read_instance_and_high(name)
    if table is None or recorded.instance.member_id != known.instance.member_id:
        require_table(change_table_path(lake.lake, name))
        # Disabled since it was read.
        raise errors.InstanceUnknown(name)
    return InstanceWindow(recorded.instance.for_readers(), table, *_require_valid(recorded, asked, high))


def require_table(path: str) -> None:
    """Raise `LakeReadFailed` if a table of the lake is lost; that of a disabled instance remains, empty."""
    if open_snapshot(locate(path)) is None:
        raise LakeReadFailed(path, "there is no table")


def choose_option(option: str, options: Iterable[str]) -> str:
    """Return a row filter option as it is documented. Raises `UnknownRowFilter`."""
    chosen = option.strip().lower()
    if chosen not in options:
        raise errors.UnknownRowFilter(option, ", ".join(options))
    return chosen


def require_net_changes(instance: Instance, at: CommitLsn | None = None) -> None:
    """Raise `NetChangesUnsupported` unless an instance supports net changes, and `KeyLost` if not up to an LSN."""
    if not instance.supports_net_changes:
        table = f"{instance.source_schema}.{instance.source_table}"
        raise errors.NetChangesUnsupported(instance.capture_instance, table)
    if at is not None:
        require_key(instance, at)


def require_key(instance: Instance, at: CommitLsn) -> None:
    """Raise `KeyLost` if rows may be alike in an instance's key as of an LSN."""
    if instance.key_lost_at is not None and instance.key_lost_at <= at.value:
        lost_at = CommitLsn(instance.key_lost_at)
        names = ", ".join(column.name for column in instance.index_columns)
        table = f"{instance.source_schema}.{instance.source_table}"
        raise errors.KeyLost(instance.capture_instance, names, str(lost_at), table, str(lost_at.decrement()))


def _require_valid(recorded: RecordedInstance, asked: RequestedRange, high: CommitLsn) -> tuple[CommitLsn, CommitLsn]:
    """Return the bounds, or raise `LsnOutOfRange` naming the valid interval."""
    from_lsn, to_lsn = asked.from_lsn or recorded.lsn, asked.to_lsn or high
    # The window after the last LSN is empty, and no error, because readers that wait for changes request it constantly.
    is_next_window = from_lsn == high.increment() and asked.to_lsn in (None, high, from_lsn)
    if is_next_window:
        return from_lsn, high
    if recorded.lsn <= from_lsn <= to_lsn <= high:
        _require_whole(recorded, from_lsn, to_lsn)
        return from_lsn, to_lsn
    raise errors.LsnOutOfRange(
        instance=recorded.instance.capture_instance,
        from_lsn=str(from_lsn),
        to_lsn=str(to_lsn),
        low=str(recorded.lsn),
        high=str(high),
        gap=f" Below it, {recorded.note}." if recorded.note else "",
    )


def _require_whole(recorded: RecordedInstance, from_lsn: CommitLsn, to_lsn: CommitLsn) -> None:
    """Raise `RangeOverGap` if the changes of a transaction in [from, to] are missing."""
    for missing in recorded.missing:
        if from_lsn <= missing.lsn <= to_lsn:
            raise errors.RangeOverGap(
                instance=recorded.instance.capture_instance,
                from_lsn=str(from_lsn),
                to_lsn=str(to_lsn),
                missing=str(missing.lsn),
                note=missing.note or "",
                before=str(missing.lsn.decrement()),
                after=str(missing.lsn.increment()),
            )
