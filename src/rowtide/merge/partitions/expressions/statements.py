"""Merge's filters as SQL that every hub's database interprets alike. Pure.

The SQL is written from the tree alone, with every name quoted and every operation in parentheses: no text of the filter
reaches a statement, and precedence does not depend on the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import assert_never

from rowtide.merge.partitions.expressions.casts import literal, quoted
from rowtide.merge.partitions.expressions.tree import (
    Call,
    Cast,
    Column,
    Constant,
    Expression,
    Form,
    Membership,
    Operation,
    Range,
    SubscriberValue,
    Test,
)


def as_sql(expression: Expression, values: Mapping[SubscriberValue, str]) -> str:
    """Return one operand as SQL; `values` are the subscription's values of filter functions."""
    write = partial(as_sql, values=values)
    match expression:
        case Column(table, name):
            return f"{_quoted(table)}.{_quoted(name)}"
        case Constant(Form.TEXT, text):
            return quoted(text)
        case Constant(_, text):
            return text
        case SubscriberValue():
            return quoted(values.get(expression, ""))
        case Cast(SubscriberValue() as function, type_name):
            return literal(values.get(function, ""), type_name) or f"cast(null as {type_name})"
        case Cast(operand, type_name):
            return f"cast({write(operand)} as {type_name})"
        case Operation(operator, (operand,)):
            return f"({operator} {write(operand)})"
        case Operation(operator, operands):
            return f"({f' {operator} '.join(map(write, operands))})"
        case Call(function, arguments):
            return f"{function}({_listed(map(write, arguments))})"
        case Membership(operand, members):
            return f"({write(operand)} in ({_listed(map(write, members))}))"
        case Range(operand, low, high):
            return f"({write(operand)} between {write(low)} and {write(high)})"
        case Test(operand, state):
            return f"({write(operand)} is {state})"
        case _:
            assert_never(expression)


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
