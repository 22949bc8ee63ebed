"""Views are made of what a poll has found, and say what it could not read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.diagnosis import Code, State
from rowtide.diagnosis.merge import MergeFacts, check_merge
from rowtide.diagnosis.result import Unread, failing, healthy, of_error, warning
from rowtide.merge.status import MergeStatus
from rowtide.monitor.snapshot import PolledSnapshot
from rowtide.monitor.views import count_states, make_view

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def subscribed(name: str, *, days_ago: float | None, state: str = "succeeded", refused: int = 0) -> MergeStatus:
    last = NOW - timedelta(days=days_ago) if days_ago is not None else None
    return MergeStatus(
        publication="field",
        role="publisher",
        articles=("note",),
        retention_days=14,
        open_conflicts=2,
        subscriber=f"postgresql://bob@{name}/d",
        rows_refused=refused,
        last_sync=last,
        expires=last + timedelta(days=14) if last is not None else None,
        state=state,
    )


def test_a_database_that_cannot_be_read_is_unknown_since_then() -> None:
    error = ConnectionFailed("refused")
    result = of_error(Code.DATABASE_UNREACHABLE, State.FAILING, "database", error)
    since = NOW - timedelta(minutes=5)
    view = make_view(PolledSnapshot("shop", NOW, 0.1, results=(result,), error=error), unknown_since=since)
    assert (view.is_up, view.unknown_since) == (False, since)
    assert view.reason is not None
    assert view.reason.startswith("RT-1101: ")
    assert [(one.area, one.state) for one in view.judgements] == [("database", State.FAILING)]
    assert (view.log, view.capture, view.merges, view.subscriptions) == (None, None, (), ())


def test_a_subject_has_the_worst_of_its_judgements() -> None:
    results = (
        healthy(Code.CAPTURE_HEALTHY, "capture", "it runs"),
        failing(Code.CAPTURE_FAILED, "capture", "it stopped"),
        warning(Code.CAPTURE_LATE, "capture", "late"),
    )
    (judged,) = make_view(PolledSnapshot("shop", NOW, 0.1, results=results)).judgements
    assert (judged.state, judged.code) == (State.FAILING, "capture_failed")


def test_subscribers_of_a_merge_are_one_subject_with_counts() -> None:
    listed = [
        subscribed("a", days_ago=1),
        subscribed("b", days_ago=20),
        subscribed("c", days_ago=12),
        subscribed("d", days_ago=None, state="waiting"),
        subscribed("e", days_ago=1, state="failed"),
        subscribed("f", days_ago=1, refused=3),
    ]
    facts = MergeFacts(NOW, listed, ())
    view = make_view(PolledSnapshot("hub", NOW, 0.1, results=tuple(check_merge(facts)), merge=facts))
    (merge,) = view.merges
    assert count_states(merge) == {
        "never_synchronised": 1,
        "expired": 1,
        "failed": 1,
        "expiring": 1,
        "rows_refused": 1,
        "healthy": 1,
    }
    assert merge.conflicts_open == 2
    assert max(one.sync_age_s or 0 for one in merge.subscriptions) == 20 * 86_400
    assert "bob" not in repr(view)
    states = {one.subject: one.state for one in view.judgements}
    assert states == {"merge subscription field, all subscribers": State.FAILING, "merge articles": State.HEALTHY}


def test_merge_that_could_not_be_read_has_no_view() -> None:
    view = make_view(PolledSnapshot("hub", NOW, 0.1, merge=Unread(ConnectionFailed("refused"))))
    assert view.merges == ()
