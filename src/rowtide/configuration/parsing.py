"""Parsing of configuration files; all problems are reported at once. Pure."""

from __future__ import annotations

import codecs
import os
import stat
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from rowtide.configuration.errors import ConfigurationInvalid, ConfigurationNotRead, ConfigurationNotTrusted
from rowtide.configuration.settings import Configuration, DatabaseSettings, LogSettings, MonitorSettings, OptionValue
from rowtide.core.errors import RowtideError
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.databases.passwords import CommandPassword, EnvironmentPassword, FilePassword, PasswordSource
from rowtide.databases.urls import DatabaseUrl, parse_url

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


SECTIONS = ("log", "monitor", "gateway", "defaults", "databases")
PASSWORD_KINDS = ("env", "file", "command")
_LONGEST_NAME = 128
_NOT_IN_A_NAME = {":", "=", "/"}
"""What distinguishes a URL from a name, and may not be in the name of a service unit."""


def parse_configuration(
    text: str, path: str, origin: str, option_names: Collection[str], gateway_options: Collection[str] = ()
) -> Configuration:
    """Parse a configuration file. Raises `ConfigurationNotRead` if it is not TOML, `ConfigurationInvalid`.

    `option_names` are those that commands have and that may stand in `[defaults]`, `gateway_options` those that may
    stand in `[gateway]`.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationNotRead(path, str(error)) from None
    lines = find_lines(text)
    reading = _FileReading(lines)
    sections = reading.take_tables((), document, SECTIONS)
    configuration = Configuration(
        path=path,
        origin=origin,
        log=reading.read_section(LogSettings, ("log",), sections["log"]),
        monitor=reading.read_section(MonitorSettings, ("monitor",), sections["monitor"]),
        defaults=reading.read_options("defaults", sections["defaults"], option_names),
        gateway=reading.read_options("gateway", sections["gateway"], gateway_options),
        databases=reading.read_databases(sections["databases"]),
        lines=lines,
    )
    if reading.problems:
        raise ConfigurationInvalid(path, "; ".join(reading.list_problems()))
    return configuration


class _Wrong(Exception):
    """An invalid value of a key; its text is the reason."""


@dataclass(slots=True)
class _FileReading:
    """The reading of one file, with the problems found so far."""

    lines: Mapping[KeyPath, int]
    problems: list[tuple[KeyPath, str]] = field(default_factory=list)

    def list_problems(self) -> Sequence[str]:
        """Return them in the order of the file."""
        placed = [(self._find_line(path), problem) for path, problem in self.problems]
        return [f"line {line}: {problem}" if line else problem for line, problem in sorted(placed)]

    def _find_line(self, path: KeyPath) -> int:
        """Return the line of a key, else of what it is in; 0 if none is known."""
        return next((self.lines[path[:size]] for size in range(len(path), 0, -1) if path[:size] in self.lines), 0)

    def take_tables(self, at: KeyPath, given: Mapping[str, Any], known: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return known tables, empty where there is none; others are problems."""
        for name, value in given.items():
            if name not in known:
                self.problems.append(
                    ((*at, name), _unknown("section" if isinstance(value, dict) else "key", name, known))
                )
            elif not isinstance(value, dict):
                self.problems.append(((*at, name), f"{show_path((*at, name))} must be a section, [{name}]"))
        return {name: value if isinstance(value := given.get(name), dict) else {} for name in known}

    def read_section(self, kind: Any, at: KeyPath, given: Mapping[str, Any]) -> Any:
        """Return a section's dataclass; a value that is wrong has its default."""
        types = get_type_hints(kind, include_extras=True)
        values: dict[str, Any] = {}
        for name, value in given.items():
            path = (*at, name)
            if name not in types:
                self.problems.append((path, f"{_unknown('key', name, types)} in [{show_path(at)}]"))
                continue
            try:
                values[name] = _read_value(types[name], value)
            except _Wrong as wrong:
                self.problems.append((path, f"{show_path(path)}: {wrong}"))
                values[name] = None
        missing = [one.name for one in fields(kind) if one.default is MISSING and one.name not in values]
        self.problems += [(at, f"[{show_path(at)}] has no {name}") for name in missing]
        return kind(**values, **dict.fromkeys(missing))

    def read_options(self, section: str, given: Mapping[str, Any], known: Collection[str]) -> Mapping[str, OptionValue]:
        """Return a section's values of options by their names."""
        found: dict[str, OptionValue] = {}
        for name, value in given.items():
            if name not in known:
                self.problems.append(((section, name), f"{_unknown('option', name, known)} in [{section}]"))
            elif isinstance(value, str | int | float):
                found[name] = value
            elif isinstance(value, list) and all(isinstance(one, str) for one in value):
                found[name] = tuple(value)
            else:
                problem = f"{show_path((section, name))}: write a text, a number, true, false, or a list of texts"
                self.problems.append(((section, name), problem))
        return found

    def read_databases(self, given: Mapping[str, Any]) -> Mapping[str, DatabaseSettings]:
        """Return databases by their names."""
        found: dict[str, DatabaseSettings] = {}
        by_url: dict[DatabaseUrl, str] = {}
        for name, table in given.items():
            at = ("databases", name)
            if not isinstance(table, dict):
                self.problems.append((at, f"{show_path(at)} must be a section, [{show_path(at)}]"))
                continue
            if not _may_name(name):
                problem = (
                    f"{name!r} cannot name a database: write 1 to {_LONGEST_NAME} characters without : = / and controls"
                )
                self.problems.append((at, problem))
            found[name] = settings = self.read_section(DatabaseSettings, at, table)
            if settings.url is not None and (first := by_url.setdefault(settings.url, name)) != name:
                self.problems.append((at, f"{show_path(at)} has the same url as {show_path(('databases', first))}"))
        return found


def _may_name(name: str) -> bool:
    is_short = 0 < len(name) <= _LONGEST_NAME
    return is_short and name.isprintable() and name.strip() == name and _NOT_IN_A_NAME.isdisjoint(name)


def _read_value(annotated: Any, value: Any) -> Any:
    """Convert a TOML value. Raises `_Wrong`."""
    kind, option = get_args(annotated)[:2]
    if PasswordSource in (kind, _without_none(kind)):
        return _read_password_source(value)
    kind = _without_none(kind)
    if get_origin(kind) is tuple:
        return _read_words(get_args(kind)[0], value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _read_word(kind, value)
    return _checked(option, _READERS[kind](value))


def _without_none(kind: Any) -> Any:
    alternatives = [one for one in get_args(kind) if one is not type(None)]
    if len(alternatives) == len(get_args(kind)):
        return kind
    return alternatives[0] if len(alternatives) == 1 else PasswordSource


def _checked(option: Option, value: Any) -> Any:
    try:
        return value if option.check is None else option.check(value)
    except ValueError as error:
        raise _Wrong(str(error)) from None


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("write a text that is not empty")
    return value


def _read_number(value: Any) -> int:
    # In Python, booleans are integers.
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Wrong("write a whole number")
    return value


def _read_url(value: Any) -> DatabaseUrl:
    try:
        url = parse_url(_read_text(value))
    except RowtideError as error:
        raise _Wrong(f"{error.filled_fact}. {error.filled_hint}") from None
    if url.has_secret:
        raise _Wrong("it has a password (RT-7124); leave it out, and say with the key password where it is kept")
    return url


_READERS: Mapping[Any, Callable[[Any], Any]] = {str: _read_text, int: _read_number, DatabaseUrl: _read_url}


def _read_word(kind: type[Enum], value: Any) -> Enum:
    words = [str(member.value) for member in kind]
    if value not in words:
        raise _Wrong(f"{_unknown('value', str(value), words)}; write one of {', '.join(words)}")
    return kind(value)


def _read_words(kind: type[Enum], value: Any) -> tuple[Enum, ...]:
    if not isinstance(value, list):
        raise _Wrong("write a list of texts")
    return tuple(dict.fromkeys(_read_word(kind, one) for one in value))


def _read_password_source(value: Any) -> PasswordSource:
    if isinstance(value, str):
        raise _Wrong(
            'it is kept elsewhere: write { env = "VARIABLE" }, { file = "/path" } or { command = ["program"] }'
        )
    if not isinstance(value, dict) or len(value) != 1:
        raise _Wrong(f"write a table with one of {', '.join(PASSWORD_KINDS)}")
    ((kind, given),) = value.items()
    if kind not in PASSWORD_KINDS:
        raise _Wrong(_unknown("key", kind, PASSWORD_KINDS))
    return _PASSWORD_READERS[kind](given)


def _read_variable(given: Any) -> PasswordSource:
    if not isinstance(given, str) or not given or "=" in given or "\0" in given:
        raise _Wrong("env is the name of a variable of the environment")
    return EnvironmentPassword(given)


def _read_path(given: Any) -> PasswordSource:
    if not isinstance(given, str) or not Path(given).is_absolute() or "\0" in given:
        raise _Wrong("file is a path from the root")
    return FilePassword(given)


def _read_command(given: Any) -> PasswordSource:
    is_list = isinstance(given, list) and given and all(isinstance(one, str) and "\0" not in one for one in given)
    if not is_list or not given[0]:
        raise _Wrong('command is a list of a program and its arguments, as ["pass", "shop"]: no shell runs it')
    return CommandPassword(tuple(given))


_PASSWORD_READERS: Mapping[str, Callable[[Any], PasswordSource]] = {
    "env": _read_variable,
    "file": _read_path,
    "command": _read_command,
}


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    return f'unknown {kind} "{name}"{say_nearest(name, known)}'


def say_nearest(name: str, known: Collection[str]) -> str:
    """Return the question whether a similar name was meant; an empty text if none is similar."""
    from difflib import get_close_matches

    nearest = get_close_matches(name.replace("_", "-") if "-" in "".join(known) else name, known, 1, 0.5)
    return f'; did you mean "{nearest[0]}"?' if nearest else ""


def show_path(path: KeyPath) -> str:
    """Return a path as it is written in TOML."""
    return ".".join(_keys(path))


def _keys(path: KeyPath) -> Iterator[str]:
    from json import dumps

    for key in path:
        is_bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
        yield key if is_bare else dumps(key, ensure_ascii=False)


VARIABLE = "ROWTIDE_CONFIG"
NAME = "rowtide.toml"
_FOR_ALL_USERS = Path("/etc/rowtide") / NAME
_BY_OTHERS = 0o022
_MOST_BYTES = 4 * 1024 * 1024


@frozen
class FoundFile:
    """The path of a configuration file, and its origin."""

    path: str
    origin: str


def find_file(named: str | None, environment: Mapping[str, str]) -> FoundFile | None:
    """Return the first configuration file; never one of the current folder, unless an option names it.

    `named` is what `--config` says. Raises `ConfigurationNotRead` if a file that is named is not there.
    """
    if named is not None:
        return _require_there(FoundFile(os.path.abspath(named), "--config"), named)
    if environment.get(VARIABLE):
        path = environment[VARIABLE]
        if not Path(path).is_absolute():
            raise ConfigurationNotRead(path, f"{VARIABLE} must be a path from the root")
        return _require_there(FoundFile(path, VARIABLE), path)
    return next((FoundFile(path, path) for path in _places(environment) if _is_there(path)), None)


def read_file(path: str) -> str:
    """Return the text of a configuration file. Raises `ConfigurationNotRead`, `ConfigurationNotTrusted`."""
    try:
        # A pipe is refused below; opening one would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            _require_trusted(path, os.fstat(descriptor))
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigurationNotRead(path, error.strerror or str(error)) from error
    return _decode(path, content)


def _places(environment: Mapping[str, str]) -> Iterator[str]:
    home = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    # A relative one is invalid (XDG Base Directory Specification), and would be in the current folder.
    if Path(home).is_absolute():
        yield str(Path(home, "rowtide", NAME))
    yield str(_FOR_ALL_USERS)


def _require_there(found: FoundFile, said: str) -> FoundFile | None:
    if said == os.devnull:
        return None
    if not _is_there(found.path):
        raise ConfigurationNotRead(found.path, "it does not exist")
    return found


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigurationNotRead(path, error.strerror or str(error)) from error
    return True


def _require_trusted(path: str, file: os.stat_result) -> None:
    if not stat.S_ISREG(file.st_mode):
        raise ConfigurationNotRead(path, "it is not a regular file")
    _require_own(path, "it", file)
    # A user who may write to the folder can replace the file, or a link in its path.
    for folder in dict.fromkeys((os.path.dirname(path), os.path.dirname(os.path.realpath(path)))):
        _require_own(path, f"its folder {folder}", os.stat(folder))


def _require_own(path: str, what: str, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise ConfigurationNotTrusted(path, f"{what} belongs to the user with ID {found.st_uid}")
    if found.st_mode & _BY_OTHERS:
        raise ConfigurationNotTrusted(path, f"others may write to {what} (mode {stat.S_IMODE(found.st_mode):04o})")


def _decode(path: str, content: bytes) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ConfigurationNotRead(path, "it is UTF-16; save it as UTF-8")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationNotRead(path, f"line {line} is not UTF-8") from None
