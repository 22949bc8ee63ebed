"""The pace of capture: limits of the capture job, and what follows from them after each scan. Pure.

A scan is one cycle of capture. Scans come in rounds, as SQL Server's do: a round ends when nothing is left to scan, or
after `maxscans`.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_REST_S = 1.0
SHORTEST_PERIOD_S = 0.4
"""From a cycle's begin to the next: each leaves a file and a version of every table that changed."""


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """Parameters of the capture job; None: no limit. `pollinginterval` in seconds, from a round's end to the next."""

    maxtrans: int | None = None
    maxscans: int | None = None
    pollinginterval: int | None = None
    is_continuous: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan; `log` is the log position below which everything is published, `is_behind`: there is
    more to do.
    """

    has_worked: bool
    is_behind: bool
    log: int
    seconds: float


class Pace:
    """Counts the scans of a round."""

    def __init__(self, limits: ScanLimits, target: int | None) -> None:
        """With `target`, a log position, there is one round, which ends at the latest when that is published."""
        self._limits = limits
        self._target = target
        self._scans = 0
        self._is_over = False
        self._is_full = False

    @property
    def is_full(self) -> bool:
        """The only round has had as many scans as it may have."""
        return self._is_full

    @property
    def is_over(self) -> bool:
        """The only round has ended."""
        return self._is_over

    def pause_after(self, scan: Scan) -> float:
        """Count a scan; return the seconds until the next is due."""
        self._scans += scan.has_worked
        is_full = self._limits.maxscans is not None and self._scans >= self._limits.maxscans
        if self._target is not None:
            self._is_full = is_full
            self._is_over = is_full or scan.log > self._target
            return 0
        is_drained = not (scan.has_worked and scan.is_behind)
        if not (is_full or is_drained):
            return 0
        self._scans = 0
        if self._limits.pollinginterval is not None:
            return self._limits.pollinginterval
        # Cycles without a pause would take a whole core, and leave many small files.
        rest = max(min(scan.seconds, LONGEST_REST_S), SHORTEST_PERIOD_S - scan.seconds)
        return rest if scan.has_worked and is_drained else 0
