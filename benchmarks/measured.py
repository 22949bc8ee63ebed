"""What was measured of one way through the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall seconds, `start_s` of them until it opened the log; peak memory in bytes.

    `phases` says where the seconds went; they overlap where threads do.
    """

    name: str
    seconds: float
    start_s: float = 0.0
    peak_memory: int | None = None
    phases: Mapping[str, float] = field(default_factory=dict)

    @property
    def running_s(self) -> float:
        """The seconds without the start, as of a program that runs all the time."""
        return self.seconds - self.start_s


def median(runs: int, measure: Callable[[int], Measured]) -> Measured:
    """Measure several times and return the run in the middle."""
    results = sorted((measure(number) for number in range(runs)), key=lambda result: result.seconds)
    return results[len(results) // 2]
