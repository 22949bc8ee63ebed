from __future__ import annotations

from dataclasses import dataclass

import pytest

from builders.log.log_messages import PlainCommits, messages
from rowtide.log import batches
from rowtide.log.batches import Cut, LastPart, Part, Whole, cut_batch


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


def part(text: str) -> Part:
    return Part(messages(text))


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
