"""A batch of published changes: a window of each instance. Without Spark.

Calls raise as `Lake.get_all_changes` and `Lake.get_net_changes`.
"""

from __future__ import annotations

from datetime import datetime

from rowtide.cdc.lake_readers.as_of.moved_rows import find_moved
from rowtide.cdc.lake_readers.change_tables import ChangeTable, Part, open_change_table
from rowtide.cdc.lake_readers.net_changes import NetChanges
from rowtide.cdc.published import RecordedInstance
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.net_changes import net_columns
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.cdc.queries.windows import Asked, Window, open_window, require_net_changes
from rowtide.cdc.spark_source.options import SourceOptions
from rowtide.cdc.spark_source.shapes import Columns, require_columns
from rowtide.cdc.spark_source.slices import Planned, Slice, cut
from rowtide.cdc.spark_source.windows import Recorded, find_begin, find_shape, order_instances, require_enabled, share
from rowtide.core.lsn import CommitLsn


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
            Slice(window.instance, window.table, Part(window.low, window.high, self._options.operations))
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

    def _open(self, recorded: Recorded) -> list[Window[ChangeTable]]:
        begins, end = {}, self._high
        for name in order_instances(recorded, self._options.instances):
            begins[name], end = self._find_ends(recorded[name])
        assert end is not None
        bounds = share(recorded, begins, end)
        if not bounds and (self._options.start, self._options.end) != (None, None):
            # The oldest refuses it, unless it is the window that comes next.
            bounds = {name: (begin, end) for name, begin in list(begins.items())[:1]}
        return [open_window(self._lake, Asked(name, *ends), open_change_table) for name, ends in bounds.items()]

    def _find_ends(self, found: RecordedInstance) -> tuple[CommitLsn, CommitLsn]:
        start, end = self._options.start, self._options.end
        assert start is None or isinstance(start, (CommitLsn, datetime)), "batches have no start that moves"
        first, last = LsnTimes(self._options.lake).find_window(found.instance.capture_instance, start, end)
        high = last or self._high or found.lsn
        return find_begin(found, first, high), high
