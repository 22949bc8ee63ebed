"""Finding the configuration file, and reading it only if nobody else may change it."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from rowtide.configuration.errors import ConfigurationNotRead, ConfigurationNotTrusted
from rowtide.core.values import frozen

VARIABLE = "ROWTIDE_CONFIG"
NAME = "rowtide.toml"
_FOR_ALL_USERS = Path("/etc/rowtide") / NAME
_BY_OTHERS = 0o022
_MOST_BYTES = 4 * 1024 * 1024


@frozen
class FoundFile:
    """A configuration file, and what named it."""

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
    # Whoever may write to a folder can put another file, or another link, in its place.
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
