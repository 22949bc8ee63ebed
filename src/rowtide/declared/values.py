"""Values of options as TOML has them, by the types of the options. Pure.

Enumerations are the words of the command line; lists are arrays, mappings are tables.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, Flag
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin
from urllib.parse import parse_qsl, urlencode

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Option, member_of, word_of
from rowtide.core.values import frozen
from rowtide.merge.articles import Partition

Plain = str | int | float | bool | list[str] | dict[str, str]
"""An option's value in TOML."""

_LISTS = (tuple, list, Sequence, Iterable)


@frozen
class DeclaredType:
    """How the values of an option are read and written; `words` are those that an enumeration has."""

    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Plain]
    words: tuple[str, ...] = ()


def find_type(annotated: Any) -> DeclaredType | None:
    """Return how values of an annotated type are written; None for a type that no file has, as of a function."""
    kind, *said = get_args(annotated) if get_origin(annotated) is Annotated else (annotated,)
    option = next((one for one in said if isinstance(one, Option)), None)
    found = _find(_without_none(kind))
    return found if found is None or option is None else _limited(found, option)


def _find(kind: Any) -> DeclaredType | None:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in _LISTS and arguments[0] is Partition:
        return DeclaredType("list of partitions", _read_partitions, _write_partitions)
    if origin in _LISTS and arguments[0] is str:
        return DeclaredType("list of texts", _read_list, lambda value: [*value])
    if origin is Mapping and arguments == (str, str):
        return DeclaredType("table of texts", _read_table, dict)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _of_enumeration(kind)
    return None


def _without_none(kind: Any) -> Any:
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    present = [one for one in get_args(kind) if one is not type(None)]
    return present[0] if len(present) == 1 else kind


def _exactly(kind: type, name: str) -> Callable[[Any], Any]:
    def read(given: Any) -> Any:
        if type(given) is not kind:
            raise ValueError(f"is no {name}")
        return given

    return read


def _read_number(given: Any) -> float:
    if type(given) not in (int, float):
        raise ValueError("is no number")
    return float(given)


def _read_lsn(given: Any) -> CommitLsn:
    try:
        return CommitLsn.parse(_exactly(str, "text")(given))
    except RowtideError as error:
        raise ValueError("is no LSN") from error


def _read_list(given: Any) -> tuple[str, ...]:
    if type(given) is not list or any(type(one) is not str for one in given):
        raise ValueError("is no list of texts")
    return tuple(given)


def _read_partitions(given: Any) -> tuple[Partition, ...]:
    return tuple(map(_read_partition, _read_list(given)))


def _read_partition(text: str) -> Partition:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError as error:
        raise ValueError(f"has no partition {text}") from error
    values = dict(pairs)
    if len(values) != len(pairs) or not values.keys() <= {"host_name", "login"}:
        raise ValueError(f"has a partition {text}, which is not host_name=NAME, login=NAME, or both joined by &")
    return Partition(values.get("host_name"), values.get("login"))


def _write_partitions(partitions: Iterable[Partition]) -> list[str]:
    return sorted({_write_partition(one) for one in partitions})


def _write_partition(one: Partition) -> str:
    values = {"host_name": one.host_name, "login": one.suser_name}
    return urlencode({name: value for name, value in values.items() if value is not None})


def _read_table(given: Any) -> dict[str, str]:
    if type(given) is not dict or any(type(one) is not str for one in given.values()):
        raise ValueError("is no table of texts")
    return dict(given)


_SCALARS: Mapping[Any, DeclaredType] = {
    str: DeclaredType("text", _exactly(str, "text"), str),
    int: DeclaredType("whole number", _exactly(int, "whole number"), int),
    bool: DeclaredType("true or false", _exactly(bool, "true or false"), bool),
    float: DeclaredType("number", _read_number, float),
    Path: DeclaredType("text", lambda given: Path(_exactly(str, "text")(given)), str),
    CommitLsn: DeclaredType("LSN", _read_lsn, str),
}


def _of_enumeration(kind: type[Enum]) -> DeclaredType:
    def read(given: Any) -> Any:
        try:
            return member_of(kind, given, "")
        except RowtideError as error:
            raise ValueError(f"is not one of {', '.join(words)}") from error

    words = tuple(word_of(member) for member in kind)
    return DeclaredType("word", read, _write_flags if issubclass(kind, Flag) else word_of, words)


def _write_flags(value: Flag) -> str:
    return ", ".join(word_of(member) for member in type(value) if member in value)


def _limited(kind: DeclaredType, option: Option) -> DeclaredType:
    def read(given: Any) -> Any:
        value = kind.read(given)
        if option.min is not None and value < option.min:
            raise ValueError(f"is less than {option.min:g}")
        if option.max is not None and value > option.max:
            raise ValueError(f"is more than {option.max:g}")
        return value

    return kind if option.min is None and option.max is None else DeclaredType(kind.name, read, kind.write, kind.words)


_BARE = re.compile(r"[a-z_][a-z0-9_$]*")
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def spell_table(*parts: str) -> str:
    """Return a name of its parts, schema first."""
    return ".".join(part if _BARE.fullmatch(part) else '"' + part.replace('"', '""') + '"' for part in parts)


def split_table(name: str) -> tuple[str, ...]:
    """Return the parts of a name that `spell_table` wrote."""
    return tuple(bare or quoted.replace('""', '"') for quoted, bare in _PART.findall(name))
