"""The file of a declared state: TOML, read with all of its mistakes reported, written in a stable order. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from rowtide.core.errors import RowtideError
from rowtide.databases.urls import parse_url
from rowtide.declared.errors import DeclarationInvalid, DeclarationUnreadable
from rowtide.declared.kinds import KINDS, NAME, DeclaredKey, Kind
from rowtide.declared.planning import DeclaredObject, State, as_state
from rowtide.declared.values import Plain

_HEADER = """\
# Written by `rowtide export`; `rowtide apply` reads it. Options with their defaults are omitted.
# Not in it: rows, the positions of readers, and passwords.
"""


def parse_file(text: str, file: str) -> State:
    """Return what a file declares. Raises `DeclarationUnreadable`, `DeclarationInvalid`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeclarationUnreadable(file, f"it is no TOML: {error}") from error
    reading = _Reading()
    reading.read(document, (), ())
    if reading.problems:
        raise DeclarationInvalid(file, "; ".join(reading.problems))
    return as_state(reading.objects)


def write_file(state: State) -> str:
    """Return the text of a file that declares a state."""
    # What a database has one of, and that is as it is by default, needs no section of its own.
    written = [one for one in state.values() if one.kind.depth or one.options]
    return "\n".join([_HEADER, *map(_write_object, written)])


class _Reading:
    """The objects read so far, and the mistakes found."""

    def __init__(self) -> None:
        self.objects: list[DeclaredObject] = []
        self.problems: list[str] = []

    def read(self, table: Mapping[str, Any], path: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Read a table at a path, in which names stand as `NAME`, and those below it."""
        kind = next((one for one in KINDS if one.path == path), None)
        below = {one.path[len(path)] for one in KINDS if one.path[: len(path)] == path and len(one.path) > len(path)}
        if NAME in below:
            for name, inner in table.items():
                self._read_below(inner, (*path, NAME), (*names, name))
            return
        keys = {} if kind is None else kind.keys
        for name in table.keys() - keys.keys() - below:
            near = get_close_matches(name, [*keys, *below], n=1, cutoff=0.0)
            self._object(path, names, f"{name} is unknown" + (f", {near[0]} is known" if near else ""))
        for name in sorted(table.keys() & below):
            self._read_below(table[name], (*path, name), names)
        if kind is not None:
            self._read_object(kind, names, {name: value for name, value in table.items() if name in keys})

    def _read_below(self, inner: Any, path: tuple[str, ...], names: tuple[str, ...]) -> None:
        if type(inner) is dict:
            self.read(inner, path, names)
        else:
            self._object(path, names, "is no table")

    def _read_object(self, kind: Kind, names: tuple[str, ...], given: Mapping[str, Any]) -> None:
        # The section of a feature need not declare the feature's own object.
        if kind.depth == 0 and not given:
            return
        options = {name: value for name, value in self._read_options(kind, names, given) if value is not None}
        for key in kind.keys.values():
            if key.is_required and key.name not in given:
                self._object(kind.path, names, f"{key.name} is missing")
        for problem in _find_problems(kind, names, options):
            self._object(kind.path, names, problem)
        kept = {name: value for name, value in options.items() if value != kind.default_of(names, name)}
        self.objects.append(DeclaredObject(kind, names, kept))

    def _read_options(
        self, kind: Kind, names: tuple[str, ...], given: Mapping[str, Any]
    ) -> Iterator[tuple[str, Plain | None]]:
        for name, value in given.items():
            try:
                yield name, _normalize(kind.keys[name], value)
            except ValueError as error:
                self._object(kind.path, names, f"{name} {error}")

    def _object(self, path: tuple[str, ...], names: tuple[str, ...], problem: str) -> None:
        place = _write_path(path, names)
        self.problems.append(f"{place}: {problem}" if place else problem)


def _normalize(key: DeclaredKey, value: Any) -> Plain:
    return key.type.write(key.type.read(value))


def _find_problems(kind: Kind, names: tuple[str, ...], options: Mapping[str, Plain]) -> Iterator[str]:
    """Yield what is wrong with an object beside its options' types."""
    urls = [str(options[name]) for name in kind.urls if name in options] + ([names[-1]] if kind.is_url else [])
    for url in urls:
        try:
            if parse_url(url).has_secret:
                yield "its URL has a password, which belongs in the environment or a password file"
        except RowtideError as error:
            yield error.filled_fact
    if kind.depth and not names[-1].strip():
        yield "it has no name"
    if kind.named_defaults and names[-1] not in kind.named_defaults:
        yield f"it is not one of {', '.join(kind.named_defaults)}"


def _write_object(one: DeclaredObject) -> str:
    lines = [f"[{_write_path(one.kind.path, one.names)}]"]
    lines += [f"{name} = {_write_value(one.options[name])}" for name in one.kind.keys if name in one.options]
    return "\n".join([*lines, ""])


def _write_path(path: tuple[str, ...], names: tuple[str, ...]) -> str:
    left = iter(names)
    return ".".join(_write_key(next(left) if part == NAME else part) for part in path)


def _write_key(name: str) -> str:
    is_bare = bool(name) and name.isascii() and all(one.isalnum() or one in "_-" for one in name)
    return name if is_bare else _write_text(name)


def _write_value(value: Plain) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _write_text(value)
        case list():
            return f"[{', '.join(map(_write_text, value))}]"
        case dict():
            pairs = (f"{_write_key(name)} = {_write_text(text)}" for name, text in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            return repr(value)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _write_text(text: str) -> str:
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\u{ord(character):04x}" if ord(character) < 32 or ord(character) == 127 else character
