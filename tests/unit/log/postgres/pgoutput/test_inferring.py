"""Columns renamed without an event trigger, found from the log and the catalogue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rowtide.log.membership import AlteredColumn
from rowtide.log.postgres.pgoutput.inferring import are_in_order, name_columns


def table(columns: Mapping[int, str]) -> tuple[AlteredColumn, ...]:
    return tuple(
        AlteredColumn(number, name, "text", 25, -1, None, is_nullable=True, is_generated=False, default=None)
        for number, name in columns.items()
    )


@pytest.mark.parametrize(
    ("described", "needed", "now", "names"),
    [
        pytest.param("id w", {1: "id", 2: "v"}, {1: "id", 2: "w"}, {2: "w"}, id="renamed once"),
        pytest.param("id w", {1: "id", 2: "v"}, {1: "id", 2: "x"}, {2: "w"}, id="renamed twice"),
        pytest.param("w id", {1: "v", 2: "id"}, {1: "x", 2: "id"}, {1: "w"}, id="the first column"),
        pytest.param("b a", {1: "a", 2: "b"}, {1: "b", 2: "a"}, {1: "b", 2: "a"}, id="swapped"),
        pytest.param("b a", {1: "a", 2: "b"}, {1: "a", 2: "b"}, {1: "b", 2: "a"}, id="swapped and swapped back"),
        pytest.param("x a", {2: "a", 3: "b"}, {2: "x", 3: "a"}, {2: "x", 3: "a"}, id="moved up, behind a dropped one"),
        pytest.param("id w more", {2: "id", 4: "v"}, {2: "id", 4: "x", 5: "more"}, {4: None}, id="a gap and more"),
        pytest.param("id a w", {1: "id", 3: "v"}, {1: "id", 3: "x"}, {3: None}, id="a neighbour may have been dropped"),
        pytest.param("id a w", {1: "id", 3: "v"}, {1: "id", 3: "w"}, {3: "w"}, id="the name that it has now"),
        pytest.param("id w z", {1: "id", 3: "v", 4: "z"}, {1: "id", 3: "x", 4: "z"}, {3: "w"}, id="between two known"),
        pytest.param("id v", {1: "id", 2: "gone", 3: "v"}, {1: "id", 3: "v"}, {3: "v"}, id="dropped before"),
        pytest.param("id gone v", {1: "id", 2: "gone", 3: "v"}, {1: "id", 3: "v"}, {2: "gone"}, id="dropped later"),
    ],
)
def test_columns_are_found_by_the_order_of_their_numbers(
    described: str, needed: dict[int, str], now: dict[int, str], names: dict[int, str | None]
) -> None:
    found = name_columns(described.split(), needed, table(now), set())
    assert {number: found.get(number) for number in names} == names


def test_a_column_that_was_generated_may_have_been_missing() -> None:
    now = table({1: "id", 2: "twice", 3: "x"})
    assert name_columns(["id", "w"], {1: "id", 3: "v"}, now, {2})[3] == "w"
    assert name_columns(["id", "twice", "w"], {1: "id", 3: "v"}, now, {2})[3] is None


@pytest.mark.parametrize(
    ("described", "is_in_order"), [("id a b", True), ("a b", False), ("id b a", False), ("id other a b more", True)]
)
def test_names_in_another_order_were_swapped(described: str, *, is_in_order: bool) -> None:
    assert are_in_order(described.split(), {1: "id", 2: "a", 4: "b"}) is is_in_order
