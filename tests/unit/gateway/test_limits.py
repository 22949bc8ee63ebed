"""Limits of a gateway, without a clock."""

from __future__ import annotations

import pytest

from rowtide.gateway.errors import GatewayBusy, TooManyRequests
from rowtide.gateway.limits import Places, RequestMeter, retry_pause_s


def test_a_device_has_its_requests_of_a_minute_at_once() -> None:
    meter = RequestMeter(3)
    for _ in range(3):
        meter.require("a", 0.0)
    with pytest.raises(TooManyRequests) as refused:
        meter.require("a", 0.0)
    assert refused.value.after_s == 20.0


def test_requests_fill_up_evenly_and_for_each_device() -> None:
    meter = RequestMeter(3)
    for _ in range(3):
        meter.require("a", 0.0)
    meter.require("b", 0.0)
    meter.require("a", 20.0)
    with pytest.raises(TooManyRequests):
        meter.require("a", 20.0)


def test_refused_requests_cost_nothing() -> None:
    meter = RequestMeter(60)
    for _ in range(60):
        meter.require("a", 0.0)
    for _ in range(100):
        with pytest.raises(TooManyRequests):
            meter.require("a", 0.5)
    meter.require("a", 1.0)


def test_a_silent_device_saves_no_more_than_a_minute() -> None:
    meter = RequestMeter(2)
    meter.require("a", 0.0)
    for _ in range(2):
        meter.require("a", 10_000.0)
    with pytest.raises(TooManyRequests):
        meter.require("a", 10_000.0)


def test_places_are_given_back_whatever_happens() -> None:
    places = Places(1, "requests")
    with places.place(), pytest.raises(GatewayBusy, match="all of its 1 places"), places.place():
        pass
    with pytest.raises(ZeroDivisionError), places.place():
        raise ZeroDivisionError
    with places.place():
        assert places.taken == 1
    assert places.taken == 0


@pytest.mark.parametrize(
    ("asked_s", "attempt", "chance", "pause_s"),
    [(None, 0, 0.0, 0.5), (None, 3, 0.0, 4.0), (None, 30, 0.0, 60.0), (2.0, 5, 0.5, 3.0), (86_400.0, 0, 0.0, 60.0)],
)
def test_pauses_grow_and_are_spread(asked_s: float | None, attempt: int, chance: float, pause_s: float) -> None:
    assert retry_pause_s(asked_s, attempt, chance) == pause_s
