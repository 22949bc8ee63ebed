"""The pace of capture: its options, the limits of its job, and the pauses that follow from them.

A scan reads the log once, and is a cycle if it publishes something. Scans are grouped in polls, as in SQL Server: a
poll ends when nothing is left to scan, or after `maxscans`. In an object store each changed table costs requests in
every cycle: the pause between cycles grows so that the requests stay below `REQUESTS_A_SECOND`, up to a maximum
latency.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from rowtide.cdc.errors.capturing import MaxLatencyInvalid
from rowtide.core.options import Option, read_words
from rowtide.core.values import frozen

LONGEST_REST_S = 1.0
SHORTEST_PERIOD_S = 0.4
"""The least time between the beginnings of cycles, each of which leaves a file and a version of every changed table."""
REQUESTS_A_SECOND = 20.0
"""The limit of requests to an object store, as far as the maximum latency allows: 20 a second are 52 million a
month.
"""
# As counted for docs/decisions/0010. They decide only on pauses, so they need not be exact.
REQUESTS_A_CYCLE, REQUESTS_A_TABLE = 9, 2
USUAL_LATENCY_S = 60.0
MANY_ROWS = 100_000
"""With this many unread rows a cycle does not pause to save requests, which are few per row."""


@frozen
class ScanLimits:
    """Parameters of the capture job; None: no limit. `pollinginterval` in seconds, from a poll's end to the next."""

    maxtrans: int | None = None
    maxscans: int | None = None
    pollinginterval: int | None = None
    is_continuous: bool = True


@frozen
class Scan:
    """The result of a scan; `log` is the log position below which everything is published, `is_behind`: there is
    more to do.
    """

    has_worked: bool
    is_behind: bool
    log: int
    seconds: float
    tables: int = 0
    """Change tables to which it added rows."""


class ScanPace:
    """Counts the scans of a poll."""

    def __init__(self, limits: ScanLimits, target: int | None, max_latency_s: float | None = None) -> None:
        """With `target`, a log position, there is one poll, which ends at the latest when that is published.

        `max_latency_s`: how late cycles may be to save requests; None: requests cost nothing.
        """
        self._max_latency_s = max_latency_s
        self._limits = limits
        self._target = target
        self._scans = 0
        self._is_over = False
        self._is_full = False

    @property
    def is_full(self) -> bool:
        """The only poll has had as many scans as it may have."""
        return self._is_full

    @property
    def is_over(self) -> bool:
        """The only poll has ended."""
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
        # Without pauses, cycles would occupy a core, and leave many small files.
        rest = max(min(scan.seconds, LONGEST_REST_S), self._period_s(scan) - scan.seconds)
        return rest if scan.has_worked and is_drained else 0

    @property
    def counts_requests(self) -> bool:
        """Whether requests have a price."""
        return self._max_latency_s is not None

    @property
    def saves_requests(self) -> bool:
        """Whether a pause only saves requests, so that it may be cut short when much is waiting."""
        return self.counts_requests and self._limits.pollinginterval is None

    def _period_s(self, scan: Scan) -> float:
        """Return the seconds between the beginnings of this cycle and the next, which presumably has as many tables."""
        if self._max_latency_s is None:
            return SHORTEST_PERIOD_S
        return max(min(saving_period_s(scan.tables), self._max_latency_s), SHORTEST_PERIOD_S)


def saving_period_s(tables: int) -> float:
    """Return the seconds between cycles that keep the requests to a bucket few, by the number of tables."""
    return (REQUESTS_A_CYCLE + REQUESTS_A_TABLE * tables) / REQUESTS_A_SECOND


LONGEST_LATENCY_S: Final = 3600.0
"""The upper limit, because capture's cached state of a lake's tables is not valid for longer."""


class EngineSetting(StrEnum):
    """Which cycles Spark converts: `SPARK` all of them, `AUTO` those that are large."""

    AUTO = "auto"
    SPARK = "spark"


EngineOption = Annotated[
    EngineSetting,
    Option(
        "--engine",
        envvar="ROWTIDE_ENGINE",
        help="auto: Spark converts only large ranges of the log; spark: all of them.",
    ),
]
RewritesWidened = Annotated[
    bool,
    Option(
        "--rewrite-widened",
        help="In this run, rewrite tables whose columns get wider types, and those with Delta's type widening: "
        "see enable-db --widened, which lasts.",
    ),
]


@frozen
class CaptureOptions:
    """The engine; with `rewrites_widened`, tables whose columns get wider types are rewritten, whatever the settings
    say, and tables that are marked with Delta's type widening, which few readers support, are mended.

    `max_latency_s`: in an object store, cycles are delayed to save requests if many tables change, at most by this
    time.
    """

    engine: EngineOption = EngineSetting.AUTO
    rewrites_widened: RewritesWidened = False
    max_latency_s: Annotated[
        float,
        Option(
            "--max-latency",
            help="In this run, in a bucket: how many seconds later changes may be published to save requests, when "
            "many tables change.",
            min=0,
            max=LONGEST_LATENCY_S,
        ),
    ] = USUAL_LATENCY_S

    def __post_init__(self) -> None:
        read_words(self)
        if not 0 <= self.max_latency_s <= LONGEST_LATENCY_S:
            raise MaxLatencyInvalid(self.max_latency_s)


USUAL = CaptureOptions()
