"""Columns of a DataFrame of changes from devices whose tables differ, as Spark SQL text. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.databases.kinds import DatabaseKind
from rowtide.databases.lake_types import LakeType
from rowtide.databases.postgres import values as postgres_values
from rowtide.databases.sqlite import values as sqlite_values
from rowtide.lake.sql_text import literal, quote
from rowtide.tracking.changes import DeclaredColumn
from rowtide.tracking.spark.records import Shape

_LAKE_TYPES = {DatabaseKind.SQLITE: sqlite_values.lake_type, DatabaseKind.POSTGRESQL: postgres_values.lake_type}
_EXACT_TYPE = "map<string,string>"


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column of the DataFrame: its name, and its type in Spark SQL."""

    name: str
    type_name: str


def unite(shapes: Mapping[Shape, int]) -> tuple[FrameColumn, ...]:
    """Return the columns of a table whose rows have these shapes, each on the given number of devices.

    First the columns of the most frequent shape, in its order, then further columns of others. Names that differ only
    in case are one column, unless a device has both. It has the most frequent name and type.
    """
    names: list[str] = []
    for shape in sorted(shapes, key=lambda shape: (-shapes[shape], repr(shape))):
        known = _united_names(shape, names)
        names.extend(_spell(column.name, shape, shapes) for column in shape.columns if column.name not in known)
    return tuple(FrameColumn(name, _choose_type(name, names, shapes)) for name in names)


def select_list(shape: Shape, columns: Sequence[FrameColumn]) -> list[str]:
    """Return the expressions that make the DataFrame's rows from records of a shape."""
    united = _united_names(shape, [column.name for column in columns])
    values = {
        united[column.name]: _Value(f"texts[{place}]", _held(shape, column))
        for place, column in enumerate(shape.columns)
    }
    return [
        "device as `__$device`",
        "operation as `__$operation`",
        *(f"{_typed(values.get(column.name), column)} as {quote(column.name)}" for column in columns),
        f"{_exact([(values[column.name], column) for column in columns if column.name in values])} as `__$exact`",
    ]


def empty_list(columns: Sequence[FrameColumn]) -> list[str]:
    """Return expressions for the same columns that are all null."""
    typed = {"__$device": "string", "__$operation": "int", **{column.name: column.type_name for column in columns}}
    return [f"{_null(type_name)} as {quote(name)}" for name, type_name in {**typed, "__$exact": _EXACT_TYPE}.items()]


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in records of a shape: the expression of its text, and the Spark type by its device's declaration."""

    text: str
    held: LakeType


def _typed(value: _Value | None, column: FrameColumn) -> str:
    """Return a value as its column's type; null if the device declares another type."""
    if value is None or value.held.name != column.type_name:
        return _null(column.type_name)
    return value.held.cast.format(text=value.text)


def _exact(values: Sequence[tuple[_Value, FrameColumn]]) -> str:
    """Return the expression of `__$exact`: by column name, the texts of values that their columns cannot hold.

    Else null.
    """
    misfits = [
        (column, value.text, f"{value.text} is not null and {_typed(value, column)} is null")
        for value, column in values
        if not (value.held.holds_all and value.held.name == column.type_name)
    ]
    if not misfits:
        return _null(_EXACT_TYPE)
    any_misfit = " or ".join(f"({condition})" for _, _, condition in misfits)
    entries = ", ".join(f"{literal(column.name)}, if({condition}, {text}, null)" for column, text, condition in misfits)
    return f"if({any_misfit}, map_filter(map({entries}), (name, text) -> text is not null), null)"


def _null(type_name: str) -> str:
    return f"cast(null as {type_name})"


def _spell(name: str, shape: Shape, shapes: Mapping[Shape, int]) -> str:
    """Return a name as most devices write it; unchanged if a table has it in two cases."""
    if sum(column.name.lower() == name.lower() for column in shape.columns) > 1:
        return name
    spellings: Counter[str] = Counter()
    for other, devices in shapes.items():
        spellings.update({column.name: devices for column in other.columns if column.name.lower() == name.lower()})
    return min(spellings, key=lambda spelling: (-spellings[spelling], spelling))


def _choose_type(name: str, names: Sequence[str], shapes: Mapping[Shape, int]) -> str:
    declared: Counter[str] = Counter()
    for shape, devices in shapes.items():
        united = _united_names(shape, names)
        declared.update({_held(shape, column).name: devices for column in shape.columns if united[column.name] == name})
    return min(declared, key=lambda type_name: (-declared[type_name], type_name))


def _held(shape: Shape, column: DeclaredColumn) -> LakeType:
    return _LAKE_TYPES[shape.kind](column.type_text)


def _united_names(shape: Shape, names: Sequence[str]) -> dict[str, str]:
    """Return which of the names each column of a shape has; columns with none of them are left out."""
    own = [column.name for column in shape.columns]
    in_other_case = {name.lower(): name for name in names if name not in own}
    found = {name: name if name in names else in_other_case.pop(name.lower(), None) for name in own}
    return {name: united for name, united in found.items() if united is not None}
