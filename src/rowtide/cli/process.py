"""A command as a process: its output streams and its end.

Standard output and error are opened again, so that a closed pipe or a full disk is detected at each write, whether by
`print`, rich or logging. SIGPIPE stays ignored: it would end the command for a closed socket, too. Nothing in a command
may rely on the interpreter's finalization, which the command does not reach.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from rowtide.core.errors import RowtideError

CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit code after a closed pipe, as of a program killed by SIGPIPE."""


class PipeClosed(Exception):
    """The reader of this process's output has closed the pipe.

    Not an OSError, since callers handle those in other ways.
    """


class OutputNotWritten(RowtideError, number=1011):
    """A command's output cannot be written."""

    fact = "the command's output cannot be written: {reason}"
    hint = "Free space where standard output goes, or name another file, and run it again."
    reason: str


class WatchedFile(io.FileIO):
    """A file descriptor that is not written to again after a failure.

    In the main thread a closed pipe raises `PipeClosed`, another failure `OutputNotWritten`. In another thread, whose
    failure the command would ignore, the process is asked to end as by SIGTERM.
    """

    has_failed = False

    def write(self, data: Any, /) -> Any:
        """Write bytes, or drop them after a failure."""
        if self.has_failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self.has_failed = True
            if threading.current_thread() is not threading.main_thread():
                signal.raise_signal(signal.SIGTERM)
                return memoryview(data).nbytes
            if isinstance(error, BrokenPipeError):
                raise PipeClosed from None
            raise OutputNotWritten(error.strerror or str(error)) from error


def run_as_process(command: Callable[[], int]) -> None:
    """Run a command that returns its exit code, and end the process with that code."""
    ending = _ProcessEnd()
    sys.stdout, sys.stderr = _watched(sys.stdout), _watched(sys.stderr)
    ending.code = _run_guarded(command)


class _ProcessEnd:
    """Ends the process where the interpreter would begin its shutdown.

    Threads of libraries (PyArrow's pools) that then need the GIL are killed, which in C++ aborts the process: exit code
    134 after correct output (apache/arrow 34314). Seen with 3 of 240 processes that read a Parquet file from memory of
    Python's, on a busy machine, and with none of 120 that read it from Arrow's. What PySpark and temporary files
    registered with `atexit` has run before: this handler is registered first.
    """

    code = 1

    def __init__(self) -> None:
        atexit.register(self)

    def __call__(self) -> None:
        logging.shutdown()
        with suppress(PipeClosed, OutputNotWritten):
            sys.stdout.flush()
        os._exit(self.code)


def _run_guarded(command: Callable[[], int]) -> int:
    try:
        try:
            return command()
        finally:
            sys.stdout.flush()
    except PipeClosed:
        return CLOSED_PIPE
    except OutputNotWritten as error:
        print(error, file=sys.stderr)
        return 1


def _watched(stream: TextIO | None) -> TextIO:
    """Return a watched stream over the same descriptor; what is printed where there is none goes nowhere.

    A terminal gets its own encoding, and `\\u6771` for what that cannot show; files and pipes get UTF-8, whatever the
    locale says: no row is altered or refused for it.
    """
    if stream is None:
        return Path(os.devnull).open("w")
    buffer = io.BufferedWriter(WatchedFile(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding if stream.isatty() else "utf-8",
        errors="backslashreplace",
        line_buffering=stream.isatty() or stream is sys.stderr,
    )
