"""PostgreSQL's text form of values, and the lake types that store them.

The text form is the server's output under `session_settings.STREAM_SETTINGS`: lossless, and valid input for a
PostgreSQL subscriber.

A cast calls a function that the owner of a type can define, with the rights of the executing role. What
rowtide runs, or leaves behind in a trigger, converts users' values by `text_of` and `value_of`, which call the types'
own output and input functions. Only those of domains, alone or within a type, run code of others: their checks.
"""

from __future__ import annotations

from rowtide.databases.lake_types import LakeType
from rowtide.databases.types.registry import find_type
from rowtide.databases.types.value_type import TypeModifier


def is_of_server(type_text: str) -> bool:
    """Return whether a type is the server's own: others have their schema in their text."""
    return "." not in type_text


def text_of(value: str, type_text: str) -> str:
    """Return the SQL expression of a value's text; `type_text` is its type, of a domain the base type.

    For the server's types that is what a cast to text returns, for others what their output function does. It stays so
    if the value's type becomes another than was known when the expression was written into a function.
    """
    text = f"pg_catalog.format('%s', {value})"
    if _casts_otherwise(type_text):
        text += f"::{type_text}::text"
    # Of a null, `format` returns an empty text; a row of nulls is null only for `is null`.
    return f"case when {value} is distinct from null then {text} end"


def value_of(text: str, type_text: str) -> str:
    """Return the SQL expression of the value of a text, by the input function of its type; of a domain give the base
    type. A literal or an untyped parameter needs only `::`.
    """
    if is_of_server(type_text):
        return f"{text}::{type_text}"
    record = f"pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', {text}))"
    return f"(select r.v from {record} as r (v {type_text}))"  # noqa: S608 - of SQL expressions


def lake_type(type_text: str) -> LakeType:
    """Return the lake type for an SQL type; a type without exact counterpart is stored as text."""
    value_type, modifiers = find_type(type_text)
    return value_type.lake(modifiers)


def _casts_otherwise(type_text: str) -> bool:
    """Whether a cast to text is not the output: `true` for `t`, a network's length, no trailing blanks."""
    value_type, modifiers = find_type(type_text)
    # Without its length, a cast to `character` leaves one letter.
    return value_type.casts_otherwise and (bool(modifiers) or value_type.modifier is TypeModifier.NONE)
