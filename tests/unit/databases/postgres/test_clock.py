"""The order of commits as numbers."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from rowtide.databases.postgres.clock import highest_begun, in_progress, number_commits


def numbers(ordered: list[int], open_ones: tuple[int, ...] = (), last: int = 0) -> dict[int, int]:
    return {commit.bsn: commit.csn for commit in number_commits(ordered, open_ones, last)}


def test_the_documents_transactions_are_numbered_at_once() -> None:
    commits = number_commits([1, 3, 4, 2, 5], (), 0)

    assert {commit.bsn: commit.csn for commit in commits} == {1: 1, 2: 4, 3: 2, 4: 3, 5: 5}
    assert [commit.bsn for commit in commits if commit.is_out_of_sequence] == [3, 4, 2]


def test_the_documents_transactions_are_numbered_one_by_one() -> None:
    found: dict[int, int] = {}
    for bsn, open_ones in ((1, (2, 3, 4, 5)), (3, (2, 4, 5)), (4, (2, 5)), (2, (5,)), (5, ())):
        found |= numbers([bsn], open_ones, max(found.values(), default=0))

    assert found == {1: 1, 2: 4, 3: 2, 4: 3, 5: 5}


@given(st.permutations(range(1, 9)), st.lists(st.booleans(), min_size=8, max_size=8), st.sets(st.integers(1, 8)))
def test_csns_are_unique_and_rising_and_default_to_the_bsn(
    order: list[int], cuts: list[bool], rolled_back: set[int]
) -> None:
    """Transactions 1 to 8 commit in some order, some roll back; anchors are taken here and there."""
    waiting: list[int] = []
    found: list[tuple[int, int]] = []
    open_ones = set(order)
    for bsn, is_cut in zip(order, cuts, strict=True):
        open_ones.discard(bsn)
        waiting += [] if bsn in rolled_back else [bsn]
        if is_cut and waiting:
            found += numbers(waiting, tuple(open_ones), found[-1][1] if found else 0).items()
            waiting = []

    csns = [csn for _, csn in found]
    assert csns == sorted(set(csns))


def test_a_snapshot_is_read_as_postgresql_writes_it() -> None:
    assert in_progress("10:20:10,14,15") == (10, 14, 15)
    assert in_progress("10:10:") == ()
    assert highest_begun("10:20:10,14,15") == 19
