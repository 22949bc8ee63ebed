"""`rowtide config`: the settings in use, from the configuration file and the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from rowtide.cli.active_configuration import DB_VARIABLE, configuration
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Listed, listing
from rowtide.configuration.parsing import show_path
from rowtide.configuration.settings import Configuration
from rowtide.core.redaction import MASK, redact
from rowtide.core.values import frozen
from rowtide.databases.passwords import CommandPassword, EnvironmentPassword, FilePassword

app = CommandTable()

_VARIABLES = {"db": DB_VARIABLE, "engine": "ROWTIDE_ENGINE"}
"""Environment variables by the options that they set."""
_DEFAULT = "default"


@frozen
class EffectiveSetting:
    """A setting, its value, and its source."""

    setting: str
    value: str | None
    origin: str
    """A file with a line, an environment variable, or `default`."""


@listing(app, epilog="Example: rowtide config show --format jsonl")
def show() -> Listed:
    """List the settings in use: of the configuration file, of the environment, and defaults.

    Where a password is kept is shown, as `***` and the place; the password is not read. Options that a command line
    gives precede all of them.
    """
    return EffectiveSetting, list_settings(configuration(), os.environ)


def list_settings(read: Configuration, environment: Mapping[str, str]) -> Iterator[EffectiveSetting]:
    """Yield the settings in use, in the order of the reference."""
    yield EffectiveSetting("file", read.path, read.origin or _DEFAULT)
    for section, settings in (("log", read.log), ("monitor", read.monitor)):
        yield from _of_section(read, (section,), settings)
    for option in dict.fromkeys((*read.defaults, *_VARIABLES)):
        variable = _VARIABLES.get(option)
        path = ("defaults", option)
        if variable is not None and environment.get(variable):
            yield EffectiveSetting(show_path(path), redact(environment[variable]), variable)
        elif option in read.defaults:
            yield EffectiveSetting(show_path(path), _write(read.defaults[option]), _place(read, path))
    for option, value in read.gateway.items():
        path = ("gateway", option)
        yield EffectiveSetting(show_path(path), _write(value), _place(read, path))
    for name, database in read.databases.items():
        yield from _of_section(read, ("databases", name), database)


def _of_section(read: Configuration, at: tuple[str, ...], settings: Any) -> Iterator[EffectiveSetting]:
    for one in fields(settings):
        path = (*at, one.name)
        yield EffectiveSetting(show_path(path), _write(getattr(settings, one.name)), _place(read, path))


def _place(read: Configuration, path: tuple[str, ...]) -> str:
    line = read.lines.get(path)
    return f"{read.path}:{line}" if line is not None else _DEFAULT


def _write(value: Any) -> str | None:
    """Return a value as text, a password as the place where it is kept."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case EnvironmentPassword() | FilePassword() | CommandPassword():
            return f"{MASK} ({value})"
        case tuple():
            return ", ".join(map(str, value))
        case _:
            return redact(str(value))
