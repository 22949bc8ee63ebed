"""A type of values: its literals in row filters, its storage in SQLite files, its order. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, auto

from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType

Key = int | bool | bytes | Decimal
"""A value in comparisons: two keys of a type compare as the server compares the values."""

_BLANKS = " \t\n\v\f\r"


class Form(Enum):
    """How a literal is written, from which the server derives its type."""

    NUMBER = "number"
    TEXT = "text"
    TRUTH = "truth"


@frozen
class Literal:
    """A literal without its quotes; `type_word` is the type name before a text, if any."""

    form: Form
    text: str
    type_word: str | None = None


class LiteralUnfit(Exception):
    """The server would refuse the literal for a type, or read it differently; gives the reason."""


def trim(literal: Literal) -> str:
    """Return a text without surrounding blanks, which the server ignores when it reads most types."""
    return literal.text.strip(_BLANKS)


def require_text(literal: Literal, otherwise: str) -> None:
    """Raise `LiteralUnfit` for a literal without quotes."""
    if literal.form is not Form.TEXT:
        raise LiteralUnfit(otherwise)


@frozen(kw_only=True)
class ExactType:
    """How values and literals of a type become keys; `is_ordered` says whether keys also sort as values do.

    `read_literal` raises `LiteralUnfit`. Where `has_collation`, that decides whether equal keys are equal values.
    """

    read_value: Callable[[bytes], Key]
    read_literal: Callable[[Literal], Key]
    is_ordered: bool = True
    has_collation: bool = False


# How SQLite files store values of a type, and which declarations of columns keep them. Pure. A column's declaration
# makes SQLite convert values (its affinity): in a column declared `numeric`, the text 1.10 becomes the floating point
# number 1.1, and a number of thirty digits loses half of them. So numeric is stored as text, in a column declared
# `text`; the same holds for every type that does not say otherwise. Source: https://www.sqlite.org/datatype3.html,
# 3.1.

SqliteValue = int | float | str | bytes | None


class Affinity(Enum):
    """A column's conversion of values, by its declaration.

    Strict tables' types, which refuse other values, are separate.
    """

    INTEGER = "integer"
    TEXT = "text"
    NONE = "none"
    REAL = "real"
    NUMERIC = "numeric"
    STRICT_INTEGER = "strict integer"
    STRICT_REAL = "strict real"
    STRICT_TEXT = "strict text"
    STRICT_BLOB = "strict blob"


@frozen
class StoredType:
    """How values of a published type are stored; `is_text` ones are compared byte by byte in keys.

    `declaration` is the declared type of a column created for them; `keeping` are the affinities that store them
    unchanged.
    """

    declaration: str
    convert: Callable[[bytes], SqliteValue]
    keeping: frozenset[Affinity]
    is_text: bool = False


KEEPING_TEXTS = frozenset({Affinity.NONE, Affinity.TEXT, Affinity.STRICT_TEXT})
"""Affinities that store a text unchanged."""
# An integer is not lost in a text, but a floating point number is cut to fifteen digits there; an integer of more than
# 53 bits is cut in a floating point number.
KEEPING_INTEGERS = frozenset({Affinity.INTEGER, Affinity.NUMERIC, Affinity.STRICT_INTEGER}) | KEEPING_TEXTS


def _text(text: bytes) -> SqliteValue:
    return text.decode()


AS_TEXT = StoredType("text", _text, KEEPING_TEXTS, is_text=True)
NEVER_NUMBERS = StoredType(
    "text", _text, KEEPING_TEXTS | {Affinity.NUMERIC, Affinity.INTEGER, Affinity.REAL}, is_text=True
)
"""For texts that never look like numbers, also the affinity of columns that programs declare `timestamp` or `uuid`,
which does not convert them.
"""


Modifiers = tuple[int, ...]
"""The numbers in parentheses: a length, a precision, or precision and scale."""

STRING = LakeType("string", "{text}", holds_all=True)


class TypeKind(Enum):
    """Types that code treats alike, whatever else their family says of them."""

    WHOLE_NUMBER = auto()
    FLOAT = auto()
    NUMERIC = auto()
    BOOLEAN = auto()
    TEXT = auto()
    PADDED_TEXT = auto()
    """Padded with blanks to its length."""
    BYTES = auto()
    UUID = auto()
    DATE = auto()
    TIMESTAMP = auto()
    ZONED_TIMESTAMP = auto()
    OTHER = auto()


NUMBERS = frozenset({TypeKind.WHOLE_NUMBER, TypeKind.FLOAT, TypeKind.NUMERIC})
TEXTS = frozenset({TypeKind.TEXT, TypeKind.PADDED_TEXT})
TIMES = frozenset({TypeKind.DATE, TypeKind.TIMESTAMP, TypeKind.ZONED_TIMESTAMP})


class TypeModifier(Enum):
    """The meaning of a type's modifier in the catalogue, and where `format_type` writes it."""

    NONE = auto()
    LENGTH = auto()
    BITS = auto()
    NUMERIC = auto()
    PRECISION = auto()
    """The precision of fractions of a second; written before `with time zone`."""
    FIELDS = auto()
    """An interval's fields and precision: `interval day to second(3)`."""


@frozen
class DeviceColumn:
    """How a merge subscriber's SQLite file has values, so that programs calculate with them and sort them.

    `declaration` is the column's declared type; None for the type itself, with its precision. Types with the same
    column are one row of the documentation.
    """

    title: str
    declaration: str | None
    representation: str
    is_ordered: bool = True
    is_compared: bool = True
    limit: str = ""
    sorts_by_bytes: bool = False
    """The server sorts these texts by a collation."""


OTHER_COLUMN = DeviceColumn(
    "arrays, ranges, enums, money, inet, every other type",
    "text",
    "TEXT, as the server prints it: `{1,2}`, `[1,5)`, `$1.10`",
    is_ordered=False,
    is_compared=False,
    limit="compared as texts: labels of an enum sort by name, the elements of arrays as digits",
)


def always(lake_type: LakeType) -> Callable[[Modifiers], LakeType]:
    """Return the lake type of a type whatever its modifiers are."""
    return lambda _modifiers: lake_type


def print_float(value: float, _modifiers: Modifiers) -> str:
    """Return a file's floating point number as Python prints it, which SQLite reads as the same number."""
    return infinity(value) if math.isinf(value) else repr(value)


def infinity(value: float) -> str:
    """Return PostgreSQL's text of an infinite number."""
    return "Infinity" if value > 0 else "-Infinity"


@frozen(kw_only=True)
class ValueType:
    """A type. The defaults are those of a type that rowtide does not know."""

    name: str
    """As `format_type` writes it, without modifiers."""
    kind: TypeKind = TypeKind.OTHER
    oid: int | None = None
    """The oid of a built-in type whose binary form is the same in all versions of the server; None for other types."""
    array_oid: int | None = None
    """The oid of its array type, under the same condition."""
    modifier: TypeModifier = TypeModifier.NONE
    bits: int | None = None
    """The bits of an integer, or of a floating point number's significand."""
    is_padded: bool = False
    """Values are padded to the length."""
    casts_otherwise: bool = False
    """A cast to text is not what the server prints."""
    wider: tuple[str, ...] = ()
    """Types to which the server converts implicitly and without loss."""

    lake: Callable[[Modifiers], LakeType] = always(STRING)

    stored: StoredType = AS_TEXT
    """How a SQLite subscriber to transactional replication stores values, as the log has them."""
    device: DeviceColumn = OTHER_COLUMN
    read: Callable[[str, Modifiers], SqliteValue] | None = None
    """How a merge subscriber's SQLite file stores a text; None: as `stored`."""
    print_integer: Callable[[int, Modifiers], str] | None = None
    """The text of an integer that a SQLite file has in a column of this type; None: its digits."""
    print_float: Callable[[float, Modifiers], str] = print_float
    """The text of a floating point number that a SQLite file has in a column of this type."""
    now: str | None = None
    """SQLite's expression for PostgreSQL's `now()` as a value of this type."""

    literal_words: tuple[str, ...] = ()
    """The words that may precede a text in a row filter, as in `date '2024-01-01'`."""
    compared: ExactType | str | None = None
    """How row filters compare values, or why they do not but test for null; None: neither."""
    order: Callable[[str], Decimal | None] | None = None
    """A value's place in the type's order, for resolvers; None for a text that is no such value.

    Without it numbers are ordered as numbers, texts as texts.
    """
