"""How long a cached end of a numbered log may be used without listing the log again.

A log of numbered files is appended to by putting the next number, if that is free. It is also free if another process
put it meanwhile and a cleanup deleted it: nobody would read a file put there. Cleanups therefore spare files that are
younger than `KEPT_FOR`, and a writer that knew the last number at most `FRESH_FOR_S` before its put returned need not
check whether it hit such a hole. A writer may have longer if all cleanups are its own, or if they spare files for
longer: see `is_fresh`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

FRESH_FOR_S = 60.0
KEPT_FOR = timedelta(minutes=10)
"""Longer than `FRESH_FOR_S`, as the clocks of machines and of the store differ."""

Clock = Callable[[], float]
"""Returns seconds since some moment, with those in which the machine was suspended."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_clock() -> float:
    """Return the seconds since the machine was started, with those in which it was suspended, where it counts them."""
    return time.clock_gettime(_CLOCK)


def is_fresh(known_at: float, clock: Clock, for_s: float | None = None) -> bool:
    """Return whether a number that was the last one at a time of the clock can be built on; asked after the put.

    `for_s`: for how long; None: as cleanups leave it to everybody, `FRESH_FOR_S`.
    """
    return clock() - known_at <= (FRESH_FOR_S if for_s is None else for_s)
