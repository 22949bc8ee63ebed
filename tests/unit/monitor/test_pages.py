"""Pages are made of views: overview, changes of states, the way of a change, what may be read of an instance."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rowtide.core.lsn import CommitLsn
from rowtide.diagnosis import Code, State
from rowtide.diagnosis.result import failing, shell, warning
from rowtide.monitor.gauge_series import GaugeSeries, Point, split_at_gaps
from rowtide.monitor.labels import without_row_values
from rowtide.monitor.snapshot import NumberedError, PolledFigures, PolledSnapshot
from rowtide.monitor.views import (
    DatabaseView,
    Hop,
    HopKind,
    IntervalView,
    Judgement,
    MonitorState,
    Quality,
    SubscriptionView,
    count_numbers,
    find_changes,
    make_overview,
    make_view,
)
from rowtide.monitor.views.hops import list_hops
from rowtide.monitor.views.subscriptions import group_publications

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SUBSCRIBED = SubscriptionView("shop", "postgresql://h/d", "healthy", 1.0, 0, 0, 3600.0, 7)


def view(name: str, *states: State, **values: object) -> DatabaseView:
    judged = tuple(Judgement("capture", f"subject {place}", state, "code", "") for place, state in enumerate(states))
    plain = DatabaseView(name, True, NOW, 0.1, None, None, judged, {}, {}, {})  # noqa: FBT003
    return replace(plain, **values)  # type: ignore[arg-type]


def test_the_worst_database_is_first() -> None:
    found = make_overview(
        [
            view("b", State.HEALTHY),
            view("a", State.HEALTHY),
            view("c", State.HEALTHY, State.WARNING, State.FAILING),
            view("d"),
        ]
    )
    assert [(one.name, one.state) for one in found.databases] == [
        ("c", State.FAILING),
        ("d", State.UNKNOWN),
        ("a", State.HEALTHY),
        ("b", State.HEALTHY),
    ]
    assert found.totals == {State.FAILING: 1, State.WARNING: 0, State.UNKNOWN: 1, State.HEALTHY: 2}
    assert [one.state for one in found.databases[0].worst] == [State.FAILING, State.WARNING]


def test_a_change_of_state_is_told_once() -> None:
    before = view("shop", State.HEALTHY, State.HEALTHY)
    after = view("shop", State.HEALTHY, State.FAILING)
    (change,) = find_changes(before, after)
    assert (change.subject, change.before, change.after) == ("subject 1", State.HEALTHY, State.FAILING)
    assert list(find_changes(after, after)) == []


def test_subjects_of_a_database_that_is_gone_have_not_changed() -> None:
    before = view("shop", State.HEALTHY, State.HEALTHY)
    down = view("shop", State.FAILING, is_up=False, reason="RT-1101: refused")
    (gone,) = find_changes(before, down)
    assert (gone.subject, gone.before, gone.after) == ("database", State.HEALTHY, State.FAILING)
    (back,) = find_changes(down, before)
    assert (back.subject, back.before, back.after) == ("database", State.FAILING, State.HEALTHY)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"state": "failed"}, MonitorState.ERROR),
        ({"state": "late", "delivered_by": "h 1"}, MonitorState.CRITICAL),
        ({"state": "deactivated"}, MonitorState.EXPIRING),
        ({"state": "never_run"}, MonitorState.UNINITIALIZED),
        ({"state": "paused"}, MonitorState.NOT_RUNNING),
        ({"delivered_by": "h 1"}, MonitorState.RUNNING),
        ({}, MonitorState.NOT_RUNNING),
    ],
)
def test_states_are_those_of_replication_monitor(values: dict[str, str], expected: MonitorState) -> None:
    assert replace(SUBSCRIBED, **values).monitor_state is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("latency_s", "waits_s", "expected"),
    [
        (None, 0.0, None),
        (34.0, 0.0, Quality.EXCELLENT),
        (35.0, 0.0, Quality.GOOD),
        (1.0, 84.0, Quality.FAIR),
        (99.0, 0.0, Quality.POOR),
        (None, 100.0, Quality.CRITICAL),
    ],
)
def test_latency_is_judged_by_its_threshold(latency_s: float | None, waits_s: float, expected: Quality | None) -> None:
    assert replace(SUBSCRIBED, latency_s=latency_s, waits_s=waits_s, threshold_s=100.0).quality is expected


def test_the_time_to_catch_up_needs_an_agent_and_a_rate() -> None:
    waiting = replace(SUBSCRIBED, undelivered_commands=500, rate=50.0)
    assert waiting.catch_up_s is None
    assert replace(waiting, delivered_by="h 1").catch_up_s == 10
    assert replace(waiting, delivered_by="h 1", rate=0.0).catch_up_s is None
    assert SUBSCRIBED.catch_up_s == 0


def test_the_worst_subscription_of_a_publication_is_first() -> None:
    failed = replace(SUBSCRIBED, subscriber="postgresql://z/d", state="failed")
    idle, shop = group_publications(["shop", "idle"], [SUBSCRIBED, failed])
    assert (idle.name, idle.subscriptions) == ("idle", ())
    assert shop.subscriptions == (failed, SUBSCRIBED)


def test_the_way_names_the_series_of_each_hop() -> None:
    waiting = replace(SUBSCRIBED, undelivered_commands=5, undelivered_bytes=100, waits_s=9.0, state="stopped")
    (hop,) = list_hops((), None, None, (), [waiting], ())
    labels = ("shop", "postgresql://h/d")
    assert hop == Hop(
        HopKind.SUBSCRIBER,
        "shop to postgresql://h/d",
        State.WARNING,
        9.0,
        100,
        GaugeSeries("rowtide_subscription_latency_seconds", labels),
        GaugeSeries("rowtide_subscription_undelivered_bytes", labels),
        is_running=False,
    )


def test_an_interval_places_what_lies_in_it() -> None:
    low, high = CommitLsn(100), CommitLsn(300)
    interval = IntervalView(low, high, NOW - timedelta(hours=4), NOW, ())
    assert [interval.share_of(CommitLsn(lsn)) for lsn in (1, 100, 200, 300, 400)] == [0, 0, 0.5, 1, 1]
    assert interval.share_of_time(NOW - timedelta(hours=1)) == 0.75
    assert replace(interval, low_at=None).share_of_time(NOW) is None
    assert replace(interval, low_at=NOW).share_of_time(NOW) == 1


def test_messages_quote_errors_by_their_numbers() -> None:
    told = "it has stopped with RT-20598: no row of t has the key (canary); changes wait for 5 s"
    assert without_row_values(told) == "it has stopped with RT-20598"
    assert without_row_values("failed 2 s ago: ValueError: canary\nmore") == "failed 2 s ago: ValueError"
    assert without_row_values("PostgreSQL: 3 tables follow") == "PostgreSQL: 3 tables follow"


def test_a_check_has_what_can_be_copied() -> None:
    results = (
        failing(Code.CAPTURE_FAILED, "capture", "it stopped with RT-3103: canary", shell("rowtide", "cdc", "run")),
        warning(Code.CAPTURE_LATE, "capture", "late", "See whether it catches up."),
    )
    command, advice = make_view(PolledSnapshot("shop", NOW, 0.1, results=results)).checks
    assert (command.remediation, command.can_be_run) == ("rowtide cdc run", True)
    assert (advice.remediation, advice.can_be_run) == ("See whether it catches up.", False)
    assert "canary" not in repr((command, advice))


def test_errors_are_those_of_two_days_newest_first() -> None:
    figures = PolledFigures(
        oldest_s={},
        invalidation=None,
        cycles=(),
        capture_rows=None,
        scan_errors=(
            NumberedError(1, "3103", at=NOW - timedelta(hours=49)),
            NumberedError(2, "3103", at=NOW - timedelta(hours=2)),
        ),
        runs=(),
        copying=(),
        delivery_errors=(
            NumberedError(7, "20598", "shop", "postgresql://bob@h/d", NOW - timedelta(hours=1)),
            NumberedError(8, "3103", at=NOW - timedelta(hours=3)),
        ),
        arrivals=(),
        conflicts=(),
        merge_runs=(),
        merged_rows=(),
    )
    errors = make_view(PolledSnapshot("shop", NOW, 0.1, figures=figures)).errors
    assert [(one.source, one.number, one.subscriber) for one in errors] == [
        ("distribution", "RT-20598", "postgresql://h/d"),
        ("capture", "RT-3103", None),
        ("log reader", "RT-3103", None),
    ]
    assert count_numbers(errors) == (("RT-3103", 2), ("RT-20598", 1))


def test_a_line_has_a_gap_where_nothing_was_read() -> None:
    def at(minutes: float, value: float | None) -> Point:
        return Point(NOW + timedelta(minutes=minutes), value)

    points = [at(0, 1.0), at(1, 2.0), at(9, 3.0), at(10, None), at(11, 4.0)]
    assert list(split_at_gaps(points)) == [(points[0], points[1]), (points[2],), (points[4],)]
