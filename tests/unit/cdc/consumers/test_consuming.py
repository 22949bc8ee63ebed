"""Where a consumer's next window begins in each of its instances."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import instance as define
from builders.capture.consumers import consumer
from rowtide.cdc.consumers.consumers import ConsumedInstance
from rowtide.cdc.consumers.consuming import find_starts
from rowtide.cdc.errors.jobs import ConsumedInstanceEnded, ConsumerPassed
from rowtide.cdc.published import ENABLED, SUSPENDED, RecordedInstance
from rowtide.core.lsn import CommitLsn


def recorded(name: str, low: int, *, state: str = ENABLED, note: str | None = None) -> dict[str, RecordedInstance]:
    made = define(f"m-{name}", name=name)
    return {name: RecordedInstance(made, state, CommitLsn(low), note)}


def starts(*args: object) -> dict[str, int]:
    return {name: lsn.value for name, lsn in find_starts(*args).items()}  # type: ignore[arg-type]


def test_a_first_window_begins_at_the_low_endpoints() -> None:
    found = recorded("a", 10) | recorded("b", 30, note="the change rows were removed")
    assert starts(consumer("a", "b"), found) == {"a": 10, "b": 30}


def test_a_window_begins_behind_what_was_acknowledged() -> None:
    assert starts(consumer("a", "b", acknowledged=50), recorded("a", 10) | recorded("b", 51)) == {"a": 51, "b": 51}


def test_later_instance_is_read_from_its_low_endpoint() -> None:
    assert starts(consumer("a", "b", acknowledged=50), recorded("a", 10) | recorded("b", 70)) == {"a": 51, "b": 70}


def test_an_instance_that_capture_has_not_met_yet_is_left_out() -> None:
    assert starts(consumer("a", "b", acknowledged=50), recorded("a", 10)) == {"a": 51}


def test_replaced_instance_is_left_out_until_its_first_capture() -> None:
    enabled_again = consumer(instances=(ConsumedInstance("a", "m-new"),))
    assert starts(enabled_again, recorded("a", 10)) == {}


@pytest.mark.parametrize("state", [ENABLED, SUSPENDED])
def test_a_consumer_that_lost_unacknowledged_changes_is_named(state: str) -> None:
    with pytest.raises(ConsumerPassed, match="acknowledged up to LSN 0/32, but a begins at 0/34 now: nothing was"):
        starts(consumer("a", acknowledged=50), recorded("a", 52, state=state, note="nothing was captured"))


def test_low_endpoint_just_above_acknowledged_loses_nothing() -> None:
    assert starts(consumer("a", acknowledged=50), recorded("a", 51, note="removed")) == {"a": 51}


def test_a_consumer_of_a_disabled_instance_is_named() -> None:
    ended = consumer(instances=(ConsumedInstance("a", "m-a", is_enabled=False),))
    with pytest.raises(ConsumedInstanceEnded, match="a of consumer warehouse"):
        starts(ended, recorded("a", 10))
