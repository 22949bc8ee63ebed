"""Rows of a table with a key as of an LSN, as a DataFrame: last rows, and the lowest layer without their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.as_of import AsOf, as_of_columns
from rowtide.cdc.queries.completing import completed_columns, has_key, named_keys, rows_below
from rowtide.cdc.queries.net_changes import IS_DELETED, LACKS_VALUES, Truncates, last_select
from rowtide.cdc.rows.change_columns import change_columns
from rowtide.cdc.rows.operations import DELETE, INSERT, TRUNCATE, UPDATE_AFTER
from rowtide.core.tables import BeforeImages
from rowtide.delta.statistics import Between
from rowtide.lake.sql_text import quote
from rowtide.lake.tables import TableVersion
from rowtide.lake.views import select_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LSN, _OPERATION, _ABSENT, _EXACT = "__$start_lsn", "__$operation", "__$absent_mask", "__$exact"
_BROADCAST_ROWS = 4_000_000
"""The keys of so many change rows, of which an update has two, are sent to all tasks: the base is not shuffled then."""


def table_as_of(as_of: AsOf[TableVersion]) -> DataFrame:
    """Return the rows, unordered: the captured columns, `__$absent_mask`, `__$exact`."""
    columns = [quote(name) for name in as_of_columns(as_of.instance)]
    lowest = as_of.base.rows.where(f"`{_LSN}` = {as_of.lowest.value}")
    upper = list(upper_parts(as_of))
    if not upper:
        return lowest.selectExpr(*columns)
    return _UpperRows(as_of.instance, upper).above(lowest).selectExpr(*columns)


@dataclass(frozen=True, slots=True)
class UpperPart:
    """Rows of a table above the lowest layer."""

    table: TableVersion
    lsns: Between
    rows: DataFrame

    def may_have(self, values: Between) -> bool:
        """Return whether, by the files' statistics, a row may be in a range; see `TableVersion`."""
        return self.table.may_have(self.lsns, values)

    def count(self) -> int:
        """Return how many rows there are at most; where statistics lack, many."""
        files = self.table.snapshot.list_files(self.lsns)
        return sum(file.statistics.get("numRecords") or _BROADCAST_ROWS for file in files)


def upper_parts(as_of: AsOf[TableVersion]) -> Iterator[UpperPart]:
    """Yield the rows above the lowest layer, of tables that have some by their statistics."""
    firsts = ((as_of.base, as_of.lowest.increment()), (as_of.changes, as_of.first_change))
    for table, first in firsts:
        lsns = Between(_LSN, first.value, as_of.lsn.value)
        if table.may_have(lsns):
            rows = table.rows.where(f"`{_LSN}` between {lsns.low} and {lsns.high}")
            if table is as_of.base and as_of.excluded:
                rows = rows.where(f"`{_LSN}` not in ({', '.join(map(str, as_of.excluded))})")
            yield UpperPart(table, lsns, rows)


def without_truncated(lowest: DataFrame, upper: DataFrame) -> DataFrame:
    """Return the lowest layer, or no rows if a truncate is above it."""
    # One row says it for all of them.
    truncated = upper.where(f"`{_OPERATION}` = {TRUNCATE}").limit(1).selectExpr("1 as `__$truncated`")
    return lowest.join(truncated.hint("broadcast"), how="left_anti")


class _UpperRows:
    """The rows above the lowest layer."""

    def __init__(self, instance: Instance, parts: list[UpperPart]) -> None:
        self._parts = parts
        empty = {name for name in (_ABSENT, _EXACT) if not self._may_have(Between(name))}
        names = [column for column in change_columns(instance) if column.name != "__$end_lsn"]
        shown = [
            f"cast(null as {column.type_name}) as {quote(column.name)}" if column.name in empty else quote(column.name)
            for column in names
        ]
        self._rows = reduce(lambda one, other: one.unionAll(other), (part.rows.selectExpr(*shown) for part in parts))
        whole = replace(instance, before_images=BeforeImages.FULL, is_partitioned=False)
        self._instance = whole if _ABSENT in empty else instance

    def above(self, lowest: DataFrame) -> DataFrame:
        """Return the last rows, and those of the lowest layer whose keys they do not have."""
        may_truncate = self._may_have(Between(_OPERATION, low=TRUNCATE))
        truncates = Truncates.SOUGHT if may_truncate else Truncates.NONE
        if may_truncate:
            lowest = without_truncated(lowest, self._rows)
        last = select_from(self._rows, lambda rows: last_select(rows, self._instance, truncates))
        live = last.where(f"not `{IS_DELETED}`")
        columns = [quote(name) for name in as_of_columns(self._instance)]
        shown = lowest.selectExpr(*columns)
        if self._instance.may_lack_values:
            live = self._completed(live, shown)
        keys = self._keys(self._rows.where(f"`{_OPERATION}` in ({DELETE}, {INSERT}, {UPDATE_AFTER})"))
        return self._join(shown, keys, "left_anti").unionAll(live.selectExpr(*columns))

    def _may_have(self, values: Between) -> bool:
        return any(part.may_have(values) for part in self._parts)

    def _keys(self, rows: DataFrame) -> DataFrame:
        keys = rows.selectExpr(*named_keys(self._instance))
        return keys.hint("broadcast") if sum(part.count() for part in self._parts) <= _BROADCAST_ROWS else keys

    def _join(self, rows: DataFrame, keys: DataFrame, how: str) -> DataFrame:
        from pyspark.sql import functions

        return rows.join(keys, functions.expr(has_key(self._instance)), how)

    def _completed(self, live: DataFrame, lowest: DataFrame) -> DataFrame:
        """Return last rows with the values that they lack from the rows of the lowest layer that they hide."""
        hidden = self._join(lowest, self._keys(live.where(f"`{LACKS_VALUES}`")), "left_semi")
        below = hidden.selectExpr(*rows_below(self._instance))
        return self._join(live, below, "left").selectExpr(*completed_columns(self._instance))
