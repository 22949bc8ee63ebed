"""Which checks another kind of database would evaluate otherwise."""

from __future__ import annotations

import pytest

from rowtide.merge.nodes.check_differences import differs_in_files, differs_on_servers

TYPES = {
    "qty": "integer",
    "total": "numeric(10,2)",
    "tax": "numeric(10,2)",
    "code": "character(5)",
    "name": "character varying(20)",
    "stays": "interval",
    "label": "public.label",
    "day": "date",
    "is_open": "boolean",
}


@pytest.mark.parametrize(
    "check",
    [
        "(qty > 0)",
        "((qty + 1) * 2) < 100",
        "(total >= 0)",
        "(total > '5.5')",
        "(length(name) > 3)",
        "((name) <> 'a < b')",
        "((name) = 'x') or ((name) in ('y', 'z'))",
        "(day > '2020-01-01')",
        "(is_open OR (qty IS NULL))",
        "(code = 'ab')",
        "((stays IS NOT NULL) AND (qty > 1))",
    ],
)
def test_checks_of_the_same_meaning_are_carried(check: str) -> None:
    assert differs_in_files(check, TYPES) is None


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        ("((name) > 'a')", "orders character varying by bytes"),
        ("('m' <= (name))", "orders character varying by bytes"),
        ("(stays < '1 day')", "compares interval as text"),
        ("(label <> 'old')", "compares public.label as text"),
        ("((total + tax) <= 0.3)", "floating point"),
        ("(length(code) = 2)", "padding"),
        ("((qty > 0) AND (name >= 'a'))", "by bytes"),
    ],
)
def test_checks_that_files_read_otherwise_are_left_out(check: str, reason: str) -> None:
    said = differs_in_files(check, TYPES)
    assert said is not None
    assert reason in said


@pytest.mark.parametrize(
    ("check", "is_carried"), [("name like 'A%'", False), ("name <> 'like'", True), ("a > 1", True)]
)
def test_like_of_a_file_is_not_that_of_a_server(check: str, *, is_carried: bool) -> None:
    assert (differs_on_servers(check) is None) is is_carried
