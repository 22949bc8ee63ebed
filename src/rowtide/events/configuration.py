"""The log of a program: its options, and writing events to it.

structlog filters by level and renders; it is imported when a log is configured, which takes as long as the rest of a
command's start, so that commands without one are free of it (docs/decisions/0034).
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Protocol

from rowtide.core.errors import RowtideError
from rowtide.core.options import Option, WordsRead
from rowtide.core.values import frozen
from rowtide.events.catalogue import LogResumed
from rowtide.events.event import Emitted, Level, Listener, emitted_now, record_of, use_log, write_json, write_text


class LogNotWritable(RowtideError, number=1180):
    """The file of the log of events cannot be opened."""

    fact = "the log file {path} cannot be written: {reason}"
    hint = "Name a file in a folder that this user may write to, with --log-destination, or stderr or journal."
    path: str
    reason: str


LOOK_S = 1.0
"""How often the open file is compared with the file of its name, which a log rotation may have replaced."""
_PRIORITIES = {Level.DEBUG: 7, Level.INFO: 6, Level.WARNING: 4, Level.ERROR: 3}
"""As syslog numbers them."""


class LogDestination(Protocol):
    """Takes whole lines, one at a time."""

    def write(self, line: str, level: Level) -> None:
        """Write a line, which has no line end."""
        ...

    def reopen(self) -> None:
        """Reopen a destination that has a name."""
        ...


class StandardError:
    """Standard error, looked up for each line, since a command replaces it."""

    def write(self, line: str, _level: Level) -> None:
        """Write a line."""
        if sys.stderr is not None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def reopen(self) -> None:
        """Nothing to reopen."""


class Journal(StandardError):
    """Standard error with a priority before each line, which systemd strips (`SyslogLevelPrefix`)."""

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
        # Ends a line that a full disk truncated.
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
                # The former file is used until the new one can be opened.
                if self._is_stale:
                    self._report(f"The log file {self._path} cannot be opened again: {error.strerror}.")
                self._is_stale = False
                return
            os.close(self._descriptor)
            self._descriptor, self._is_torn, self._is_stale = opened, False, False

    def _is_named(self) -> bool:
        """Whether the name still leads to the open file."""
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
        """Reopen the destination; also called by a signal's handler."""
        self._destination.reopen()


STDERR, JOURNAL = "stderr", "journal"


class LogFormat(StrEnum):
    """Formats of a log's lines."""

    TEXT = "text"
    JSON = "json"


@frozen
class LogOptions(WordsRead):
    """The options of a log: which events, in which format, and where."""

    format: Annotated[
        LogFormat | None,
        Option(
            "--log-format",
            envvar="ROWTIDE_LOG_FORMAT",
            help="Write each event as a line: name=value, or a JSON object. Default: progress for people, and text in "
            "a file or the journal.",
            show_default=False,
        ),
    ] = None
    level: Annotated[
        Level | None,
        Option(
            "--log-level",
            envvar="ROWTIDE_LOG_LEVEL",
            help="The least important events that are written. Default: info; debug with -v, error with --quiet.",
            show_default=False,
        ),
    ] = None
    destination: Annotated[
        str,
        Option(
            "--log-destination",
            envvar="ROWTIDE_LOG_DESTINATION",
            metavar="stderr|journal|PATH",
            help="Where events are written; a file is opened again when it was renamed, and on SIGHUP.",
        ),
    ] = STDERR

    @property
    def is_for_people(self) -> bool:
        """Whether standard error gets progress instead of a line for each event."""
        return self.destination == STDERR and self.format is None

    @property
    def is_on_stderr(self) -> bool:
        """Whether standard error gets a line for each event."""
        return not self.is_for_people and self.destination in (STDERR, JOURNAL)


class ConfiguredLog:
    """Writes events to a destination, those of a level and above."""

    def __init__(self, options: LogOptions, destination: LogDestination) -> None:
        import structlog

        self.destination = Locked(destination)
        self._logger: Any = structlog.wrap_logger(
            _Lines(self.destination),
            processors=[_unfold, _renderer_of(options)],
            wrapper_class=structlog.make_filtering_bound_logger((options.level or Level.INFO).severity),
        )

    def __call__(self, emitted: Emitted) -> None:
        """Write an event, unless its level is below the log's."""
        getattr(self._logger, emitted.event.level)(emitted.event.name, emitted=emitted)


class _Lines:
    """A destination as structlog calls it: by the level's name, with a line that is rendered."""

    def __init__(self, destination: Locked) -> None:
        self.debug, self.info, self.warning, self.error = (partial(destination.write, level=level) for level in Level)


def _unfold(_logger: object, _method: str, values: Any) -> dict[str, Any]:
    return record_of(values["emitted"])


def _renderer_of(options: LogOptions) -> Callable[[object, str, Any], str]:
    write = write_json if options.format is LogFormat.JSON else write_text
    return lambda _logger, _method, record: write(record)


_configured: list[ConfiguredLog] = []


def configure_logging(options: LogOptions) -> Listener | None:
    """Write events as the options say, from all threads and from the log reader's process; return the earlier log.

    Raises `LogNotWritable`.
    """
    log = ConfiguredLog(options, _open(options))
    _configured[:] = [log]
    return use_log(log)


def reopen_log() -> None:
    """Open the log's file again, as for SIGHUP; a log without one stays as it is."""
    for log in _configured:
        log.destination.reopen()


def _open(options: LogOptions) -> LogDestination:
    match options.destination:
        case "stderr":
            return StandardError()
        case "journal":
            return Journal()
        case path:
            write = write_json if options.format is LogFormat.JSON else write_text
            return LogFile(
                path,
                report=_report,
                say_missing=lambda lines: write(record_of(emitted_now(LogResumed(lines)))),
            )


def _report(failure: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{failure}\n")
