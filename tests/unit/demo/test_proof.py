"""A read is consistent, or the demo fails with a plain sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowtide.demo.errors import BalancesDisagree, MaximumWentBack
from rowtide.demo.proof import Read, require_consistent

AGREEING = Read(lsn=1000, accounts=70, tellers=70, branches=70, history=70, transactions=3, delay_s=0.2, read_s=1.0)


def test_agreeing_sums_pass() -> None:
    require_consistent(AGREEING, None)
    require_consistent(replace(AGREEING, lsn=1001), AGREEING)


@pytest.mark.parametrize("table", ["accounts", "tellers", "branches", "history"])
def test_one_table_that_disagrees_is_an_error_with_all_sums(table: str) -> None:
    broken = replace(AGREEING, **{table: 69})
    with pytest.raises(BalancesDisagree, match=r"RT-4901: the changes up to LSN 0/3E8 are not consistent: .*69"):
        require_consistent(broken, None)


def test_the_same_maximum_twice_passes() -> None:
    require_consistent(AGREEING, AGREEING)


def test_a_smaller_maximum_than_before_is_an_error() -> None:
    with pytest.raises(MaximumWentBack, match="RT-4902: the maximum LSN decreased from 0/3E8 to 0/3E7"):
        require_consistent(replace(AGREEING, lsn=999), AGREEING)


def test_read_counts_only_if_prompt_and_with_a_transaction() -> None:
    assert AGREEING.is_counted
    assert not replace(AGREEING, delay_s=2.1).is_counted
    assert not replace(AGREEING, transactions=0).is_counted
