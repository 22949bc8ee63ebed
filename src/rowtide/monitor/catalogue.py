"""Every metric: its name, type, unit, help and labels, and its source in a view. Pure.

`docs/reference/metrics.md` is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.monitor.views import (
    SUBSCRIPTION_STATES,
    DatabaseView,
    MergeSubscriptionView,
    MergeView,
    SubscriptionView,
    count_states,
)


class MetricType(StrEnum):
    """Prometheus' types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@frozen
class Sample:
    """A value of a gauge with the values of its labels, in their order, without the database."""

    labels: tuple[str, ...]
    value: float


Source = Callable[[DatabaseView], Iterable[Sample]]


@frozen
class Metric:
    """A metric of a database. `source` is None of counters and histograms, which the monitor counts.

    `per_device` says that it has a series for each subscriber of a merge; samples of those are not kept.
    """

    name: str
    type: MetricType
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    source: Source | None = None
    per_device: bool = False

    @property
    def keeps_history(self) -> bool:
        """Whether its samples are kept for a day: those of gauges with a unit, which are drawn as lines."""
        return self.type is MetricType.GAUGE and bool(self.unit) and not self.per_device


STATE_VALUES: Mapping[State, int] = {State.HEALTHY: 0, State.WARNING: 1, State.FAILING: 2, State.UNKNOWN: 3}


def _one(value: Callable[[DatabaseView], float | None]) -> Source:
    """Return the source of a metric without labels of its own; None is no sample."""

    def read(view: DatabaseView) -> Iterator[Sample]:
        found = value(view)
        if found is not None:
            yield Sample((), found)

    return read


def _health(view: DatabaseView) -> Iterator[Sample]:
    for one in view.judgements:
        yield Sample((one.area, one.subject), STATE_VALUES[one.state])


def _slot(value: Callable[[DatabaseView], float | None]) -> Source:
    def read(view: DatabaseView) -> Iterator[Sample]:
        found = value(view)
        if view.log is not None and view.log.slot is not None and found is not None:
            yield Sample((view.log.slot.name,), found)

    return read


def _slot_info(view: DatabaseView) -> Iterator[Sample]:
    slot = view.log.slot if view.log is not None else None
    if slot is not None:
        yield Sample((slot.name, slot.wal_status, slot.invalidation_reason), 1)


def _of_subscriptions(value: Callable[[SubscriptionView], float | None]) -> Source:
    def read(view: DatabaseView) -> Iterator[Sample]:
        for one in view.subscriptions:
            found = value(one)
            if found is not None:
                yield Sample((one.publication, one.subscriber), found)

    return read


def _subscription_states(view: DatabaseView) -> Iterator[Sample]:
    for one in view.subscriptions:
        for state in SUBSCRIPTION_STATES.values():
            yield Sample((one.publication, one.subscriber, state), one.state == state)


def _merge_states(view: DatabaseView) -> Iterator[Sample]:
    for merge in view.merges:
        for state, count in count_states(merge).items():
            yield Sample((merge.publication, state), count)


def _of_merges(value: Callable[[MergeView], float | None]) -> Source:
    def read(view: DatabaseView) -> Iterator[Sample]:
        for merge in view.merges:
            found = value(merge)
            if found is not None:
                yield Sample((merge.publication,), found)

    return read


def _of_devices(value: Callable[[MergeSubscriptionView], float | None]) -> Source:
    def read(view: DatabaseView) -> Iterator[Sample]:
        for merge in view.merges:
            for one in merge.subscriptions:
                found = value(one)
                if found is not None:
                    yield Sample((one.publication, one.subscriber), found)

    return read


def _oldest_sync(merge: MergeView) -> float | None:
    return max((one.sync_age_s for one in merge.subscriptions if one.sync_age_s is not None), default=None)


def _soonest_expiry(merge: MergeView) -> float | None:
    return min((one.expires_in_s for one in merge.subscriptions if one.expires_in_s is not None), default=None)


_SUBSCRIBED = ("publication", "subscriber")
_GAUGE, _COUNTER, _HISTOGRAM = MetricType.GAUGE, MetricType.COUNTER, MetricType.HISTOGRAM

METRICS: tuple[Metric, ...] = (
    Metric("rowtide_up", _GAUGE, "", "1 if the last poll could read the database.", (), _one(lambda view: view.is_up)),
    Metric(
        "rowtide_scrape_duration_seconds",
        _GAUGE,
        "seconds",
        "How long the last poll of the database took.",
        (),
        _one(lambda view: view.duration_s),
    ),
    Metric(
        "rowtide_health_state",
        _GAUGE,
        "",
        "What `rowtide health` says of a subject: 0 healthy, 1 warning, 2 failing, 3 unknown.",
        ("area", "subject"),
        _health,
    ),
    Metric(
        "rowtide_agent_running",
        _GAUGE,
        "",
        "1 if an agent runs: log_reader, capture, agent (which runs jobs), distribution (all active subscriptions).",
        ("agent",),
        lambda view: (Sample((agent,), runs) for agent, runs in view.agents.items()),
    ),
    Metric(
        "rowtide_agent_restarts_total",
        _COUNTER,
        "",
        "Starts of a job, and its retries after errors, as the history of jobs has them.",
        ("agent",),
    ),
    Metric(
        "rowtide_job_last_success_timestamp_seconds",
        _GAUGE,
        "seconds",
        "When a job last ended well, in seconds since 1970.",
        ("job",),
        lambda view: (Sample((job,), time.timestamp()) for job, time in view.job_successes.items()),
    ),
    Metric(
        "rowtide_log_read_lag_bytes",
        _GAUGE,
        "bytes",
        "The server's log that is not read yet.",
        (),
        _one(lambda view: view.log.lag_bytes if view.log is not None else None),
    ),
    Metric(
        "rowtide_log_read_lag_seconds",
        _GAUGE,
        "seconds",
        "How long ago all was read that was committed by then.",
        (),
        _one(lambda view: view.log.lag_s if view.log is not None else None),
    ),
    Metric(
        "rowtide_slot_retained_wal_bytes",
        _GAUGE,
        "bytes",
        "The WAL that the server keeps for the slot.",
        ("slot",),
        _slot(
            lambda view: view.log.slot.retained_bytes if view.log is not None and view.log.slot is not None else None
        ),
    ),
    Metric(
        "rowtide_slot_safe_wal_bytes",
        _GAUGE,
        "bytes",
        "How much more WAL may be written before the slot is at risk; absent if nothing limits it.",
        ("slot",),
        _slot(lambda view: view.log.slot.safe_bytes if view.log is not None and view.log.slot is not None else None),
    ),
    Metric(
        "rowtide_slot_info",
        _GAUGE,
        "",
        "1, with the slot's status; `invalidation_reason` is empty before PostgreSQL 17, and of a valid slot.",
        ("slot", "wal_status", "invalidation_reason"),
        _slot_info,
    ),
    Metric(
        "rowtide_oldest_transaction_age_seconds",
        _GAUGE,
        "seconds",
        "The age of the oldest transaction that is prepared, writing, or open; the last two with pg_read_all_stats.",
        ("kind",),
        lambda view: (Sample((kind,), age) for kind, age in view.oldest_transactions_s.items()),
    ),
    Metric(
        "rowtide_log_store_bytes",
        _GAUGE,
        "bytes",
        "The size of the log store's segments.",
        (),
        _one(lambda view: view.log.store_bytes if view.log is not None else None),
    ),
    Metric(
        "rowtide_log_store_unread_bytes",
        _GAUGE,
        "bytes",
        "The size of the segments that capture has not published.",
        (),
        _one(lambda view: view.log.unread_bytes if view.log is not None else None),
    ),
    Metric(
        "rowtide_disk_free_bytes",
        _GAUGE,
        "bytes",
        "Free space of a disk, as the monitor's machine sees it.",
        ("place",),
        lambda view: (Sample((one.place,), one.free_bytes) for one in view.places),
    ),
    Metric(
        "rowtide_capture_lag_seconds",
        _GAUGE,
        "seconds",
        "How long ago all was published that was committed by then.",
        (),
        _one(lambda view: view.capture.lag_s if view.capture is not None else None),
    ),
    Metric(
        "rowtide_capture_cycle_duration_seconds",
        _HISTOGRAM,
        "seconds",
        "Durations of the cycles of capture, by the phase in which they ended.",
        ("phase",),
    ),
    Metric(
        "rowtide_capture_rows_total",
        _COUNTER,
        "",
        "Changes of captured tables that cycles have read. A monitor has their sum, with both labels empty; a command "
        "has those of the first 200 instances by name, the others' together.",
        ("instance", "operation"),
    ),
    Metric(
        "rowtide_capture_errors_total",
        _COUNTER,
        "",
        "Errors of cycles, by the error's number (RT-number).",
        ("number",),
    ),
    Metric("rowtide_capture_gaps_total", _COUNTER, "", "Gaps that are recorded in the log store."),
    Metric(
        "rowtide_snapshot_rows_remaining",
        _GAUGE,
        "",
        "Rows that a snapshot has still to copy, by the estimate of the table's size.",
        ("instance",),
        lambda view: (
            Sample((one.instance,), one.rows_left)
            for one in (view.capture.copying if view.capture is not None else ())
            if one.rows_left is not None
        ),
    ),
    Metric(
        "rowtide_consumer_lag_seconds",
        _GAUGE,
        "seconds",
        "How far a consumer is behind what is published.",
        ("consumer",),
        lambda view: (Sample((one.name,), one.lag_s) for one in view.consumers),
    ),
    Metric(
        "rowtide_consumer_margin_seconds",
        _GAUGE,
        "seconds",
        "How long cleanup still waits for a consumer; below 0 if it no longer does.",
        ("consumer",),
        lambda view: (Sample((one.name,), one.margin_s) for one in view.consumers),
    ),
    Metric(
        "rowtide_target_lag_seconds",
        _GAUGE,
        "seconds",
        "How far a table of a target is behind what is published.",
        ("target", "instance"),
        lambda view: (Sample((one.target, one.instance), one.lag_s) for one in view.targets if one.lag_s is not None),
    ),
    Metric(
        "rowtide_target_stopped",
        _GAUGE,
        "",
        "1 if a table of a target has stopped.",
        ("target", "instance"),
        lambda view: (Sample((one.target, one.instance), one.is_stopped) for one in view.targets),
    ),
    Metric(
        "rowtide_subscription_state",
        _GAUGE,
        "",
        "1 for the state in which a subscription is, 0 for the others.",
        (*_SUBSCRIBED, "state"),
        _subscription_states,
    ),
    Metric(
        "rowtide_subscription_latency_seconds",
        _GAUGE,
        "seconds",
        "The latency that the subscription's agent recorded last, from commit to commit.",
        _SUBSCRIBED,
        _of_subscriptions(lambda one: one.latency_s),
    ),
    Metric(
        "rowtide_subscription_undelivered_commands",
        _GAUGE,
        "",
        "Changes in the segments of the log store that are not delivered, whole segments.",
        _SUBSCRIBED,
        _of_subscriptions(lambda one: one.undelivered_commands),
    ),
    Metric(
        "rowtide_subscription_undelivered_bytes",
        _GAUGE,
        "bytes",
        "The size of these segments.",
        _SUBSCRIBED,
        _of_subscriptions(lambda one: one.undelivered_bytes),
    ),
    Metric(
        "rowtide_subscription_retention_margin_seconds",
        _GAUGE,
        "seconds",
        "How long the log store still keeps the oldest change that is not delivered.",
        _SUBSCRIBED,
        _of_subscriptions(lambda one: one.margin_s),
    ),
    Metric("rowtide_subscription_commands_total", _COUNTER, "", "Commands that were delivered.", _SUBSCRIBED),
    Metric(
        "rowtide_subscription_errors_total",
        _COUNTER,
        "",
        "Errors of agents by number; those of the log reader have no publication and no subscriber.",
        (*_SUBSCRIBED, "number"),
    ),
    Metric(
        "rowtide_subscription_conflicts_total",
        _COUNTER,
        "",
        "Conflicts of changes that were delivered into this database.",
        ("publication", "kind"),
    ),
    Metric(
        "rowtide_tracer_seconds",
        _HISTOGRAM,
        "seconds",
        "Latencies of tracer tokens: from the commit to the log store (log), from there to the subscriber (delivery).",
        (*_SUBSCRIBED, "hop"),
    ),
    Metric(
        "rowtide_merge_subscriptions",
        _GAUGE,
        "",
        "The number of subscriptions of a merge publication in each state.",
        ("publication", "state"),
        _merge_states,
    ),
    Metric(
        "rowtide_merge_oldest_sync_age_seconds",
        _GAUGE,
        "seconds",
        "How long ago the subscriber synchronised that has not done so for the longest time.",
        ("publication",),
        _of_merges(_oldest_sync),
    ),
    Metric(
        "rowtide_merge_soonest_expiry_seconds",
        _GAUGE,
        "seconds",
        "When the next subscription expires, from now; below 0 if one has expired. Absent if none does.",
        ("publication",),
        _of_merges(_soonest_expiry),
    ),
    Metric(
        "rowtide_merge_conflicts_open",
        _GAUGE,
        "",
        "Conflicts that nobody has settled.",
        ("publication",),
        _of_merges(lambda merge: merge.conflicts_open),
    ),
    Metric(
        "rowtide_merge_rows_refused",
        _GAUGE,
        "",
        "Rows of subscribers that were refused, and are tried again.",
        ("publication",),
        _of_merges(lambda merge: sum(one.rows_refused for one in merge.subscriptions)),
    ),
    Metric(
        "rowtide_merge_rows_total",
        _COUNTER,
        "",
        "Rows that synchronisations have exchanged.",
        ("direction", "operation"),
    ),
    Metric(
        "rowtide_merge_sync_duration_seconds",
        _HISTOGRAM,
        "seconds",
        "Durations of synchronisations, also of those that failed.",
        ("publication",),
    ),
    Metric(
        "rowtide_merge_sync_age_seconds",
        _GAUGE,
        "seconds",
        "How long ago a subscriber synchronised; only with --device-series.",
        _SUBSCRIBED,
        _of_devices(lambda one: one.sync_age_s),
        per_device=True,
    ),
    Metric(
        "rowtide_merge_expiry_seconds",
        _GAUGE,
        "seconds",
        "When a subscription expires, from now; only with --device-series.",
        _SUBSCRIBED,
        _of_devices(lambda one: one.expires_in_s),
        per_device=True,
    ),
    Metric(
        "rowtide_tracking_tombstones",
        _GAUGE,
        "",
        "Tombstones of a tracked table.",
        ("table",),
        lambda view: (Sample((one.table,), one.tombstones) for one in view.tracked),
    ),
    Metric(
        "rowtide_tracking_lost",
        _GAUGE,
        "",
        "1 if the tracking of a table is lost.",
        ("table",),
        lambda view: (Sample((one.table,), one.is_lost) for one in view.tracked),
    ),
)
_VALIDATION_FAILED = Metric(
    "rowtide_validation_failed",
    _GAUGE,
    "",
    "1 if the last `rowtide replication validate` found that an article's rows differ at a subscriber, else 0.",
    (*_SUBSCRIBED, "article"),
)
_JOB_FAILED = Metric(
    "rowtide_job_failed", _GAUGE, "", "1 if the last run of a job, or of the command, failed, else 0.", ("job",)
)
_OF_GATEWAYS: tuple[Metric, ...] = (
    Metric(
        "rowtide_gateway_requests_total",
        _COUNTER,
        "",
        "Requests of devices that a gateway has answered, by the status of the answer; the database is the hub.",
        ("step", "status"),
    ),
    Metric(
        "rowtide_gateway_request_duration_seconds",
        _HISTOGRAM,
        "seconds",
        "How long requests of devices took, those that wait for changes aside.",
        ("step",),
    ),
    Metric(
        "rowtide_gateway_rows_total",
        _COUNTER,
        "rows",
        "Rows that devices have uploaded and the hub has written, and rows that were sent down.",
        ("direction",),
    ),
    Metric(
        "rowtide_gateway_refused_tokens_total",
        _COUNTER,
        "",
        "Requests whose token or code was missing or not in force.",
    ),
    Metric("rowtide_gateway_waiting_devices", _GAUGE, "", "Devices that wait for changes, of all hubs together."),
)
_OF_AGENTS = frozenset(
    {
        "rowtide_job_last_success_timestamp_seconds",
        "rowtide_capture_cycle_duration_seconds",
        "rowtide_capture_rows_total",
        "rowtide_capture_errors_total",
        "rowtide_subscription_commands_total",
        "rowtide_subscription_errors_total",
        "rowtide_tracer_seconds",
        "rowtide_merge_sync_duration_seconds",
    }
)
AGENT_METRICS: tuple[Metric, ...] = (
    *(metric for metric in METRICS if metric.name in _OF_AGENTS),
    _JOB_FAILED,
    _VALIDATION_FAILED,
    *_OF_GATEWAYS,
)
"""Metrics of commands themselves, with `--metrics-listen` and `--metrics-file`."""

BUILD_INFO = Metric(
    "rowtide_build_info", _GAUGE, "", "1, with the versions of rowtide and Python.", ("version", "python")
)
"""The metric of the process itself."""
ACTIONS = Metric(
    "rowtide_actions_total",
    _COUNTER,
    "",
    "Actions that this monitor was asked for since it began: done, failed, or refused where one was not begun.",
    ("action", "result"),
)
"""Counted in the process; the audit of a database has all of its actions."""
