"""Signals as what a thread can wait for: Python writes the number of each to a socket, before its handler runs."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rowtide.agents.runs import ignore


@contextmanager
def receiving_signals(at_end: Callable[[], object] = ignore) -> Iterator[socket.socket]:
    """Yield a socket that gets the number of each signal that has a handler, a byte each, until the block ends.

    Then it is at its end, `at_end` is called, and it is closed. Only in the main thread; a block inside another one
    gets the signals in its place.
    """
    received, wakes = socket.socketpair()
    wakes.settimeout(0)
    with received:
        try:
            with wakes:
                before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
                try:
                    yield received
                finally:
                    signal.set_wakeup_fd(before)
        finally:
            at_end()
