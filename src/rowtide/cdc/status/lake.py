"""What the lake says of its instances: copies that are outdated, keys that are lost, rows that cannot be removed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from rowtide.cdc.ddl.history import ListedChange, read_histories
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import (
    DISABLED,
    ENABLED,
    LakePublication,
    RecordedInstance,
    base_table_path,
    change_table_path,
    read_instances,
    read_visible_publication,
    system_table_path,
)
from rowtide.cdc.recorded_snapshots import SnapshotState, read_snapshots
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed, TableUnreadable
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.stores import locate

_READ = ("lsn_time_mapping", "instances", "ddl_history")
"""The tables that every lake has from its first cycle on, and that are read here."""


@frozen
class RowsLeft:
    """A table of a disabled instance that cannot be read, so that its rows cannot be removed."""

    capture_instance: str
    error: RowtideError


class LakeStatus:
    """What a lake's tables say, each read once; every method raises `LakeReadFailed` and `TableUnreadable`."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def require_tables(self) -> None:
        """Raise `LakeReadFailed` if a table is gone that a lake has in which cycles were published."""
        for path in (system_table_path(self._lake, name) for name in _READ):
            if SmallTable.open(path) is None:
                raise LakeReadFailed(path, "it is not there")

    def find_outdated(self) -> tuple[ListedChange, ...]:
        """Return the last statement that left no change rows of what it changed, of each instance copied before it.

        An instance that is copied again meanwhile is omitted.
        """
        return tuple(self._find_outdated())

    def find_lost_keys(self) -> tuple[Instance, ...]:
        """Return the instances whose keys no longer identify rows."""
        return tuple(
            one.instance for one in self._recorded if one.state == ENABLED and one.instance.key_lost_at is not None
        )

    def find_rows_left(self) -> tuple[RowsLeft, ...]:
        """Return the damaged tables of disabled instances."""
        return tuple(self._find_rows_left())

    def list_enabled(self) -> tuple[RecordedInstance, ...]:
        """Return the enabled instances that capture has read."""
        return tuple(one for one in self._recorded if one.state == ENABLED)

    @cached_property
    def publication(self) -> LakePublication | None:
        """The last publication that readers may see, None before the first."""
        return read_visible_publication(self._lake)

    @cached_property
    def _recorded(self) -> tuple[RecordedInstance, ...]:
        publication = self.publication
        return tuple(read_instances(self._lake, publication.cycle).values()) if publication is not None else ()

    def _find_rows_left(self) -> Iterator[RowsLeft]:
        for recorded in self._recorded:
            name = recorded.instance.capture_instance
            for path in (change_table_path(self._lake, name), base_table_path(self._lake, name)):
                if recorded.state == DISABLED:
                    try:
                        open_snapshot(locate(path))
                    except (LakeReadFailed, TableUnreadable) as error:
                        yield RowsLeft(name, error)

    def _find_outdated(self) -> Iterator[ListedChange]:
        if self.publication is None:
            return
        histories, snapshots = read_histories(self._lake, self.publication.cycle), read_snapshots(self._lake)
        for recorded in self._recorded:
            member_id = recorded.instance.member_id
            rewrites = [change for change in histories.get(member_id, ()) if change.rewrites_values]
            copies = [
                copy.begin
                for copy in snapshots.get(member_id, ())
                if copy.is_whole and copy.state is not SnapshotState.CANCELLED
            ]
            if recorded.state == ENABLED and rewrites and copies and max(copies) < rewrites[-1].ddl_lsn:
                yield rewrites[-1]
