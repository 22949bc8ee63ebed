"""Windows of named consumers: where a consumer's next one begins in each of its instances. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.cdc.consumers.consumers import Consumer
from rowtide.cdc.errors.consuming import ConsumedInstanceEnded, ConsumerPassed
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.core.lsn import CommitLsn


def find_starts(consumer: Consumer, recorded: Mapping[str, RecordedInstance]) -> dict[str, CommitLsn]:
    """Return the first LSN of the next window, by the instances that capture has read.

    It is after the acknowledged LSN; for an instance that began later, its low endpoint; before the first
    acknowledgement, the low endpoint of each. Raises `ConsumerPassed`, `ConsumedInstanceEnded`.
    """
    starts = {}
    for consumed in consumer.instances:
        if not consumed.is_enabled:
            raise ConsumedInstanceEnded(consumer.name, consumed.name)
        found = recorded.get(consumed.name)
        if found is not None and found.instance.member_id == consumed.member_id:
            starts[consumed.name] = _find_start(consumer, found)
    return starts


def _find_start(consumer: Consumer, recorded: RecordedInstance) -> CommitLsn:
    """Return an instance's first LSN; a higher low endpoint was moved there by a cleanup or a gap."""
    if consumer.acknowledged_lsn is None:
        return recorded.lsn
    start = consumer.acknowledged_lsn.increment()
    is_whole = recorded.state == ENABLED and (recorded.lsn <= start or recorded.note is None)
    if not is_whole:
        raise ConsumerPassed(
            consumer=consumer.name,
            acknowledged=str(consumer.acknowledged_lsn),
            instance=recorded.instance.capture_instance,
            low=str(recorded.lsn),
            before=str(recorded.lsn.decrement()),
            reason=recorded.note or "capture has yet to go on behind a gap",
        )
    return max(start, recorded.lsn)
