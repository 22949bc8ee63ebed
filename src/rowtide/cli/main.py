"""The `rowtide` command."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

from rowtide.cli.early_reading import read_log_early
from rowtide.cli.process import run_as_process
from rowtide.core.errors import RowtideError, describe
from rowtide.core.extras import hide_pandas, naming_extras
from rowtide.core.row_values import are_hidden, hiding
from rowtide.core.secrets import MASK, redact

_OBJECTS_BETWEEN_COLLECTIONS = 500_000
_DEBUG = "--debug"
_HIDE_KEYS = "--hide-keys"


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    0 on success, 1 with one `RT-nnnn` line on stderr for an error, 2 for wrong usage.
    """
    is_debugging = _DEBUG in arguments
    arguments = [argument for argument in arguments if argument != _DEBUG]
    _begin_logging(is_debugging=is_debugging)
    # Before the log's reader is started, which inherits it, and until the last error is printed.
    with hiding(wanted=_HIDE_KEYS in arguments):
        return _run_reporting(arguments, is_debugging=is_debugging)


def _run_reporting(arguments: Sequence[str], *, is_debugging: bool) -> int:
    try:
        with naming_extras():
            read_log_early(arguments)
            _run(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except RowtideError as error:
        if is_debugging:
            _print_traceback(type(error), error, error.__traceback__)
        else:
            print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> None:
    """Run this process's command line, and end the process."""
    # What imports leave stays, and a batch's calls go without being looked for: a tenth of a command's time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    hide_pandas()
    sys.excepthook = _print_traceback
    threading.excepthook = lambda raised: _print_traceback(raised.exc_type, raised.exc_value, raised.exc_traceback)
    run_as_process(lambda: run_command(sys.argv[1:]))


def _run(arguments: Sequence[str]) -> None:
    # Not before the log is read: it imports the parser of command lines.
    from rowtide.cli.app import app

    app(arguments)


def _begin_logging(*, is_debugging: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting("%(asctime)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO if is_debugging else logging.ERROR, handlers=[handler])
    # A JVM that ends is an error of ours; py4j logs a traceback besides for each call that was under way.
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
