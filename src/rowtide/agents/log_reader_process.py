"""The log reader as a separate process, started by an agent and ended with it.

The child is a `python -m` process: it imports nothing from the program that starts it, which may be a script without a
`__main__` guard, or a notebook. The first child of a command may be a fork, since the command knows that it has no
threads yet (docs/decisions/0003). Parent and child share a socket pair. The child's task is sent over it, since `ps`
shows arguments and the database's URL may contain a password; the child sends back its errors, and periodically a sign
of life with its counts of requests to object stores: a stopped child is killed and replaced. Each sends the other the
entries that it writes to the manifest (docs/decisions/0010); the parent logs the child's events, since it has the log's
settings (docs/decisions/0034), and requests batches of the log. When the parent ends, for whatever reason, the child
sees end of file and ends too.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from types import TracebackType

from rowtide.agents.loop import OnRetry, report_retry
from rowtide.core.errors import Remedy, Retryable
from rowtide.databases.passwords import list_accesses
from rowtide.events.catalogue import LogReaderKilled
from rowtide.events.event import Emitted, deliver, emit, scope
from rowtide.log.batches import BatchWanted
from rowtide.log.store.entries import EntryExchange, EntryWritten
from rowtide.storage.store import Traffic

_WITH_THREADS = ("numpy", "psycopg", "pyarrow", "pyspark")
"""Packages that have threads or connections after their first use."""
_PAUSE_S = 0.002
"""The interval of polling for the child's end, where an old kernel has no descriptor to wait for."""


def can_fork() -> bool:
    """Return whether a fork cannot copy a lock that another thread holds, because this process has done nothing yet.

    Not on macOS, where libraries of the system may not be used in a fork.
    """
    is_new = not any(package in sys.modules for package in _WITH_THREADS)
    return sys.platform == "linux" and is_new and threading.active_count() == 1


class ForkedChild:
    """A forked child that runs a function, with the interface of `subprocess.Popen`."""

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
    """Run the child, and end it here, because the code after the fork's callers belongs to the parent."""
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


class LogReaderEnded(Retryable, number=1010):
    """The log reader's process ended without one of rowtide's errors: it could not start, or it crashed."""

    fact = "the process of the log reader ended with exit code {code}"
    hint = "Its messages on stderr give the reason; the agent restarts it."
    code: int


LOG_READER = "log reader"
"""The job of events that the child emits."""
_CHILD = "rowtide.agents.log_reader_child"
BEAT_S = 5.0
"""The interval at which a child reports that it lives."""
SILENCE_S = 60.0
"""A child that has reported nothing for this long is killed."""


_Child = tuple[subprocess.Popen[bytes] | ForkedChild, Connection]
_begun: dict[str, _Child] = {}
"""Forked children that are not taken over yet, by the URL that they read."""


def begin_reading(url: str) -> None:
    """Fork a child that reads a log before the `LogReaderProcess` that takes it over is made, if a fork is safe.

    Its modules, most of which this process needs too, are imported before.
    """
    if not can_fork():
        return
    from rowtide.agents.log_reading import read_log

    ours, theirs = Pipe()

    def run() -> None:
        ours.close()
        with suppress(EOFError):
            read_log(theirs)

    with theirs:
        _begun[url] = ForkedChild(run), ours
    _send_task(ours, url, has_run=False)


class LogReaderProcess:
    """The parent's side: keeps one child reading the log. Use as a context manager."""

    def __init__(self, url: str, on_retry: OnRetry, *, has_run: bool) -> None:
        """`has_run`: the log was read before in this run, so the child waits through outages; see `run_agent`."""
        self._url = url
        self._on_retry = on_retry
        self._of_former = self._of_child = Traffic()
        self.exchange = EntryExchange(self._report)
        """Of the manifest's entries, with the child."""
        self._silent_s = self._listened_at = 0.0
        self._start(has_run=has_run)

    def keep_running(self) -> None:
        """Raise the child's error if it ended with one; restart it if it was killed; report its retries.

        One that is silent is killed and restarted. Raises `LogReaderEnded` if it ended by itself.
        """
        code = self._process.poll()
        now = time.monotonic()
        # Silence does not count while this process was busy or stopped, since it did not receive anything then.
        self._silent_s += min(now - self._listened_at, BEAT_S)
        self._listened_at = now
        with suppress(EOFError, ConnectionError):
            while self._ours.poll():
                said, self._silent_s = self._ours.recv(), 0.0
                if isinstance(said, Traffic):
                    self._of_child = said
                    continue
                if isinstance(said, EntryWritten):
                    self.exchange.hear(said)
                    continue
                if isinstance(said, Emitted):
                    deliver(said)
                    continue
                error, pause_s = said
                if pause_s is None:
                    # The child has retried already.
                    error.remedy = Remedy.STOP
                    raise error
                with scope(job=LOG_READER):
                    report_retry(error, pause_s, self._on_retry)
        if code is None and self._silent_s > SILENCE_S:
            emit(LogReaderKilled(self._process.pid, round(self._silent_s, 1)))
            self._process.kill()
            code = self._process.wait()
        if code is None:
            return
        self._ours.close()
        if code > 0:
            raise LogReaderEnded(code)
        self._start(has_run=True)

    @property
    def traffic(self) -> Traffic:
        """The requests of the children to object stores, as last reported."""
        return self._of_former + self._of_child

    def _start(self, *, has_run: bool) -> None:
        self._of_former, self._of_child = self.traffic, Traffic()
        begun = _begun.pop(self._url, None)
        self._process, self._ours = begun or _start_child()
        self._silent_s, self._listened_at = 0.0, time.monotonic()
        _end_others()
        if begun is None:
            _send_task(self._ours, self._url, has_run=has_run)

    def ask(self, reader: str) -> None:
        """Ask the child for a batch, for a reader of the log store that waits for it; see `rowtide.log.log_source`."""
        self._report(BatchWanted(reader))

    def _report(self, word: EntryWritten | BatchWanted) -> None:
        """Send an entry or a request to the child. If the child does not read it, it finds the entry in the store."""
        with suppress(OSError):
            if select.select([], [self._ours], [], 0)[1]:
                self._ours.send(word)

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


def _send_task(child: Connection, url: str, *, has_run: bool) -> None:
    with suppress(ConnectionError):
        child.send((url, os.getpid(), has_run, list_accesses()))


def _end_others() -> None:
    """End children that were begun for databases which are not read after all."""
    while _begun:
        _begun.popitem()[1][1].close()


def _start_child() -> _Child:
    ours, theirs = Pipe()
    # -P keeps the working directory out of the module search path: a file queue.py there must not be run as Python's.
    # A session of its own: Ctrl-C is for the parent, which closes the pair.
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _CHILD, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": module_search_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    return process, ours


def module_search_path() -> str:
    """Return this process's module search path, so that the child finds the same rowtide."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)
