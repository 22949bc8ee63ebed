"""The configuration file of this process: read once, before the command line is parsed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rowtide.configuration.parsing import find_file, read_file

if TYPE_CHECKING:
    from rowtide.configuration.settings import Configuration, DatabaseSettings, OptionValue

_DB = "--db"
DB_VARIABLE = "ROWTIDE_DB"
_GATEWAY = "gateway serve"
"""The command that has a section of its own."""
_read: list[Configuration] = []


def configure(named: str | None) -> None:
    """Read the configuration file, and register how its databases are accessed.

    `named` is what `--config` says. Raises `ConfigurationNotRead`, `ConfigurationNotTrusted`, `ConfigurationInvalid`.
    """
    _read.clear()
    found = find_file(named, os.environ)
    if found is not None:
        use(load(found.path, found.origin))


def load(path: str, origin: str) -> Configuration:
    """Read and parse a configuration file. Raises as `configure`."""
    from rowtide.cli.option_names import GATEWAY_OPTION_NAMES, OPTION_NAMES
    from rowtide.configuration.parsing import parse_configuration

    return parse_configuration(read_file(path), path, origin, OPTION_NAMES, GATEWAY_OPTION_NAMES)


def use(configuration: Configuration) -> None:
    """Use a configuration in this process."""
    from rowtide.databases.passwords import register_accesses

    _read[:] = [configuration]
    register_accesses(one for settings in configuration.databases.values() for one in settings.accesses)


class ChangingFile:
    """The configuration file of a command that runs on: read again when it changes."""

    def __init__(self) -> None:
        self._file = (_read[0].path, _read[0].origin) if _read and _read[0].path else None
        self._read_of = self._state()

    def read_again(self) -> Configuration | None:
        """Return the changed configuration, and register how its databases are accessed; None if nothing changed.

        Raises as `configure`, once for each change; the earlier configuration stays in use.
        """
        state = self._state()
        if self._file is None or state is None or state == self._read_of:
            return None
        self._read_of = state
        found = load(*self._file)
        use(found)
        return found

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file[0]) if self._file is not None else None
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size) if found is not None else None


def configuration() -> Configuration:
    """Return the configuration; without a file, the defaults."""
    from rowtide.configuration.settings import NO_CONFIGURATION

    return _read[0] if _read else NO_CONFIGURATION


def find_default(option: str) -> OptionValue | None:
    """Return the value that `[defaults]` has for an option, or `[log]` for one of `--log-…`; None without one."""
    if not _read:
        return None
    section, _, key = option.partition("-")
    return getattr(_read[0].log, key, None) if section == "log" else _read[0].defaults.get(option)


def find_database(arguments: Sequence[str]) -> str | None:
    """Return the database that a command line names, else the environment's, else the file's default."""
    named = [after for before, after in pairwise(arguments) if before == _DB]
    named += [argument.removeprefix("--db=") for argument in arguments if argument.startswith("--db=")]
    default = find_default("db")
    return named[-1] if named else os.environ.get(DB_VARIABLE) or (str(default) if default is not None else None)


def find_settings(text: str | None) -> DatabaseSettings | None:
    """Return the settings of a database that is given by its name in the file, not as a URL."""
    return _read[0].databases.get(text) if _read and text is not None else None


def find_database_url(arguments: Sequence[str]) -> str | None:
    """Return the URL of the database that `find_database` finds. Raises `DatabaseNameUnknown`."""
    found = find_database(arguments)
    return database_url(found) if found else found


def database_url(text: str) -> str:
    """Return the URL of a database, given as such or by its name in the file. Raises `DatabaseNameUnknown`."""
    if not _read or not text.strip() or ":" in text or "=" in text:
        return text
    named = find_settings(text)
    if named is None:
        from rowtide.configuration.errors import DatabaseNameUnknown
        from rowtide.configuration.parsing import say_nearest

        known = _read[0].databases
        raise DatabaseNameUnknown(str(_read[0].path), text, say_nearest(text, known), ", ".join(known) or "it has none")
    return str(named.url)


def label_of(url: str) -> str:
    """Return the name by which metrics know a database: the file's, else its own, as the monitor's `--db` does."""
    from rowtide.core.exports import naming_extras

    for name, settings in _read[0].databases.items() if _read else ():
        if str(settings.url) == url:
            return name
    with naming_extras():
        from rowtide.monitor.databases import name_databases
    (database,) = name_databases([url])
    return database.name


def audit_days_of(url: str) -> int:
    """Return the retention of a database's audit in days: the file's, else the default."""
    from rowtide.actions.entries import RETENTION_DAYS

    for one in _read[0].databases.values() if _read else ():
        if url in (str(one.url), str(one.operator_url)):
            return one.audit_days
    return RETENTION_DAYS


def section_of(command: str, option: str) -> str:
    """Return the section of the file that gives an option of a command: its own, or `defaults`."""
    is_own = command == _GATEWAY and bool(_read) and option in _read[0].gateway
    return "gateway" if is_own else "defaults"


def defaults_for(parameters: Mapping[str, str], arguments: Sequence[str], command: str = "") -> dict[str, Any]:
    """Return the file's values of a command's options, given their names by the names of parameters.

    A database's lake is its commands' `--lake`.
    """
    found = {name: find_default(option) for name, option in parameters.items()}
    if command == _GATEWAY and _read:
        own = _read[0].gateway
        found |= {name: own[option] for name, option in parameters.items() if option in own}
        if os.environ.get(DB_VARIABLE):
            found.pop("db", None)
    settings = find_settings(find_database(arguments))
    if settings is not None and settings.lake is not None:
        found |= {name: settings.lake for name, option in parameters.items() if option == "lake"}
    return {name: value for name, value in found.items() if value is not None}
