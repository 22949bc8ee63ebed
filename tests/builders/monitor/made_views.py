"""Views of databases in every state that a page has to show, without databases: a poll's findings are values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rowtide.core.lsn import CommitLsn
from rowtide.diagnosis import State
from rowtide.monitor.counters import DatabaseCounters
from rowtide.monitor.exposition import Polled
from rowtide.monitor.polling import Readiness
from rowtide.monitor.snapshot import Cycle, PolledCopy
from rowtide.monitor.views import (
    MERGE_STATES,
    CaptureView,
    CheckView,
    CleanupView,
    ConsumerView,
    DatabaseView,
    ErrorView,
    GapView,
    InstanceView,
    IntervalView,
    Judgement,
    LogView,
    MergeSubscriptionView,
    MergeView,
    SchemaChangeView,
    SlotView,
    SubscriptionView,
    TargetView,
)
from rowtide.monitor.views.hops import list_hops
from rowtide.monitor.views.subscriptions import group_publications

NOW = datetime.now(UTC)
LONG_WORD = "ä" * 31
"""Of 62 bytes: as long as a name can be."""
HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    "\u202eright to left",
    "two\nlines",
    LONG_WORD,
    "a/../b?c#d%2F",
    "'\"&amp;",
)


class MadePolls:
    """What polls have found, as it was made."""

    def __init__(self, views: Sequence[DatabaseView], not_polled: Sequence[str] = ()) -> None:
        self._not_polled = not_polled
        self.set_views(views)

    is_alive = True

    def set_views(self, views: Sequence[DatabaseView]) -> None:
        self._views = {view.name: view for view in views}
        self._names = [*self._views, *self._not_polled]

    def list_polled(self) -> Sequence[Polled]:
        return [Polled(view, DatabaseCounters()) for view in self._views.values()]

    def list_readiness(self) -> dict[str, Readiness]:
        return {name: Readiness(name, 1.0 if name in self._views else None, None) for name in self._names}


def make_database(
    name: str,
    *,
    judgements: Sequence[Judgement] = (),
    consumers: int = 0,
    targets: Sequence[TargetView] = (),
    subscriptions: Sequence[SubscriptionView] = (),
    merges: Sequence[MergeView] = (),
    log: LogView | None = None,
    capture: CaptureView | None = None,
    errors: Sequence[ErrorView] = (),
    delivered_here: Sequence[str] = (),
    table_changes: Sequence[str] = (),
) -> DatabaseView:
    return DatabaseView(
        name=name,
        is_up=True,
        polled_at=NOW,
        duration_s=0.021,
        unknown_since=None,
        reason=None,
        judgements=tuple(judgements),
        agents={"log_reader": True, "capture": False},
        job_successes={},
        oldest_transactions_s={"writing": 4.2},
        log=log,
        capture=capture,
        consumers=tuple(make_consumer(number) for number in range(consumers)),
        targets=tuple(targets),
        subscriptions=tuple(subscriptions),
        merges=tuple(merges),
        checks=tuple(make_check(one) for one in judgements),
        errors=tuple(errors),
        way=list_hops(judgements, log, capture, targets, subscriptions, merges),
        publications=tuple(group_publications(["unsubscribed"] if subscriptions else [], subscriptions)),
        delivered_here=tuple(delivered_here),
        table_changes=dict.fromkeys(table_changes, 1000),
    )


def make_check(one: Judgement) -> CheckView:
    remediation = "alter table public.item replica identity full;" if one.state is State.WARNING else None
    return CheckView(one.area, one.subject, one.state, one.code, one.message, remediation, True, ())  # noqa: FBT003


def make_consumer(number: int) -> ConsumerView:
    return ConsumerView(
        f"consumer {number}",
        3.0 * number,
        86_400.0 * (1 - number % 2 * 2),
        ("public_item",),
        CommitLsn(1500),
        NOW,
        86_400.0,
    )


def make_instance(table: str, gaps: int = 0) -> InstanceView:
    interval = IntervalView(CommitLsn(1000), CommitLsn(2000), NOW - timedelta(hours=70), NOW, ())
    return InstanceView(
        name=f"public_{table}",
        schema="public",
        table=table,
        is_dropped=False,
        is_read=True,
        has_key=True,
        is_copied=True,
        columns=("id", "name"),
        interval=interval,
        gaps=tuple(
            GapView(
                CommitLsn(1100 + 100 * number), CommitLsn(1120 + 100 * number), "the slot was lost", is_bridged=False
            )
            for number in range(gaps)
        ),
        consumers=("consumer 0", "consumer 1") if table == "item" else (),
        copy=PolledCopy("public_order", 1_200_000, 300_000, 95.0) if table == "order" else None,
        schema_changes=(
            SchemaChangeView(NOW, CommitLsn(1900), changes_type=True, is_inferred=False, rewrites_values=True),
            SchemaChangeView(NOW, CommitLsn(1200), changes_type=False, is_inferred=True, rewrites_values=False),
        )
        if table == "item"
        else (),
    )


def make_capture(lag_s: float, tables: Sequence[str], gaps: int = 0) -> CaptureView:
    instances = tuple(make_instance(table, gaps) for table in tables)
    cycles = tuple(Cycle(number, "Done", 0.4, NOW - timedelta(seconds=9 - number), 120, 3) for number in range(5))
    return CaptureView(
        lag_s,
        gaps,
        captured_by="db1, process 4711",
        published_at=NOW,
        published_lsn=CommitLsn(2000),
        cycles=cycles,
        cleanup=CleanupView("every 5 minutes", 72 * 3600.0, NOW, None, "db1, process 4711"),
        instances=instances,
    )


def make_unreachable(name: str) -> DatabaseView:
    reason = "RT-1101: the database cannot be reached: connection refused"
    return DatabaseView(
        name=name,
        is_up=False,
        polled_at=NOW,
        duration_s=5.0,
        unknown_since=NOW - timedelta(hours=2),
        reason=reason,
        judgements=(Judgement("database", "database", State.FAILING, "database_unreachable", reason),),
        agents={},
        job_successes={},
        oldest_transactions_s={},
    )


def make_subscription(publication: str, subscriber: str, state: str = "healthy") -> SubscriptionView:
    return SubscriptionView(
        publication,
        subscriber,
        state,
        1.5,
        12_345,
        6 << 20,
        70 * 3600.0,
        1_234_567,
        waits_s=4.0,
        delivered_by="db1, process 4711" if state == "healthy" else None,
        rate=812.5,
        recorded_at=NOW,
        error="RT-7106" if state == "failed" else None,
    )


def make_merge(publication: str, devices: int) -> MergeView:
    states = list(MERGE_STATES.values())
    return MergeView(
        publication,
        conflicts_open=3,
        subscriptions=tuple(
            MergeSubscriptionView(
                publication,
                f"device {number:05}",
                "healthy" if number % 97 else states[number % len(states)],
                60.0 * number,
                86_400.0 * 14 - 60.0 * number,
                number % 3,
                device=f"tablet {number:05} of {publication}" if number % 3 == 1 else None,
                contact_age_s=60.0 * number if number % 3 == 1 else None,
                client_version="0.2.0" if number % 3 == 1 else None,
                tokens_refused=4 if number % 3 == 1 else None,
            )
            for number in range(devices)
        ),
    )


HEALTHY = make_database(
    "shop",
    judgements=(
        Judgement("log", "log reader", State.HEALTHY, "log_healthy", "It reads the log; 0 bytes are not read."),
        Judgement("capture", "capture", State.HEALTHY, "capture_healthy", "It publishes what was read."),
    ),
    log=LogView(0, 0.4, SlotView("rowtide_shop", "reserved", "", 16 << 20, None), 48 << 20, 0),
    capture=make_capture(1.2, ("item", "order")),
    consumers=2,
    targets=(TargetView("items", "public_item", 2.0, is_stopped=False),),
    subscriptions=(make_subscription("stock", "//db2/shop"),),
    merges=(make_merge("field", 3),),
    table_changes=("public.item", "public.order", *HOSTILE_NAMES),
)
FAILING = make_database(
    "crm",
    judgements=(
        Judgement("server", "slot rowtide_crm", State.FAILING, "slot_nearly_lost", "90 MB remain until it is lost."),
        Judgement(
            "replication",
            "subscription stock to //db2/shop",
            State.FAILING,
            "subscription_failed",
            "RT-7106: stopped at a row that exists.",
        ),
        Judgement("capture", "capture", State.WARNING, "capture_late", "Nothing was published for 10 minutes."),
        Judgement("merge", "merge", State.UNKNOWN, "merge_unknown", "The right to read it is missing."),
    ),
    log=LogView(5 << 30, 640.0, SlotView("rowtide_crm", "extended", "", 9 << 30, 90 << 20), 2 << 30, 1 << 30),
    capture=make_capture(640.0, ("item",), 2),
    errors=(ErrorView(NOW, "distribution", "RT-7106", "stock", "//db2/shop"), ErrorView(NOW, "capture", "OSError")),
    subscriptions=(
        make_subscription("stock", "//db2/shop", "failed"),
        make_subscription("stock", "//db3/shop", "retrying"),
    ),
    delivered_here=("stock",),
)
HOSTILE = make_database(
    HOSTILE_NAMES[0],
    judgements=tuple(
        Judgement("tables", name, State.WARNING, "table_warning", f"{name} has no key.") for name in HOSTILE_NAMES
    ),
    log=LogView(0, 0.4, SlotView("rowtide_x", "reserved", "", 16 << 20, None), 48 << 20, 0),
    capture=make_capture(1.2, HOSTILE_NAMES),
    subscriptions=tuple(make_subscription(name, name) for name in HOSTILE_NAMES),
    merges=tuple(make_merge(name, 2) for name in HOSTILE_NAMES),
)
LARGE = make_database(
    "large",
    judgements=tuple(
        Judgement(
            "tables",
            f"public.table_{number}",
            State.WARNING if number % 50 == 0 else State.HEALTHY,
            "table",
            "It has no key." if number % 50 == 0 else "It is captured.",
        )
        for number in range(500)
    ),
    log=LogView(0, 0.4, SlotView("rowtide_large", "reserved", "", 16 << 20, None), 48 << 20, 0),
    capture=make_capture(1.2, [f"table_{number}" for number in range(500)]),
    consumers=50,
    targets=[
        TargetView(f"target {number % 3}", f"public_table_{number}", float(number), is_stopped=number == 7)
        for number in range(500)
    ],
    subscriptions=[make_subscription(f"publication {number % 5}", f"//db{number}/shop") for number in range(50)],
    merges=(make_merge("field", 10_000),),
)
UNREACHABLE = make_unreachable("gone")
EMPTY = make_database("empty")

ALL = (HEALTHY, FAILING, HOSTILE, LARGE, UNREACHABLE, EMPTY)
