"""Row filters as trees of conditions on columns of one table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import assert_never

from rowtide.replication.filters.literals import Key, Literal


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, and its value when compared with a column."""

    literal: Literal
    key: Key


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column = literal` and the like."""

    column: FilterColumn
    comparator: Comparator
    constant: Constant


@dataclass(frozen=True, slots=True)
class Membership:
    """`column in (literal, ...)`."""

    column: FilterColumn
    constants: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """`column between low and high`, both included."""

    column: FilterColumn
    low: Constant
    high: Constant


@dataclass(frozen=True, slots=True)
class NullTest:
    """`column is null`."""

    column: FilterColumn


@dataclass(frozen=True, slots=True)
class Negation:
    """`not condition`; also `not in`, `not between` and `is not null`."""

    operand: Condition


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`condition and condition`, two or more."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
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
