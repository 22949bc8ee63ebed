"""States as pages show them: how bad each is, in which order, and the interval of an instance as a bar. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from rowtide.diagnosis import State
from rowtide.monitor.views import DatabaseView, InstanceView, MonitorState
from rowtide.monitor.web.charts import Bar, draw_bar

MONITOR_ORDER = tuple(MonitorState)

_BY_SEVERITY = {
    State.FAILING: ("deactivated", "failed", "expired", "stopped", "dropped", "error", "performance critical"),
    State.WARNING: (
        *("expiring", "expiring or expired", "retrying", "never_run", "late", "paused", "uninitialized", "not running"),
        *("never_synchronised", "rows_refused", "gaps", "copied"),
    ),
    State.HEALTHY: ("healthy", "running", "readable", "applied", "member", "new"),
    State.UNKNOWN: ("unknown",),
}
_SEVERITIES = {word: state for state, words in _BY_SEVERITY.items() for word in words}


def severity(state: str) -> State:
    """Return how bad a state of a subscription, an instance or a table of a target is."""
    return _SEVERITIES[state]


def state_of_instance(one: InstanceView) -> str:
    """Return what a list says of a capture instance."""
    if one.is_dropped:
        return "dropped"
    if one.copy is not None:
        return "copied"
    if one.interval is None:
        return "unknown"
    return "gaps" if one.gaps or one.interval.missing else "readable"


def draw_interval(view: DatabaseView, one: InstanceView) -> Bar | None:
    """Return the bar of what may be read of an instance, with gaps, consumers, and where cleanup will be."""
    interval = one.interval
    if interval is None:
        return None
    gaps = [(interval.share_of(gap.after), interval.share_of(gap.before), gap.reason) for gap in one.gaps]
    gaps += [
        (share, share, f"transaction {lsn} is missing")
        for lsn in interval.missing
        for share in (interval.share_of(lsn),)
    ]
    return draw_bar(gaps, [*_marks(view, one)], _summarise(one))


def _marks(view: DatabaseView, one: InstanceView) -> Iterator[tuple[float, str]]:
    assert one.interval is not None
    for consumer in view.consumers:
        if consumer.name in one.consumers and consumer.acknowledged_lsn is not None:
            yield one.interval.share_of(consumer.acknowledged_lsn), f"consumer {consumer.name}"
    cleanup = view.capture.cleanup if view.capture is not None else None
    if cleanup is not None and cleanup.retention_s is not None:
        share = one.interval.share_of_time(view.polled_at - timedelta(seconds=cleanup.retention_s))
        # At the begin there is nothing for cleanup to remove.
        if share:
            yield share, "cleanup removes what is before"


def _summarise(one: InstanceView) -> str:
    assert one.interval is not None
    since = (
        f"since {one.interval.low_at:%Y-%m-%d %H:%M} UTC" if one.interval.low_at is not None else "as far as it goes"
    )
    gaps = len(one.gaps) + len(one.interval.missing)
    lacking = f", with {gaps} gaps" if gaps > 1 else ", with a gap" if gaps else ""
    return f"Readable {since}{lacking}"
