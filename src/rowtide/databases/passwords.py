"""Passwords that are not in URLs, and how databases that are registered with one are accessed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import field, replace

from rowtide.core.errors import Retryable
from rowtide.core.values import frozen
from rowtide.databases.urls import DatabaseUrl, parse_url

COMMAND_DEADLINE_S = 10.0
"""How long a command may take to print a password."""
_MOST_BYTES = 64 * 1024
_BY_OTHERS = 0o077
_BY_OTHERS_OF_ROOTS = 0o037
"""What others must not be able to do with a file of root's. Its group may read it, because service managers pass
secrets in this way.
"""


class PasswordNotRead(Retryable, number=1165):
    """A password cannot be read where the configuration file says that it is kept."""

    fact = "the password cannot be read from {source}: {reason}"
    hint = "It is read for each new connection; `rowtide config show` lists where passwords are kept."
    source: str
    reason: str


class PasswordFileNotPrivate(Retryable, number=1166):
    """Others may read or change a file with a password, or with tokens."""

    fact = "the file {path}, which has a secret, is not private: {reason}"
    hint = "Give it to the user that runs rowtide, with mode 0600; of a file of root's, the group may read it: 0640."
    path: str
    reason: str


@frozen
class EnvironmentPassword:
    """A password in a variable of the environment."""

    name: str

    def __str__(self) -> str:
        return f"the environment variable {self.name}"

    def read(self) -> str:
        """Return it. Raises `PasswordNotRead`."""
        password = os.environ.get(self.name)
        if not password:
            raise PasswordNotRead(str(self), "it is empty" if password == "" else "it is not set")
        return password


@frozen
class FilePassword:
    """A password in a file, which may be replaced at any time."""

    path: str

    def __str__(self) -> str:
        return f"the file {self.path}"

    def read(self) -> str:
        """Return it without the newline at its end. Raises `PasswordNotRead`, `PasswordFileNotPrivate`."""
        content = self.read_all()
        return _only_line(self, content, content.splitlines())

    def read_all(self) -> bytes:
        """Return the file's content, for files with several secrets. Raises as `read`."""
        try:
            # Non-blocking, because opening a pipe, which is refused below, would wait for its writer.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:
                self._require_private(os.fstat(descriptor))
                return file.read(_MOST_BYTES)
        except OSError as error:
            raise PasswordNotRead(str(self), error.strerror or str(error)) from error

    def _require_private(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise PasswordNotRead(str(self), "it is not a regular file")
        if found.st_uid not in (os.geteuid(), 0):
            raise PasswordFileNotPrivate(self.path, f"it belongs to the user with ID {found.st_uid}")
        refused = _BY_OTHERS if found.st_uid else _BY_OTHERS_OF_ROOTS
        if found.st_mode & refused:
            raise PasswordFileNotPrivate(self.path, f"its mode is {stat.S_IMODE(found.st_mode):04o}")


@frozen
class CommandPassword:
    """A command whose first line of output is the password. It is run without a shell."""

    arguments: tuple[str, ...] = field(repr=False)
    deadline_s: float = COMMAND_DEADLINE_S

    def __str__(self) -> str:
        # Its arguments may be secrets of their own.
        return f"the command {self.arguments[0]}"

    def read(self) -> str:
        """Run it and return what it prints. Raises `PasswordNotRead`."""
        try:
            process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise PasswordNotRead(str(self), error.strerror or str(error)) from error
        try:
            printed, _ = process.communicate(timeout=self.deadline_s)
        except subprocess.TimeoutExpired:
            raise PasswordNotRead(str(self), f"it has not ended after {self.deadline_s:g} s") from None
        finally:
            # Its children too, because reading waits as long as any of them keeps the pipe open.
            _kill_session(process)
        if process.returncode != 0:
            raise PasswordNotRead(str(self), f"it ended with exit code {process.returncode}")
        return _only_line(self, printed, printed.splitlines()[:1])


PasswordSource = EnvironmentPassword | FilePassword | CommandPassword


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    # The whole group has ended, or the rest runs with other rights.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _only_line(source: PasswordSource, content: bytes, lines: list[bytes]) -> str:
    if not content.strip():
        raise PasswordNotRead(str(source), "it is empty")
    if len(lines) != 1:
        raise PasswordNotRead(str(source), f"it has {len(lines)} lines")
    try:
        password = lines[0].decode()
    except UnicodeDecodeError:
        raise PasswordNotRead(str(source), "it is not UTF-8") from None
    if "\0" in password or not password:
        raise PasswordNotRead(str(source), "it has a null character" if password else "its first line is empty")
    return password


# How registered databases are accessed: a password that is not in the URL, and a URL for replication connections.
# Whatever opens a connection has a URL alone, also one that was stored without a password. A command registers the
# databases of its configuration file; nothing is registered in a program that imports rowtide.


@frozen
class DatabaseAccess:
    """How the database of a URL is accessed. It pickles, and has no secret: a child process reads it itself."""

    url: DatabaseUrl
    password: PasswordSource | None = None
    replication_url: DatabaseUrl | None = None
    """Where the log is read, past a connection pooler."""


_registered: dict[DatabaseUrl, DatabaseAccess] = {}
"""By URLs without secrets."""


def register_accesses(accesses: Iterable[DatabaseAccess]) -> None:
    """Register how databases are accessed, in place of what was registered before."""
    registered: dict[DatabaseUrl, DatabaseAccess] = {}
    for access in accesses:
        registered[access.url.without_secrets()] = access
        if access.replication_url is not None:
            registered.setdefault(access.replication_url.without_secrets(), access)
    # Updated in place, because other threads may be connecting to databases that stay registered.
    _registered.update(registered)
    for url in _registered.keys() - registered.keys():
        del _registered[url]


def list_accesses() -> Sequence[DatabaseAccess]:
    """Return the registered accesses, for a child process."""
    return tuple(dict.fromkeys(_registered.values()))


def read_password(url: DatabaseUrl) -> str | None:
    """Return the password with which to connect now: the URL's own, else the registered one; None without either.

    Raises `PasswordNotRead`, `PasswordFileNotPrivate`.
    """
    if url.password is not None:
        return url.password
    access = _registered.get(url.without_secrets())
    return access.password.read() if access is not None and access.password is not None else None


def with_password(url: DatabaseUrl) -> DatabaseUrl:
    """Return a URL with the password with which to connect now. Raises as `read_password`."""
    return replace(url, password=read_password(url))


def find_replication_url(url: str | DatabaseUrl) -> DatabaseUrl:
    """Return the URL to which replication connections of a database go."""
    parsed = parse_url(url)
    access = _registered.get(parsed.without_secrets())
    return (access.replication_url if access is not None else None) or parsed
