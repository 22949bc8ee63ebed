"""Rules of cleanup: the low-water mark, and the instances whose low endpoint is below it. Pure.

Rules of SQL Server's cleanup job and of sp_cdc_cleanup_change_table (specification, part 1.6): the retention counts
back from the last captured commit, not from now; only low endpoints below the mark move, all together.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from rowtide.cdc.cleanup.orders import CleanupOrder
from rowtide.cdc.errors.capturing import CleanupImplausible, LowWaterMarkOutOfRange
from rowtide.cdc.errors.consuming import ConsumersBehind
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen

SLACK = timedelta(hours=1)
"""A mark may move by the time since the last cleanup, plus this."""


@frozen
class LowWaterMark:
    """A low-water mark: the first transaction that is kept, and its `tran_end_time`."""

    lsn: CommitLsn
    time: datetime


@frozen
class MarkReference:
    """The origin of a mark: the time of the transaction at the previous mark, and when that was set."""

    time: datetime
    set_at: datetime


def choose(instances: Iterable[RecordedInstance], order: CleanupOrder) -> tuple[RecordedInstance, ...]:
    """Return the enabled instances in an order's scope."""
    enabled = (recorded for recorded in instances if recorded.state == ENABLED)
    wanted = order.capture_instance
    return tuple(found for found in enabled if wanted in (None, found.instance.capture_instance))


def below(instances: Iterable[RecordedInstance], mark: LowWaterMark) -> tuple[RecordedInstance, ...]:
    """Return the instances whose low endpoint is below the mark."""
    return tuple(recorded for recorded in instances if recorded.lsn < mark.lsn)


@frozen
class ConsumerLimit:
    """A consumer for which cleanup waits, and the mark up to which cleanup does not pass it."""

    consumer: str
    mark: LowWaterMark


def find_consumer_limit(
    consumer: str, acknowledged: LowWaterMark | None, limit: LowWaterMark | None
) -> ConsumerLimit | None:
    """Return the furthest mark that a consumer allows: what it acknowledged, and whatever is older than its limit.

    `acknowledged` is the mark of the last transaction that it acknowledged, `limit` that of its limit counted back from
    the last captured commit; None for either if there is no such transaction. Without both nothing is held.
    """
    marks = [mark for mark in (acknowledged, limit) if mark is not None]
    return ConsumerLimit(consumer, max(marks, key=lambda mark: mark.lsn)) if marks else None


def require_acknowledged(mark: LowWaterMark, holds: Iterable[ConsumerLimit]) -> None:
    """Raise `ConsumersBehind` if a mark would pass a consumer."""
    passed = [f"consumer {hold.consumer} holds it at {hold.mark.lsn}" for hold in holds if hold.mark.lsn < mark.lsn]
    if passed:
        raise ConsumersBehind(str(mark.lsn), "; ".join(passed))


def require_in_interval(recorded: RecordedInstance, mark: LowWaterMark) -> None:
    """Raise `LowWaterMarkOutOfRange` if the mark is below the low endpoint; published transactions are never above."""
    if mark.lsn < recorded.lsn:
        raise LowWaterMarkOutOfRange(str(mark.lsn), recorded.instance.capture_instance, str(recorded.lsn))


def require_plausible(mark: LowWaterMark, last: MarkReference, now: datetime) -> None:
    """Raise `CleanupImplausible` if the mark moves by more than the clock did: the source's time has jumped."""
    moved, elapsed = mark.time - last.time, now - last.set_at
    if moved > elapsed + SLACK:
        raise CleanupImplausible(mark.time.isoformat(), last.time.isoformat(), last.set_at.isoformat())
