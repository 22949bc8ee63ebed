"""What must hold at every maximum LSN of a TPC-B workload: no transaction is visible in part. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.core.lsn import CommitLsn
from rowtide.demo.errors import BalancesDisagree, MaximumWentBack

NEEDED_READS = 20
LONGEST_DELAY_S = 2.0
"""A read that begins later after taking its maximum LSN is checked, but does not count."""


@dataclass(frozen=True, slots=True)
class Read:
    """One read of the four change tables up to a maximum LSN.

    Sums over all changes: of the balances' differences by table, and of the history's deltas. `delay_s` lies between
    having the maximum and reading, with all four tables opened; `read_s` is what reading took from there.
    """

    lsn: int
    accounts: int
    tellers: int
    branches: int
    history: int
    transactions: int
    delay_s: float
    read_s: float

    @property
    def is_counted(self) -> bool:
        """It began in time, and there was something to disagree about."""
        return self.delay_s <= LONGEST_DELAY_S and self.transactions > 0


def require_consistent(read: Read, before: Read | None) -> None:
    """Raise `BalancesDisagree` unless the four sums are one, `MaximumWentBack` if the maximum is below the last."""
    if len({read.accounts, read.tellers, read.branches, read.history}) != 1:
        raise BalancesDisagree(str(CommitLsn(read.lsn)), read.accounts, read.tellers, read.branches, read.history)
    if before is not None and read.lsn < before.lsn:
        raise MaximumWentBack(str(CommitLsn(before.lsn)), str(CommitLsn(read.lsn)))
