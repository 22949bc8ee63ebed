"""The log reader's process: `python -m rowtide.agents.log_reader_child`; see `log_reader_process`."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection

from rowtide.agents.log_reader_process import BEAT_S
from rowtide.agents.loop import log, run_agent
from rowtide.core.errors import RowtideError
from rowtide.core.extras import leave_out_pandas
from rowtide.core.selectable_event import SelectableEvent
from rowtide.log.opening import open_log_reader
from rowtide.log.reader import LogReader

_STOP_PATIENCE_S = 5.0
_LOOK_S = 1.0
SWITCH_INTERVAL_S = 0.0005
"""A local socket holds what the walsender sends in about this time. With Python's 5 ms it would wait for the thread
that receives, and that one for the thread that decodes.
"""


class Reading:
    """A log reader as an agent: what is received again at each try, and not made durable, is no work done."""

    def __init__(self, reader: LogReader) -> None:
        """Read with an open log reader."""
        self._reader = reader

    def step(self) -> bool:
        """Do a step of the reader; return whether anything became durable."""
        position = self._reader.position
        self._reader.step()
        return self._reader.position > position


@contextmanager
def open_reading(url: str, stop: SelectableEvent | None = None) -> Iterator[Reading]:
    """Open a database's log reader as an agent. Raises as `open_log_reader`."""
    with open_log_reader(url, stop) as reader:
        yield Reading(reader)


def read_log(parent: Connection) -> None:
    """Read the log that the parent names, until the parent ends."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    url, parent_id, has_run = parent.recv()
    stop = SelectableEvent()
    speaking = threading.Lock()

    def say(word: tuple[RowtideError, float | None] | None) -> None:
        with speaking, suppress(OSError):
            parent.send(word)

    def report(error: RowtideError, pause_s: float | None) -> None:
        say((error, pause_s))

    threading.Thread(target=_stop_with_parent, args=(parent, parent_id, stop), daemon=True).start()
    threading.Thread(target=_beat, args=(partial(say, None), stop), daemon=True).start()

    log.setLevel(logging.ERROR)  # The parent logs what it is sent.
    try:
        run_agent(lambda: open_reading(url, stop), stop=stop, idle_s=0, has_run=has_run, on_retry=report)
    except RowtideError as error:
        report(error, None)


def _beat(say: Callable[[], None], stop: SelectableEvent) -> None:
    """Say that this process lives, until it is to stop."""
    while not stop.is_set():
        say()
        time.sleep(BEAT_S)


def _stop_with_parent(parent: Connection, parent_id: int, stop: SelectableEvent) -> None:
    """Wait for the parent's end, also detected if a fork of the parent still holds its end of the socket pair."""
    with suppress(EOFError, OSError):
        while os.getppid() == parent_id and not parent.poll(_LOOK_S):
            pass
    stop.set()
    # The step in hand has a while to finish; whatever it leaves is redone.
    time.sleep(_STOP_PATIENCE_S)
    os._exit(1)


if __name__ == "__main__":
    leave_out_pandas()
    with suppress(EOFError):
        read_log(Connection(int(sys.argv[1])))
    # All is closed: threads that libraries keep have nothing left to finish, and the parent need not wait for them.
    os._exit(0)
