"""Parameters of a command, made from the types, defaults and `Option`s of its function, and how their values are read.

A parameter whose type is a dataclass of options stands for its fields.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum, Flag
from functools import reduce
from operator import or_
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from uuid import UUID

import click

from rowtide.cdc.errors.querying import InvalidBound
from rowtide.cli.active_configuration import database_url
from rowtide.core.errors import InvalidLsn
from rowtide.core.lsn import CommitLsn
from rowtide.core.names import parse_column_list
from rowtide.core.options import Argument, Option, word_of


class WordChoice(click.Choice[Enum]):
    """A member of an enumeration by its word; one of numbers, which are SQL Server's, is taken by its number, too."""

    name = "choice"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Enum:
        """Find the member."""
        numbers = {str(choice.value): choice for choice in self.choices if isinstance(choice, int)}
        return numbers[value] if value in numbers else super().convert(value, param, ctx)

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        """Return how a member is written."""
        return word_of(choice) if isinstance(choice, Enum) else str(choice)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the words in angle brackets."""
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
    """Return the parser of one value of a type, within its bounds."""
    if issubclass(kind, Flag):
        return Flags(kind)
    if issubclass(kind, Enum):
        return WordChoice(kind)
    if isinstance(said, Option) and (said.min is not None or said.max is not None):
        in_range: click.ParamType[Any] = _RANGES[kind](said.min, said.max)
        in_range.name = _PLAIN[kind].name
        return in_range
    return _PLAIN[kind]


def metavar_of(kind: click.ParamType[Any]) -> str | None:
    """Return the metavar; None: the default of the type."""
    names = {"text": "str", "integer": "int", "boolean": "bool"}
    return None if isinstance(kind, WordChoice) else f"<{names.get(kind.name, kind.name)}>"


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


def parameters_of(function: Callable[..., None]) -> list[click.Parameter]:
    """Return a function's parameters, with the fields of option dataclasses in place of these."""
    types = get_type_hints(function, include_extras=True)
    made: list[click.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        kind = types[each.name]
        if is_dataclass(kind):
            made += [_parameter(name, *given) for name, given in _fields_of(kind)]
        else:
            made.append(_parameter(each.name, kind, MISSING if each.default is each.empty else each.default))
    return made


def taking_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function that takes the values of all parameters, and makes the objects of options."""
    kinds: dict[str, Any] = {name: kind for name, kind in get_type_hints(function).items() if is_dataclass(kind)}

    def call(**values: Any) -> None:
        objects = {
            name: kind(**{field: values.pop(field) for field, _ in _fields_of(kind)}) for name, kind in kinds.items()
        }
        function(**values, **objects)

    return call if kinds else function


def require_given(changes: Any) -> None:
    """Refuse a change without any option that changes something."""
    made = [(name, _parameter(name, *given), given[1]) for name, given in _fields_of(type(changes))]
    options = [(name, one, default) for name, one, default in made if isinstance(one, click.Option)]
    if all(getattr(changes, name) == default for name, _, default in options):
        flags = ", ".join(one.opts[0] for _, one, _ in options)
        raise click.BadParameter("say what changes", param_hint=flags)


def _fields_of(options: Any) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield types and defaults, by name, of the fields that the command line has: others are not annotated."""
    types = get_type_hints(options, include_extras=True)
    # In the order of the dataclass's parameters: those that have to be given first.
    for one in sorted(fields(options), key=lambda one: one.kw_only is True):
        if get_origin(types[one.name]) is Annotated:
            yield one.name, (types[one.name], one.default if one.default_factory is MISSING else one.default_factory())


def _parameter(name: str, annotated: Any, default: Any) -> click.Parameter:
    annotated_type, said = get_args(annotated)[:2]
    kind = _without_none(annotated_type)
    reader, gather = _readers(kind, said)
    attributes: dict[str, Any] = {"type": reader, "help": said.help}
    if name in _LISTED_NAMES:
        attributes["shell_complete"] = _completing(_LISTED_NAMES[name])
    attributes["callback"] = _finishing(gather, default, said)
    if gather is None and default is not MISSING:
        attributes["default"] = default
        if isinstance(default, Flag):
            attributes["default"] = Flags(type(default)).write(default)
        elif isinstance(default, Enum):
            attributes["default"] = word_of(default)
    if isinstance(said, Argument):
        is_optional = default is not MISSING
        metavar = said.metavar or name.upper()
        metavar = (f"[{metavar}]" if is_optional else metavar) + ("..." if gather else "")
        return click.Argument(
            [name], required=not is_optional, nargs=-1 if gather else 1, metavar=metavar, **attributes
        )
    attributes["metavar"] = said.metavar or metavar_of(reader)
    plain = name.replace("_", "-")
    flags = said.flag.split(", ") if said.flag else [f"--{plain}/--no-{plain}" if kind is bool else f"--{plain}"]
    if kind is bool:
        attributes |= {"is_flag": True, "metavar": None}
    is_required = default is MISSING and gather is None
    return CliOption(
        [name, *flags],
        from_file=said.from_file,
        required=is_required,
        multiple=gather is not None,
        envvar=said.envvar,
        show_envvar=True,
        show_default=False if default == "" else said.show_default,
        **attributes,
    )


class CliOption(click.Option):
    """An option of a command."""

    def __init__(self, *given: Any, from_file: bool, **attributes: Any) -> None:
        super().__init__(*given, **attributes)
        self._from_file = from_file

    @property
    def name_in_file(self) -> str | None:
        """Its name in the configuration file; None if it may not stand there."""
        return self.opts[0].removeprefix("--") if self._from_file else None


_LISTED_NAMES = {
    "instance": "capture_instance",
    "instances": "capture_instance",
    "publication": "publication",
    "subscriber": "subscriber",
}
"""Parameters that a shell completes, by what listings call them."""


def _completing(field: str) -> Callable[..., Any]:
    """Return the completion of a parameter by the names that were listed last, of the database that the line names."""

    def find(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Sequence[Any]:
        from click.shell_completion import CompletionItem

        from rowtide.cli.output.completion_names import known_names

        db = context.params.get("db") or os.environ.get("ROWTIDE_DB")
        if not db:
            return []
        feature = context.command_path.split()[1]
        return [CompletionItem(name) for name in known_names(db, feature, field) if name.startswith(incomplete)]

    return find


def _without_none(kind: Any) -> Any:
    """Return the type of a value that is given, where None is one that is not."""
    alternatives = get_args(kind)
    return next(one for one in alternatives if one is not NoneType) if NoneType in alternatives else kind


def _readers(kind: Any, said: Option | Argument) -> tuple[click.ParamType[Any], Callable[[Any], Any] | None]:
    """Return the parser of one value, and the constructor of a list of them; None for a single value."""
    origin = get_origin(kind)
    if origin is Mapping:
        return PAIR, dict
    if origin is list or (origin is Sequence and isinstance(said, Argument)):
        return value_type(get_args(kind)[0], said), list
    if origin in (tuple, Sequence):
        return COLUMN_LIST, None
    return value_type(kind, said), None


def _finishing(gather: Callable[[Any], Any] | None, default: Any, said: Option | Argument) -> Callable[..., Any]:
    """Return the callback that converts and validates a parsed value."""
    check = said.check if isinstance(said, Option) else None

    def finish(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if said.is_database and value:
            value = database_url(value) if isinstance(value, str) else [database_url(one) for one in value]
        if gather is not None:
            value = gather(value) if value or default is MISSING else default
        if value is None or check is None:
            return value
        try:
            return check(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return finish
