"""When the transactions ended that follow low endpoints of instances."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from builders.lakes.made_lakes import BEGIN, SECONDS_PER_CYCLE, MadeLake
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.core.lsn import CommitLsn


def test_the_next_transactions_of_lsns_are_found_by_few_reads(tmp_path: Path) -> None:
    lake = MadeLake(tmp_path)
    for lsns in ([10, 20], [30, 40], [50]):
        lake.publish(lsns=lsns)
    times, all_ended = LsnTimes(str(tmp_path)), {10: 1, 20: 1, 30: 2, 40: 2, 50: 3}

    def find(*lsns: int, most_reads: int = 100) -> dict[int, float]:
        found = times.find_next_times(map(CommitLsn, lsns), most_reads)
        return {lsn.value: (time - BEGIN) / timedelta(seconds=SECONDS_PER_CYCLE) for lsn, time in found.items()}

    assert find(*all_ended) == all_ended
    # Between transactions of one file, of two files, and behind the last.
    assert find(1, 15, 25, 45, 51) == {1: 1, 15: 1, 25: 2, 45: 3}
    # A read answers for all that are in the same files.
    assert find(*all_ended, most_reads=2) == {10: 1, 20: 1, 30: 2, 40: 2}
    assert find(51, 60, most_reads=1) == {}
    assert find() == {}
