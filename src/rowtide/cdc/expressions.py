"""How a log record becomes rows of a change table, as Spark SQL text. Pure.

An update is two rows, 3 (before) and 4 (after); an update of the key is 1 and 2 with one seqval, as SQL Server
logs it; a truncate is one row, 6, without values. Everything about one row version is computed from `image`, the
array of that version's text values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowtide.cdc.definitions import CapturedColumn, Instance
from rowtide.core.mask import full_mask, mask_length
from rowtide.core.records import Operation
from rowtide.core.tables import TableShape
from rowtide.databases.postgres import values as postgres_values
from rowtide.databases.postgres.values import LakeType

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
    """Return the change table's columns, in order: SQL Server's, the captured ones, then ours."""
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
    """Return how a captured column is held in the lake."""
    return LAKE_TYPES[instance.database_kind](column.type_text)


def record_row(instance: Instance, shape: TableShape) -> list[str]:
    """Return the expressions over a log record that its row versions share; `operations` lists what these are."""
    is_move = _key_changed(instance, shape)
    update = f"if({is_move}, array({DELETE}, {INSERT}), array({UPDATE_BEFORE}, {UPDATE_AFTER}))"
    operations = (
        f"case operation when {Operation.INSERT:d} then array({INSERT}) when {Operation.DELETE:d} then array({DELETE}) "
        f"when {Operation.UPDATE:d} then {update} when {Operation.TRUNCATE:d} then array({TRUNCATE}) end"
    )
    mask = (
        f"case when operation = {Operation.TRUNCATE:d} then cast(null as binary) "
        f"when operation = {Operation.UPDATE:d} and not ({is_move}) then {_changed(instance, shape)} "
        f"else {_binary(full_mask(len(instance.columns)))} end"
    )
    names = {"before": "before", "after": _filled_after(), "operations": operations, "mask": mask}
    return ["commit_lsn", "seqval", *(f"{expression} as {name}" for name, expression in names.items())]


ROW_VERSION = ("*", "explode(operations) as version_operation")
"""The expressions that make a row of each of a record's versions. Of numbers only: images are not copied for it."""

IMAGE = ("*", f"if(version_operation in ({DELETE}, {UPDATE_BEFORE}), before, after) as image")
"""The expressions that add to a row version its values; a truncate has none."""


def change_row(instance: Instance, shape: TableShape) -> list[str]:
    """Return the expressions of a change table's columns over a row version, in `change_columns`' order.

    `image` is the version's: `IMAGE`.
    """
    places = {column.name: place for place, column in enumerate(shape.columns)}
    typed = [_typed(instance, column, places.get(column.name)) for column in instance.columns]
    return [
        "commit_lsn as `__$start_lsn`",
        "cast(null as bigint) as `__$end_lsn`",
        "seqval as `__$seqval`",
        "version_operation as `__$operation`",
        "mask as `__$update_mask`",
        *(f"{value} as {quote(column.lake_name)}" for value, column in zip(typed, instance.columns, strict=True)),
        "cast(null as binary) as `__$absent_mask`",
        f"{_exact(instance, places)} as `__$exact`",
    ]


def quote(name: str) -> str:
    """Quote a column name in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def _filled_after() -> str:
    """Unchanged out-of-line values are not in the log's after image; with full images the before image has them."""
    filled = f"transform(after, (value, place) -> if({_is_absent('place')}, get(before, place), value))"
    return f"if(absent is null, after, {filled})"


def _changed(instance: Instance, shape: TableShape) -> str:
    """Return the update mask: one bit per captured column, from the last ordinal to the first, packed by four."""
    places = {column.name: place for place, column in enumerate(shape.columns)}
    by_ordinal = [places.get(column.name, -1) for column in instance.columns]
    digits = 2 * mask_length(len(by_ordinal))
    padded = [-1] * (digits * 4 - len(by_ordinal)) + by_ordinal[::-1]
    is_carried = f"(absent is null or not {_is_absent('place')})"
    is_changed = f"place >= 0 and not (get(before, place) <=> get(after, place)) and {is_carried}"
    bits = f"array_join(transform(array({', '.join(map(str, padded))}), place -> if({is_changed}, '1', '0')), '')"
    hexadecimal = f"transform(sequence(0, {digits - 1}), digit -> conv(substring({bits}, 4 * digit + 1, 4), 2, 16))"
    return f"unhex(array_join({hexadecimal}, ''))"


def _is_absent(place: str) -> str:
    byte = f"substring(absent, {place} div 8 + 1, 1)"
    return f"(shiftright(cast(conv(hex({byte}), 16, 10) as int), cast({place} % 8 as int)) % 2 = 1)"


def _key_changed(instance: Instance, shape: TableShape) -> str:
    places = {column.name: place for place, column in enumerate(shape.columns)}
    key = [places[column.name] for column in instance.index_columns if column.name in places]
    return " or ".join(f"not (before[{place}] <=> after[{place}])" for place in key) or "false"


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


def _binary(value: bytes) -> str:
    return f"X'{value.hex()}'"
