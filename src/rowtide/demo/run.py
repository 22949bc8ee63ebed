"""The workload and capture run, and the second process reads consistently: what is checked meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rowtide.core.values import frozen
from rowtide.demo.checker import Checker
from rowtide.demo.errors import TooFewReads
from rowtide.demo.figures import Span
from rowtide.demo.processes import Child
from rowtide.demo.progress import Lag, describe_run
from rowtide.demo.proof import NEEDED_READS, Read, require_consistent
from rowtide.demo.workload import Workload

PATIENCE_S = 3.0
"""How long a read waits for a new maximum LSN."""

_LONGEST_OVERTIME_S = 400
"""A busy machine needs longer for the reads; pgbench continues for this long."""


@frozen
class DemoRun:
    """Results of the run: `reads` are those that count, `span` pgbench's transactions."""

    seconds: float
    transactions: int
    reads: Sequence[Read]
    span: Span


def watch_run(
    workload: Workload, checker: Checker, seconds: int, is_followed: Callable[[Read], bool], show: Callable[[str], None]
) -> DemoRun:
    """Run pgbench for at least `seconds`, until enough consistent reads are done, and the last of them is followed.

    Raises `BalancesDisagree`, `MaximumWentBack`, `TooFewReads`, and `ProcessEnded` if a process ends.
    """
    before = workload.state()
    watch_capture = checker.on_tick
    with workload.start(seconds=2 * (seconds + _LONGEST_OVERTIME_S)) as pgbench:
        watch = _Watch(workload, pgbench, before.transactions, watch_capture, show)
        checker.on_tick = watch.tick
        begun_at = time.monotonic()
        while (
            (elapsed_s := time.monotonic() - begun_at) < seconds
            or len(watch.reads) < NEEDED_READS
            or not is_followed(watch.reads[-1])
        ):
            if elapsed_s > seconds + _LONGEST_OVERTIME_S:
                raise TooFewReads(len(watch.reads), NEEDED_READS, int(elapsed_s))
            watch.take(checker.read(patience_s=PATIENCE_S))
        ran_s = time.monotonic() - begun_at
        checker.on_tick = watch_capture
    workload.await_end_of_sessions()
    after = workload.state()
    transactions = after.transactions - before.transactions
    return DemoRun(ran_s, transactions, watch.reads, Span(before.log_position, after.log_position))


class _Watch:
    """State while pgbench runs."""

    def __init__(
        self,
        workload: Workload,
        pgbench: Child,
        before: int,
        watch_capture: Callable[[], None],
        show: Callable[[str], None],
    ) -> None:
        self.last: Read | None = None
        self.reads: list[Read] = []
        self._workload = workload
        self._pgbench = pgbench
        self._before = before
        self._watch_capture = watch_capture
        self._show = show
        self._lag = Lag()

    def take(self, read: Read | None) -> None:
        """Check a read. Raises `BalancesDisagree`, `MaximumWentBack`."""
        if read is None:
            return
        require_consistent(read, self.last)
        self.last = read
        if read.is_counted:
            self.reads.append(read)

    def tick(self) -> None:
        """Check that all processes run, and show their progress. Raises `ProcessEnded`."""
        self._watch_capture()
        self._pgbench.require_alive()
        now, transactions = time.monotonic(), self._workload.state().transactions
        self._lag.sample(now, transactions)
        lag_s = self._lag.seconds(now, self.last.transactions) if self.last is not None else 0.0
        self._show(describe_run(transactions - self._before, self.last, lag_s, len(self.reads)))
