from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import pytest

from builders.log.log_messages import PlainCommits, messages
from rowtide.log import batches
from rowtide.log.batches import (
    MOST_HELD_S,
    BatchWanted,
    Cut,
    LastPart,
    Messages,
    ReadingPace,
    TransactionPart,
    Whole,
    cut_batch,
)


@dataclass(frozen=True)
class Case:
    """What has arrived, and what becomes of it; cuts and what is kept are written as in `messages`."""

    arrived: str
    cuts: tuple[Cut, ...] = ()
    kept: str = ""
    in_parts: bool = False
    is_full: bool = False


def whole(text: str, end: int) -> Whole:
    return Whole(messages(text), end)


def part(text: str) -> TransactionPart:
    return TransactionPart(messages(text))


def last_part(text: str, end: int) -> LastPart:
    return LastPart(messages(text), end)


CASES = {
    "nothing": Case(""),
    "nothing, full": Case("", is_full=True),
    "nothing, in parts": Case("", in_parts=True),
    "nothing, in parts and full": Case("", in_parts=True, is_full=True),
    "one transaction": Case("B r C10", (whole("B r C10", 10),)),
    "transactions together, to the last one's end": Case("B r C10 B C20", (whole("B r C10 B C20", 20),)),
    "whole ones, and the beginning of one that is carried": Case("B r C10 B r", (whole("B r C10", 10),), "B r"),
    "no commit yet": Case("B r r", kept="B r r"),
    "full without a commit": Case("B r r", (part("B r r"),), is_full=True),
    "full with a commit": Case("B C10 B r r", (whole("B C10", 10),), "B r r", is_full=True),
    "full of whole ones": Case("B C10 B C20", (whole("B C10 B C20", 20),), is_full=True),
    "in parts, no commit yet": Case("r r", kept="r r", in_parts=True),
    "in parts, full without a commit": Case("r r", (part("r r"),), in_parts=True, is_full=True),
    "in parts, the commit": Case("r C10", (last_part("r C10", 10),), in_parts=True),
    "in parts, the commit alone": Case("C10", (last_part("C10", 10),), in_parts=True),
    "in parts, the commit and whole ones": Case(
        "r C10 B C20 B C30", (last_part("r C10", 10), whole("B C20 B C30", 30)), in_parts=True
    ),
    "in parts, the commit, whole ones and a beginning": Case(
        "C10 B C20 B r", (last_part("C10", 10), whole("B C20", 20)), "B r", in_parts=True
    ),
    "in parts, the commit and a beginning": Case("r C10 B r", (last_part("r C10", 10),), "B r", in_parts=True),
    "in parts, the commit and a beginning, full": Case(
        "r C10 B r", (last_part("r C10", 10),), "B r", in_parts=True, is_full=True
    ),
}


LARGE_CASES = {
    "large, within small ones": Case("B r rrrr r", (part("B r"), part("rrrr"), part("r")), is_full=True),
    "large ones, each by itself": Case("rrrr rrrr", (part("rrrr"), part("rrrr")), in_parts=True, is_full=True),
    "large, behind whole ones": Case("B C10 B rrrr", (whole("B C10", 10),), "B rrrr", is_full=True),
}


@pytest.mark.parametrize("name", LARGE_CASES)
def test_what_is_large_is_a_part_of_its_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LARGE_MESSAGE_BYTES", 4)
    case = LARGE_CASES[name]
    arrived = messages(case.arrived)
    cuts, count = cut_batch(arrived, PlainCommits(), in_parts=case.in_parts, is_full=case.is_full)

    assert (tuple(cuts), arrived[count:]) == (case.cuts, messages(case.kept))


@pytest.mark.parametrize("name", CASES)
def test_what_arrived_is_cut_at_commits(name: str) -> None:
    case = CASES[name]
    arrived = messages(case.arrived)
    cuts, count = cut_batch(arrived, PlainCommits(), in_parts=case.in_parts, is_full=case.is_full)

    assert (tuple(cuts), arrived[count:]) == (case.cuts, messages(case.kept))


def test_messages_are_a_sequence_of_bytes() -> None:
    log = messages("B r C10")

    assert list(log) == [b"B", b"r", b"C10"]
    assert (len(log), log[-1], log[0]) == (3, b"C10", b"B")
    assert (list(log.sizes()), log.size) == ([1, 1, 3], 5)


def test_a_slice_shares_the_buffer() -> None:
    log = messages("B r C10 B")

    assert log[1:3] == messages("r C10")
    assert log[1:3].buffer is log.buffer


def test_a_copy_of_a_slice_has_only_its_own_bytes_and_grows() -> None:
    copied = messages("B rr C10 B")[1:3].copy()
    copied.append(b"x")

    assert copied == messages("rr C10 x")
    assert bytes(copied.buffer) == b"rrC10x"


def test_an_empty_slice_can_be_copied() -> None:
    assert messages("B r")[2:].copy() == Messages()


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
