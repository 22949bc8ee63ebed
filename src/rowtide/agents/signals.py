"""Signals as what a thread can wait for: Python writes the number of each to a socket, before its handler runs."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def receiving_signals(at_end: Callable[[], object] | None = None) -> Iterator[socket.socket]:
    """Yield a socket that gets the number of each signal that has a handler, a byte each, until the block ends.

    Then it is at its end, `at_end` is called if given, and it is closed. Only in the main thread; a block inside
    another one gets the signals in its place.
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
            if at_end is not None:
                at_end()


_of_command = [False]


def own_process() -> None:
    """Let a command end this process, which runs nothing else."""
    _of_command[0] = True


def owns_process() -> bool:
    """Return whether a command may end this process."""
    return _of_command[0]


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal, whose end SIGHUP would report."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def calling_late(numbers: Collection[int], patience_s: Callable[[], float], call: Callable[[], None]) -> Iterator[None]:
    """Call a function, in a thread, if the block has not ended some seconds after a signal; at a second one at once.

    `patience_s` says how many when the signal has come.
    """

    def wait(received: socket.socket) -> None:
        if _receive(received, numbers, None) and _receive(received, numbers, patience_s()) is not False:
            call()

    with ExitStack() as waiting, receiving_signals(at_end=waiting.close) as received:
        thread = threading.Thread(target=wait, args=(received,), name="rowtide signals", daemon=True)
        thread.start()
        waiting.callback(thread.join)
        yield


def _receive(received: socket.socket, numbers: Collection[int], timeout_s: float | None) -> bool | None:
    """Wait for one of some signals: False where the block has ended, None where none came in time."""
    while select.select([received], [], [], timeout_s)[0]:
        number = received.recv(1)
        if not number:
            return False
        if number[0] in numbers:
            return True
    return None
