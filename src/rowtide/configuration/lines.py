"""The lines at which keys of a TOML file stand, which `tomllib` does not tell. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

KeyPath = tuple[str, ...]


def find_lines(text: str) -> Mapping[KeyPath, int]:
    """Return the lines of the keys and headers of a valid TOML file, also of keys within inline tables."""
    found: dict[KeyPath, int] = {}
    section: KeyPath = ()
    for number, statement in _statements(text):
        parsed = tomllib.loads(statement)
        is_header = statement.lstrip().startswith("[")
        if is_header:
            section = _header_of(parsed)
            found.setdefault(section, number)
            continue
        for path in _paths_of(parsed):
            found.setdefault((*section, *path), number)
    return found


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each header and each key with its value, which may take several lines, and the number of its first line."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and not _is_whole("\n".join(lines[at:end])):
            end += 1
        statement = "\n".join(lines[at:end])
        if statement.strip() and not statement.lstrip().startswith("#"):
            yield at + 1, statement
        at = end


def _is_whole(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _header_of(parsed: Any) -> KeyPath:
    path: list[str] = []
    while parsed:
        # An array of tables, [[name]], has its tables in a list.
        (name, parsed), *_ = (parsed[0] if isinstance(parsed, list) else parsed).items()
        path.append(name)
        if isinstance(parsed, list):
            parsed = parsed[0]
    return tuple(path)


def _paths_of(parsed: Mapping[str, Any]) -> Iterator[KeyPath]:
    for name, value in parsed.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *path) for path in _paths_of(value))
