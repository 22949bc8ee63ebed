"""A child that is a fork of this process, for a process that has neither threads nor connections yet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

_WITH_THREADS = ("numpy", "psycopg", "pyarrow", "pyspark")
"""Packages that have threads or connections once they were used."""
_PAUSE_S = 0.002
"""Between two looks whether it has ended: an old kernel has no descriptor to wait for."""


def can_fork() -> bool:
    """Return whether a fork is sure to copy no lock that another thread holds: this process has done nothing yet.

    Not on macOS, where libraries of the system may not be used in a fork.
    """
    is_new = not any(package in sys.modules for package in _WITH_THREADS)
    return sys.platform == "linux" and is_new and threading.active_count() == 1


class ForkedChild:
    """To its parent what `subprocess.Popen` is, of a fork that runs a function and ends."""

    def __init__(self, run: Callable[[], None]) -> None:
        """Ctrl-C does not reach the child, and it reads and prints nothing but errors."""
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _run(run)

    def poll(self) -> int | None:
        """Return the exit code, negative after a signal; None while it runs."""
        if self._code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; return the exit code. Raises `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if timeout is not None and deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("a fork", timeout)
            time.sleep(_PAUSE_S)
        return code

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _run(run: Callable[[], None]) -> None:
    """Run the child, and end it here: what the parent's callers would do next is the parent's."""
    code = 1
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        run()
        code = 0
    except BaseException:  # noqa: BLE001  the hook prints it, without passwords
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
