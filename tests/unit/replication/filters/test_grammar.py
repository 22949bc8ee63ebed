"""What row filters say: names, literals, precedence."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from builders.values.row_filters import COLUMNS, filters
from rowtide.replication.errors.publishing import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters import Condition, FilterColumn, as_sql, columns_of, parse_filter
from rowtide.replication.filters.conditions import Comparison, Conjunction, Disjunction, Negation, NullTest, Range

A = FilterColumn(0, "a", "integer", has_deterministic_collation=True)
B = FilterColumn(3, "b", "text", has_deterministic_collation=True)
QUOTED = FilterColumn(4, 'Say "x"', "boolean", has_deterministic_collation=True)
UPPER = FilterColumn(5, "USER", "date", has_deterministic_collation=True)
REFUSALS = (FilterMalformed, FilterTypeInexact, FilterColumnUnpublished)


def parse(filter_text: str) -> Condition:
    return parse_filter(filter_text, (A, B, QUOTED, UPPER))


def is_taken(filter_text: str) -> bool:
    try:
        parse_filter(filter_text, COLUMNS)
    except REFUSALS:
        return False
    return True


def test_or_binds_less_than_and_and_that_less_than_not() -> None:
    condition = parse("not a = 1 and a = 2 or a is null")

    assert isinstance(condition, Disjunction)
    both, last = condition.operands
    assert isinstance(both, Conjunction)
    assert [type(operand) for operand in both.operands] == [Negation, Comparison]
    assert last == NullTest(A)


def test_parentheses_bind_most() -> None:
    condition = parse("not (a = 1 and (a = 2 or a is null))")

    assert isinstance(condition, Negation)
    assert isinstance(condition.operand, Conjunction)
    assert isinstance(condition.operand.operands[1], Disjunction)


def test_the_and_of_between_joins_nothing() -> None:
    condition = parse("a between 1 and 2 and a not between 3 and 4")

    assert isinstance(condition, Conjunction)
    first, second = condition.operands
    assert isinstance(first, Range)
    assert isinstance(second, Negation)
    assert isinstance(second.operand, Range)


@pytest.mark.parametrize(
    ("filter_text", "column"),
    [
        ("A is null", A),
        ('"a" is null', A),
        ('\t"Say ""x""" IS\nNULL ', QUOTED),
        ('"USER" Is Null', UPPER),
        ('"USER"is null', UPPER),
    ],
)
def test_bare_names_are_folded_and_quoted_ones_are_not(filter_text: str, column: FilterColumn) -> None:
    assert parse(filter_text) == NullTest(column)


@pytest.mark.parametrize(
    ("filter_text", "sql"),
    [
        ("a=-5", '"a" = -5'),
        ("a != - 5", '"a" <> -5'),
        ("a>=+.5", '"a" >= +.5'),
        ("a in(1,'2')", "\"a\" in (1, '2')"),
        ("b='it''s'", "\"b\" = 'it''s'"),
        ("b <> '--/* ; $1'", "\"b\" <> '--/* ; $1'"),
        (r"b = '\'", r""""b" = e'\\' """.strip()),
        ('"Say ""x""" = TRUE', '"Say ""x""" = true'),
        ("\"USER\" = Date'2024-01-31'", "\"USER\" = date '2024-01-31'"),
        ("a is not null or not b in ('')", '(not ("a" is null)) or (not ("b" in (\'\')))'),
        ("a between 1 and 2 and a < 3", '("a" between 1 and 2) and ("a" < 3)'),
    ],
)
def test_a_filter_is_given_back_as_sql(filter_text: str, sql: str) -> None:
    assert as_sql(parse(filter_text)) == sql


def test_the_columns_of_a_filter_are_those_that_it_names() -> None:
    assert columns_of(parse("a = 1 or not (a > 2 and b is null)")) == {A, B}
    assert columns_of(parse("b in ('a', 'x')")) == {B}


@given(filters(is_taken))
def test_what_is_given_back_is_read_again_as_the_same(filter_text: str) -> None:
    condition = parse_filter(filter_text, COLUMNS)
    sql = as_sql(condition)

    # A text with a backslash is written in a way that only SQL has.
    if "\\" not in sql:
        assert parse_filter(sql, COLUMNS) == condition


FRAGMENTS = st.sampled_from(
    ["a", "b", "=", "'x'", "5", "(", ")", "not", "and", "in", "is", "null", "between", "-", ","]
)


@given(st.text() | st.lists(FRAGMENTS | st.text(max_size=2)).map(" ".join))
def test_any_text_is_read_or_refused_at_one_of_its_characters(filter_text: str) -> None:
    assert refused_at(filter_text) in (None, *range(1, len(filter_text) + 2))


def refused_at(filter_text: str) -> int | None:
    try:
        parse(filter_text)
    except REFUSALS as refusal:
        return refusal.place
    return None
