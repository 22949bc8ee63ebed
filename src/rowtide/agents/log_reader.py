"""The log reader as a process of its own, started by whoever runs and ended with it.

The parent holds one end of a pipe. The child's error travels over it; the pipe's end, however the parent went,
ends the child.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import TracebackType

from sqlalchemy import Engine

from rowtide.agents.loop import run_agent
from rowtide.core.errors import Remedy, RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import read_source
from rowtide.log.errors import LeaseHeld
from rowtide.log.maintenance import delete_orphans
from rowtide.log.manifest import Manifest
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.source import PostgresSource
from rowtide.log.reader import LogReader
from rowtide.log.store import open_store

_LEASE_PATIENCE_S = 10.0
_STAND_BY_S = 1.0
_STOP_PATIENCE_S = 5.0


class LogReaderProcess:
    """Keeps one child reading the log, seen from its parent. Use as a context manager."""

    def __init__(self, url: str, on_retry: Callable[[RowtideError, float], None], *, has_run: bool) -> None:
        """`has_run`: the log was read before in this run, so that an outage is waited out; see `run_agent`."""
        self._url = url
        self._on_retry = on_retry
        self._start(has_run=has_run)

    def keep_running(self) -> None:
        """Raise the child's error if it ended with one; start it anew if it was killed; pass its retries on."""
        with suppress(EOFError):
            while self._ours.poll():
                error, pause_s = self._ours.recv()
                if pause_s is None:
                    # The child has retried what may be retried.
                    error.remedy = Remedy.STOP
                    raise error
                self._on_retry(error, pause_s)
        if not self._process.is_alive():
            self._ours.close()
            self._start(has_run=True)

    def _start(self, *, has_run: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(self._url, theirs, has_run), name="rowtide log reader", daemon=True
        )
        self._process.start()
        theirs.close()

    def __enter__(self) -> LogReaderProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        self._process.join(timeout=10)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _run(url: str, parent: Connection, has_run: bool) -> None:  # noqa: FBT001 - handed to a process by place
    # Ctrl-C reaches the whole process group; the parent decides, and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    threading.Thread(target=_stop_with_parent, args=(parent, stop), daemon=True).start()

    def tell(error: RowtideError, pause_s: float | None) -> None:
        with suppress(OSError):
            parent.send((error, pause_s))

    try:
        run_agent(lambda: open_log_reader(url, stop), stop=stop, idle_s=0, has_run=has_run, on_retry=tell)
    except RowtideError as error:
        tell(error, None)


def _stop_with_parent(parent: Connection, stop: threading.Event) -> None:
    with suppress(EOFError, OSError):
        parent.recv()
    stop.set()
    # The step in hand has a while to finish; whatever it leaves is redone.
    time.sleep(_STOP_PATIENCE_S)
    os._exit(1)


@contextmanager
def open_log_reader(url: str, stop: threading.Event | None = None) -> Iterator[LogReader]:
    """Take the log lease and open the log from the manifest's position. Raises `LeaseHeld`.

    Whoever reads the log reads it for all: with `stop`, this one stands by while somebody else does, until it is set.
    """
    engine = open_engine(url, application_name=f"rowtide log reader on {describe_holder()}")
    with _take_lease(engine, stop) as lease:
        with translated():
            definition = read_source(lease.connection, url)
        store = open_store(definition.log_store)
        manifest = Manifest(store)
        manifest.load()
        token = manifest.take_lease("log", describe_holder())
        delete_orphans(store, manifest.state)
        source = PostgresSource.open(url, lease.connection, definition, manifest, token)
        with LogReader(source, store, manifest, token) as reader:
            yield reader


def _take_lease(engine: Engine, stop: threading.Event | None) -> AdvisoryLease:
    while True:
        try:
            return AdvisoryLease.take(engine, "log", patience_s=_LEASE_PATIENCE_S if stop is None else _STAND_BY_S)
        except LeaseHeld:
            if stop is None or stop.is_set():
                raise
