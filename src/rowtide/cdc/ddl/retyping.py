"""Changes the column types of a change table to those of the source.

In place where Delta can widen the type; otherwise the table is rewritten in one commit: readers see the old version or
the new one, and a repeat finds the new types. Values that the old type could not hold are in `__$exact`, and are
converted from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.cdc.ddl import type_changes
from rowtide.cdc.definitions import CapturedColumn, Instance
from rowtide.cdc.errors import ValuesDoNotFit
from rowtide.cdc.lake_tables import change_table_path
from rowtide.cdc.rows.change_columns import change_columns, column_type
from rowtide.core.failpoints import failpoint
from rowtide.databases.lake_types import LakeType
from rowtide.lake import tables
from rowtide.lake.sql_text import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _Retyped:
    """A column of a change table whose type has changed."""

    ordinal: int
    column: CapturedColumn
    old: str
    new: LakeType

    @property
    def can_widen(self) -> bool:
        return type_changes.can_widen(self.old, self.new.name)

    @property
    def value(self) -> str:
        """The stored value in the new type, null if it does not fit."""
        return type_changes.convert(quote(self.column.lake_name), self.old, self.new)

    @property
    def exact(self) -> str:
        """The exact text of a value that the old type could not hold."""
        return f"try_element_at(`__$exact`, {self.ordinal})"


def require_fit(spark: SparkSession, lake: str, instance: Instance) -> None:
    """Raise `ValuesDoNotFit` if a stored value does not fit its column's type in the source."""
    path = change_table_path(lake, instance.capture_instance)
    rows = tables.read_table(spark, path)
    narrowed = [retyped for retyped in _find_retyped(rows, instance) if not retyped.can_widen]
    if not narrowed:
        return
    misfits = (
        type_changes.is_misfit(quote(retyped.column.lake_name), retyped.old, retyped.new) for retyped in narrowed
    )
    with tables.writing(path):
        counts = rows.selectExpr(*(f"count_if({misfit})" for misfit in misfits)).first()
    for retyped, count in zip(narrowed, counts or (), strict=True):
        if count:
            raise ValuesDoNotFit(count, retyped.column.name, instance.capture_instance, retyped.column.type_text)


def carry_types(spark: SparkSession, lake: str, instance: Instance) -> None:
    """Change the column types of an instance's change table. Raises `LakeWriteFailed`."""
    path = change_table_path(lake, instance.capture_instance)
    rows = tables.read_table(spark, path)
    retyped = _find_retyped(rows, instance)
    if not retyped:
        return
    failpoint("types_carried.before")
    if all(column.can_widen for column in retyped):
        tables.widen_columns(spark, path, {column.column.lake_name: column.new.name for column in retyped})
    else:
        tables.rewrite(rows.selectExpr(*_rewritten(instance, retyped)), path)
    failpoint("types_carried.after")


def require_types(spark: SparkSession, lake: str, instance: Instance) -> None:
    """Empty the change table of an instance if its columns have other types, and give it these."""
    path = change_table_path(lake, instance.capture_instance)
    if _find_retyped(tables.read_table(spark, path), instance):
        columns = [(column.name, column.type_name) for column in change_columns(instance)]
        tables.renew_table(spark, path, columns, instance.member_id)


def _find_retyped(rows: DataFrame, instance: Instance) -> list[_Retyped]:
    stored = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    columns = enumerate(instance.columns, 1)
    found = [
        _Retyped(ordinal, column, stored[column.lake_name], column_type(instance, column))
        for ordinal, column in columns
    ]
    return [retyped for retyped in found if retyped.old != retyped.new.name]


def _rewritten(instance: Instance, retyped: list[_Retyped]) -> list[str]:
    values = {column.column.lake_name: _with_exact(column) for column in retyped}
    still_exact = " and ".join(f"(ordinal != {column.ordinal} or {_with_exact(column)} is null)" for column in retyped)
    kept = f"map_filter(`__$exact`, (ordinal, text) -> {still_exact})"
    values["__$exact"] = f"if(`__$exact` is null or cardinality({kept}) = 0, null, {kept})"
    names = (column.name for column in change_columns(instance))
    return [f"{values.get(name, quote(name))} as {quote(name)}" for name in names]


def _with_exact(retyped: _Retyped) -> str:
    return f"if({retyped.exact} is null, {retyped.value}, {retyped.new.cast.format(text=retyped.exact)})"
