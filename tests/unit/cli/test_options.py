"""A listing is a function that returns objects; its command prints them in any format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from click.testing import CliRunner

from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Listed, listing
from rowtide.core.options import Argument


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing that is listed."""

    name: str
    duration: float
    facts: str = '{"a": 1}'


app = CommandTable()


@listing(app, epilog="Example: things a", columns="name, duration as seconds", json_texts=("facts",))
def things(name: Annotated[str, Argument(help="a name")]) -> Listed:
    """List things."""
    return Thing, [Thing(name, 1.5)]


@listing(app, epilog="Example: all-things")
def all_things() -> Listed:
    """List all things."""
    return Thing, []


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (["a"], ["name | seconds", "-----+--------", "a    |     1.5"]),
        (["a", "--wide"], ["name | duration | facts", "-----+----------+---------", 'a    |      1.5 | {"a": 1}']),
        (["a", "--format", "jsonl"], ['{"name": "a", "duration": 1.5, "facts": {"a": 1}}']),
        (["a", "--format", "csv"], ["name,duration,facts", 'a,1.5,"{""a"": 1}"']),
    ],
)
def test_a_listing_is_printed_in_each_format(given: list[str], printed: list[str]) -> None:
    result = CliRunner().invoke(app["things"], given, catch_exceptions=False)
    assert [line.rstrip() for line in result.output.splitlines()] == printed


def test_a_listing_of_all_fields_cannot_be_wider() -> None:
    options = {name for one in app["all-things"].params for name in one.opts}
    assert options == {"--format"}
    assert {name for one in app["things"].params for name in one.opts} == {"name", "--format", "--wide"}


def test_a_listing_is_still_its_function() -> None:
    assert things("b") == (Thing, [Thing("b", 1.5)])
