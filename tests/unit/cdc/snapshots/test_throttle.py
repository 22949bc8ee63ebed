"""The rate of a snapshot, and how it is left."""

from __future__ import annotations

import time

import pytest

from rowtide.cdc.snapshots.throttle import CopyInterrupted, Throttle


def test_without_a_rate_nothing_waits() -> None:
    throttle = Throttle()
    began = time.monotonic()
    for _ in range(1000):
        throttle.take(1_000_000)
    assert time.monotonic() - began < 1


def test_rows_beyond_the_rate_wait() -> None:
    throttle = Throttle()
    throttle.set(1000, is_stopped=False)
    began = time.monotonic()
    for _ in range(3):
        throttle.take(100)
    assert time.monotonic() - began >= 0.2


def test_a_batch_takes_as_long_as_its_rows() -> None:
    throttle = Throttle()
    throttle.set(1000, is_stopped=False)
    began, passed = time.monotonic(), 0
    for piece in throttle.divide(600):
        throttle.take(piece)
        passed += piece
        assert passed <= 1000 * (time.monotonic() - began) + 1
    assert passed == 600


def test_what_is_stopped_is_interrupted_until_it_is_not() -> None:
    throttle = Throttle()
    throttle.set(None, is_stopped=True)
    with pytest.raises(CopyInterrupted):
        throttle.take(1)
    throttle.set(None, is_stopped=False)
    throttle.take(1)
