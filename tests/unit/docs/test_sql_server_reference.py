"""The page that maps SQL Server's names to ours claims nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import rowtide
from rowtide.cdc import NewInstance
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.definitions import metadata
from rowtide.cli.commands import app
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Option
from rowtide.merge import NewMergeArticle, NewMergePublication, NewMergeSubscription

PAGES = Path(__file__).parents[3] / "docs" / "reference"
PAGE = (PAGES / "sql-server.md").read_text(encoding="utf-8")
SPANS = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
COMMANDS = [span for span in SPANS if span.startswith("rowtide ")]
NAMES = [span for span in SPANS if re.fullmatch(r"(cdc|CommitLsn|rowtide)\.\w+(\(.*\))?", span)]
OPTIONS = {word for span in SPANS for word in span.split() if word.startswith("--")}
HOLDERS: dict[str, object] = {"cdc": ChangeDataCapture, "CommitLsn": CommitLsn, "rowtide": rowtide}
ROOT: Any = app
TABLES = {*metadata.tables, "cdc.ddl_history", "cdc.lsn_time_mapping"}


def find_command(span: str) -> Any:
    """Return the command that the words of a span lead to."""
    command = ROOT
    for word in span.split()[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("span", COMMANDS)
def test_a_command_that_is_named_is_there_with_its_options(span: str) -> None:
    command = find_command(span)
    assert not hasattr(command, "commands"), f"{span} is no command"
    assert {word for word in span.split() if word.startswith("--")} <= options_of(command)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_or_table_that_is_named_is_there(name: str) -> None:
    holder, _, member = name.partition("(")[0].partition(".")
    assert name in TABLES or hasattr(HOLDERS[holder], member)


def test_options_that_are_named_alone_are_those_of_some_command() -> None:
    known = {option for span in COMMANDS for option in options_of(find_command(span))}
    assert OPTIONS
    assert known >= OPTIONS


def test_an_error_number_that_is_named_is_raised_somewhere() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| ", PAGE, re.MULTILINE)
    named = {int(number) for row in rows for number in row.split(", ")}
    assert named
    assert named <= _numbers(RowtideError)


@pytest.mark.parametrize(
    ("page", "command", "kind"),
    [
        ("sql-server.md", "rowtide cdc enable-table", NewInstance),
        ("merge-names.md", "rowtide merge add-publication", NewMergePublication),
        ("merge-names.md", "rowtide merge add-article", NewMergeArticle),
        ("merge-names.md", "rowtide merge add-subscription", NewMergeSubscription),
    ],
)
def test_a_page_maps_an_options_name_to_its_flag(page: str, command: str, kind: type) -> None:
    flags = {one.name: [*one.opts, *one.secondary_opts] for one in find_command(command).params}
    options = {
        said.sql_server: flags[name]
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for said in get_args(hint)
        if isinstance(said, Option) and said.sql_server
    }
    rows = [row for row in (PAGES / page).read_text(encoding="utf-8").splitlines() if row.startswith("| `@")]
    mapped = {
        name: [flag for row in rows if f"`{name}`" in row.split(" | ")[0] for flag in known if flag in row]
        for name, known in options.items()
    }

    assert options
    assert [name for name, found in mapped.items() if not found] == []


def _numbers(base: type[RowtideError]) -> set[int]:
    numbers = {getattr(child, "number", 0) for child in base.__subclasses__()}
    return numbers.union(*(_numbers(child) for child in base.__subclasses__()))
