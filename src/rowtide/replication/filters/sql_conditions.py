"""Row filters as SQL, with which PostgreSQL selects the same rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.replication.filters.conditions import (
    Comparison,
    Condition,
    Conjunction,
    Constant,
    Disjunction,
    Membership,
    Negation,
    NullTest,
    Range,
)
from rowtide.replication.filters.literals import Form


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
