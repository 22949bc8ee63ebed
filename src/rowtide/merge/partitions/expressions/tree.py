"""Merge's filters as trees of expressions, and as SQL that each kind of hub evaluates in the same way. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import partial
from typing import assert_never
from uuid import UUID

from rowtide.core.values import frozen


class ConstantForm(Enum):
    """How a constant is written in SQL."""

    NUMBER = "number"
    TEXT = "text"
    WORD = "word"


class SubscriberValue(Enum):
    """A subscription's value that filters use (SQL Server: HOST_NAME(), SUSER_SNAME())."""

    HOST_NAME = "host_name"
    SUSER_NAME = "suser_name"


@frozen
class ColumnExpression:
    """A column of a table of the filter; both names as the database has them."""

    table: str
    name: str


@frozen
class ConstantExpression:
    """A number, a text without its quotes, or true or false."""

    form: ConstantForm
    text: str


@frozen
class OperatorExpression:
    """A unary or binary operator with its operands."""

    operator: str
    operands: tuple[Expression, ...]


@frozen
class CallExpression:
    """A call of an immutable function."""

    function: str
    arguments: tuple[Expression, ...]


@frozen
class MembershipExpression:
    """`operand in (member, ...)`."""

    operand: Expression
    members: tuple[Expression, ...]


@frozen
class RangeExpression:
    """`operand between low and high`."""

    operand: Expression
    low: Expression
    high: Expression


@frozen
class Test:
    """`operand is state`: null, true or false."""

    operand: Expression
    state: str


@frozen
class Cast:
    """A column or a subscription's value, converted; `type_name` is one of `TYPES`."""

    operand: ColumnExpression | SubscriberValue
    type_name: str


Expression = (
    Cast
    | ColumnExpression
    | ConstantExpression
    | SubscriberValue
    | OperatorExpression
    | CallExpression
    | MembershipExpression
    | RangeExpression
    | Test
)


def functions_of(expression: Expression) -> frozenset[SubscriberValue]:
    """Return the subscriber values that an expression uses."""
    return frozenset(part for part in parts_of(expression) if isinstance(part, SubscriberValue))


def columns_of(expression: Expression) -> frozenset[ColumnExpression]:
    """Return the columns that an expression uses."""
    return frozenset(part for part in parts_of(expression) if isinstance(part, ColumnExpression))


def parts_of(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that it consists of."""
    yield expression
    match expression:
        case ColumnExpression() | ConstantExpression() | SubscriberValue():
            operands: tuple[Expression, ...] = ()
        case OperatorExpression(_, operands) | CallExpression(_, operands):
            pass
        case MembershipExpression(operand, members):
            operands = (operand, *members)
        case RangeExpression(operand, low, high):
            operands = (operand, low, high)
        case Test(operand) | Cast(operand):
            operands = (operand,)
        case _:
            assert_never(expression)
    for each in operands:
        yield from parts_of(each)


TYPES: Mapping[str, str] = {
    "smallint": "bigint",
    "int": "bigint",
    "integer": "bigint",
    "bigint": "bigint",
    "decimal": "numeric",
    "numeric": "numeric",
    "text": "text",
    "varchar": "text",
    "date": "date",
    "uuid": "uuid",
}
"""The types that filters may name, and the type that each means."""
_LARGEST = 2**63
_OF_COLUMNS = {
    "smallint": ("bigint", "text"),
    "integer": ("bigint", "text"),
    "bigint": ("bigint", "text"),
    "text": ("text",),
    "character varying": ("text",),
}


def types_of_column(type_text: str) -> tuple[str, ...]:
    """Return the types to which a column can be converted, by its own."""
    return _OF_COLUMNS.get(re.sub(r"\(.*\)", "", type_text).strip(), ())


def literal(value: str, type_name: str) -> str | None:
    """Return a subscription's value as a literal of a type; None if it is not of the type."""
    try:
        return _LITERALS[type_name](value.strip())
    except (ValueError, InvalidOperation):
        return None


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def _integer(value: str) -> str:
    number = int(value)
    if not (-_LARGEST <= number < _LARGEST and re.fullmatch("[-+]?[0-9]+", value)):
        raise ValueError(value)
    return f"({number})"


def _numeric(value: str) -> str:
    number = Decimal(value)
    if not (number.is_finite() and re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", value)):
        raise ValueError(value)
    # With a point, it is divided as a fraction by both.
    return f"({number})" if "." in value else f"({number}.0)"


def _date(value: str) -> str:
    return quoted(date.fromisoformat(value).isoformat())


def _uuid(value: str) -> str:
    return quoted(str(UUID(value)))


_LITERALS: Mapping[str, Callable[[str], str]] = {
    "bigint": _integer,
    "numeric": _numeric,
    "text": quoted,
    "date": _date,
    "uuid": _uuid,
}


PARTITION = "rowtide_partition"
"""Alias of the partitions that a filter is evaluated for at once, with a column for each filter function."""


def as_sql(expression: Expression, values: Mapping[SubscriberValue, str] | None) -> str:
    """Return one operand as SQL; `values` are the subscription's values of filter functions.

    Without `values` they are columns of `PARTITION`.
    """
    write = partial(as_sql, values=values)
    match expression:
        case ColumnExpression(table, name):
            return f"{_quoted(table)}.{_quoted(name)}"
        case ConstantExpression(ConstantForm.TEXT, text):
            return quoted(text)
        case ConstantExpression(_, text):
            return text
        case SubscriberValue():
            return f"{PARTITION}.{expression.value}" if values is None else quoted(values.get(expression, ""))
        case Cast(SubscriberValue() as function, type_name) if values is not None:
            return literal(values.get(function, ""), type_name) or f"cast(null as {type_name})"
        case Cast(operand, type_name):
            return f"cast({write(operand)} as {type_name})"
        case OperatorExpression(operator, (operand,)):
            return f"({operator} {write(operand)})"
        case OperatorExpression(operator, operands):
            return f"({f' {operator} '.join(map(write, operands))})"
        case CallExpression(function, arguments):
            return f"{function}({_listed(map(write, arguments))})"
        case MembershipExpression(operand, members):
            return f"({write(operand)} in ({_listed(map(write, members))}))"
        case RangeExpression(operand, low, high):
            return f"({write(operand)} between {write(low)} and {write(high)})"
        case Test(operand, state):
            return f"({write(operand)} is {state})"
        case _:
            assert_never(expression)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
