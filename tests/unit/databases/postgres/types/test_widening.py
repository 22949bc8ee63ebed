"""Which columns take every value of another type unchanged."""

from __future__ import annotations

import pytest

from rowtide.databases.postgres.types.widening import can_hold


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
