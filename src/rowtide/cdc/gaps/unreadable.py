"""A transaction of the log that cannot be read: finding it, and skipping it, which a person decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from rowtide.agents.loop import Agent, run_agent
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.errors import translated
from rowtide.log import catalogue
from rowtide.log.errors import TransactionReadable, TransactionUnreadable
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.reader import LogReader

Act = Callable[[LogReader, TransactionUnreadable], None]


def find_unreadable(engine: Engine, url: str, lsn: CommitLsn) -> TransactionUnreadable:
    """Read the log up to the transaction that commits at an LSN, and return why it cannot be read.

    Raises `TransactionReadable` if it can, `TransactionUnreadable` for an earlier one, `LeaseHeld` while a process
    reads the log.
    """
    return _at_unreadable(engine, url, lsn, lambda _reader, _error: None)


def skip_transaction(engine: Engine, url: str, lsn: CommitLsn) -> TransactionUnreadable:
    """Continue after the transaction that commits at an LSN; return why it cannot be read.

    Everything committed before it is durable first; the gap is recorded, and ranges that contain it are refused. Raises
    as `find_unreadable`.
    """

    def skip(reader: LogReader, error: TransactionUnreadable) -> None:
        reader.skip(lsn, f"{error.subject}: {error.reason}")

    return _at_unreadable(engine, url, lsn, skip)


def _at_unreadable(engine: Engine, url: str, lsn: CommitLsn, act: Act) -> TransactionUnreadable:
    with translated(), engine.begin() as connection:
        catalogue.read_source(connection, url)  # also of a database whose log is read for publications alone
        # The search ends at this mark, because everything that is committed now lies below it.
        target = mark_log(connection)
    stop = threading.Event()
    found: list[TransactionUnreadable] = []

    def act_and_stop(reader: LogReader, error: TransactionUnreadable) -> None:
        act(reader, error)
        found.append(error)
        stop.set()

    @contextmanager
    def open_search() -> Iterator[Agent]:
        with open_log_reader(url) as reader:
            yield _UnreadableChangeSearch(reader, lsn, target, act_and_stop)

    # Several connections may be needed: the first may find only the transaction, and the second its table.
    run_agent(open_search, stop=stop, idle_s=0)
    return found[0]


class _UnreadableChangeSearch:
    """Reads until a change cannot be read, at most to a log position after everything committed so far."""

    def __init__(self, reader: LogReader, lsn: CommitLsn, target: int, act: Act) -> None:
        self._reader = reader
        self._lsn = lsn
        self._target = target
        self._act = act

    def step(self) -> bool:
        if self._reader.position.log > self._target:
            raise TransactionReadable(str(self._lsn), str(self._reader.position))
        try:
            return self._reader.step()
        except TransactionUnreadable as error:
            if error.lsn != str(self._lsn):
                raise
            self._act(self._reader, error)
            return True
