"""Merge's filters as trees of expressions. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import assert_never


class Form(Enum):
    """How a constant is written in SQL."""

    NUMBER = "number"
    TEXT = "text"
    WORD = "word"


class SubscriberValue(Enum):
    """A subscription's value that filters use (SQL Server: HOST_NAME(), SUSER_SNAME())."""

    HOST_NAME = "host_name"
    SUSER_NAME = "suser_name"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of the filter; both names as the database has them."""

    table: str
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text without its quotes, or true or false."""

    form: Form
    text: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A unary or binary operator with its operands."""

    operator: str
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an immutable function."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Membership:
    """`operand in (member, ...)`."""

    operand: Expression
    members: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """`operand between low and high`."""

    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class Test:
    """`operand is state`: null, true or false."""

    operand: Expression
    state: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A column or a subscription's value, converted; `type_name` is one of `casts.TYPES`."""

    operand: Column | SubscriberValue
    type_name: str


Expression = Cast | Column | Constant | SubscriberValue | Operation | Call | Membership | Range | Test


def functions_of(expression: Expression) -> frozenset[SubscriberValue]:
    """Return the subscriber values that an expression uses."""
    return frozenset(part for part in parts_of(expression) if isinstance(part, SubscriberValue))


def columns_of(expression: Expression) -> frozenset[Column]:
    """Return the columns that an expression uses."""
    return frozenset(part for part in parts_of(expression) if isinstance(part, Column))


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that it consists of."""
    yield expression
    match expression:
        case Column() | Constant() | SubscriberValue():
            operands: tuple[Expression, ...] = ()
        case Operation(_, operands) | Call(_, operands):
            pass
        case Membership(operand, members):
            operands = (operand, *members)
        case Range(operand, low, high):
            operands = (operand, low, high)
        case Test(operand) | Cast(operand):
            operands = (operand,)
        case _:
            assert_never(expression)
    for each in operands:
        yield from parts_of(each)
