"""The hops of a change from the server's log to its readers, with the lag of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from rowtide.core.values import frozen
from rowtide.diagnosis import Area, State
from rowtide.monitor.gauge_series import GaugeSeries
from rowtide.monitor.views.capture import CaptureView, LogView, TargetView
from rowtide.monitor.views.states import Judgement, worst_of
from rowtide.monitor.views.subscriptions import MergeView, SubscriptionView, count_states


class HopKind(StrEnum):
    """The kinds of hops, in the order of a change; the last three are parallel.

    Devices get what triggers record in the database, not what is read from the log.
    """

    SERVER_LOG = "server log"
    READER = "log reader"
    LOG_STORE = "log store"
    CAPTURE = "capture"
    LAKE = "lake"
    TARGET = "target"
    SUBSCRIBER = "subscriber"
    DEVICES = "devices"


@frozen
class Hop:
    """A hop: its lag behind the one before it, None where that is unknown or undefined.

    `bytes` is what waits before it; of the server's log and the log store, what they keep. `lag_series` and
    `bytes_series` are what a day's samples of them are kept as. `is_running` is None of hops that are no process.
    """

    kind: HopKind
    name: str
    state: State
    lag_s: float | None = None
    bytes: int | None = None
    lag_series: GaugeSeries | None = None
    bytes_series: GaugeSeries | None = None
    is_running: bool | None = None


def list_hops(
    judgements: Iterable[Judgement],
    log: LogView | None,
    capture: CaptureView | None,
    targets: Iterable[TargetView],
    subscriptions: Iterable[SubscriptionView],
    merges: Iterable[MergeView],
) -> tuple[Hop, ...]:
    """Return the hops of a database."""
    judged = tuple(judgements)
    hops: list[Hop] = []
    if log is not None:
        hops += _of_log(log, judged)
    if capture is not None:
        hops += _of_capture(capture, log, judged)
        hops += _of_targets(targets)
    hops += _of_subscribers(subscriptions)
    hops += _of_devices(merges, judged)
    return tuple(hops)


def _of_log(log: LogView, judged: tuple[Judgement, ...]) -> Iterator[Hop]:
    state = worst_of(one for one in judged if one.area == Area.LOG)
    if log.slot is not None:
        yield Hop(
            HopKind.SERVER_LOG,
            log.slot.name,
            _state_of(judged, "replication slot", state),
            bytes=log.slot.retained_bytes,
            bytes_series=GaugeSeries("rowtide_slot_retained_wal_bytes", (log.slot.name,)),
        )
    yield Hop(
        HopKind.READER,
        "log reader",
        _state_of(judged, "log reader", state),
        log.lag_s,
        log.lag_bytes,
        GaugeSeries("rowtide_log_read_lag_seconds"),
        GaugeSeries("rowtide_log_read_lag_bytes"),
        log.reader is not None,
    )
    yield Hop(
        HopKind.LOG_STORE,
        "log store",
        _state_of(judged, "log store", State.HEALTHY),
        bytes=log.store_bytes,
        bytes_series=GaugeSeries("rowtide_log_store_bytes"),
    )


def _of_capture(capture: CaptureView, log: LogView | None, judged: tuple[Judgement, ...]) -> Iterator[Hop]:
    yield Hop(
        HopKind.CAPTURE,
        "capture",
        _state_of(judged, "capture", State.UNKNOWN),
        capture.lag_s,
        log.unread_bytes if log is not None else None,
        GaugeSeries("rowtide_capture_lag_seconds"),
        GaugeSeries("rowtide_log_store_unread_bytes"),
        capture.captured_by is not None,
    )
    yield Hop(HopKind.LAKE, "lake", _state_of(judged, "lake", State.HEALTHY))


def _of_targets(targets: Iterable[TargetView]) -> Iterator[Hop]:
    """Yield a hop for each target, with the lag of its table that is furthest behind."""
    by_name: dict[str, list[TargetView]] = {}
    for one in targets:
        by_name.setdefault(one.target, []).append(one)
    for name, tables in by_name.items():
        known = [one for one in tables if one.lag_s is not None]
        last = max(known, key=lambda one: one.lag_s or 0.0, default=None)
        yield Hop(
            HopKind.TARGET,
            name,
            State.FAILING if any(one.is_stopped for one in tables) else State.HEALTHY,
            last.lag_s if last is not None else None,
            lag_series=GaugeSeries("rowtide_target_lag_seconds", (name, last.instance)) if last is not None else None,
        )


_FAILED = ("deactivated", "failed")


def _of_subscribers(subscriptions: Iterable[SubscriptionView]) -> Iterator[Hop]:
    for one in subscriptions:
        state = State.FAILING if one.state in _FAILED else State.WARNING
        labels = (one.publication, one.subscriber)
        yield Hop(
            HopKind.SUBSCRIBER,
            f"{one.publication} to {one.subscriber}",
            State.HEALTHY if one.state == "healthy" else state,
            one.waits_s if one.undelivered_commands else one.latency_s,
            one.undelivered_bytes,
            GaugeSeries("rowtide_subscription_latency_seconds", labels),
            GaugeSeries("rowtide_subscription_undelivered_bytes", labels),
            one.delivered_by is not None,
        )


def _of_devices(merges: Iterable[MergeView], judged: tuple[Judgement, ...]) -> Iterator[Hop]:
    for merge in merges:
        ages = [one.sync_age_s for one in merge.subscriptions if one.sync_age_s is not None]
        subject = f"merge subscription {merge.publication}, all subscribers"
        is_healthy = count_states(merge)["healthy"] == len(merge.subscriptions)
        yield Hop(
            HopKind.DEVICES,
            merge.publication,
            _state_of(judged, subject, State.HEALTHY if is_healthy else State.WARNING),
            max(ages, default=None),
            lag_series=GaugeSeries("rowtide_merge_oldest_sync_age_seconds", (merge.publication,)),
        )


def _state_of(judged: tuple[Judgement, ...], subject: str, otherwise: State) -> State:
    return next((one.state for one in judged if one.subject == subject), otherwise)
