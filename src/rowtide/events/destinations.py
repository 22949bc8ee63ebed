"""Where lines of a log go: standard error, the journal, or a file that others rotate."""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

from rowtide.events.errors import LogNotWritable
from rowtide.events.event import Level

LOOK_S = 1.0
"""So often a file is compared with what has its name."""
_PRIORITIES = {Level.DEBUG: 7, Level.INFO: 6, Level.WARNING: 4, Level.ERROR: 3}
"""As syslog numbers them."""


class LogDestination(Protocol):
    """Takes whole lines, one at a time."""

    def write(self, line: str, level: Level) -> None:
        """Write a line, which has no line end."""
        ...

    def reopen(self) -> None:
        """Open again what has a name."""
        ...


class StandardError:
    """Standard error as it is at each line: a command replaces it."""

    def write(self, line: str, _level: Level) -> None:
        """Write a line."""
        if sys.stderr is not None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def reopen(self) -> None:
        """Do nothing: it has no name."""


class Journal(StandardError):
    """Standard error with a priority before each line, which systemd takes off (`SyslogLevelPrefix`)."""

    def write(self, line: str, level: Level) -> None:
        """Write a line with its priority."""
        super().write(f"<{_PRIORITIES[level]}>{line}", level)


class LogFile:
    """A file to which lines are appended, each by one call, so that processes may share it.

    It is opened again when it has been renamed or removed, and after `reopen`. While it cannot be written, lines are
    lost, which is reported once; the first line that can be written again says how many.
    """

    def __init__(
        self,
        path: str,
        *,
        report: Callable[[str], None],
        say_missing: Callable[[int], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` gets the failure, `say_missing` returns the line about lines that were lost.

        Raises `LogNotWritable`.
        """
        self._path = os.path.abspath(path)
        self._report, self._say_missing, self._clock = report, say_missing, clock
        self._missing = 0
        self._is_torn = self._is_stale = False
        self._looked_at = clock()
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise LogNotWritable(path, error.strerror or str(error)) from error

    def write(self, line: str, _level: Level) -> None:
        """Append a line, or count it as lost."""
        self._follow()
        lines = ([self._say_missing(self._missing)] if self._missing else []) + [line]
        try:
            for each in lines:
                self._append(each)
                self._missing = 0
        except OSError as error:
            if not self._missing:
                self._report(f"The log file {self._path} cannot be written: {error.strerror}. Lines are missing there.")
            self._missing += 1

    def reopen(self) -> None:
        """Open the file of that name with the next line."""
        self._is_stale = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _append(self, line: str) -> None:
        # What a full disk cut off stands in a line of its own.
        content = ("\n" if self._is_torn else "").encode() + line.encode("utf-8", "backslashreplace") + b"\n"
        written = os.write(self._descriptor, content)
        while written < len(content):
            self._is_torn = True
            written += os.write(self._descriptor, content[written:])
        self._is_torn = False

    def _follow(self) -> None:
        now = self._clock()
        if not self._is_stale and now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        if self._is_stale or not self._is_named():
            try:
                opened = self._open()
            except OSError as error:
                # The former file is written to as long as the new one cannot be.
                if self._is_stale:
                    self._report(f"The log file {self._path} cannot be opened again: {error.strerror}.")
                self._is_stale = False
                return
            os.close(self._descriptor)
            self._descriptor, self._is_torn, self._is_stale = opened, False, False

    def _is_named(self) -> bool:
        """Whether the name leads to the file that is open."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except OSError:
            return False

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        descriptor = os.open(self._path, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.set_blocking(descriptor, True)
        return descriptor


class Locked:
    """A destination for several threads."""

    def __init__(self, destination: LogDestination) -> None:
        self._destination = destination
        # Reentrant: a signal's handler may emit while its thread writes.
        self._lock = threading.RLock()

    def write(self, line: str, level: Level) -> None:
        """Write a line."""
        with self._lock:
            self._destination.write(line, level)

    def reopen(self) -> None:
        """Open again what has a name; from a signal's handler, too."""
        self._destination.reopen()
