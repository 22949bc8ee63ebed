"""The keeper of histories (SCD type 2): applies changes and copies to a table of slices, with Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rowtide.cdc.change_columns import INSERT, TRUNCATE
from rowtide.cdc.published import system_table_path
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.lake.sql_text import quote, select_from
from rowtide.lake.tables import read_table
from rowtide.targets import statements
from rowtide.targets.columns import TargetColumns
from rowtide.targets.errors import TargetValueUnknown
from rowtide.targets.keepers import (
    Copy,
    TargetWindow,
    range_columns,
    ranges,
    require_fit,
    require_partitions_fit,
    time_literal,
)
from rowtide.targets.options import Truncation
from rowtide.targets.table_format import FoundTable, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_CHANGE_COLUMNS = ("__$start_lsn", "__$seqval", "__$operation")

FindTime = Callable[[CommitLsn], datetime | None]
"""Returns the time at which the transaction of an LSN ended."""


class HistoryRows:
    """A table of slices, and the changes that are applied to it."""

    own_columns: Sequence[tuple[str, str]] = statements.HISTORY_COLUMNS

    def __init__(
        self,
        target: str,
        table: TargetTable,
        shape: TargetColumns,
        truncation: Truncation,
        lake: str,
        find_time: FindTime,
    ) -> None:
        self._target = target
        self._table = table
        self._shape = shape
        self._truncation = truncation
        self._lake = lake
        self._find_time = find_time

    def follow(self, changes: Changes, window: TargetWindow, found: FoundTable) -> None:
        """Close, alter and open slices for a window of changes."""
        name = window.instance.capture_instance
        every = changes.get_all_changes(name, window.start, window.end, "all update old")
        if window.may_have_misfits:
            require_fit(every, window.instance, self._target)
        truncates = self._list_truncates(every, window)
        rows = select_from(
            every.where(f"`__$operation` != {TRUNCATE}"),
            lambda view: statements.select_rows(
                view, self._shape, window.instance, _CHANGE_COLUMNS, may_lack=window.may_lack, are_changes=True
            ),
        )
        if window.may_lack:
            moved = f"`__$operation` = {INSERT} and {statements.lacks_any(self._shape, may_lack=True)}"
            if not rows.where(moved).isEmpty():
                raise TargetValueUnknown(name, self._target)
            rows = rows.unionByName(self._open_slices_of(rows, found))
        actions = select_from(
            rows, lambda view: statements.change_actions(view, self._shape, truncates, may_lack=window.may_lack)
        )
        self._carry_out(actions, (window.start, window.end), found, truncates)

    def match(self, copy: Copy, found: FoundTable) -> None:
        """At the copy's LSN, close slices whose rows differ from the copy's, and open slices for the copy's rows."""
        require_fit(copy.rows, copy.instance, self._target)
        rows = select_from(
            copy.rows,
            lambda view: statements.select_rows(view, self._shape, copy.instance, may_lack=False, are_changes=False),
        )
        require_partitions_fit(rows.where(f"not `{statements.IS_DELETED}`"), self._shape, self._table.location)
        if not found.files:
            time = time_literal(copy.time)

            def insert() -> None:
                select_from(
                    rows,
                    lambda view: statements.insert_slices_statement(
                        self._table.sql_name, view, self._shape, copy.lsn.value, time
                    ),
                )

            self._table.commit(copy.lsn, insert)
            return
        open_slices = self._table.read(found.version).where(statements.open_condition(self._shape))
        actions = select_from(
            rows, lambda view, slices: statements.copy_actions(view, slices, self._shape, copy.lsn.value), open_slices
        )
        self._carry_out(actions, (copy.lsn, copy.lsn), found, (), time=copy.time)

    def _carry_out(
        self,
        actions: DataFrame,
        lsns: tuple[CommitLsn, CommitLsn],
        found: FoundTable,
        truncates: Sequence[statements.Truncated],
        time: datetime | None = None,
    ) -> None:
        times = self._times(actions, lsns) if time is None else _one_time(actions, lsns[1], time)
        dated = select_from(actions, statements.date_actions, times)
        dated.persist()
        try:
            wanted = ["count(*) as rows", *(range_columns(self._shape) if found.files > 1 and not truncates else [])]
            facts = dated.selectExpr(*wanted).first()
            assert facts is not None
            require_partitions_fit(
                dated.where(f"`{statements.OPENS}` or `{statements.ALTERS}`"), self._shape, self._table.location
            )
            merged = statements.SlicesMerged(tuple(ranges(self._shape, facts.asDict())), self._first(truncates))
            self._table.commit(lsns[1], lambda: self._merge(dated, merged))
        finally:
            dated.unpersist()

    def _merge(self, actions: DataFrame, merged: statements.SlicesMerged) -> None:
        select_from(actions, lambda view: statements.slices_statement(self._table.sql_name, view, self._shape, merged))

    def _first(self, truncates: Sequence[statements.Truncated]) -> tuple[str, str] | None:
        if not truncates:
            return None
        lsn = truncates[0].lsn
        return f"{lsn}L", time_literal(self._find_time(CommitLsn(lsn)))

    def _times(self, rows: DataFrame, lsns: tuple[CommitLsn, CommitLsn]) -> DataFrame:
        """Return the transactions of a window, and when they ended."""
        mapping = read_table(rows.sparkSession, system_table_path(self._lake, "lsn_time_mapping"))
        start, end = lsns
        inside = mapping.where(f"start_lsn between {start.value} and {end.value}")
        return inside.selectExpr("start_lsn as lsn", "tran_end_time as time")

    def _list_truncates(self, every: DataFrame, window: TargetWindow) -> tuple[statements.Truncated, ...]:
        """Return the transactions that truncated the table, in order; none if truncates are not applied."""
        if not window.may_truncate or self._truncation is Truncation.KEEP:
            return ()
        found = (
            every.where(f"`__$operation` = {TRUNCATE}")
            .selectExpr("`__$start_lsn` as lsn", "`__$seqval` as seqval")
            .groupBy("lsn")
            .agg({"seqval": "max"})
            .collect()
        )
        return tuple(statements.Truncated(lsn, seqval) for lsn, seqval in sorted(tuple(row) for row in found))

    def _open_slices_of(self, rows: DataFrame, found: FoundTable) -> DataFrame:
        """Return the open slices of the keys of some change rows, as if they had begun before the window."""
        names = [key.name for key in self._shape.keys]
        changed = rows.select(*map(quote, names)).distinct()
        slices = (
            self._table.read(found.version)
            .where(statements.open_condition(self._shape))
            .join(changed, names, "left_semi")
        )
        selected = [f"{statements.BEFORE_ALL}L as `__$start_lsn`", "0L as `__$seqval`", f"{INSERT} as `__$operation`"]
        selected.append(f"false as `{statements.IS_DELETED}`")
        for place, column in enumerate(self._shape.columns):
            selected.append(quote(column.name))
            if not column.is_key:
                selected.append(f"false as {statements.absent(place)}")
        return slices.selectExpr(*selected)


def _one_time(rows: DataFrame, lsn: CommitLsn, time: datetime) -> DataFrame:
    return rows.sparkSession.sql(f"select {lsn.value}L as lsn, {time_literal(time)} as time")
