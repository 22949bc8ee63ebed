"""Which errors are skipped, and what runs around a command that fails.

SQL Server's numbers stand for what subscribers call the errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from builders.replication.articles import article
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.distribution.calls.skipped_commands import NOTHING_SKIPPED, Failure, RetriedCalls, SkipErrors
from rowtide.replication.errors.delivery import AgentReplaced, CommandRefused, RowNotFound
from rowtide.replication.errors.subscribing import SkipErrorsInvalid

MISSING = RowNotFound(CommitLsn(100), 1, "public.orders", "id = 1", "update")


def refused(code: str) -> CommandRefused:
    return CommandRefused(CommitLsn(100), 1, "public.orders", "id = 1", "insert", code, "why")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("2601", refused("23505")),
        ("515:2627", refused("23505")),
        ("2627", refused("SQLITE_CONSTRAINT_PRIMARYKEY")),
        ("547", refused("23503")),
        ("547", refused("23514")),
        ("515", refused("23502")),
        ("20598", MISSING),
        ("23p01", refused("23P01")),
        ("547 : 23505", refused("23505")),
    ],
)
def test_a_listed_error_is_skipped_and_no_other(text: str, error: RowtideError) -> None:
    skips = SkipErrors.parse(text)

    assert skips.covers(error)
    assert not skips.covers(refused("40001"))
    assert not skips.covers(AgentReplaced("copy", "epoch 2"))


def test_a_missing_row_is_skipped_only_where_it_is_listed() -> None:
    assert not SkipErrors.parse("2601:2627:547:515").covers(MISSING)


def test_nothing_is_skipped_at_first() -> None:
    assert SkipErrors.parse("") == NOTHING_SKIPPED
    assert not NOTHING_SKIPPED
    assert not NOTHING_SKIPPED.covers(MISSING)


@pytest.mark.parametrize("text", ["1205", "2601;2627", "2601:", "unique"])
def test_what_is_no_error_is_refused(text: str) -> None:
    with pytest.raises(SkipErrorsInvalid, match="can be skipped.*2601, 2627, 547, 515, 20598"):
        SkipErrors.parse(text)


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
    pieces = RetriedCalls(subscriber.run_piece, skips)
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
