"""The page that maps SQL Server's names to ours claims nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rowtide
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.definitions import metadata
from rowtide.cli.app import app
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "sql-server.md").read_text(encoding="utf-8")
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


def _numbers(base: type[RowtideError]) -> set[int]:
    numbers = {getattr(child, "number", 0) for child in base.__subclasses__()}
    return numbers.union(*(_numbers(child) for child in base.__subclasses__()))
