"""Parameters of commands are made from types, defaults and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import Flag, IntEnum, StrEnum
from typing import Annotated

import click
import pytest

from rowtide.cdc.errors.querying import InvalidBound
from rowtide.cli.groups import CommandTable
from rowtide.cli.parameters import parse_bound, parse_time
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument, Option


class Kind(StrEnum):
    """A kind whose members are not named as they are written."""

    ROUND = "round-one"
    FLAT = "flat-one"


class Size(IntEnum):
    """A number that has a name."""

    VERY_SMALL = 0
    LARGE = 1


class Colour(Flag):
    """What may be mixed."""

    RED = 1
    BLUE = 2
    ALL = 3


def even(number: int) -> int:
    """Refuse odd numbers."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


@dataclass(frozen=True, slots=True)
class Choices:
    """What is chosen; `kept` is not for users."""

    name: Annotated[str, Argument(help="its name")]
    parts: Annotated[Sequence[str], Argument(metavar="PART", help="its parts")] = ()
    _: KW_ONLY
    kind: Annotated[Kind | None, Option(help="Its kind.")] = None
    columns: Annotated[tuple[str, ...] | None, Option(help="Its columns.")] = None
    renamed: Annotated[Mapping[str, str], Option("--rename", metavar="OLD=NEW", help="A name.")] = field(
        default_factory=dict
    )
    size: Annotated[int, Option(help="Its size.", min=0, max=10, check=even)] = 4
    by_word: Annotated[Size, Option(help="A size.")] = Size.VERY_SMALL
    by_number: Annotated[Size, Option(help="A size.")] = Size.VERY_SMALL
    colours: Annotated[Colour, Option(help="Colours.")] = Colour.ALL
    is_flat: Annotated[bool, Option("--flat", help="Whether it is flat.")] = False
    kept: str = "kept"


app = CommandTable()
seen: list[tuple[str | None, Choices]] = []


@app.command(epilog="Example: add a")
def add(choices: Choices, also: Annotated[str | None, Option(help="Something else.")] = None) -> None:
    """Add what is chosen."""
    seen.append((also, choices))


def run(*arguments: str) -> tuple[str | None, Choices]:
    app["add"].main(list(arguments), standalone_mode=False)
    return seen[-1]


def test_what_is_not_given_has_the_defaults_of_the_fields() -> None:
    assert run("a") == (None, Choices("a"))


def test_each_value_becomes_what_its_type_says() -> None:
    given = ["a", "b", "c", "--kind", "flat-one", "--columns", '"x,y",z', "--rename", "p=q=r", "--rename", "s=t"]
    given += ["--by-word", "large", "--by-number", "1", "--colours", "blue"]

    assert run(*given, "--size", "6", "--flat", "--also", "it") == (
        "it",
        Choices(
            "a",
            ["b", "c"],
            kind=Kind.FLAT,
            columns=("x,y", "z"),
            renamed={"p": "q=r", "s": "t"},
            size=6,
            by_word=Size.LARGE,
            by_number=Size.LARGE,
            colours=Colour.BLUE,
            is_flat=True,
        ),
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing argument 'NAME'"),
        (["a", "--kind", "flat"], "'flat' is not one of 'round-one', 'flat-one'"),
        (["a", "--by-word", "LARGEST"], "'LARGEST' is not one of 'very-small', 'large'"),
        (["a", "--by-number", "2"], "'2' is not one of 'very-small', 'large'"),
        (["a", "--colours", "red,green"], "green is none of red, blue"),
        (["a", "--rename", "p"], "p is not written NAME=VALUE"),
        (["a", "--size", "12"], "12 is not in the range 0<=x<=10"),
        (["a", "--size", "many"], "'many' is not a valid integer"),
        (["a", "--size", "5"], "5 is odd"),
        (["a", "--kept", "b"], "No such option"),
    ],
)
def test_wrong_usage_names_what_is_wrong(arguments: Sequence[str], said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        run(*arguments)

    assert said in refused.value.format_message()


def test_help_says_how_values_are_written_and_their_defaults() -> None:
    with click.Context(app["add"], info_name="add") as context:
        text = " ".join(app["add"].get_help(context).split())

    assert text.startswith("Usage: add [OPTIONS] NAME [PART]... ")
    assert "--kind <round-one|flat-one> Its kind." in text
    assert "--rename OLD=NEW A name." in text
    assert "--size <int> Its size. [default: 4; 0<=x<=10]" in text
    assert "--by-word <very-small|large> A size. [default: very-small]" in text
    assert "--by-number <very-small|large> A size. [default: very-small]" in text
    assert "--colours <str> Colours. [default: red,blue]" in text


EIGHT = datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0/1F", "31", " 0:0/1F"])
def test_what_can_be_an_lsn_is_one(text: str) -> None:
    assert parse_bound(text) == CommitLsn(31)


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:00:00Z", "2026-01-31 08:00", "2026-01-31T09:00:00+01:00", "2026-01-31T08:00:00.000000"]
)
def test_a_time_without_zone_is_in_utc(text: str) -> None:
    assert parse_bound(text) == EIGHT
    assert parse_time(text) == EIGHT


def test_a_zone_is_kept() -> None:
    assert parse_time("2026-01-31T09:00:00+01:00").tzinfo == timezone(timedelta(hours=1))


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(InvalidBound, match='"yesterday" is not an LSN or a time'):
        parse_bound("yesterday")
    with pytest.raises(InvalidBound, match='"0/1" is not a time'):
        parse_time("0/1")
