"""Where transactions end in what has arrived."""

from __future__ import annotations

import pytest

from builders.log import pgoutput_messages as wire
from rowtide.log.batches import Messages
from rowtide.log.postgres.log_source import find_commits

BEGIN, ROW, COMMIT = wire.begin(100), wire.insert(16_384, "C"), wire.commit(100)
SHORT = COMMIT[:20]


@pytest.mark.parametrize(
    ("arrived", "found"),
    [
        ([], None),
        ([BEGIN, ROW], None),
        ([BEGIN, ROW, COMMIT], (2, 2)),
        ([COMMIT, BEGIN, ROW], (0, 0)),
        ([ROW, COMMIT, BEGIN, COMMIT, BEGIN], (1, 3)),
        ([SHORT], None),
        ([SHORT, COMMIT, SHORT], (1, 1)),
    ],
)
def test_the_first_and_the_last_commit_are_found(arrived: list[bytes], found: tuple[int, int] | None) -> None:
    assert find_commits(Messages.of(arrived)) == found
    window = Messages.of([BEGIN, COMMIT, *arrived, COMMIT])[2 : 2 + len(arrived)]
    assert find_commits(window) == found


def test_what_arrives_later_is_added_to_what_was_searched() -> None:
    arrived = Messages.of([BEGIN])
    find_commits(arrived)
    arrived.append(COMMIT)
    assert find_commits(arrived) == (1, 1)
