"""`--help` of every command: whole on 80 columns, with an example."""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from builders.commands.command_lines import rowtide
from builders.commands.command_tree import Command, commands

GROUPS = sorted({command.words[:depth] for command in commands() for depth in range(len(command.words))})


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_help_is_whole_on_80_columns_with_an_example(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = rowtide(*command.words, "--help")

    assert ended.code == 0
    assert [line for line in ended.output.splitlines() if len(line) > 80] == []
    assert re.search(rf"\bExamples?: rowtide {command.name}\b", " ".join(ended.output.split()))
    for parameter in command.parameters:
        if parameter.option is not None:
            assert re.search(rf"^  {parameter.option}\b", ended.output, re.MULTILINE), parameter.option


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_help_of_a_group_says_what_its_commands_do(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = rowtide(*words, "--help").output

    assert "..." not in output.replace("..._net_changes_...", "").replace("[ARGS]...", "")
    assert all(len(line) <= 80 for line in output.splitlines())


def test_the_version_is_printed() -> None:
    assert rowtide("--version").output == f"rowtide {version('rowtide')}\n"
