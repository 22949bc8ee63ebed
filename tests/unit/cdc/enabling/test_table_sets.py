"""Patterns of tables: globs as in a shell, quotes and letter case as in SQL."""

from __future__ import annotations

import re

import pytest

from rowtide.cdc.enabling.table_sets import as_expression, is_pattern, parse_lines, parse_pattern
from rowtide.cdc.errors.enabling import TablePatternInvalid


@pytest.mark.parametrize(
    ("pattern", "schema", "table", "is_matched"),
    [
        ("public.*", "public", "item", True),
        ("public.*", "publication", "item", False),
        ("PUBLIC.It?m", "public", "item", True),
        ("public.it[a-e]m", "public", "item", True),
        ("public.it[!a-e]m", "public", "item", False),
        ("public.item", "public", "items", False),
        ("public.Item*", "public", "Item_1", False),
        ('public."Item"*', "public", "Item_1", True),
        ('public."a*"', "public", "a*", True),
        ('public."a*"', "public", "ab", False),
        ('"a.b".*', "a.b", "c", True),
        ('"a""b".*', 'a"b', "c", True),
        ('"a[b".*', "a[b", "c", True),
        ("*.*_log", "any", "item_log", True),
        ("größe.Ü*", "größe", "Über", True),
        ("public.item 1*", "public", "item 1", True),
        ("public.item[]-]*", "public", "item]", True),
        ("public.item[]-]*", "public", "item-1", True),
        ('public."a$^|"*', "public", "a$^|b", True),
        ('public."a[!b]"', "public", "a!", False),
    ],
)
def test_pattern_matches_as_written(pattern: str, schema: str, table: str, *, is_matched: bool) -> None:
    parsed = parse_pattern(pattern)
    assert parsed.matches(schema, table, is_visible=False) is is_matched
    expression = as_expression([parse_pattern("other.not"), parsed])
    assert (re.match(expression or "", f"{schema}\n{table}") is not None) is is_matched


def test_pattern_without_schema_matches_visible_tables() -> None:
    assert parse_pattern("it*").matches("any", "item", is_visible=True)
    assert not parse_pattern("it*").matches("public", "item", is_visible=False)


@pytest.mark.parametrize("text", ['public."a', "", "a.", ".b", "a.b.c", 'a.""'])
def test_other_texts_are_no_patterns(text: str) -> None:
    with pytest.raises(TablePatternInvalid, match="RT-4113"):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("text", "is_one"), [("public.*", True), ('"a"[bc]', True), ('public."*"', False), ("public.item", False)]
)
def test_wildcards_in_quotes_are_letters(text: str, *, is_one: bool) -> None:
    assert is_pattern(text) is is_one


def test_lines_of_a_file_may_have_comments() -> None:
    text = '# all of them\npublic.*  # and\n\n  other.one\n"a#b".c # no comment inside quotes\nbro"ken\n'
    assert parse_lines(text) == ("public.*", "other.one", '"a#b".c', 'bro"ken')
