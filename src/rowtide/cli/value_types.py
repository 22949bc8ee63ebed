"""How values are read from a command line: LSNs and times, and others by the type that they get."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, Flag
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from rowtide.cdc.errors.querying import InvalidBound
from rowtide.core.errors import InvalidLsn
from rowtide.core.lsn import CommitLsn
from rowtide.core.names import parse_column_list
from rowtide.core.options import Argument, Option


class Choice(click.Choice[Enum]):
    """A member of an enumeration: of texts written as its text, of numbers as its name, or its number."""

    name = "choice"

    def __init__(self, kind: type[Enum], *, by_number: bool = False) -> None:
        self._by_number = by_number
        super().__init__(kind)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return how a member is written."""
        return self.write(choice) if isinstance(choice, Enum) else str(choice)

    def write(self, member: Enum) -> str:
        """Return how a member is written."""
        by_name = isinstance(member, int) and not self._by_number
        return member.name.lower().replace("_", "-") if by_name else str(member.value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return what the help shows for a value."""
        return f"<{'|'.join(self.normalize_choice(choice, ctx) for choice in self.choices)}>"


class Flags(click.ParamType[Flag]):
    """Several flags by their names, separated by commas."""

    name = "str"

    def __init__(self, kind: type[Flag]) -> None:
        self._known = {str(flag.name).lower(): flag for flag in kind}
        self._none = kind(0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Flag:
        """Find them by their names."""
        if isinstance(value, Flag):
            return value
        names = [name.strip() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in self._known:
                self.fail(f"{name} is none of {', '.join(self._known)}", param, ctx)
        return reduce(or_, (self._known[name] for name in names), self._none)

    def write(self, flags: Flag) -> str:
        """Return flags as they are written."""
        return ",".join(name for name, flag in self._known.items() if flag in flags)


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


class Lsn(click.ParamType[CommitLsn]):
    """The LSN of a commit."""

    name = "lsn"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> CommitLsn:
        """Parse it. Raises `InvalidLsn`."""
        return CommitLsn.parse(value) if isinstance(value, str) else value


COLUMN_LIST = ColumnList()
PAIR = Pair()
_PLAIN: Mapping[Any, click.ParamType[Any]] = {
    str: click.STRING,
    int: click.INT,
    float: click.FLOAT,
    bool: click.BOOL,
    UUID: click.UUID,
    CommitLsn: Lsn(),
    Path: click.Path(path_type=Path),
}
_RANGES: Mapping[Any, Any] = {int: click.IntRange, float: click.FloatRange}


def value_type(kind: Any, said: Option | Argument) -> click.ParamType[Any]:
    """Return what reads one value of a type, within its bounds."""
    if issubclass(kind, Flag):
        return Flags(kind)
    if issubclass(kind, Enum):
        return Choice(kind, by_number=isinstance(said, Option) and said.by_number)
    if isinstance(said, Option) and (said.min is not None or said.max is not None):
        in_range: click.ParamType[Any] = _RANGES[kind](said.min, said.max)
        in_range.name = _PLAIN[kind].name
        return in_range
    return _PLAIN[kind]


def metavar_of(kind: click.ParamType[Any]) -> str | None:
    """Return what the help shows for a value; None: what its type says."""
    names = {"text": "str", "integer": "int", "boolean": "bool"}
    return None if isinstance(kind, Choice) else f"<{names.get(kind.name, kind.name)}>"


def parse_bound(text: str) -> CommitLsn | datetime:
    """Parse an LSN, else a time in ISO 8601. Raises `InvalidBound`."""
    try:
        return CommitLsn.parse(text)
    except InvalidLsn:
        time = _parse_iso(text)
        if time is None:
            raise InvalidBound(text, "an LSN or a time") from None
        return time


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601, in UTC if it has no zone. Raises `InvalidBound`."""
    time = _parse_iso(text)
    if time is None:
        raise InvalidBound(text, "a time")
    return time


def _parse_iso(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
