"""A batch in pieces: everything is run once but what fails, with few attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from builders.replication.articles import article
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.distribution.calls.pieces import Failure, Pieces
from rowtide.replication.distribution.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.errors.delivery import RowNotFound

ORDERS = article()
MISSING_ROWS = SkipErrors.parse("20598")


@dataclass
class Subscriber:
    """Has no rows for some updates; keeps what was run, and counts what it was sent."""

    missing: set[int]
    run: list[int] = field(default_factory=list)
    sent: int = 0
    attempts: int = 0

    def run_piece(self, piece: Sequence[ProcedureCall]) -> Failure | None:
        self.attempts += 1
        self.sent += len(piece)
        numbers = [lsn for lsn, *_ in piece]
        for place, number in enumerate(numbers):
            if number in self.missing:
                return Failure(place, RowNotFound(CommitLsn(number), 1, "orders", f"id = {number}", "update"))
        self.run += numbers
        return None


def deliver(subscriber: Subscriber, count: int, skips: SkipErrors = MISSING_ROWS) -> list[int]:
    pieces = Pieces(subscriber.run_piece, skips)
    for number in range(count):
        pieces.add(ProcedureCall(number, 1, ORDERS, Operation.UPDATE, []))
    return [error.lsn.value for error in pieces.end()]


@pytest.mark.parametrize(
    "missing", [set(), {0}, {999}, {500}, {0, 1, 2}, {5, 700, 701, 998, 999}, set(range(1000)), set(range(0, 1000, 2))]
)
def test_failing_calls_are_skipped_and_others_run_once_in_order(missing: set[int]) -> None:
    subscriber = Subscriber(missing)

    assert deliver(subscriber, 1000) == sorted(missing)
    assert subscriber.run == [number for number in range(1000) if number not in missing]


@pytest.mark.parametrize("missing", [{0}, {500}, {999}])
def test_one_that_fails_among_a_thousand_is_cheap(missing: set[int]) -> None:
    subscriber = Subscriber(missing)
    deliver(subscriber, 1000)

    assert subscriber.attempts < 15
    assert subscriber.sent < 2500


def test_many_that_fail_do_not_send_all_again_for_each() -> None:
    subscriber = Subscriber(set(range(1000)))
    deliver(subscriber, 1000)

    assert subscriber.sent < 2500


def test_unlisted_error_is_raised_after_the_calls_before_it() -> None:
    subscriber = Subscriber({700})
    with pytest.raises(RowNotFound, match="id = 700"):
        deliver(subscriber, 1000, NOTHING_SKIPPED)

    assert subscriber.run == list(range(700))
