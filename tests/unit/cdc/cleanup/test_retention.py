"""What a cleanup moves, and by how much it may."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from builders.capture.capture_instances import instance
from rowtide.cdc.cleanup.retention import (
    SLACK,
    LowWaterMark,
    MarkReference,
    below,
    choose,
    require_in_interval,
    require_plausible,
)
from rowtide.cdc.errors.capturing import CleanupImplausible, LowWaterMarkOutOfRange
from rowtide.cdc.published import DISABLED, ENABLED, SUSPENDED, RecordedInstance
from rowtide.cdc.requests import CleanupOrder
from rowtide.core.lsn import CommitLsn

NOON = datetime(2026, 10, 25, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def recorded(name: str, low: int, state: str = ENABLED) -> RecordedInstance:
    return RecordedInstance(instance(name, name=name), state, CommitLsn(low), None)


def test_only_low_endpoints_below_the_mark_move() -> None:
    mark = LowWaterMark(CommitLsn(20), NOON)
    instances = [recorded("older", 19), recorded("there", 20), recorded("newer", 21)]
    assert below(instances, mark) == (instances[0],)


def test_order_selects_the_named_or_all_enabled_instances() -> None:
    first, second = recorded("first", 1), recorded("second", 2)
    instances = [first, recorded("off", 1, DISABLED), recorded("gap", 1, SUSPENDED), second]
    assert choose(instances, CleanupOrder()) == (first, second)
    assert choose(instances, CleanupOrder("second")) == (second,)
    assert choose(instances, CleanupOrder("off")) == ()


def test_a_mark_may_stand_at_the_low_endpoint_but_not_below_it() -> None:
    require_in_interval(recorded("first", 20), LowWaterMark(CommitLsn(20), NOON))
    with pytest.raises(LowWaterMarkOutOfRange):
        require_in_interval(recorded("first", 20), LowWaterMark(CommitLsn(19), NOON))


@pytest.mark.parametrize("elapsed", [timedelta(0), timedelta(days=2)])
def test_mark_moves_by_at_most_the_elapsed_time_and_an_hour(elapsed: timedelta) -> None:
    last = MarkReference(time=NOON, set_at=NOON + timedelta(days=3))
    now = last.set_at + elapsed
    require_plausible(LowWaterMark(CommitLsn(1), NOON + elapsed + SLACK), last, now)
    beyond = NOON + elapsed + SLACK + SECOND
    with pytest.raises(CleanupImplausible, match=re.escape(f"from {NOON.isoformat()} to {beyond.isoformat()}")):
        require_plausible(LowWaterMark(CommitLsn(1), beyond), last, now)
