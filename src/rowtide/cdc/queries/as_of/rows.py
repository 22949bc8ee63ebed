"""Rows of a table with a key as of an LSN, as a DataFrame: the last row of each key above the lowest layer.

Positions of rows and sets of keys are encoded as integers, which Spark groups without sorting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.cdc.change_columns import (
    DELETE,
    INSERT,
    TRUNCATE,
    UPDATE_AFTER,
    change_columns,
    column_type,
)
from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.as_of.function import completed_columns, key_condition, named_keys, rows_below
from rowtide.cdc.queries.as_of.opening import AsOf, as_of_columns
from rowtide.cdc.queries.net_changes import IS_DELETED, LACKS_VALUES, Truncates, key_expressions, last_select
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between, find_bounds
from rowtide.lake.sql_text import quote, select_from
from rowtide.lake.tables import LakeTableVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MOST = 1 << 63
_OPERATIONS = 8
_WHOLE_NUMBERS = ("smallint", "int", "bigint")
_WORD, _BITS = "`__$word`", "`__$bits`"


def packed_position(lsns: tuple[int, int], seqvals: tuple[int, int]) -> str | None:
    """Return a row's position as one number, for rows with these bounds; None if the numbers may be too large."""
    (first, last), (least, most) = lsns, seqvals
    in_each = (most - least + 1) * _OPERATIONS
    if (last - first + 1) * in_each > _MOST:
        return None
    return f"((`__$start_lsn` - {first}L) * {in_each}L + (`__$seqval` - {least}L) * {_OPERATIONS}L + `__$operation`)"


@frozen
class KeyWords:
    """A set of keys that are whole numbers: a word of bits for each 64 neighbours, of which one is in it."""

    key: str

    @classmethod
    def of(cls, instance: Instance) -> KeyWords | None:
        """Return the expressions for an instance's keys; None if they are no whole numbers."""
        if len(instance.index_columns) != 1:
            return None
        (column,) = instance.index_columns
        kind = column_type(instance, column)
        is_whole = kind.name in _WHOLE_NUMBERS and kind.holds_all
        return cls(f"cast({quote(column.lake_name)} as bigint)") if is_whole else None

    def select(self, rows: str) -> str:
        """Return the query for the words of some rows' keys."""
        word = f"shiftright({self.key}, 6)"
        return f"select {word} as {_WORD}, bit_or(shiftleft(1L, {self._place})) as {_BITS} from {rows} group by {word}"

    @property
    def key_condition(self) -> str:
        """The condition that the set, of which there is a word, has a row's key."""
        return f"shiftright({self.key}, 6) = {_WORD} and (shiftright({_BITS}, {self._place}) & 1L) = 1L"

    @property
    def _place(self) -> str:
        return f"cast({self.key} & 63L as int)"


_LSN, _SEQVAL, _OPERATION, _ABSENT, _EXACT = "__$start_lsn", "__$seqval", "__$operation", "__$absent_mask", "__$exact"
_POSITION, _LAST = "__$position", "__$last_position"
_IS_CHANGE = f"`{_OPERATION}` in ({DELETE}, {INSERT}, {UPDATE_AFTER})"
_BROADCAST_ROWS = 4_000_000
"""Up to this many change rows, two for an update, keys are broadcast to all tasks: the base is not shuffled then."""


def table_as_of(as_of: AsOf[LakeTableVersion]) -> DataFrame:
    """Return the rows, unordered: the captured columns, `__$absent_mask`, `__$exact`."""
    columns = [quote(name) for name in as_of_columns(as_of.instance)]
    lowest = as_of.base.rows.where(f"`{_LSN}` = {as_of.lowest.value}")
    upper = list(upper_parts(as_of))
    if not upper:
        return lowest.selectExpr(*columns)
    return _UpperRows(as_of.instance, upper).above(lowest).selectExpr(*columns)


@frozen
class UpperPart:
    """Rows of a table above the lowest layer."""

    table: LakeTableVersion
    first: int
    last: int
    rows: DataFrame

    @property
    def lsns(self) -> Between:
        """The rows' LSNs."""
        return Between(_LSN, self.first, self.last)

    def may_have(self, values: Between) -> bool:
        """Return whether, by the files' statistics, a row may be in a range; see `LakeTableVersion`."""
        return self.table.may_have(self.lsns, values)

    def seqvals(self) -> tuple[int, int] | None:
        """Return bounds of the rows' `__$seqval`; None where statistics lack."""
        (seqval,) = self.table.snapshot.select([_SEQVAL]).fields
        found = [find_bounds(file, seqval.physical_name) for file in self.table.snapshot.list_files(self.lsns)]
        bounds = [one for one in found if one is not None]
        if not bounds or len(bounds) < len(found):
            return None
        return min(least for least, _ in bounds), max(most for _, most in bounds)

    def count(self) -> int:
        """Return how many rows there are at most; where statistics lack, many."""
        files = self.table.snapshot.list_files(self.lsns)
        return sum(file.statistics.get("numRecords") or _BROADCAST_ROWS for file in files)


def upper_parts(as_of: AsOf[LakeTableVersion]) -> Iterator[UpperPart]:
    """Yield the rows above the lowest layer, of tables that have some by their statistics."""
    firsts = ((as_of.base, as_of.lowest.increment()), (as_of.changes, as_of.first_change))
    for table, first in firsts:
        lsns = Between(_LSN, first.value, as_of.lsn.value)
        if table.may_have(lsns):
            rows = table.rows.where(f"`{_LSN}` between {lsns.low} and {lsns.high}")
            if table is as_of.base and as_of.excluded:
                rows = rows.where(f"`{_LSN}` not in ({', '.join(map(str, as_of.excluded))})")
            yield UpperPart(table, first.value, as_of.lsn.value, rows)


def without_truncated(lowest: DataFrame, upper: DataFrame) -> DataFrame:
    """Return the lowest layer, or no rows if a truncate is above it."""
    # One row is enough to tell that.
    truncated = upper.where(f"`{_OPERATION}` = {TRUNCATE}").limit(1).selectExpr("1 as `__$truncated`")
    return lowest.join(truncated.hint("broadcast"), how="left_anti")


def behind_truncate(rows: str) -> str:
    """Return the query for the rows behind the last truncate, if there is one."""
    position = f"struct(`{_LSN}`, `{_SEQVAL}`)"
    last = f"(select max({position}) from {rows} where `{_OPERATION}` = {TRUNCATE})"
    return f"select * from {rows} where {last} is null or {position} > {last}"


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
        columns = [quote(name) for name in as_of_columns(self._instance)]
        shown = lowest.selectExpr(*columns)
        position = None if self._instance.may_lack_values else self._position()
        if self._is_small() and position is not None:
            upper = select_from(self._rows, behind_truncate) if may_truncate else self._rows
            return self._without_changed(shown).unionAll(self._last(upper, position).selectExpr(*columns))
        last = select_from(self._rows, lambda rows: last_select(rows, self._instance, truncates))
        live = last.where(f"not `{IS_DELETED}`")
        if self._instance.may_lack_values:
            live = self._completed(live, shown)
        return self._without_changed(shown).unionAll(live.selectExpr(*columns))

    def _may_have(self, values: Between) -> bool:
        return any(part.may_have(values) for part in self._parts)

    def _keys(self, rows: DataFrame) -> DataFrame:
        keys = rows.selectExpr(*named_keys(self._instance))
        return keys.hint("broadcast") if self._is_small() else keys

    def _is_small(self) -> bool:
        return sum(part.count() for part in self._parts) <= _BROADCAST_ROWS

    def _position(self) -> str | None:
        """Return a row's position as one number; None if, by the files' statistics, it may be too large."""
        bounds = [part.seqvals() for part in self._parts]
        known = [one for one in bounds if one is not None]
        if len(known) < len(bounds):
            return None
        lsns = min(part.first for part in self._parts), max(part.last for part in self._parts)
        return packed_position(lsns, (min(least for least, _ in known), max(most for _, most in known)))

    def _last(self, upper: DataFrame, position: str) -> DataFrame:
        """Return the last rows but deletes. Most keys have one row; of the others the last positions are broadcast."""
        keys, named = ", ".join(key_expressions(self._instance)), ", ".join(named_keys(self._instance))
        placed = upper.where(_IS_CHANGE).selectExpr("*", f"{position} as `{_POSITION}`")
        last = f"max(`{_POSITION}`) as `{_LAST}`"
        repeated = select_from(
            placed, lambda rows: f"select {named}, {last} from {rows} group by {keys} having count(*) > 1"
        )
        is_later = f"{key_condition(self._instance)} and `{_POSITION}` < `{_LAST}`"
        return _join(placed, repeated.hint("broadcast"), is_later, "left_anti").where(f"`{_OPERATION}` != {DELETE}")

    def _without_changed(self, lowest: DataFrame) -> DataFrame:
        """Return the rows of the lowest layer whose keys have no row above it."""
        changed, words = self._rows.where(_IS_CHANGE), KeyWords.of(self._instance)
        if words is None or not self._is_small():
            return _join(lowest, self._keys(changed), key_condition(self._instance), "left_anti")
        return _join(lowest, select_from(changed, words.select).hint("broadcast"), words.key_condition, "left_anti")

    def _completed(self, live: DataFrame, lowest: DataFrame) -> DataFrame:
        """Return last rows with the values that they lack from the rows of the lowest layer that they hide."""
        is_same = key_condition(self._instance)
        hidden = _join(lowest, self._keys(live.where(f"`{LACKS_VALUES}`")), is_same, "left_semi")
        below = hidden.selectExpr(*rows_below(self._instance))
        return _join(live, below, is_same, "left").selectExpr(*completed_columns(self._instance))


def _join(rows: DataFrame, others: DataFrame, condition: str, how: str) -> DataFrame:
    from pyspark.sql import functions

    return rows.join(others, functions.expr(condition), how)
