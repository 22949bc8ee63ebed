"""The `rowtide` command, and the process that runs it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rowtide.agents.signals import own_process
from rowtide.cli.active_configuration import configure, find_database_url, find_default
from rowtide.cli.exit_codes import ExitCode, code_of, code_of_usage, runs_on
from rowtide.cli.process import run_as_process
from rowtide.core.errors import RowtideError, describe
from rowtide.core.exports import hide_pandas, naming_extras
from rowtide.core.redaction import MASK, are_hidden, hiding, redact
from rowtide.events.event import Emitted, Level, log_nothing, use_log

_READING = (["replication", "run"], ["cdc", "run"], ["cdc", "scan"])
_BEFORE_READING = frozenset({"--help", "--upgrade"})
"""Options after which the log is not read, or not yet."""


def read_log_early(arguments: Sequence[str]) -> None:
    """Start the log reader that the command will need, before its command line is parsed.

    The imports of the parser, and of what captures, take up to half a second, for which the log reader does not have to
    wait. Of a `replication run --once` with 1,000 transactions of 100 rows, 0.25 s pass before the fork, with one
    processor idle, and 0.1 s more before the walsender begins; walsender (0.35 s of processor time), log reader
    (0.25 s), this process (0.4 s, half of it imports) and subscriber (0.1 s) share the rest. If the command line turns
    out to name another database, the reader ends.
    """
    url = find_database_url(arguments)
    if list(arguments[:2]) in _READING and _BEFORE_READING.isdisjoint(arguments) and url:
        from rowtide.agents.log_reader_process import begin_reading

        begin_reading(url)


_OBJECTS_BETWEEN_COLLECTIONS = 500_000
_DEBUG = "--debug"
_QUIET, _VERBOSE = "--quiet", "-v"
_HIDE_KEYS = "--hide-keys"
_CONFIG = "--config"
_WITHOUT_CONFIGURATION = frozenset({"--help", "--version"})


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    0 on success, 1 with one `RT-nnnn` line on stderr for an error, 2 for wrong usage; of commands that run until they
    are stopped, those of `ExitCode`.
    """
    options, operands = _split(arguments)
    is_debugging = _DEBUG in options
    level = Level.DEBUG if is_debugging or _VERBOSE in options else Level.ERROR if _QUIET in options else Level.INFO
    file, options = take_configuration([one for one in options if one not in (_DEBUG, _VERBOSE, _QUIET)])
    arguments = [*options, *operands]
    begin_logging(is_debugging=is_debugging)
    try:
        if arguments and _WITHOUT_CONFIGURATION.isdisjoint(arguments):
            configure(file)
    except RowtideError as error:
        _print_error(error, _say, is_debugging=is_debugging)
        return code_of(error, arguments)
    # Before the log's reader is started, which inherits it, and until the last error is printed.
    hides = _HIDE_KEYS in arguments or find_default(_HIDE_KEYS.removeprefix("--")) is True
    with telling(level, is_debugging=is_debugging), hiding(wanted=hides):
        return run_reporting(lambda: _run(arguments), arguments, is_debugging=is_debugging)


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the arguments before `--`, which may be options, and those from it on."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at:]


@contextmanager
def telling(level: Level, *, is_debugging: bool) -> Iterator[None]:
    """Print messages of a level, and with debug also events, of the command; `watching` shows and logs more."""
    log = use_log(_print_event if level is Level.DEBUG else log_nothing)
    try:
        if level is Level.INFO:
            yield
        else:
            # Not for the others, before the log is read.
            from rowtide.cli.output.rows import notes

            with notes.telling(level, is_debugging=is_debugging):
                yield
    finally:
        use_log(log)


def _print_event(emitted: Emitted) -> None:
    from rowtide.cli.output.rows import notes
    from rowtide.events.event import record_of, write_text

    notes.print(write_text(record_of(emitted)), soft_wrap=True)


def take_configuration(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the file that `--config` names, and the arguments without it."""
    file, left, given = None, [], iter(arguments)
    for argument in given:
        name, equals, value = argument.partition("=")
        if name != _CONFIG or (not equals and (value := next(given, "")) == ""):
            left.append(argument)
        else:
            file = value
    return file, left


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def run_reporting(
    run: Callable[[], None], arguments: Sequence[str], say: Callable[[str], None] = _say, *, is_debugging: bool
) -> int:
    """Run a command line, print its error, and return the exit code."""
    try:
        with naming_extras():
            run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return code_of_usage(code, arguments)
    except RowtideError as error:
        _print_error(error, say, is_debugging=is_debugging)
        return code_of(error, arguments)
    except KeyboardInterrupt:
        return 130
    return 0


def _print_error(error: RowtideError, say: Callable[[str], None], *, is_debugging: bool) -> None:
    if is_debugging:
        _print_traceback(type(error), error, error.__traceback__)
    else:
        say(str(error))


def end_when_signalled(arguments: Sequence[str]) -> None:
    """Make signals end the process at once until a long-running command has begun."""
    if runs_on(take_configuration(arguments)[1]):
        end_at_signals()


def end_at_signals() -> None:
    """End the process at once on a signal, with the code of a command that was stopped.

    What it has begun until then, the log reader's process, ends with it.
    """

    def end(_number: int, _frame: object) -> None:
        os._exit(ExitCode.STOPPED)

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)


def main() -> None:
    """Run this process's command line, and end the process."""
    end_when_signalled(sys.argv[1:])
    start_process(lambda: run_command(sys.argv[1:]))


def start_process(command: Callable[[], int]) -> None:
    """Run a function, and end the process with the exit code that it returns."""
    # Frozen, the objects of imports are not scanned by the garbage collector, which would take a tenth of a command's
    # time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    hide_pandas()
    own_process()
    sys.excepthook = _print_traceback
    threading.excepthook = lambda raised: _print_traceback(raised.exc_type, raised.exc_value, raised.exc_traceback)
    run_as_process(command)


def _run(arguments: Sequence[str]) -> None:
    asked = os.environ.get("_ROWTIDE_COMPLETE")
    if asked is None:
        read_log_early(arguments)
    # Not before the log is read: it imports the parser of command lines.
    from rowtide.cli.commands import app

    if asked is not None:
        from rowtide.cli.ungrouped import complete

        raise SystemExit(complete(app, asked))
    app(arguments)


def begin_logging(*, is_debugging: bool) -> None:
    """Log what is an error, and what agents do while debugging."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting("%(asctime)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO if is_debugging else logging.ERROR, handlers=[handler])
    # The end of a JVM is one of our errors; py4j also logs a traceback for each call in progress.
    logging.getLogger("py4j").setLevel(logging.NOTSET if is_debugging else logging.CRITICAL)


class _Redacting(logging.Formatter):
    """Masks passwords of URLs in log lines."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        _, error, at = ei
        return "".join(_format_without_values(error, at)) if are_hidden() else super().formatException(ei)


def _print_traceback(kind: type[BaseException], error: BaseException | None, at: TracebackType | None) -> None:
    """Print a traceback without passwords of URLs and values of rows, which drivers' messages may contain."""
    from rowtide.databases.postgres.errors import find_values_behind

    text = "".join(traceback.format_exception(kind, error, at))
    if are_hidden():
        text = "".join(_format_without_values(error, at))
    for values in find_values_behind(error):
        text = text.replace(values, MASK)
    sys.stderr.write(redact(text))


def _format_without_values(error: BaseException | None, at: TracebackType | None) -> Iterator[str]:
    """Yield a traceback with those of the errors behind it; of errors that are not ours, their kinds alone."""
    behind = error and (error.__cause__ or (None if error.__suppress_context__ else error.__context__))
    if behind is not None:
        yield from _format_without_values(behind, behind.__traceback__)
        yield "\nFrom which followed:\n\n"
    yield from traceback.format_tb(at)
    if error is not None:
        yield f"{describe(error)}\n"


if __name__ == "__main__":
    main()
