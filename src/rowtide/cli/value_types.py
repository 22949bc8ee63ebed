"""How values are read from a command line, by the type that they get."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from rowtide.core.column_lists import parse_column_list


class Choice(click.Choice[Enum]):
    """A member of an enumeration, written as its value."""

    name = "choice"

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return how a member is written."""
        return str(choice.value if isinstance(choice, Enum) else choice)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows for a value."""
        return f"<{'|'.join(self.normalize_choice(choice, ctx) for choice in self.choices)}>"


class ColumnList(click.ParamType[tuple[str, ...]]):
    """Names of columns, separated by commas."""

    name = "str"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Parse them. Raises `ColumnListMalformed`."""
        return parse_column_list(value) if isinstance(value, str) else value


class Pair(click.ParamType[tuple[str, str]]):
    """A name and a value."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Divide what is written NAME=VALUE."""
        name, _, given = value.partition("=")
        if not (name and given):
            self.fail(f"{value} is not written NAME=VALUE", param, ctx)
        return name, given


COLUMN_LIST = ColumnList()
PAIR = Pair()
_PLAIN: Mapping[Any, click.ParamType[Any]] = {
    str: click.STRING,
    int: click.INT,
    float: click.FLOAT,
    bool: click.BOOL,
    UUID: click.UUID,
    Path: click.Path(path_type=Path),
}
_RANGES: Mapping[Any, Any] = {int: click.IntRange, float: click.FloatRange}


def value_type(kind: Any, least: float | None, most: float | None) -> click.ParamType[Any]:
    """Return what reads one value of a type, within its bounds."""
    if least is not None or most is not None:
        in_range: click.ParamType[Any] = _RANGES[kind](least, most)
        in_range.name = _PLAIN[kind].name
        return in_range
    return Choice(kind) if issubclass(kind, Enum) else _PLAIN[kind]


def metavar_of(kind: click.ParamType[Any]) -> str | None:
    """Return what the help shows for a value; None: what its type says."""
    names = {"text": "str", "integer": "int", "boolean": "bool"}
    return None if isinstance(kind, Choice) else f"<{names.get(kind.name, kind.name)}>"
