"""A module has one subject: the docstring of a second one in its middle is one of another module."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import pytest

import rowtide

SOURCES = Path(rowtide.__file__).parent


PARTED = [
    "actions",
    "agents",
    "configuration",
    "conflicts",
    "delta",
    "lake",
    "log",
    "merge",
    "relocation",
    "replication",
    "storage",
    "tracking",
    "upgrading",
]


@pytest.mark.parametrize("package", PARTED)
def test_no_module_has_the_docstring_of_a_second_one(package: str) -> None:
    joined = [
        f"{path.relative_to(SOURCES)}:{number}"
        for path in sorted((SOURCES / package).rglob("*.py"))
        for number in find_banners(path.read_text().splitlines())
    ]

    assert joined == []


def find_banners(lines: list[str]) -> list[int]:
    """Return where comments begin that have an empty line before and behind them, not within anything."""
    found = []
    for index, line in enumerate(lines):
        if line.startswith("# ") and not lines[index - 1].strip():
            behind = index + len(list(takewhile(lambda each: each.startswith("#"), lines[index:])))
            if behind < len(lines) and not lines[behind].strip():
                found.append(index + 1)
    return found


def test_a_comment_between_empty_lines_is_found() -> None:
    assert find_banners(["a = 1", "", "# A second subject.", "", "b = 2"]) == [3]
    assert find_banners(["a = 1", "", "# Of b.", "b = 2"]) == []
