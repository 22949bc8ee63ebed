"""Rows of a table as of an LSN, as a DataFrame: the base's lowest layer without the keys of later rows, and these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.as_of import AsOf, as_of_columns
from rowtide.cdc.queries.mask_expressions import is_marked, mask_of, null_if_empty
from rowtide.cdc.queries.net_changes import IS_DELETED, LACKS_VALUES, Truncates, key_expressions, last_select
from rowtide.cdc.rows.change_columns import change_columns, column_type
from rowtide.cdc.rows.operations import DELETE, INSERT, TRUNCATE, UPDATE_AFTER
from rowtide.core.tables import BeforeImages
from rowtide.delta.statistics import Between
from rowtide.lake.sql_text import quote
from rowtide.lake.tables import TableVersion
from rowtide.lake.views import select_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LSN, _OPERATION, _ABSENT, _EXACT = "__$start_lsn", "__$operation", "__$absent_mask", "__$exact"
_BROADCAST_ROWS = 2_000_000
"""The keys of so many rows are sent to all tasks: the base is not sorted by its key then."""

_HIDES = "__$hides"


def table_as_of(as_of: AsOf[TableVersion]) -> DataFrame:
    """Return the rows, unordered: the captured columns, `__$absent_mask`, `__$exact`."""
    columns = [quote(name) for name in as_of_columns(as_of.instance)]
    lowest = as_of.base.rows.where(f"`{_LSN}` = {as_of.lowest.value}")
    upper = list(_upper_parts(as_of))
    if not upper:
        return lowest.selectExpr(*columns)
    return _UpperRows(as_of.instance, upper).above(lowest).selectExpr(*columns)


def _upper_parts(as_of: AsOf[TableVersion]) -> Iterator[tuple[TableVersion, Between, DataFrame]]:
    """Yield the tables that have rows above the lowest layer, by their statistics: with their LSNs, and these rows."""
    firsts = ((as_of.base, as_of.lowest.increment()), (as_of.changes, as_of.first_change))
    for table, first in firsts:
        lsns = Between(_LSN, first.value, as_of.lsn.value)
        if table.may_have(lsns):
            rows = table.rows.where(f"`{_LSN}` between {lsns.low} and {lsns.high}")
            if table is as_of.base and as_of.excluded:
                rows = rows.where(f"`{_LSN}` not in ({', '.join(map(str, as_of.excluded))})")
            yield table, lsns, rows


class _UpperRows:
    """The rows above the lowest layer."""

    def __init__(self, instance: Instance, parts: list[tuple[TableVersion, Between, DataFrame]]) -> None:
        self._parts = parts
        empty = {name for name in (_ABSENT, _EXACT) if not self._may_have(Between(name))}
        names = [column for column in change_columns(instance) if column.name != "__$end_lsn"]
        shown = [
            f"cast(null as {column.type_name}) as {quote(column.name)}" if column.name in empty else quote(column.name)
            for column in names
        ]
        self._rows = reduce(lambda one, other: one.unionAll(other), (rows.selectExpr(*shown) for _, _, rows in parts))
        whole = replace(instance, before_images=BeforeImages.FULL, is_partitioned=False)
        self._instance = whole if _ABSENT in empty else instance

    def above(self, lowest: DataFrame) -> DataFrame:
        """Return the last rows, and those of the lowest layer whose keys they do not have."""
        may_truncate = self._may_have(Between(_OPERATION, low=TRUNCATE))
        truncates = Truncates.SOUGHT if may_truncate else Truncates.NONE
        if may_truncate:
            # One row says it for all of them.
            truncated = self._rows.where(f"`{_OPERATION}` = {TRUNCATE}").limit(1).selectExpr("1 as `__$truncated`")
            lowest = lowest.join(truncated.hint("broadcast"), how="left_anti")
        last = select_from(self._rows, lambda rows: last_select(rows, self._instance, truncates))
        live = last.where(f"not `{IS_DELETED}`")
        columns = [quote(name) for name in as_of_columns(self._instance)]
        shown = lowest.selectExpr(*columns)
        if self._instance.may_lack_values:
            live = self._completed(live, shown)
        keys = self._keys(self._rows.where(f"`{_OPERATION}` in ({DELETE}, {INSERT}, {UPDATE_AFTER})"))
        return self._join(shown, keys, "left_anti").unionAll(live.selectExpr(*columns))

    def _may_have(self, values: Between) -> bool:
        return any(table.may_have(lsns, values) for table, lsns, _ in self._parts)

    def _keys(self, rows: DataFrame) -> DataFrame:
        keys = rows.selectExpr(*(f"{key} as `__$key_{place}`" for place, key in enumerate(self._key())))
        return keys.hint("broadcast") if self._count() <= _BROADCAST_ROWS else keys

    def _key(self) -> list[str]:
        return list(key_expressions(self._instance))

    def _count(self) -> int:
        """Return how many rows there are at most."""
        files = (file for table, lsns, _ in self._parts for file in table.snapshot.list_files(lsns))
        return sum(file.statistics.get("numRecords") or _BROADCAST_ROWS for file in files)

    def _join(self, rows: DataFrame, keys: DataFrame, how: str) -> DataFrame:
        from pyspark.sql import functions

        # A key's column is never null, but where its text is in `__$exact`.
        columns = self._instance.columns
        holds_all = {quote(one.lake_name) for one in columns if column_type(self._instance, one).holds_all}
        is_same = " and ".join(
            f"{key} {'=' if key in holds_all else '<=>'} `__$key_{place}`" for place, key in enumerate(self._key())
        )
        return rows.join(keys, functions.expr(is_same), how)

    def _completed(self, live: DataFrame, lowest: DataFrame) -> DataFrame:
        """Return last rows with the values that they lack from the rows of the lowest layer that they hide."""
        hidden = self._join(lowest, self._keys(live.where(f"`{LACKS_VALUES}`")), "left_semi")
        names = as_of_columns(self._instance)
        keys = (f"{key} as `__$key_{place}`" for place, key in enumerate(self._key()))
        below = hidden.selectExpr(
            *keys, *(f"{quote(name)} as {quote(_below(name))}" for name in names), f"true as `{_HIDES}`"
        )
        return self._join(live, below, "left").selectExpr(*self._completed_columns())

    def _completed_columns(self) -> Iterator[str]:
        columns = self._instance.columns
        count = len(columns)
        is_taken = [
            f"(`{LACKS_VALUES}` and `{_HIDES}` is not null and {is_marked(f'`{_ABSENT}`', ordinal, count)})"
            for ordinal in range(1, count + 1)
        ]
        still_absent = [
            f"{taken} and {is_marked(quote(_below(_ABSENT)), ordinal, count)}"
            for ordinal, taken in enumerate(is_taken, 1)
        ]
        texts = ", ".join(
            f"{ordinal}, try_element_at(if({taken}, {quote(_below(_EXACT))}, `{_EXACT}`), {ordinal})"
            for ordinal, taken in enumerate(is_taken, 1)
        )
        for column, taken in zip(columns, is_taken, strict=True):
            name = quote(column.lake_name)
            yield f"if({taken}, {quote(_below(column.lake_name))}, {name}) as {name}"
        was_lacking = f"`{LACKS_VALUES}` and `{_HIDES}` is not null"
        yield f"if({was_lacking}, {null_if_empty(mask_of(still_absent), count)}, `{_ABSENT}`) as `{_ABSENT}`"
        exact = f"map_filter(map({texts}), (ordinal, text) -> text is not null)"
        either = f"`{_EXACT}` is not null or {quote(_below(_EXACT))} is not null"
        yield f"if({was_lacking} and ({either}), {exact}, `{_EXACT}`) as `{_EXACT}`"


def _below(name: str) -> str:
    return f"__$below_{name}"
