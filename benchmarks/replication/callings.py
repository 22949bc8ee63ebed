"""The ways in which rowtide calls a subscriber, each measured by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calling:
    """A way of calling, and what it is to reach of PostgreSQL's own transactions a second.

    `has_arrays`: a run of equal calls goes as one with arrays, as agents do it.
    """

    name: str
    of_native: float
    has_arrays: bool


CALLINGS = (Calling("rowtide, per call", 0.3, has_arrays=False), Calling("rowtide, by arrays", 0.45, has_arrays=True))
