"""What an option is, written once: its type, default and help stand in one place for every way to give it.

Options of an operation are the fields of a frozen dataclass, whose types are annotated with `Option` or `Argument`.
The command line makes its parameters from them, and a method its keywords (`takes`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, fields
from functools import wraps
from typing import Annotated, Any, ParamSpec, Protocol, Self, TypeVar, get_args, get_type_hints, overload

from rowtide.core.values import frozen

MOST_DAYS = 36_500
"""A hundred years; more would be a typing error, and exceed the range of dates."""
MOST_HOURS = 24 * MOST_DAYS
MOST_MINUTES = 60 * MOST_HOURS
MOST_ROWS = 2**31 - 1


@frozen
class Option:
    """An option of a command."""

    flag: str = ""
    """As `--columns`, `--skip/--active`, or several with commas; default: the name of the field or parameter.

    A bool that is named so has its opposite, too: `--column-tracking/--no-column-tracking`.
    """
    _: KW_ONLY
    help: str
    metavar: str | None = None
    sql_server: str = ""
    """Its name in SQL Server: a procedure's parameter, `@retention`, or an agent's, `-SkipErrors`."""
    envvar: str | None = None
    """The variable of the environment that gives it where the command line does not."""
    min: float | None = None
    max: float | None = None
    show_default: str | bool = True
    """Whether the help shows the default, or what it says instead of the value."""
    by_number: bool = False
    """Whether the members of an enumeration are written as their numbers, which are SQL Server's; else by name."""
    check: Callable[[Any], Any] | None = None
    """Return the value, or refuse it (`ValueError`)."""
    is_database: bool = False
    """Whether it is a database's URL, for which the command line also takes a name of the configuration file."""
    from_file: bool = True
    """Whether the configuration file may give it."""


@frozen(kw_only=True)
class Argument:
    """A value that a command knows by its place."""

    help: str
    metavar: str | None = None
    is_database: bool = False


TableName = Annotated[str, Argument(metavar="TABLE", help="schema.table, quoted as in SQL where needed")]
ForGroup = Annotated[
    bool,
    Option("--group", help="The group of the folders that are made may read them: agents, readers, executors."),
]
Options_contra = TypeVar("Options_contra", contravariant=True)
Options = TypeVar("Options")
Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")
Fields = ParamSpec("Fields")


class Call(Protocol[Fields, Options_contra, Result_co]):
    """A bound method that takes its options as one object or field by field."""

    @overload
    def __call__(self, options: Options_contra, /) -> Result_co: ...
    @overload
    def __call__(self, *arguments: Fields.args, **named: Fields.kwargs) -> Result_co: ...


class Method(Protocol[Fields, Options_contra, Result_co]):
    """A method that takes its options as one object or field by field."""

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Call[Fields, Options_contra, Result_co]: ...


def takes(
    options: Callable[Fields, Options],
) -> Callable[[Callable[[Any, Options], Result]], Method[Fields, Options, Result]]:
    """Let a method that takes an object of options take its fields, too: as arguments, with their defaults.

    Keywords may also be named as on the command line: `role` of `--role`, whatever the field is called. Options with
    members of enumerations take them as words, too: `WordsRead`.
    """

    def decorate(method: Callable[[Any, Options], Result]) -> Any:
        @wraps(method)
        def call(self: Any, *arguments: Any, **named: Any) -> Result:
            match arguments:
                case (given,) if not named and isinstance(given, options):  # type: ignore[arg-type]
                    pass
                case _:
                    given = options(*arguments, **_by_field(options, named))
            return method(self, given)

        call.__signature__ = _signature(method, options)  # type: ignore[attr-defined]
        return call

    return decorate


def values_of(kind: Any, options: Any) -> dict[str, Any]:
    """Return the values of the fields that a class of options has, of an object of another one that has them too."""
    return {one.name: getattr(options, one.name) for one in fields(kind)}


def _by_field(options: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values by the names of fields. Raises `TypeError` if one is given by both of its names."""
    if named.keys() <= options.__dataclass_fields__.keys():
        return named
    said = {name: get_args(kind)[1:] for name, kind in get_type_hints(options, include_extras=True).items()}
    fields = {_name_of(one): name for name, all_said in said.items() for one in all_said if isinstance(one, Option)}
    found: dict[str, Any] = {}
    for name, value in named.items():
        field = name if name in said else fields.get(name, name)
        if field in found:
            raise TypeError(f"{field} is given twice, as {name} too")
        found[field] = value
    return found


def _name_of(option: Option) -> str:
    return option.flag.split(", ")[0].split("/")[0].removeprefix("--").replace("-", "_")


def _signature(method: Callable[..., Any], options: Callable[..., Any]) -> inspect.Signature:
    """Return what `help` shows: the fields, with the types that they have without `Annotated`."""
    own = inspect.signature(method)
    types = get_type_hints(options)
    fields = inspect.signature(options).parameters.values()
    shown = [field.replace(annotation=types[field.name]) for field in fields]
    return own.replace(parameters=[next(iter(own.parameters.values())), *shown])
