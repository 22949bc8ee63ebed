"""Which errors are skipped: SQL Server's numbers stand for what subscribers call them."""

from __future__ import annotations

import pytest

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.replication.errors.delivery import AgentReplaced, CommandRefused, RowNotFound
from rowtide.replication.errors.subscribing import SkipErrorsInvalid
from rowtide.replication.subscription_settings import NOTHING_SKIPPED, SkipErrors

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
