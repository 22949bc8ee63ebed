"""Rounds of scans: when the next scan is due, and when the last one was it."""

from __future__ import annotations

import pytest

from rowtide.cdc.scans.pace import LONGEST_REST_S, SHORTEST_PERIOD_S, Scan, ScanLimits, ScanPace

EMPTY = Scan(has_worked=False, is_behind=False, log=10, seconds=0.01)
LAST = Scan(has_worked=True, is_behind=False, log=10, seconds=0.4)
ONE_OF_MANY = Scan(has_worked=True, is_behind=True, log=10, seconds=0.4)
ADAPTIVE = ScanLimits()


def pauses(pace: ScanPace, *scans: Scan) -> list[float]:
    return [pace.pause_after(scan) for scan in scans]


def test_unlimited_scans_do_not_pause_while_there_is_more() -> None:
    assert pauses(ScanPace(ADAPTIVE, None), ONE_OF_MANY, ONE_OF_MANY, EMPTY) == [0, 0, 0]


def test_unlimited_scans_rest_as_long_as_the_last_scan_took() -> None:
    long = Scan(has_worked=True, is_behind=False, log=10, seconds=30)
    assert pauses(ScanPace(ADAPTIVE, None), LAST, long) == [0.4, LONGEST_REST_S]


def test_short_cycles_begin_a_shortest_period_apart() -> None:
    short = Scan(has_worked=True, is_behind=False, log=10, seconds=0.1)
    assert pauses(ScanPace(ADAPTIVE, None), short) == [pytest.approx(SHORTEST_PERIOD_S - 0.1)]


def test_polling_interval_follows_every_maxscans_scans() -> None:
    pace = ScanPace(ScanLimits(maxscans=2, pollinginterval=5), None)
    assert pauses(pace, *[ONE_OF_MANY] * 4) == [0, 5, 0, 5]


def test_round_ends_early_at_log_end_and_the_next_starts_over() -> None:
    pace = ScanPace(ScanLimits(maxscans=2, pollinginterval=5), None)
    assert pauses(pace, LAST, EMPTY, ONE_OF_MANY, ONE_OF_MANY) == [5, 5, 0, 5]


def test_rounds_without_an_interval_follow_each_other_at_once() -> None:
    assert pauses(ScanPace(ScanLimits(maxscans=1), None), ONE_OF_MANY, ONE_OF_MANY) == [0, 0]


def test_an_interval_of_nothing_is_no_pause() -> None:
    assert pauses(ScanPace(ScanLimits(pollinginterval=0), None), LAST, EMPTY) == [0, 0]


def test_the_only_round_ends_when_its_target_is_published() -> None:
    pace = ScanPace(ADAPTIVE, 10)
    assert pauses(pace, EMPTY, LAST) == [0, 0]
    assert not pace.is_over
    pace.pause_after(Scan(has_worked=True, is_behind=False, log=11, seconds=0.1))
    assert (pace.is_over, pace.is_full) == (True, False)


def test_single_round_ends_after_its_nonempty_scans() -> None:
    pace = ScanPace(ScanLimits(maxscans=2, pollinginterval=5), 99)
    pauses(pace, EMPTY, ONE_OF_MANY, EMPTY)
    assert not pace.is_over
    pace.pause_after(ONE_OF_MANY)
    assert (pace.is_over, pace.is_full) == (True, True)


@pytest.mark.parametrize(
    ("tables", "max_latency_s", "period_s"),
    [(0, 60, 0.45), (4, 60, 0.85), (300, 60, 30.45), (1000, 60, 60), (300, 5, 5), (300, 0, 0.4), (300, None, 0.4)],
)
def test_in_a_bucket_cycles_keep_requests_few(tables: int, max_latency_s: float | None, period_s: float) -> None:
    pace = ScanPace(ScanLimits(), None, max_latency_s)
    short = Scan(has_worked=True, is_behind=False, log=10, seconds=0.1, tables=tables)
    assert pace.pause_after(short) == pytest.approx(period_s - 0.1)
    assert pace.saves_requests is (max_latency_s is not None)


def test_a_backlog_in_a_bucket_is_not_put_off() -> None:
    pace = ScanPace(ScanLimits(), None, 60)
    assert pace.pause_after(Scan(has_worked=True, is_behind=True, log=10, seconds=0.4, tables=300)) == 0


def test_an_interval_that_is_given_is_kept_in_a_bucket() -> None:
    pace = ScanPace(ScanLimits(pollinginterval=5), None, 60)
    assert pace.pause_after(Scan(has_worked=True, is_behind=False, log=10, seconds=0.4, tables=300)) == 5
    assert not pace.saves_requests
