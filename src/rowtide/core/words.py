"""Members of enumerations, which programs may also give as the words and numbers of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, Flag
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from rowtide.core.errors import Invalid

Member = TypeVar("Member", bound=Enum)


class WordUnknown(Invalid, number=1141):
    """A parameter was given a value that it cannot have."""

    fact = "{parameter} cannot be {given}"
    hint = "Give {words}."
    parameter: str
    given: str
    words: str


def member_of(kind: type[Member], given: object, parameter: str) -> Member:
    """Return a member that is given as such, by its name or by its value. Raises `WordUnknown`.

    In texts case does not count, and dashes, underscores and spaces are one. Flags are separated by commas.
    """
    found = given if isinstance(given, kind) else _find_member(kind, given)
    if found is None:
        raise WordUnknown(parameter, repr(given), _list_words(kind))
    return found


def member_or_none(kind: type[Member], given: object, parameter: str) -> Member | None:
    """Return a member, None for None. Raises as `member_of`."""
    return None if given is None else member_of(kind, given, parameter)


def read_words(options: object) -> None:
    """Replace what fields of a dataclass are given, frozen or not, by the members it means. Raises `WordUnknown`."""
    own: Any = type(options)
    for name, kind, may_be_none in _enumerations_of(own):
        given = getattr(options, name)
        if not (isinstance(given, kind) or (given is None and may_be_none)):
            object.__setattr__(options, name, member_of(kind, given, name))


class WordsRead:
    """A base of options: their enumerations may be given as words, which are read when the object is made."""

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
    """Return the words as the command line has them: of texts the values, else the names."""
    *most, last = (member.value if isinstance(member.value, str) else _as_word(str(member.name)) for member in kind)
    return f"{', '.join(most)} or {last}"


@cache
def _enumerations_of(options: Any) -> tuple[tuple[str, type[Enum], bool], ...]:
    """Return the fields that are members of an enumeration, and whether they may be None."""
    return tuple(_find_enumerations(get_type_hints(options)))


def _find_enumerations(types: Mapping[str, Any]) -> Iterator[tuple[str, type[Enum], bool]]:
    for name, hint in types.items():
        alternatives = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        kind = alternatives[0]
        if isinstance(kind, type) and issubclass(kind, Enum):
            yield name, kind, NoneType in alternatives
