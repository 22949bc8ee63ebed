"""Converts log records into rows of a change table, as Spark SQL text. Pure.

An update is two rows, 3 (before) and 4 (after); an update of the key is 1 and 2 with one seqval, as SQL Server logs it;
a truncate is one row, 6, without values. Everything about one row version is computed from `image`, the array of that
version's text values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.cdc.definitions import CapturedColumn, Instance
from rowtide.cdc.rows import partial_images
from rowtide.cdc.rows.bitmasks import is_absent, mask_over
from rowtide.cdc.rows.column_places import find_places
from rowtide.cdc.rows.partial_images import column_places, key_places
from rowtide.core.mask import full_mask
from rowtide.core.operations import Operation
from rowtide.core.tables import TableShape
from rowtide.databases.lake_types import LakeType
from rowtide.databases.postgres import values as postgres_values
from rowtide.lake.sql_text import quote

LAKE_TYPES = {"postgres": postgres_values.lake_type}

DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE = 1, 2, 3, 4, 6
"""`__$operation` in change tables: SQL Server's, and 6, a truncate, which SQL Server refuses."""

ROW_FILTERS: Mapping[str, tuple[int, ...]] = {
    "all": (DELETE, INSERT, UPDATE_AFTER, TRUNCATE),
    "all update old": (DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE),
}
"""Row filter options of all changes, and the operations that they return."""


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """A column of a change table."""

    name: str
    type_name: str


def change_columns(instance: Instance) -> list[ChangeColumn]:
    """Return the change table's columns, in order: SQL Server's, the captured ones, then rowtide's own."""
    return [
        ChangeColumn("__$start_lsn", "bigint"),
        ChangeColumn("__$end_lsn", "bigint"),
        ChangeColumn("__$seqval", "bigint"),
        ChangeColumn("__$operation", "int"),
        ChangeColumn("__$update_mask", "binary"),
        *(ChangeColumn(column.lake_name, column_type(instance, column).name) for column in instance.columns),
        ChangeColumn("__$absent_mask", "binary"),
        ChangeColumn("__$exact", "map<int,string>"),
    ]


def column_type(instance: Instance, column: CapturedColumn) -> LakeType:
    """Return a captured column's type in the lake."""
    return LAKE_TYPES[instance.database_kind](column.value_type_text)


def row_stages(instance: Instance, shape: TableShape) -> list[Sequence[str]]:
    """Return the nested selects that make change table rows of the log records of a shape.

    A record gets its `operations`, one per row version; each becomes a row of numbers only, so that images are not
    copied; then it gets its values, `image`; from these the columns of `change_columns` are made, in order.
    """
    if partial_images.may_occur(instance, shape):
        first = [*partial_images.completing_stages(instance, shape), _partial_record(instance, shape)]
        absent = f"if({_IS_BEFORE}, absent_before, absent_after)"
    else:
        first = [_full_record(instance, shape)]
        absent = "cast(null as binary)"
    return [*first, _ROW_VERSION, _IMAGE, _change_row(instance, shape, absent)]


_ROW_VERSION = ("*", "explode(operations) as version_operation")
_IS_BEFORE = f"version_operation in ({DELETE}, {UPDATE_BEFORE})"
_IMAGE = ("*", f"if({_IS_BEFORE}, before, after) as image")


def _full_record(instance: Instance, shape: TableShape) -> list[str]:
    """Unchanged TOAST values are missing in the log's after image; the before image has them."""
    filled = f"transform(after, (value, place) -> if({is_absent('place')}, get(before, place), value))"
    is_carried = "(absent is null or not {})".format
    is_move = " or ".join(
        f"(not (before[{key}] <=> after[{key}]) and {is_carried(is_absent(str(key)))})"
        for key in key_places(instance, shape)
    )
    is_changed = f"place >= 0 and not (get(before, place) <=> get(after, place)) and {is_carried(is_absent('place'))}"
    record = _record(instance, shape, is_move or "false", is_changed)
    return [*record, "before", f"if(absent is null, after, {filled}) as after"]


def _partial_record(instance: Instance, shape: TableShape) -> list[str]:
    record = _record(instance, shape, partial_images.is_move(instance, shape), partial_images.IS_CHANGED)
    return [*record, "before", "after", *partial_images.absent_masks(instance, shape)]


def _record(instance: Instance, shape: TableShape, is_move: str, is_changed: str) -> list[str]:
    """Return what the row versions of a record share; `is_changed` is a condition over the `place` of a value."""
    update = f"if({is_move}, array({DELETE}, {INSERT}), array({UPDATE_BEFORE}, {UPDATE_AFTER}))"
    operations = (
        f"case operation when {Operation.INSERT:d} then array({INSERT}) when {Operation.DELETE:d} then array({DELETE}) "
        f"when {Operation.UPDATE:d} then {update} when {Operation.TRUNCATE:d} then array({TRUNCATE}) end"
    )
    mask = (
        f"case when operation = {Operation.TRUNCATE:d} then cast(null as binary) "
        f"when operation = {Operation.UPDATE:d} and not ({is_move}) "
        f"then {mask_over(column_places(instance, shape), is_changed)} "
        f"else X'{full_mask(len(instance.columns)).hex()}' end"
    )
    return ["commit_lsn", "seqval", f"{operations} as operations", f"{mask} as mask"]


def _change_row(instance: Instance, shape: TableShape, absent: str) -> list[str]:
    """Return the expressions of a change table's columns over a row version with its `image`."""
    places = find_places(instance, shape)
    typed = [_typed(instance, column, places.get(column.name)) for column in instance.columns]
    return [
        "commit_lsn as `__$start_lsn`",
        "cast(null as bigint) as `__$end_lsn`",
        "seqval as `__$seqval`",
        "version_operation as `__$operation`",
        "mask as `__$update_mask`",
        *(f"{value} as {quote(column.lake_name)}" for value, column in zip(typed, instance.columns, strict=True)),
        f"{absent} as `__$absent_mask`",
        f"{_exact(instance, places)} as `__$exact`",
    ]


def _typed(instance: Instance, column: CapturedColumn, place: int | None) -> str:
    lake_type = column_type(instance, column)
    if place is None:
        return f"cast(null as {lake_type.name})"
    return lake_type.cast.format(text=f"image[{place}]")


def _exact(instance: Instance, places: dict[str, int]) -> str:
    misfits = []
    for ordinal, column in enumerate(instance.columns, 1):
        place = places.get(column.name)
        if place is not None and not column_type(instance, column).is_text:
            typed = _typed(instance, column, place)
            misfits.append((ordinal, f"image[{place}] is not null and {typed} is null", place))
    if not misfits:
        return "cast(null as map<int,string>)"
    any_misfit = " or ".join(f"({condition})" for _, condition, _ in misfits)
    entries = ", ".join(f"{ordinal}, if({condition}, image[{place}], null)" for ordinal, condition, place in misfits)
    return f"if({any_misfit}, map_filter(map({entries}), (ordinal, value) -> value is not null), null)"
