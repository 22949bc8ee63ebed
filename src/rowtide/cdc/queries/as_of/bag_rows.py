"""Rows of a table without a key as of an LSN, as a DataFrame: whole rows, as often as they were added, not removed.

Above a snapshot of such a table, the transactions count that the snapshot does not see.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from rowtide.cdc.change_columns import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    column_type,
)
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.cdc.queries.as_of.opening import AsOf, as_of_columns
from rowtide.cdc.queries.as_of.rows import behind_truncate, upper_parts, without_truncated
from rowtide.copying.chunks import parse_snapshot
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.sql_text import quote, select_from
from rowtide.lake.tables import LakeTableVersion

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from rowtide.cdc.recorded_snapshots import RecordedSnapshot


_LSN, _OPERATION = "__$start_lsn", "__$operation"
_COLUMNS = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_id")


@frozen
class Counted:
    """The LSNs that count: those above one, and a few others below it."""

    above: int
    others: tuple[int, ...] = ()

    def find_counted(self, lsns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which LSNs count."""
        counts: npt.NDArray[np.bool_] = (lsns > self.above) | np.isin(lsns, self.others)
        return counts

    def condition(self, lsn: str) -> str:
        """Return the condition, in SQL, that an LSN counts."""
        others = f" or {lsn} in ({', '.join(map(str, self.others))})" if self.others else ""
        return f"({lsn} > {self.above}{others})"


def find_counted(lake: str, snapshot: RecordedSnapshot) -> Counted:
    """Return what counts above a complete snapshot. Raises `LakeReadFailed`."""
    begin, covered = snapshot.begin.value, snapshot.covered
    table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
    if table is None or covered is None or snapshot.definition.visible is None:
        return Counted(begin)
    seen_by = parse_snapshot(snapshot.definition.visible)
    above, unseen = begin, np.empty(0, np.int64)
    for rows in table.stream(_COLUMNS, Between("start_lsn", begin + 1, covered.value)):
        published = rows.filter(rows["start_lsn"].is_valid())
        lsns, xids = (published[name].to_numpy() for name in ("start_lsn", "tran_id"))
        is_there = (lsns > begin) & (lsns <= covered.value)
        is_seen = is_there & seen_by.sees(xids)
        above = int(max(lsns[is_seen].max(initial=above), above))
        unseen = np.concatenate([unseen, lsns[is_there & ~is_seen]])
    return Counted(above, tuple(sorted(int(lsn) for lsn in unseen if lsn < above)))


_WEIGHT = "__$weight"


def bag_as_of(as_of: AsOf[LakeTableVersion], counted: Counted) -> DataFrame:
    """Return the rows, unordered: the captured columns, `__$absent_mask`, `__$exact`."""
    columns = [quote(name) for name in as_of_columns(as_of.instance)]
    lowest = as_of.base.rows.where(f"`{_LSN}` = {as_of.lowest.value}")
    parts = list(upper_parts(as_of))
    if not parts:
        return lowest.selectExpr(*columns)
    upper = reduce(lambda one, other: one.unionAll(other), (part.rows for part in parts))
    # Everything in the base counts: cleanup selected it.
    upper = upper.where(f"`{_LSN}` < {as_of.first_change.value} or {counted.condition(quote(_LSN))}")
    if any(part.may_have(Between(_OPERATION, low=TRUNCATE)) for part in parts):
        lowest = without_truncated(lowest, upper)
        upper = select_from(upper, behind_truncate)
    added = f"if(`{_OPERATION}` in ({INSERT}, {UPDATE_AFTER}), 1L, -1L) as `{_WEIGHT}`"
    changed = upper.where(f"`{_OPERATION}` in ({DELETE}, {INSERT}, {UPDATE_BEFORE}, {UPDATE_AFTER})")
    weighted = lowest.selectExpr(*columns, f"1L as `{_WEIGHT}`").unionAll(changed.selectExpr(*columns, added))
    return select_from(weighted, lambda rows: _summed_up(rows, as_of.instance, columns))


def _summed_up(rows: str, instance: Instance, columns: list[str]) -> str:
    """Return the query for each row as often as its weights amount to."""
    shown = ", ".join(f"any_value({column}) as {column}" for column in columns)
    summed = f"select {shown}, sum(`{_WEIGHT}`) as `{_WEIGHT}` from {rows} group by {', '.join(_identity(instance))}"
    repeated = f"select explode(sequence(1, `{_WEIGHT}`)) as `__$copy`, * from ({summed}) where `{_WEIGHT}` > 0"
    return f"select {', '.join(columns)} from ({repeated})"


def _identity(instance: Instance) -> Iterator[str]:
    """Return what makes rows equal: -0.0 is not 0.0, and maps cannot be grouped by."""
    for column in instance.columns:
        name = quote(column.lake_name)
        yield f"cast({name} as string)" if column_type(instance, column).name in ("float", "double") else name
    yield "`__$absent_mask`"
    yield "map_entries(`__$exact`)"
