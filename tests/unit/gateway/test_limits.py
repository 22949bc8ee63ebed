"""Limits of a gateway, without a clock."""

from __future__ import annotations

import pytest

from rowtide.gateway.errors import GatewayBusy, TooManyRequests
from rowtide.gateway.limits import DevicePlaces, Places, Refusals, RequestMeter, address_of, retry_pause_s
from rowtide.merge.errors.devices import TokenRefused


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


def refuse(refusals: Refusals, address: str = "a", token: str = "wrong") -> None:
    with pytest.raises(TokenRefused), refusals.counted(address, token, 0.0):
        raise TokenRefused("it is unknown")


def test_refused_tokens_are_counted_by_address() -> None:
    refusals = Refusals(RequestMeter(2, "refused tokens of its address"))
    refusals.note_known("good")
    for _ in range(2):
        refuse(refusals)
    with pytest.raises(TooManyRequests, match="2 refused tokens of its address a minute"):
        refusals.counted("a", "wrong", 0.0).__enter__()
    # A neighbour's token was in force a moment ago.
    with refusals.counted("a", "good", 0.0):
        pass
    refuse(refusals, "b")
    with pytest.raises(TokenRefused), refusals.counted("a", "good", 31.0):
        raise TokenRefused("it is no longer in force")
    with pytest.raises(TooManyRequests):
        refusals.counted("a", "good", 31.0).__enter__()


def test_a_device_has_some_requests_at_a_time() -> None:
    places = DevicePlaces(2)
    with places.place("a"), places.place("a"):
        with pytest.raises(TooManyRequests, match="2 requests at a time"), places.place("a"):
            pass
        with places.place("b"):
            pass
    with places.place("a"):
        pass


@pytest.mark.parametrize(
    ("peer", "forwarded", "is_proxied", "address"),
    [
        ("127.0.0.1", "10.0.0.1, 203.0.113.5", False, "203.0.113.5"),
        ("198.51.100.7", "203.0.113.5", False, "198.51.100.7"),
        ("198.51.100.7", "203.0.113.5", True, "203.0.113.5"),
        ("198.51.100.7", "", True, "198.51.100.7"),
        ("127.0.0.1", "nonsense", False, "127.0.0.1"),
        ("2001:db8:1:2:3::4", "", False, "2001:db8:1:2::/64"),
    ],
)
def test_addresses_are_those_that_a_proxy_has_seen(
    peer: str, forwarded: str, address: str, *, is_proxied: bool
) -> None:
    assert address_of(peer, forwarded, is_proxied=is_proxied) == address
