"""The token that an agent stops at: the first of its own publication in a range."""

from __future__ import annotations

from builders.log.log_stores import NOW, open_state, range_to
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.membership import Heartbeat, Traced, stamp
from rowtide.log.store.replay import apply
from rowtide.replication.distribution.log_events import find_token

OURS, LATER = Traced(CommitLsn(300), NOW, "shop", 2), Traced(CommitLsn(400), NOW, "shop", 3)
EVENTS = (Heartbeat(CommitLsn(150), NOW), Traced(CommitLsn(200), NOW, "another", 1), OURS, LATER)


def test_first_token_of_the_publication_in_the_range_is_found() -> None:
    state = open_state()
    state = apply(state, state.version + 1, range_to(state, 1000, events=EVENTS))

    assert find_token(state, "shop", Position(100), Position(1000)) == OURS
    assert find_token(state, "shop", Position(301), Position(1000)) == LATER
    assert find_token(state, "shop", Position(100), Position(300)) is None
    assert find_token(state, "nothing", Position(100), Position(1000)) is None


def test_a_token_is_stamped_as_it_is_stored_and_nothing_else_is() -> None:
    assert stamp(OURS, NOW) == Traced(CommitLsn(300), NOW, "shop", 2, stored_at=NOW)
    assert stamp(EVENTS[0], NOW) == EVENTS[0]
