"""Conversions between lake types as Spark SQL: what the conversions in Arrow are compared with."""

from __future__ import annotations

import re

from rowtide.databases.lake_types import LakeType

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMBERS = ("boolean", "smallint", "int", "bigint", "float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_AS_TEXT = {
    "binary": "concat('\\\\x', lower(hex({value})))",
    "timestamp": "concat(cast({value} as string), '+00')",
}
_FROM_TEXT = {
    "binary": "if(startswith({value}, '\\\\x'), try_to_binary(substring({value}, 3), 'hex'), null)",
    "boolean": "try_cast({value} as boolean)",
}


def convert(value: str, old: str, new: LakeType) -> str:
    """Return the expression for a value of one type in another, null if it does not fit."""
    if _is_kin(old, new.name):
        return f"try_cast({value} as {new.name})"
    text = _AS_TEXT.get(old, "cast({value} as string)").format(value=value)
    return text if new.is_text else _FROM_TEXT.get(new.name, new.cast.replace("{text}", "{value}")).format(value=text)


def is_misfit(value: str, old: str, new: LakeType) -> str:
    """Return the condition that a value changes in another type; of a text only that it cannot be read."""
    converted = convert(value, old, new)
    if not _is_kin(old, new.name):
        return f"({value} is not null and {converted} is null)"
    return f"({value} is not null and not ({value} <=> try_cast({converted} as {old})))"


def _is_kin(old: str, new: str) -> bool:
    return {old, new} <= set(_TIMES) or (_is_number(old) and _is_number(new))


def _is_number(name: str) -> bool:
    return name in _NUMBERS or _DECIMAL.fullmatch(name) is not None
