"""The values that rows have while their unique values go to each other."""

from __future__ import annotations

import pytest

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.nodes.temporary_values import temporary_values

ROWS = ["3f2a0000-0000-0000-0000-000000000001", "3f2a0000-0000-0000-0000-000000000002"]


def article(*columns: ArticleColumn, unique: tuple[str, ...]) -> Article:
    return Article("t", "", "t", 1, columns, unique_columns=unique)


def column(type_text: str, *, name: str = "k", is_nullable: bool = False) -> ArticleColumn:
    return ArticleColumn(name, type_text, is_nullable, None)


@pytest.mark.parametrize(
    "type_text",
    [
        "integer",
        "bigint",
        "smallint",
        "numeric",
        "numeric(5,2)",
        "double precision",
        "date",
        "timestamp(0) with time zone",
        "text",
        "character varying",
        "character varying(20)",
        "character varying(3)",
        "character(1)",
        "bytea",
        "uuid",
    ],
)
def test_temporary_values_differ_from_row_to_row(type_text: str) -> None:
    temporary = temporary_values(article(column(type_text), unique=("k",)), ROWS, (), {})

    values = [temporary[rowguid]["k"] for rowguid in ROWS]
    assert None not in values
    assert len(set(values)) == len(ROWS)


@pytest.mark.parametrize("length", [1, 11, 12, 20])
def test_temporary_texts_are_as_short_as_the_column(length: int) -> None:
    temporary = temporary_values(article(column(f"character varying({length})"), unique=("k",)), ROWS, (), {})

    assert all(len(temporary[rowguid]["k"] or "") <= length for rowguid in ROWS)


def test_temporary_numbers_follow_the_greatest() -> None:
    temporary = temporary_values(article(column("integer"), unique=("k",)), ROWS, (), {"k": 7})

    assert [temporary[rowguid]["k"] for rowguid in ROWS] == ["8", "9"]


def test_a_column_that_may_be_null_is_null_meanwhile() -> None:
    assert temporary_values(article(column("date", is_nullable=True), unique=("k",)), ROWS[:1], (), {}) == {
        ROWS[0]: {"k": None}
    }


def test_a_referenced_column_is_not_null_meanwhile() -> None:
    columns = [column("text", is_nullable=True), column("boolean", name="d", is_nullable=True)]

    assert temporary_values(article(*columns, unique=("k", "d")), ROWS[:1], {"k", "d"}, {}) == {ROWS[0]: {"k": ROWS[0]}}


@pytest.mark.parametrize("type_text", ["boolean", "mood", "interval"])
def test_a_column_without_a_value_to_spare_stays_as_it_is(type_text: str) -> None:
    assert temporary_values(article(column(type_text), unique=("k",)), ROWS[:1], (), {}) == {ROWS[0]: {}}


def test_only_unique_columns_get_temporary_values() -> None:
    columns = [column("integer", name="k"), column("integer", name="v", is_nullable=True), column("text", name="u")]

    assert temporary_values(article(*columns, unique=("u", "k")), ROWS[:1], (), {}) == {
        ROWS[0]: {"k": "1", "u": ROWS[0]}
    }
