"""What can name a publication."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from rowtide.core.errors import NameUnfit
from rowtide.core.names import (
    ColumnListMalformed,
    format_column_list,
    parse_column_list,
    require_name,
    write_column_list,
)


@pytest.mark.parametrize("name", ["shop", "ein Büro", "東京 🗼", "x" * 128, "-", '"', "e\u0301"])
def test_a_name_is_a_line_of_text(name: str) -> None:
    require_name("publication", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        (" ", "it is empty"),
        ("a\nb", "control characters"),
        ("a\x1b[31m", "control characters"),
        ("a\0", "control characters"),
        ("\udc80", "control characters"),
        ("x" * 129, "more than 128"),
        (None, "of the type NoneType"),
        (5, "of the type int"),
        (b"shop", "of the type bytes"),
    ],
)
def test_what_cannot_be_typed_again_is_no_name(name: Any, reason: str) -> None:
    with pytest.raises(NameUnfit, match=reason):
        require_name("publication", name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id", ("id",)),
        (" id , First Name ,\tÜbung", ("id", "First Name", "Übung")),
        ('"a,b", [c,d]', ("a,b", "c,d")),
        ('"say ""hi""",[x]]y]', ('say "hi"', "x]y")),
        ('" padded "', (" padded ",)),
        ('[a"b],"c]d"', ('a"b', "c]d")),
    ],
)
def test_names_are_read_bare_and_in_either_kind_of_quotes(text: str, names: tuple[str, ...]) -> None:
    assert parse_column_list(text) == names


@pytest.mark.parametrize(
    ("text", "place"),
    [("", 1), ("a,", 3), ("a,,b", 3), ('a"b', 1), ("id,[name", 4), ("[a] b", 1), ('""', 1), ("id,[]", 4), ("a]b", 1)],
)
def test_a_malformed_list_is_refused_with_the_place(text: str, place: int) -> None:
    with pytest.raises(ColumnListMalformed) as refused:
        parse_column_list(text)
    assert (refused.value.number, refused.value.place) == (22965, place)


@given(st.lists(st.text(min_size=1), min_size=1))
def test_what_is_written_is_read_again(names: list[str]) -> None:
    assert parse_column_list(format_column_list(names)) == tuple(names)
    assert parse_column_list(write_column_list(names)) == tuple(names)


def test_only_names_that_need_them_are_written_in_brackets() -> None:
    assert write_column_list(["id", "First Name", "a,b", " c"]) == "id,First Name,[a,b],[ c]"
