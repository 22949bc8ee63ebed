from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import rowtide
from builders.commands.command_tree import commands
from rowtide.core.errors import RowtideError

PAGE = (Path(__file__).parents[3] / "SECURITY.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Keys and values of rows")[2].partition("\n## ")[0]
LEFT_OUT = {2154, 7166}
"""Errors that repeat what another one, or the log reader, has said."""


def error_classes(base: type[RowtideError] = RowtideError) -> Iterator[type[RowtideError]]:
    for error in base.__subclasses__():
        yield error
        yield from error_classes(error)


def test_errors_that_show_keys_or_what_was_said_are_named() -> None:
    for module in pkgutil.walk_packages(rowtide.__path__, "rowtide."):
        if "errors" in module.name:
            importlib.import_module(module.name)
    shown = {error.number for error in error_classes() if error.row_fields and error.__module__.startswith("rowtide.")}
    table = SECTION.partition("The server's DETAIL")[0]
    assert {int(number) for number in re.findall(r"RT-(\d+)", table)} == shown | LEFT_OUT


def test_commands_that_hide_keys_are_named() -> None:
    hiding = {each.words for each in commands() if "--hide-keys" in {one.option for one in each.parameters}}
    named = SECTION.partition("**`--hide-keys`** of ")[2].partition(" puts ")[0]
    words: list[tuple[str, str]] = []
    for text in re.findall(r"`([\w -]+)`", named):
        group, _, name = text.rpartition(" ")
        words.append((group or words[-1][0], name))
    assert set(words) == hiding
