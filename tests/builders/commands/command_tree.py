"""Every command of the command line, with arguments for it; the tree is walked, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import click

from rowtide.cli.commands import app

VALUES = {
    "publication": "shop",
    "table": "orders",
    "instance": "public_orders",
    "instances": "public_orders",
    "lsn": "0/1",
    "lake": "lake",
    "winner": "publisher",
    "job": "cleanup",
    "job_type": "cleanup",
    "settings": "retention=1",
    "mask": "0x01",
    "time": "2026-01-01",
    "operator": "largest less than",
    "rowguid": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
    "join": "lines.id = orders.id",
}
"""Of parameters that are asked for; others are given their own name, numbers 1."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument of a command."""

    name: str
    option: str | None
    is_url: bool
    is_flag: bool
    is_required: bool
    value: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it is called; `parameters` without flags that only ask for help."""

    words: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        """The command as it is typed."""
        return " ".join(self.words)

    def call(self, values: Mapping[str, str]) -> list[str]:
        """Return its arguments: the parameters named in `values` have those, others that are asked for some value."""
        options: list[str] = []
        arguments: list[str] = []
        for parameter in self.parameters:
            if parameter.name not in values and not parameter.is_required:
                continue
            value = values.get(parameter.name, parameter.value)
            if parameter.option is None:
                arguments.append(value)
            elif parameter.is_flag:
                options.append(parameter.option)
            else:
                options += [parameter.option, value]
        return [*self.words, *options, "--", *arguments] if arguments else [*self.words, *options]


@cache
def commands() -> tuple[Command, ...]:
    """Return every command."""
    return tuple(_walk(app, ()))


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[Command]:
    children = getattr(command, "commands", None)
    if children is None:
        yield Command(words, tuple(_parameter(parameter) for parameter in command.params if parameter.name != "help"))
        return
    for name, child in children.items():
        yield from _walk(child, (*words, name))


def _parameter(parameter: Any) -> Parameter:
    is_option = parameter.param_type_name == "option"
    default = parameter.name
    if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
        default = "1"
    elif isinstance(parameter.type, click.Choice):
        default = str(next(iter(parameter.type.choices)).value)
    return Parameter(
        parameter.name,
        parameter.opts[0] if is_option else None,
        is_url=parameter.name in ("db", "subscriber", "distribution_db"),
        is_flag=is_option and parameter.is_flag,
        is_required=parameter.required,
        value=VALUES.get(parameter.name, default),
    )
