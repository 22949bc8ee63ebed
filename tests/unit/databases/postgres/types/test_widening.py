"""Which columns take every value of another type unchanged."""

from __future__ import annotations

import pytest

from rowtide.databases.postgres.types.widening import can_hold, compares_alike


@pytest.mark.parametrize(
    ("declared", "published"),
    [
        ("integer", "integer"),
        ("bigint", "integer"),
        ("numeric(5,0)", "smallint"),
        ("numeric", "numeric(10,2)"),
        ("numeric(12,4)", "numeric(10,2)"),
        ("double precision", "real"),
        ("text", "character varying(20)"),
        ("character varying", "text"),
        ("character varying(20)", "character(20)"),
        ("character(8)", "character(8)"),
        ("bit varying(8)", "bit(8)"),
        ("timestamp without time zone", "timestamp(3) without time zone"),
        ("timestamp(6) with time zone", "timestamp(3) with time zone"),
        ("public.mood[]", "public.mood[]"),
    ],
)
def test_equal_and_wider_types_take_every_value(declared: str, published: str) -> None:
    assert can_hold(declared, published)


@pytest.mark.parametrize(
    ("declared", "published"),
    [
        ("integer", "bigint"),
        ("numeric(4,0)", "smallint"),
        ("numeric(11,3)", "numeric(10,1)"),
        ("numeric(10,1)", "numeric(10,2)"),
        ("numeric(10,2)", "numeric"),
        ("real", "double precision"),
        ("character varying(10)", "character varying(20)"),
        ("character varying(10)", "text"),
        ("character(9)", "character(8)"),
        ("bit(9)", "bit(8)"),
        ("timestamp(3) without time zone", "timestamp without time zone"),
        ("timestamp with time zone", "timestamp without time zone"),
        ("text", "integer"),
        ("jsonb", "json"),
        ("public.mood", "other.mood"),
    ],
)
def test_narrower_and_other_types_are_refused(declared: str, published: str) -> None:
    assert not can_hold(declared, published)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("integer", "bigint"),
        ("smallint", "numeric"),
        ("numeric(10,2)", "numeric(12,4)"),
        ("character varying(10)", "character varying(20)"),
        ("character varying(10)", "text"),
        ("uuid", "uuid"),
    ],
)
def test_conditions_hold_for_the_same_values_of_wider_types(old: str, new: str) -> None:
    assert compares_alike(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "integer"),
        ("real", "double precision"),
        ("character(5)", "text"),
        ("date", "timestamp without time zone"),
        ("integer", "text"),
    ],
)
def test_they_may_not_for_types_that_compare_otherwise(old: str, new: str) -> None:
    assert not compares_alike(old, new)
