"""How far a consumer is behind, and for how long cleanup continues waiting for it."""

from __future__ import annotations

from datetime import timedelta

from builders.capture.consumers import NOON, consumer


def test_consumer_lag_counts_from_the_last_acknowledgement() -> None:
    listed = consumer("a", acknowledged=7, acknowledged_time=NOON).describe(NOON + timedelta(hours=100))
    assert (listed.lag_seconds, listed.limit_hours, listed.hours_left, listed.is_at_risk) == (360_000, 168, 68, False)


def test_consumer_that_acknowledged_nothing_lags_since_creation() -> None:
    assert consumer("a").describe(NOON + timedelta(minutes=5)).lag_seconds == 300


def test_consumer_with_under_a_quarter_of_its_limit_is_at_risk() -> None:
    described = consumer("a", acknowledged=7, acknowledged_time=NOON).describe
    assert not described(NOON + timedelta(hours=126)).is_at_risk
    assert described(NOON + timedelta(hours=126, seconds=1)).is_at_risk
    assert described(NOON + timedelta(hours=200)).hours_left == -32


def test_consumer_with_nothing_published_has_no_lag() -> None:
    assert consumer("a").describe(None).lag_seconds == 0
    assert consumer("a").describe(NOON - timedelta(hours=1)).lag_seconds == 0
