"""Types whose values compare by their text in the log exactly as the server compares them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from rowtide.databases.postgres.types.details import describe_type
from rowtide.replication.filters import moments, numbers, texts
from rowtide.replication.filters.literals import Key, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactType:
    """How values and literals of a type become keys; `is_ordered` says whether keys also sort as values do.

    `read_literal` raises `LiteralUnfit`.
    """

    read_value: Callable[[bytes], Key]
    read_literal: Callable[[Literal], Key]
    is_ordered: bool = True


def _integer(bits: int) -> ExactType:
    return ExactType(read_value=int, read_literal=partial(numbers.integer_literal, bits=bits))


_TEXT = ExactType(read_value=texts.text_value, read_literal=texts.text_literal, is_ordered=False)
_PADDED = ExactType(read_value=texts.padded_value, read_literal=texts.padded_literal, is_ordered=False)

_EXACT: Mapping[str, ExactType] = {
    "smallint": _integer(16),
    "integer": _integer(32),
    "bigint": _integer(64),
    "numeric": ExactType(read_value=numbers.numeric_value, read_literal=numbers.numeric_literal),
    "boolean": ExactType(read_value=texts.boolean_value, read_literal=texts.boolean_literal),
    # The server sorts by the bytes, which the digits that it prints do too.
    "uuid": ExactType(read_value=texts.text_value, read_literal=texts.uuid_literal),
    "date": ExactType(read_value=moments.date_value, read_literal=moments.date_literal),
    "timestamp without time zone": ExactType(read_value=moments.local_value, read_literal=moments.local_literal),
    "timestamp with time zone": ExactType(read_value=moments.zoned_value, read_literal=moments.zoned_literal),
    "text": _TEXT,
    "character varying": _TEXT,
    "character": _PADDED,
    "bpchar": _PADDED,
}
_TEXTS = (_TEXT, _PADDED)

_BINARY_FLOAT = "a literal is rounded to it before they are compared"
_INEXACT: Mapping[str, str] = {
    "real": _BINARY_FLOAT,
    "double precision": _BINARY_FLOAT,
    "money": "how a literal is read depends on the session",
    "interval": "different intervals are equal, one month and 30 days",
    "time without time zone": "filters by times of day are not supported",
    "time with time zone": "filters by times of day are not supported",
    "bytea": "filters by binary values are not supported",
    "json": "documents are not compared",
    "jsonb": "documents are not compared by their text",
}
"""Built-in types that can be tested for null, but not compared."""

NOT_BUILT_IN = "only PostgreSQL's numbers, booleans, UUIDs, dates, timestamps and texts compare exactly"
NOT_ORDERED = "the order of texts is their collation's: they are compared by =, <>, in and is null only"
NOT_DETERMINISTIC = "its collation makes different texts equal"


@dataclass(frozen=True, slots=True)
class Inexact:
    """A type that cannot be compared, and why; `may_be_null` says whether it can be tested for null."""

    reason: str
    may_be_null: bool


def find_type(type_text: str, *, is_deterministic: bool) -> ExactType | Inexact:
    """Return how a type's values compare; `is_deterministic` is about the column's collation."""
    name = describe_type(type_text).data_type
    found = _EXACT.get(name)
    if found in _TEXTS and not is_deterministic:
        return Inexact(NOT_DETERMINISTIC, may_be_null=True)
    if found is not None:
        return found
    # A composite value is null when its fields are: the text of those of users does not say.
    return Inexact(_INEXACT.get(name, NOT_BUILT_IN), may_be_null=name in _INEXACT)
