"""The table of types, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowtide.databases.types.registry import device_columns
from rowtide.databases.types.value_type import DeviceColumn
from rowtide.merge.nodes.untyped_values import declaration_of

PAGE = Path(__file__).parents[4] / "docs/reference/merge-types.md"


def row(each: DeviceColumn) -> str:
    yes = {True: "yes", False: "no"}
    declared = "as at the hub" if each.declaration is None else f"`{each.declaration}`" if each.declaration else "none"
    cells = (each.title, declared, each.representation, yes[each.is_compared], yes[each.is_ordered], each.limit)
    return f"| {' | '.join(cells)} |"


def test_the_page_shows_the_table() -> None:
    shown = [
        line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| PostgreSQL")
    ]
    assert shown == [row(each) for each in device_columns()]


@pytest.mark.parametrize(
    ("type_text", "declaration"),
    [
        ("numeric(10,2)", "numeric(10,2)"),
        ("character(7)", "text collate rtrim"),
        ("timestamp(3) without time zone", "text"),
        ("integer[]", "text"),
        ("public.mood", "text"),
        ("any", ""),
    ],
)
def test_types_are_found_without_their_lengths(type_text: str, declaration: str) -> None:
    assert declaration_of(type_text) == declaration
