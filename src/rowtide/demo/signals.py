"""Orderly ending: SIGTERM and a closed terminal act like Ctrl-C, and nothing interrupts the ending."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_ALL = (signal.SIGINT, *_ENDING)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn signals that end a program into `SystemExit`, so that child processes are ended; main thread only."""
    before = {number: signal.getsignal(number) for number in _ALL}
    for number in _ENDING:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def undisturbed_end() -> Iterator[None]:
    """Ignore these signals from the end of this context to the end of `ended_by_signals`."""
    try:
        yield
    finally:
        for number in _ALL:
            signal.signal(number, signal.SIG_IGN)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
