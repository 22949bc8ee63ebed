"""Generations of a PostgreSQL node: which of them a transaction is in."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

from rowtide.merge.nodes.postgres.metadata.generations import Generations, GenerationSnapshot


@pytest.mark.parametrize(
    ("stamp", "is_seen"), [(9, True), (11, True), (12, False), (13, True), (15, False), (19, True), (20, False)]
)
def test_a_snapshot_sees_what_had_ended_before_it(stamp: int, is_seen: bool) -> None:  # noqa: FBT001 - a parameter
    assert GenerationSnapshot("12:20:12,15").sees(stamp) is is_seen


def test_snapshot_without_open_transactions_sees_all_below_xmax() -> None:
    assert GenerationSnapshot("10:10:").sees(9)
    assert not GenerationSnapshot("10:10:").sees(10)


def generations(*snapshots: str, first: int = 1) -> Generations:
    found = Generations()
    for number, snapshot in enumerate(snapshots, first):
        found.add(number, snapshot)
    return found


def test_transaction_open_at_a_close_is_in_the_next_generation() -> None:
    closed = generations("10:10:", "12:15:12", "12:20:12,17", "21:21:")

    assert [closed.number_of(stamp) for stamp in (9, 10, 14, 12, 16, 17)] == [1, 2, 2, 4, 3, 4]


def test_unseen_transaction_is_in_each_open_generation_in_turn() -> None:
    closed = generations("10:10:")
    assert closed.number_of(12) == 2

    closed.add(2, "12:15:12")
    assert closed.number_of(12) == 3
    closed.add(3, "15:15:")
    assert closed.number_of(12) == 3


def test_before_the_first_closing_all_is_in_the_first_generation() -> None:
    assert Generations().last == 0
    assert Generations().number_of(7) == 1
    assert Generations().snapshot_of(1) is None


def test_changes_of_purged_generations_are_in_the_oldest_left() -> None:
    left = generations("30:30:", "40:40:", first=5)

    assert (left.number_of(3), left.number_of(35), left.number_of(50)) == (5, 6, 7)
    assert [left.snapshot_of(number) for number in (4, 5, 6, 9)] == [None, "30:30:", "40:40:", "40:40:"]


def test_generations_before_the_first_known_are_asked_for() -> None:
    tail = generations("30:30:", "40:40:", first=5)
    tail.is_tail = True
    assert (tail.has(5), tail.has(4)) == (True, False)
    assert sorted(tail.unknown([3, 8, 35, 50])) == [3, 8]

    tail.learn([("3", "2"), ("8", "5")])
    assert tail.unknown([3, 8, 35, 50]) == []
    assert [tail.number_of(stamp) for stamp in (3, 8, 35, 50)] == [2, 5, 6, 7]
    tail.add(7, "60:60:")
    assert [tail.number_of(stamp) for stamp in (3, 50)] == [2, 7]


@dataclass
class Server:
    """Transactions that begin and end, and generations that are closed between; `expected` is that of each commit."""

    next: int = 10
    active: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    expected: dict[int, int] = field(default_factory=dict)
    snapshots: list[str] = field(default_factory=list)

    def begin(self) -> None:
        self.active.append(self.next)
        self.next += 1

    def commit(self, choice: int) -> None:
        if self.active:
            self.waiting.append(self.active.pop(choice % len(self.active)))

    def close(self) -> None:
        """Close a generation: all is in it that was committed since the last one."""
        ended = [number for number in range(10, self.next) if number not in self.active]
        following = max(ended, default=9) + 1
        in_progress = sorted(number for number in self.active if number < following)
        lowest = min(in_progress, default=following)
        self.snapshots.append(f"{lowest}:{following}:{','.join(map(str, in_progress))}")
        self.note(len(self.snapshots))

    def note(self, number: int) -> None:
        self.expected |= dict.fromkeys(self.waiting, number)
        self.waiting.clear()


EVENTS = st.lists(st.just("begin") | st.just("close") | st.integers(0, 9), max_size=60)


@given(EVENTS, st.integers(0, 60))
def test_a_transactions_generation_is_the_least_that_sees_it(events: list[str | int], asked_at: int) -> None:
    server, closed = Server(), Generations()
    for place, event in enumerate(events):
        if event == "begin":
            server.begin()
        elif event == "close":
            server.close()
            closed.add(len(server.snapshots), server.snapshots[-1])
        else:
            server.commit(int(event))
        if place == asked_at:
            # What was said before a closing is not kept after it.
            assert all(closed.number_of(stamp) == closed.last + 1 for stamp in server.waiting)
    server.note(len(server.snapshots) + 1)

    for stamp, number in server.expected.items():
        seeing = [place for place, text in enumerate(server.snapshots, 1) if GenerationSnapshot(text).sees(stamp)]
        assert closed.number_of(stamp) == number == min(seeing, default=closed.last + 1)
        assert seeing == list(range(number, closed.last + 1))
