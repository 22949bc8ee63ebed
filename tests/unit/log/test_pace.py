"""How long batches of the log wait."""

from __future__ import annotations

from itertools import count

from rowtide.log.pace import MOST_HELD_S, BatchWanted, ReadingPace

CAPTURE = BatchWanted("cdc")


def asked() -> ReadingPace:
    """Return a pace whose reader has asked once, and got a batch; each look at the clock takes a second."""
    seconds = count()
    pace = ReadingPace(lambda: float(next(seconds)))
    pace.ask(CAPTURE)
    pace.hand_on()
    return pace


def test_nothing_waits_until_a_reader_has_asked() -> None:
    pace = ReadingPace()
    pace.hand_on()
    assert not pace.holds({"cdc"})


def test_a_batch_waits_until_it_is_asked_for() -> None:
    pace = asked()
    assert pace.holds({"cdc"})
    pace.ask(CAPTURE)
    assert not pace.holds({"cdc"})
    pace.hand_on()
    assert pace.holds({"cdc"})


def test_a_wish_stands_until_there_is_a_batch() -> None:
    pace = asked()
    pace.ask(CAPTURE)
    assert not any(pace.holds({"cdc"}) for _ in range(3))


def test_nothing_waits_for_a_reader_that_does_not_ask() -> None:
    pace = asked()
    assert not pace.holds({"cdc", "subscription 1"})
    assert not pace.holds({"subscription 1"})


def test_a_batch_waits_no_longer_than_half_a_minute() -> None:
    pace = asked()
    held = [pace.holds({"cdc"}) for _ in range(int(MOST_HELD_S) + 1)]
    assert held == [True] * int(MOST_HELD_S) + [False]
    assert not pace.holds({"cdc"})
    pace.hand_on()
    assert pace.holds({"cdc"})
