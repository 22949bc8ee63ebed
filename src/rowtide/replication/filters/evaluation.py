"""Evaluates a row filter on logged rows, in SQL's three-valued logic. Pure.

An update may move a row into a filter or out of it: to the subscriber it is an insert, or a delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

import numpy as np
import numpy.typing as npt

from rowtide.core.values import frozen
from rowtide.databases.types.value_type import ExactType
from rowtide.replication.filters.conditions import (
    Comparator,
    Comparison,
    Condition,
    Conjunction,
    Constant,
    Disjunction,
    FilterColumn,
    Membership,
    Negation,
    NullTest,
    Range,
    columns_of,
    find_type,
)

Values = npt.NDArray[np.object_]
"""A column's values by rows: the server's text as bytes, or None."""
_Facts = npt.NDArray[np.bool_]

_COMPARE: Mapping[Comparator, np.ufunc] = {
    Comparator.EQUAL: np.equal,
    Comparator.UNEQUAL: np.not_equal,
    Comparator.LESS: np.less,
    Comparator.AT_MOST: np.less_equal,
    Comparator.GREATER: np.greater,
    Comparator.AT_LEAST: np.greater_equal,
}


def matches(condition: Condition, values: Mapping[int, Values]) -> _Facts:
    """Return which rows satisfy a filter; `values` has, by position, at least the columns that it names.

    A row for which the result is null is not selected.
    """
    keys = {column.place: _ColumnKeys.of(column, values[column.place]) for column in columns_of(condition)}
    return _evaluate(condition, keys).is_true


@frozen
class _Verdict:
    """Where a condition is true and where it is false; elsewhere it is null."""

    is_true: _Facts
    is_false: _Facts


@frozen
class _ColumnKeys:
    """A column's values as comparable keys, for the rows that have a value."""

    has_value: _Facts
    keys: Values

    @classmethod
    def of(cls, column: FilterColumn, values: Values) -> _ColumnKeys:
        has_value: _Facts = values != np.array(None)
        exact = find_type(column.type_text, is_deterministic=column.has_deterministic_collation)
        read = exact.read_value if isinstance(exact, ExactType) else bytes
        keys = [read(value) for value in values[has_value]]
        return cls(has_value, np.array(keys, dtype=object))

    def compare(self, comparator: Comparator, constant: Constant) -> _Facts:
        # An array of one object: numpy would make a text of its own of bytes, and a number of its own of a number.
        return np.asarray(_COMPARE[comparator](self.keys, np.array(constant.key, dtype=object)), dtype=np.bool_)

    def find(self, constants: Iterable[Constant]) -> _Facts:
        wanted = {constant.key for constant in constants}
        return np.fromiter((key in wanted for key in self.keys), np.bool_, len(self.keys))

    def spread(self, is_true: _Facts) -> _Verdict:
        """Return the result for all rows from that for rows with a value; null for the others."""
        verdict = np.zeros(self.has_value.shape, dtype=np.bool_)
        verdict[self.has_value] = is_true
        return _Verdict(verdict, self.has_value & ~verdict)


def _evaluate(condition: Condition, keys: Mapping[int, _ColumnKeys]) -> _Verdict:
    match condition:
        case Comparison(column, comparator, constant):
            of_column = keys[column.place]
            return of_column.spread(of_column.compare(comparator, constant))
        case Membership(column, constants):
            of_column = keys[column.place]
            return of_column.spread(of_column.find(constants))
        case Range(column, low, high):
            of_column = keys[column.place]
            is_above = of_column.compare(Comparator.AT_LEAST, low)
            return of_column.spread(is_above & of_column.compare(Comparator.AT_MOST, high))
        case NullTest(column):
            has_value = keys[column.place].has_value
            return _Verdict(~has_value, has_value)
        case Negation(operand):
            return _invert(_evaluate(operand, keys))
        case Conjunction(operands):
            return _all_of([_evaluate(operand, keys) for operand in operands])
        case Disjunction(operands):
            return _invert(_all_of([_invert(_evaluate(operand, keys)) for operand in operands]))
        case _:
            assert_never(condition)


def _all_of(verdicts: Sequence[_Verdict]) -> _Verdict:
    is_true = np.logical_and.reduce([verdict.is_true for verdict in verdicts])
    return _Verdict(is_true, np.logical_or.reduce([verdict.is_false for verdict in verdicts]))


def _invert(verdict: _Verdict) -> _Verdict:
    return _Verdict(verdict.is_false, verdict.is_true)


@frozen
class Transitions:
    """Which updates remain updates, become deletes because the row left the filter, or inserts because it entered.

    Other updates are not sent to the subscriber.
    """

    updates: _Facts
    deletes: _Facts
    inserts: _Facts


def find_transitions(before: _Facts, after: _Facts) -> Transitions:
    """Classify updates by whether their rows match the filter before and after."""
    return Transitions(updates=before & after, deletes=before & ~after, inserts=~before & after)
