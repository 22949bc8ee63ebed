"""Row filters as trees of conditions on columns of one table, and as SQL that selects the same rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import Enum
from typing import assert_never

from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.databases.types import registry
from rowtide.databases.types.registry import FAMILIES
from rowtide.databases.types.value_type import ExactType, Form, Key, Literal

TYPE_WORDS: Mapping[str, str] = {
    word: each.name for family in reversed(FAMILIES) for each in family.TYPES for word in each.literal_words
}
"""The types that may precede a text, as in `date '2024-01-01'`, and their names; those of dates are said first."""


@frozen
class FilterColumn:
    """A published column as used by filters.

    `place` is its position among the evaluated values, `type_text` the type as SQL writes it (of a domain, the base
    type). `has_deterministic_collation` is also true for types without collation.
    """

    place: int
    name: str
    type_text: str
    has_deterministic_collation: bool = field(kw_only=True)


class Comparator(Enum):
    """How a column is compared with a literal."""

    EQUAL = "="
    UNEQUAL = "<>"
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="

    @property
    def needs_order(self) -> bool:
        return self not in (Comparator.EQUAL, Comparator.UNEQUAL)


@frozen
class Constant:
    """A literal, and its value when compared with a column."""

    literal: Literal
    key: Key


@frozen
class Comparison:
    """`column = literal` and the like."""

    column: FilterColumn
    comparator: Comparator
    constant: Constant


@frozen
class Membership:
    """`column in (literal, ...)`."""

    column: FilterColumn
    constants: tuple[Constant, ...]


@frozen
class Range:
    """`column between low and high`, both included."""

    column: FilterColumn
    low: Constant
    high: Constant


@frozen
class NullTest:
    """`column is null`."""

    column: FilterColumn


@frozen
class Negation:
    """`not condition`; also `not in`, `not between` and `is not null`."""

    operand: Condition


@frozen
class Conjunction:
    """`condition and condition`, two or more."""

    operands: tuple[Condition, ...]


@frozen
class Disjunction:
    """`condition or condition`, two or more."""

    operands: tuple[Condition, ...]


Condition = Comparison | Membership | Range | NullTest | Negation | Conjunction | Disjunction


def columns_of(condition: Condition) -> frozenset[FilterColumn]:
    """Return the columns that a filter names."""
    match condition:
        case Comparison(column) | Membership(column) | Range(column) | NullTest(column):
            return frozenset((column,))
        case Negation(operand):
            return columns_of(operand)
        case Conjunction(operands) | Disjunction(operands):
            return _columns_of_all(operands)
        case _:
            assert_never(condition)


def _columns_of_all(conditions: Iterable[Condition]) -> frozenset[FilterColumn]:
    return frozenset(column for condition in conditions for column in columns_of(condition))


def renamed(condition: Condition, names: Mapping[str, str]) -> Condition:
    """Return a filter with other names for its columns."""
    match condition:
        case Comparison(column) | Membership(column) | Range(column) | NullTest(column):
            return replace(condition, column=replace(column, name=names.get(column.name, column.name)))
        case Negation(operand):
            return Negation(renamed(operand, names))
        case Conjunction(operands) | Disjunction(operands):
            return replace(condition, operands=tuple(renamed(operand, names) for operand in operands))
        case _:
            assert_never(condition)


def as_sql(condition: Condition) -> str:
    """Return a filter as a condition with unqualified columns, for use after `where` or in parentheses.

    Literals are written as the user wrote them: their types come from the columns, as when the filter was bound.
    """
    match condition:
        case Comparison(column, comparator, constant):
            return f"{quote(column.name)} {comparator.value} {_literal(constant)}"
        case Membership(column, constants):
            return f"{quote(column.name)} in ({', '.join(map(_literal, constants))})"
        case Range(column, low, high):
            return f"{quote(column.name)} between {_literal(low)} and {_literal(high)}"
        case NullTest(column):
            return f"{quote(column.name)} is null"
        case Negation(operand):
            return f"not ({as_sql(operand)})"
        case Conjunction(operands):
            return _join(" and ", operands)
        case Disjunction(operands):
            return _join(" or ", operands)
        case _:
            assert_never(condition)


def _join(word: str, operands: Iterable[Condition]) -> str:
    return word.join(f"({as_sql(operand)})" for operand in operands)


def _literal(constant: Constant) -> str:
    literal = constant.literal
    match literal.form:
        case Form.NUMBER | Form.TRUTH:
            return literal.text
        case Form.TEXT:
            return f"{literal.type_word} {_text(literal.text)}" if literal.type_word else _text(literal.text)
        case _:
            assert_never(literal.form)


def _text(text: str) -> str:
    """Quote a text; backslashes are escaped so that `standard_conforming_strings` does not matter."""
    quoted = quote_literal(text)
    return "e" + quoted.replace("\\", "\\\\") if "\\" in text else quoted


NOT_BUILT_IN = "only PostgreSQL's numbers, booleans, UUIDs, dates, timestamps and texts compare exactly"
NOT_ORDERED = "the order of texts is their collation's: they are compared by =, <>, in and is null only"
NOT_DETERMINISTIC = "its collation makes different texts equal"


@frozen
class Inexact:
    """A type that cannot be compared, and why; `may_be_null` says whether it can be tested for null."""

    reason: str
    may_be_null: bool


def find_type(type_text: str, *, is_deterministic: bool) -> ExactType | Inexact:
    """Return how a type's values compare; `is_deterministic` is about the column's collation."""
    match registry.find_type(type_text).value_type.compared:
        case ExactType() as exact:
            return (
                exact if is_deterministic or not exact.has_collation else Inexact(NOT_DETERMINISTIC, may_be_null=True)
            )
        case None:
            # A composite value is null when its fields are: the text of those of users does not say.
            return Inexact(NOT_BUILT_IN, may_be_null=False)
        case reason:
            return Inexact(reason, may_be_null=True)
