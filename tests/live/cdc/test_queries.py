"""What may be asked of change tables, and how what may not is refused."""

from __future__ import annotations

import re

import pytest

from builders.capture.captured_databases import CapturedDatabase, pick
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange, NetChangesUnsupported, UnknownRowFilter
from rowtide.cdc.queries.windows import ValidityInterval
from rowtide.core.lsn import CommitLsn


@pytest.fixture(scope="module")
def written(shared: CapturedDatabase) -> CapturedDatabase:
    """Three transactions: an insert, an update, an insert."""
    shared.execute("create table item (id int primary key, name text)", "create table other (id int)")
    shared.enable("item", "other")
    shared.execute("insert into item values (1, 'a')", "update item set name = 'b'", "insert into item values (2, 'c')")
    shared.capture()
    return shared


@pytest.fixture
def interval(written: CapturedDatabase) -> ValidityInterval:
    return written.cdc.get_validity_interval("public_item")


def ids(database: CapturedDatabase, from_lsn: CommitLsn | None, to_lsn: CommitLsn | None) -> list[int]:
    return [row["id"] for row in database.changes("public_item", "all", from_lsn, to_lsn)]


def test_without_bounds_the_whole_interval_is_asked(written: CapturedDatabase, interval: ValidityInterval) -> None:
    assert ids(written, None, None) == ids(written, interval.low, interval.high) == [1, 1, 2]


def test_both_bounds_belong_to_the_range(written: CapturedDatabase, interval: ValidityInterval) -> None:
    first, second, third = (CommitLsn(row["__$start_lsn"]) for row in written.changes("public_item", "all"))
    assert third == interval.high
    assert ids(written, second, second) == [1]
    assert ids(written, first, second) == [1, 1]
    assert ids(written, first.increment(), third.decrement()) == [1]


def test_the_option_is_read_without_regard_to_case_and_blanks(written: CapturedDatabase) -> None:
    assert len(written.changes("public_item", "  All UPDATE old ")) == 4


def net(
    database: CapturedDatabase, option: str, from_lsn: CommitLsn | None = None, to_lsn: CommitLsn | None = None
) -> list[tuple[object, ...]]:
    window = ("public_item", from_lsn, to_lsn, option)
    rows = database.cdc.get_net_changes(*window, is_ordered=True, spark=database.spark)
    assert "__$seqval" not in rows.columns
    return [pick(row, "__$operation", "__$update_mask", "id", "name") for row in rows.collect()]


def test_net_changes_are_those_of_the_window(written: CapturedDatabase) -> None:
    """The three transactions: an insert of 1, its update, an insert of 2."""
    first, second, third = (CommitLsn(row["__$start_lsn"]) for row in written.changes("public_item", "all"))
    assert net(written, "all") == [(2, None, 1, "b"), (2, None, 2, "c")]
    assert net(written, " ALL with mask ", second, second) == [(4, bytes([0b10]), 1, "b")]
    assert net(written, "all with merge", first, second) == [(5, None, 1, "b")]
    assert net(written, "all", third.increment()) == []


def test_net_changes_are_refused_as_all_changes_are(written: CapturedDatabase) -> None:
    with pytest.raises(UnknownRowFilter, match="RT-313: .*all with merge"):
        net(written, "all update old")
    with pytest.raises(LsnOutOfRange):
        net(written, "all", CommitLsn(0))
    with pytest.raises(NetChangesUnsupported, match="RT-208: .*of table public.other was enabled without"):
        written.cdc.get_net_changes("public_other", spark=written.spark)


def test_the_window_after_the_last_one_is_empty(written: CapturedDatabase, interval: ValidityInterval) -> None:
    after = interval.high.increment()
    assert ids(written, after, None) == ids(written, after, after) == ids(written, after, interval.high) == []


def test_an_instance_without_changes_has_an_empty_result(written: CapturedDatabase) -> None:
    assert written.changes("public_other") == []


def test_bounds_outside_are_refused_and_the_interval_is_named(
    written: CapturedDatabase, interval: ValidityInterval
) -> None:
    below, above = interval.low.decrement(), interval.high.increment()
    far = CommitLsn(interval.high.value + 100)
    for from_lsn, to_lsn in ((below, None), (None, above), (interval.high, interval.low), (far, far), (far, None)):
        with pytest.raises(LsnOutOfRange, match=re.escape(f"{interval.low} to {interval.high}")) as refused:
            written.changes("public_item", "all", from_lsn, to_lsn)
        assert str(refused.value).startswith("RT-313: ")


def test_lsn_zero_is_no_bound_that_was_left_out(written: CapturedDatabase) -> None:
    with pytest.raises(LsnOutOfRange):
        written.changes("public_item", "all", CommitLsn(0))


def test_unknown_row_filter_is_refused_with_the_known_ones(written: CapturedDatabase) -> None:
    with pytest.raises(UnknownRowFilter, match="RT-313: .*all update old"):
        written.changes("public_item", "all with mask")


def test_an_unknown_instance_is_refused(written: CapturedDatabase) -> None:
    for ask in (written.changes, written.cdc.get_min_lsn):
        with pytest.raises(InstanceUnknown, match="RT-22960: .*nobody"):
            ask("nobody")


def test_a_lake_without_capture_says_so(captured: CapturedDatabase) -> None:
    captured.enable()
    with pytest.raises(LakeUnknown, match="RT-4107"):
        captured.cdc.get_max_lsn()
