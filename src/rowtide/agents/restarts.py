"""When a process that has ended is started again. Pure."""

from __future__ import annotations

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
HEALTHY_S = 60.0
"""A process that has run for this long begins again with the first pause."""


def next_pause_s(last_pause_s: float | None, ran_s: float) -> float:
    """Return the pause before the next start, doubled from one second to a minute.

    `last_pause_s` is the one before the last start, None if that was the first.
    """
    if last_pause_s is None or ran_s >= HEALTHY_S:
        return FIRST_PAUSE_S
    return min(last_pause_s * 2, LONGEST_PAUSE_S)
