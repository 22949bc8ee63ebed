"""Changes of a lake as Arrow, by the rules of `rowtide.cdc.queries`, without Spark and without a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rowtide.cdc.definitions import Instance
from rowtide.cdc.lake_readers.change_tables import ChangeTable, Part, open_change_table
from rowtide.cdc.lake_readers.net_changes import NetChanges
from rowtide.cdc.lake_readers.table_changes import as_united, united_schema
from rowtide.cdc.queries.net_changes import NET_ROW_FILTERS
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.cdc.queries.table_changes import share_out, unite
from rowtide.cdc.queries.windows import Asked, choose_option, open_window, require_net_changes
from rowtide.cdc.rows.expressions import ROW_FILTERS, change_columns
from rowtide.core.lsn import CommitLsn


@dataclass(frozen=True)
class FoundChanges:
    """Change rows in order: their schema, the instance whose columns they have, and the rows, read once."""

    schema: pa.Schema
    instance: Instance
    batches: Iterator[pa.RecordBatch]

    def as_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of Arrow."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches)


class LakeChanges(PublishedLake):
    """The change tables of one lake, read without Spark."""

    def get_all_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
    ) -> FoundChanges:
        """Return every change in [from, to], as `Changes.get_all_changes`, in its order."""
        operations = ROW_FILTERS[choose_option(row_filter_option, ROW_FILTERS)]
        window = open_window(self, Asked(capture_instance, from_lsn, to_lsn), open_change_table)
        return _all_changes(window.instance, window.table, Part(window.low, window.high, operations))

    def get_net_changes(
        self,
        capture_instance: str,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
    ) -> FoundChanges:
        """Return one change for each key that changed in [from, to], as `Changes.get_net_changes`.

        In the order of each key's last change. Raises `NetChangesUnsupported` too; reading the rows raises
        `QueryFailed`.
        """
        option = choose_option(row_filter_option, NET_ROW_FILTERS)
        window = open_window(self, Asked(capture_instance, from_lsn, to_lsn), open_change_table)
        require_net_changes(window.instance)
        net = NetChanges(window, option)
        return FoundChanges(net.schema, window.instance, net.read())

    def get_table_changes(
        self,
        instances: Sequence[str],
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
        row_filter_option: str = "all",
    ) -> FoundChanges:
        """Return every change of a table in [from, to] over its instances, named oldest first.

        As `Changes.get_table_changes`, with the columns of the instance that comes with it.
        """
        recorded = [self.get_recorded_instance(name) for name in instances]
        united = unite([one.instance for one in recorded])
        lows = [(one.instance.capture_instance, one.lsn) for one in recorded]
        parts = [
            self.get_all_changes(share.capture_instance, share.from_lsn, share.to_lsn, row_filter_option)
            for share in share_out(lows, from_lsn, to_lsn)
        ]
        # The shares follow one another.
        rows = (as_united(batch, part.instance, united) for part in parts for batch in part.batches)
        return FoundChanges(united_schema(united), united, rows)


def _all_changes(instance: Instance, table: ChangeTable, part: Part) -> FoundChanges:
    columns = [column.name for column in change_columns(instance) if column.name != "__$end_lsn"]
    return FoundChanges(table.schema(columns), instance, table.stream(part, columns))
