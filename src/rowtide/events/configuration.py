"""What a program's log is: its options, and how events get there.

structlog filters by level and renders; it is imported when a log is configured, which takes as long as the rest of a
command's start, so that commands without one are free of it (docs/decisions/0034).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from rowtide.core.options import Option, WordsRead
from rowtide.core.values import frozen
from rowtide.events.catalogue import LogResumed
from rowtide.events.destinations import Journal, Locked, LogDestination, LogFile, StandardError
from rowtide.events.emission import Listener, emitted_now, use_log
from rowtide.events.event import Emitted, Level
from rowtide.events.rendering import record_of, write_json, write_text

STDERR, JOURNAL = "stderr", "journal"


class LogFormat(StrEnum):
    """Formats of a log's lines."""

    TEXT = "text"
    JSON = "json"


@frozen
class LogOptions(WordsRead):
    """What is logged of an agent's events, how and where to."""

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
    """Have events written as the options say, by all threads, and by the log reader's process; return the log before.

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
