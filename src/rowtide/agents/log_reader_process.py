"""The log reader as a process of its own, started by an agent and ended with it.

The child is `python -m` of this module: it imports nothing of the program that starts it, which may be a script
without a `__main__` guard or a notebook. Both have one end of a socket pair: what the child is to do travels over it,
since `ps` shows arguments and the database's URL may hold a password; then the child's errors. Its end of file,
however the parent went, ends the child.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from types import TracebackType

from rowtide.agents.errors import LogReaderEnded
from rowtide.agents.log_reader import open_log_reader
from rowtide.agents.loop import run_agent
from rowtide.core.errors import Remedy, RowtideError

_MODULE = "rowtide.agents.log_reader_process"
_STOP_PATIENCE_S = 5.0
_LOOK_S = 1.0


class LogReaderProcess:
    """Keeps one child reading the log, seen from its parent. Use as a context manager."""

    def __init__(self, url: str, on_retry: Callable[[RowtideError, float], None], *, has_run: bool) -> None:
        """`has_run`: the log was read before in this run, so that an outage is waited out; see `run_agent`."""
        self._url = url
        self._on_retry = on_retry
        self._start(has_run=has_run)

    def keep_running(self) -> None:
        """Raise the child's error if it ended with one; start it again if it was killed; pass its retries on.

        Raises `LogReaderEnded` if it ended by itself.
        """
        code = self._process.poll()
        with suppress(EOFError, ConnectionError):
            while self._ours.poll():
                error, pause_s = self._ours.recv()
                if pause_s is None:
                    # The child has retried what may be retried.
                    error.remedy = Remedy.STOP
                    raise error
                self._on_retry(error, pause_s)
        if code is None:
            return
        self._ours.close()
        if code > 0:
            raise LogReaderEnded(code)
        self._start(has_run=True)

    def _start(self, *, has_run: bool) -> None:
        self._ours, theirs = Pipe()
        # Our socket pair in place of arguments; its group is its own: Ctrl-C is for the parent, which closes the pair.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": _module_search_path()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        with suppress(ConnectionError):
            self._ours.send((self._url, os.getpid(), has_run))

    def __enter__(self) -> LogReaderProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _module_search_path() -> str:
    """Return where this process finds modules: the child finds rowtide there, wherever it was found."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def _run(parent: Connection) -> None:
    url, parent_id, has_run = parent.recv()
    stop = threading.Event()
    threading.Thread(target=_stop_with_parent, args=(parent, parent_id, stop), daemon=True).start()

    def report(error: RowtideError, pause_s: float | None) -> None:
        with suppress(OSError):
            parent.send((error, pause_s))

    try:
        run_agent(lambda: open_log_reader(url, stop), stop=stop, idle_s=0, has_run=has_run, on_retry=report)
    except RowtideError as error:
        report(error, None)


def _stop_with_parent(parent: Connection, parent_id: int, stop: threading.Event) -> None:
    """Wait for the parent's end; a fork of it that outlives it keeps its end of the pair open."""
    with suppress(EOFError, OSError):
        while os.getppid() == parent_id and not parent.poll(_LOOK_S):
            pass
    stop.set()
    # The step in hand has a while to finish; whatever it leaves is redone.
    time.sleep(_STOP_PATIENCE_S)
    os._exit(1)


if __name__ == "__main__":
    with suppress(EOFError):
        _run(Connection(int(sys.argv[1])))
