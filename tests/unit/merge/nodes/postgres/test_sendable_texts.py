"""Texts as PostgreSQL reads them in an array."""

from __future__ import annotations

import pytest

from rowtide.merge.nodes.postgres.sendable_texts import array_of


@pytest.mark.parametrize(
    ("values", "array"),
    [
        ([], "{}"),
        (["1", "20"], "{1,20}"),
        (["1", ""], '{"1",""}'),
        (["1", "-2"], '{"1","-2"}'),
        (["\u0661"], '{"\u0661"}'),
        (["null", "a,b", "{}"], '{"null","a,b","{}"}'),
        (["1", None], '{"1",null}'),
        (['say "x"', "\\"], '{"say \\"x\\"","\\\\"}'),
    ],
)
def test_only_numbers_need_no_quotes(values: list[str | None], array: str) -> None:
    assert array_of(values) == array


@pytest.mark.parametrize("values", [["a\0"], ["a\0", None]])
def test_a_character_zero_is_refused(values: list[str | None]) -> None:
    with pytest.raises(ValueError, match="character 0"):
        array_of(values)
