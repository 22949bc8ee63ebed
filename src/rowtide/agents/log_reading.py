"""What the log reader's process does, however it was started; see `log_reader_process`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import Full, Queue

from rowtide.agents.log_reader_process import BEAT_S, LOG_READER
from rowtide.agents.loop import run_agent
from rowtide.core.errors import RowtideError
from rowtide.databases.passwords import register_accesses
from rowtide.databases.urls import parse_url
from rowtide.events.event import Emitted, scope, use_log
from rowtide.log.batches import BatchWanted, ReadingPace
from rowtide.log.log_source import SelectableEvent
from rowtide.log.opening import open_log_reader
from rowtide.log.reader import LogReader
from rowtide.log.store.entries import EntryExchange, EntryWritten
from rowtide.storage.store import Traffic, read_traffic

_STOP_PATIENCE_S = 5.0
_LOOK_S = 1.0
_MOST_UNREPORTED = 1000
"""Above this number, messages to a busy parent are dropped: it can read entries from the store, and events are only
logged.
"""
SWITCH_INTERVAL_S = 0.0005
"""A local socket holds what the walsender sends in about this time. With Python's 5 ms the walsender would wait for the
receiving thread, and the receiving thread for the decoding one.
"""


class Reading:
    """A log reader as an agent. Only durable batches count as work: others may be received again at each try."""

    def __init__(self, reader: LogReader) -> None:
        """Read with an open log reader."""
        self._reader = reader

    def step(self) -> bool:
        """Do a step of the reader; return whether anything became durable."""
        position = self._reader.position
        self._reader.step()
        return self._reader.position > position


@contextmanager
def open_reading(
    url: str,
    stop: SelectableEvent | None = None,
    exchange: EntryExchange | None = None,
    pace: ReadingPace | None = None,
) -> Iterator[Reading]:
    """Open a database's log reader as an agent. Raises as `open_log_reader`."""
    with open_log_reader(url, stop, exchange, pace) as reader:
        yield Reading(reader)


def read_log(parent: Connection) -> None:
    """Read the log that the parent names, until the parent ends."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    url, parent_id, has_run, accesses = parent.recv()
    register_accesses(accesses)
    stop = SelectableEvent()
    speaking = threading.Lock()

    def say(word: tuple[RowtideError, float | None] | EntryWritten | Emitted | Traffic) -> None:
        with speaking, suppress(OSError):
            parent.send(word)

    def report(error: RowtideError, pause_s: float | None) -> None:
        say((error, pause_s))

    unreported: Queue[EntryWritten | Emitted] = Queue(_MOST_UNREPORTED)
    exchange = EntryExchange(partial(_report_later, unreported))
    pace = ReadingPace()
    threading.Thread(target=_hear_parent, args=(parent, parent_id, exchange, pace, stop), daemon=True).start()
    threading.Thread(target=_beat, args=(lambda: say(read_traffic()), stop), daemon=True).start()
    threading.Thread(target=_report, args=(say, unreported), daemon=True).start()

    # The parent logs the events that it receives, with their time and scope in this process.
    use_log(partial(_report_later, unreported))
    try:
        with scope(parse_url(url).name, LOG_READER):
            run_agent(
                lambda: open_reading(url, stop, exchange, pace),
                stop=stop,
                idle_s=0,
                has_run=has_run,
                on_retry=report,
                reports_itself=True,
            )
    except RowtideError as error:
        report(error, None)


def _beat(say: Callable[[], None], stop: SelectableEvent) -> None:
    """Report that this process is alive, until it stops."""
    while not stop.is_set():
        say()
        time.sleep(BEAT_S)


def _report_later(unreported: Queue[EntryWritten | Emitted], one: EntryWritten | Emitted) -> None:
    """Queue an entry or event for the parent. If the parent does not read it, it finds the entry in the store later."""
    with suppress(Full):
        unreported.put_nowait(one)


def _report(say: Callable[[EntryWritten | Emitted], None], unreported: Queue[EntryWritten | Emitted]) -> None:
    """Send queued entries and events to the parent, in a thread of its own, as the parent may be busy for long."""
    while True:
        say(unreported.get())


def _hear_parent(
    parent: Connection, parent_id: int, exchange: EntryExchange, pace: ReadingPace, stop: SelectableEvent
) -> None:
    """Receive the parent's entries and requests for batches until the parent ends. That is detected even if a fork of
    the parent still holds its end of the socket pair.
    """
    with suppress(EOFError, OSError):
        while os.getppid() == parent_id:
            if parent.poll(_LOOK_S):
                said = parent.recv()
                if isinstance(said, BatchWanted):
                    pace.ask(said)
                else:
                    exchange.hear(said)
    stop.set()
    # The current step has a while to finish; whatever it leaves unfinished is redone.
    time.sleep(_STOP_PATIENCE_S)
    os._exit(1)
