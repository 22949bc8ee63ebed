from __future__ import annotations

from dataclasses import replace

import pytest

from builders.log.log_stores import START, opened, segment
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.store.replay import apply
from rowtide.log.store.state import Incomplete, ManifestState, OmittedByReader, bounded_end

END = Position(1000)


def state_of(*ranges: tuple[int, int]) -> ManifestState:
    """Return a store's state with segments of ten rows."""
    segments = tuple(segment(first, last) for first, last in ranges)
    return replace(apply(None, 1, opened()), segments=segments, position=END)


@pytest.mark.parametrize(("max_rows", "end"), [(10, 121), (20, 131), (29, 131), (30, 1000), (100, 1000)])
def test_a_bounded_end_is_behind_the_last_segment_that_fits(max_rows: int, end: int) -> None:
    state = state_of((110, 120), (121, 130), (131, 140))

    assert bounded_end(state, START, max_rows) == Position(end)


def test_a_bounded_end_is_behind_one_segment_at_least() -> None:
    assert bounded_end(state_of((110, 120), (121, 130)), START, 1) == Position(121)


def test_a_bounded_end_divides_no_transaction() -> None:
    state = state_of((110, 120), (120, 120), (121, 130))

    assert bounded_end(state, START, 10) == Position(121)


def test_a_last_transaction_in_parts_ends_with_the_store() -> None:
    assert bounded_end(state_of((110, 120), (120, 120)), START, 10) == END


def test_a_bounded_end_counts_from_its_position_on() -> None:
    state = state_of((110, 120), (121, 130), (131, 140))

    assert bounded_end(state, Position(121), 10) == Position(131)


def test_what_members_lack_is_in_log_order_for_each_reader() -> None:
    late, early = Incomplete("m1", CommitLsn(130), "too wide"), Incomplete("m2", CommitLsn(110), "unknown columns")
    omitted = [OmittedByReader(reader, "m1", CommitLsn(120), "too long") for reader in ("cdc", "queue")]
    state = replace(state_of(), incomplete=(early, late), omitted_by_readers=tuple(omitted))

    assert state.lacking() == (early, late)
    assert state.lacking("cdc") == (early, Incomplete("m1", CommitLsn(120), "too long"), late)
    assert [one.lsn.value for one in state.lacking("cdc", "queue")] == [110, 120, 120, 130]
    assert [state.list_omitted_by(reader) for reader in ("cdc", "none")] == [(omitted[0],), ()]
