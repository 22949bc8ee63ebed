"""Which columns take every value of another type unchanged."""

from __future__ import annotations

import pytest

from rowtide.databases.postgres.values import TypeDetails, can_hold, compares_alike, describe_code, describe_type


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


@pytest.mark.parametrize(
    ("code", "modifier", "text"),
    [
        (23, -1, "integer"),
        (1043, -1, "character varying"),
        (1043, 24, "character varying(20)"),
        (1042, 5, "character(1)"),
        (1700, -1, "numeric"),
        (1700, (9 << 16 | 2) + 4, "numeric(9,2)"),
        (1700, (3 << 16 | (-2 & 0x7FF)) + 4, "numeric(3,-2)"),
        (1114, -1, "timestamp without time zone"),
        (1184, 3, "timestamp(3) with time zone"),
        (90001, -1, "type 90001"),
    ],
)
def test_a_type_is_described_as_the_server_would(code: int, modifier: int, text: str) -> None:
    assert describe_code(code, modifier) == text


@pytest.mark.parametrize("type_text", ["integer[]", "numeric(12,2)[]", "sales.mood", '"Odd (type)"', "int4range"])
def test_of_arrays_and_users_types_only_the_name_is_known(type_text: str) -> None:
    assert describe_type(type_text) == TypeDetails(type_text)


def test_a_scale_may_be_negative() -> None:
    assert describe_type("numeric(3,-2)") == TypeDetails(
        "numeric", numeric_precision=3, numeric_precision_radix=10, numeric_scale=-2
    )
