"""Command groups: help in whole sentences, and features whose modules are imported on use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from inspect import cleandoc
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group

from rowtide.cli.commands import COMMANDS


class Group(TyperGroup):
    """A command group whose help shows the first sentence of each command in full, wrapped to several lines."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _first_paragraph(command.help or "")) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class FeatureGroup(Group):
    """The commands of a feature."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the loss of the JVM becomes an error of rowtide's, whatever call it interrupts."""
        from rowtide.lake.session import spark_loss_named

        with spark_loss_named():
            return super().invoke(ctx)

    @property
    def commands(self) -> Any:
        """The commands by name, of click's class or of the click that some versions of typer carry."""
        return self._commands

    @commands.setter
    def commands(self, _given: Any) -> None:
        """Take none: typer gives a group those that are registered with it."""

    @cached_property
    def _commands(self) -> FeatureCommands:
        return FeatureCommands(self.name or "")


class FeatureCommands(Mapping[str, Any]):
    """The commands of a feature by name; a command's module is imported when the command is looked up."""

    def __init__(self, feature: str) -> None:
        self._modules = {name: module for module, names in COMMANDS[feature].items() for name in names}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        module = self._modules[name]
        if name not in self._made:
            self._made |= get_group(import_module(f"rowtide.cli.{module}").app).commands
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def _first_paragraph(text: str) -> str:
    return " ".join(cleandoc(text).split("\n\n")[0].split())
