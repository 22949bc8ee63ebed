"""Command groups: help in whole sentences, and features whose modules are imported on use."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from inspect import cleandoc
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group


class Group(TyperGroup):
    """A command group whose help shows the first sentence of each command in full, wrapped to several lines."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, _first_paragraph(command.help or "")) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class FeatureGroup(Group):
    """The commands of a feature, in the module `rowtide.cli.<name>`."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; the loss of the JVM becomes an error of rowtide's, whatever call it interrupts."""
        from rowtide.lake.session import spark_loss_named

        with spark_loss_named():
            return super().invoke(ctx)

    @property
    def commands(self) -> Any:
        """The commands by name, of click's class or of the click that some versions of typer carry."""
        return self._group.commands

    @commands.setter
    def commands(self, _given: Any) -> None:
        """Take none: typer gives a group those that are registered with it."""

    @cached_property
    def _group(self) -> TyperGroup:
        return get_group(import_module(f"rowtide.cli.{self.name}").app)


def _first_paragraph(text: str) -> str:
    return " ".join(cleandoc(text).split("\n\n")[0].split())
