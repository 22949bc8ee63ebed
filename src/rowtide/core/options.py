"""The single declaration of an option: its type, default and help, for the command line, Python and the reference.

Options of an operation are the fields of a frozen dataclass, whose types are annotated with `Option` or `Argument`.
The command line makes its parameters from them, and a method its keywords (`takes`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, fields
from enum import Enum, Flag
from functools import cache, reduce, wraps
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, ParamSpec, Protocol, Self, TypeVar, get_args, get_type_hints, overload

from rowtide.core.errors import Invalid
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
    """Such as `--columns` or `--skip/--active`, or several separated by commas. The default is the field's or
    parameter's name.

    A bool without a `flag` of its own has a negative form too: `--column-tracking/--no-column-tracking`.
    """
    _: KW_ONLY
    help: str
    metavar: str | None = None
    sql_server: str = ""
    """Its name in SQL Server: a parameter of a procedure, such as `@retention`, or of an agent, such as
    `-SkipErrors`.
    """
    envvar: str | None = None
    """The environment variable that sets it if the command line does not."""
    min: float | None = None
    max: float | None = None
    show_default: str | bool = True
    """Whether the help shows the default, or the text that it shows instead."""
    check: Callable[[Any], Any] | None = None
    """Return the value, or raise `ValueError`."""
    is_database: bool = False
    """Whether it is a database's URL; the command line then also accepts a database's name from the configuration
    file.
    """
    from_file: bool = True
    """Whether the configuration file may set it."""


@frozen(kw_only=True)
class Argument:
    """A positional argument of a command."""

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
    """Let a method that takes an options object also take its fields as arguments, with their defaults.

    Keywords may also have the command line's names: `role` for `--role`, whatever the field is called. Options that are
    members of an enumeration also accept words: see `WordsRead`.
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
    """Return the values of a class's fields, read from an options object that has fields of the same names."""
    return {one.name: getattr(options, one.name) for one in fields(kind)}


def _by_field(options: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values by field name. Raises `TypeError` if both names of a field are given."""
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
    """Return the signature that `help` shows: the fields, with their types without `Annotated`."""
    own = inspect.signature(method)
    types = get_type_hints(options)
    fields = inspect.signature(options).parameters.values()
    shown = [field.replace(annotation=types[field.name]) for field in fields]
    return own.replace(parameters=[next(iter(own.parameters.values())), *shown])


Member = TypeVar("Member", bound=Enum)


class WordUnknown(Invalid, number=1141):
    """A parameter was given a value that it cannot have."""

    fact = "{parameter} cannot be {given}"
    hint = "Give {words}."
    parameter: str
    given: str
    words: str


def member_of(kind: type[Member], given: object, parameter: str) -> Member:
    """Return the member that a member, a name or a value denotes. Raises `WordUnknown`.

    Strings are compared without regard to case; dashes, underscores and spaces are equivalent. Flags are separated by
    commas.
    """
    found = given if isinstance(given, kind) else _find_member(kind, given)
    if found is None:
        raise WordUnknown(parameter, repr(given), _list_words(kind))
    return found


def member_or_none(kind: type[Member], given: object, parameter: str) -> Member | None:
    """Return `member_of` a value, or None for None. Raises as `member_of`."""
    return None if given is None else member_of(kind, given, parameter)


def word_of(member: Enum) -> str:
    """Return the word for a member: its value if that is a string, else its name."""
    return member.value if isinstance(member.value, str) else _as_word(str(member.name))


def read_words(options: object) -> None:
    """Replace words in the fields of a dataclass, frozen or not, by the members that they denote. Raises
    `WordUnknown`.
    """
    own: Any = type(options)
    for name, kind, may_be_none in _enumerations_of(own):
        given = getattr(options, name)
        if not (isinstance(given, kind) or (given is None and may_be_none)):
            object.__setattr__(options, name, member_of(kind, given, name))


class WordsRead:
    """Base of options whose enumeration members may be given as words; they are converted when the object is
    created.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raise `WordUnknown`."""
        read_words(self)


def _find_member(kind: type[Member], given: object) -> Member | None:
    known: Mapping[str, Member] = _members_by_word(kind)
    if isinstance(given, str):
        found = [known.get(_as_word(word)) for word in (given.split(",") if issubclass(kind, Flag) else [given])]
        return None if None in found else reduce(or_, found)
    if isinstance(given, int) and not isinstance(given, bool | Enum):
        try:
            return kind(given)
        except ValueError:
            return None
    return None


@cache
def _members_by_word(kind: type[Enum]) -> Mapping[str, Any]:
    by_name = {_as_word(name): member for name, member in kind.__members__.items()}
    return {_as_word(str(member.value)): member for member in kind} | by_name


def _as_word(text: str) -> str:
    return text.strip().lower().replace("_", "-").replace(" ", "-")


def _list_words(kind: type[Enum]) -> str:
    *most, last = map(word_of, kind)
    return f"{', '.join(most)} or {last}"


@cache
def _enumerations_of(options: Any) -> tuple[tuple[str, type[Enum], bool], ...]:
    """Return the fields whose types are enumerations, and whether each may be None."""
    return tuple(_find_enumerations(get_type_hints(options)))


def _find_enumerations(types: Mapping[str, Any]) -> Iterator[tuple[str, type[Enum], bool]]:
    for name, hint in types.items():
        alternatives = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        kind = alternatives[0]
        if isinstance(kind, type) and issubclass(kind, Enum):
            yield name, kind, NoneType in alternatives
