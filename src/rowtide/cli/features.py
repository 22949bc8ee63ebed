"""Groups of commands whose modules are imported when they are needed."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group


class FeatureGroup(TyperGroup):
    """The commands of a feature, in the module `rowtide.cli.<name>`."""

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
