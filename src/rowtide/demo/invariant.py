"""The invariant of a TPC-B workload at every maximum LSN: no transaction is partly visible. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.core.lsn import CommitLsn
from rowtide.demo.errors import BalancesDisagree, MaximumWentBack

NEEDED_READS = 20
LONGEST_DELAY_S = 2.0
"""A read that starts later after taking its maximum LSN is checked, but not counted."""


@dataclass(frozen=True, slots=True)
class Read:
    """One read of the four change tables up to a maximum LSN.

    Sums over all changes: the differences of balances by table, and the history's deltas. `delay_s` is the time from
    taking the maximum to the start of the read, with all four tables open; `read_s` is the duration of the read.
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
        """Whether it started in time, and there were changes to compare."""
        return self.delay_s <= LONGEST_DELAY_S and self.transactions > 0


def require_consistent(read: Read, before: Read | None) -> None:
    """Raise `BalancesDisagree` unless the four sums are equal, `MaximumWentBack` if the maximum is below the last."""
    if len({read.accounts, read.tellers, read.branches, read.history}) != 1:
        raise BalancesDisagree(str(CommitLsn(read.lsn)), read.accounts, read.tellers, read.branches, read.history)
    if before is not None and read.lsn < before.lsn:
        raise MaximumWentBack(str(CommitLsn(before.lsn)), str(CommitLsn(read.lsn)))
