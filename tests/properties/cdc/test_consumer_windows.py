"""Windows of a consumer chain: every change comes once, whatever fails, begins and is cleaned up in between."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from builders.capture.capture_instances import instance as define
from builders.capture.consumers import NOON, consumer
from rowtide.cdc.cleanup.retention import LowWaterMark, find_consumer_limit
from rowtide.cdc.consumers.consuming import find_starts
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.core.lsn import CommitLsn

NAMES = ("a", "b", "c")


class Windows(RuleBasedStateMachine):
    """Transactions have LSNs 1, 2, ...; each changes some instances; a consumer reads the ones that are enabled."""

    def __init__(self) -> None:
        super().__init__()
        self.recorded: dict[str, RecordedInstance] = {}
        self.changes: list[tuple[str, int]] = []
        self.delivered: list[tuple[str, int]] = []
        self.consumer = consumer(*NAMES)
        self.high = 0

    @initialize()
    def enable_the_first(self) -> None:
        self.enable("a")

    @rule(name=st.sampled_from(NAMES))
    def enable(self, name: str) -> None:
        if name in self.recorded:
            return
        self.high += 1
        made = define(f"m-{name}", name=name)
        self.recorded[name] = RecordedInstance(made, ENABLED, CommitLsn(self.high), None)

    @rule(touched=st.sets(st.sampled_from(NAMES)))
    def commit(self, touched: set[str]) -> None:
        self.high += 1
        self.changes += ((name, self.high) for name in sorted(touched & self.recorded.keys()))

    @rule(is_acknowledged=st.booleans())
    def consume(self, is_acknowledged: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        starts = find_starts(self.consumer, self.recorded)
        if is_acknowledged:
            self.delivered += (
                (name, lsn) for name, lsn in self.changes if name in starts and starts[name].value <= lsn <= self.high
            )
            self.consumer = replace(self.consumer, acknowledged_lsn=CommitLsn(self.high))

    @rule(wanted=st.integers(1, 100))
    def clean_up(self, wanted: int) -> None:
        """Move low endpoints as far as the consumer lets them; before its first window nothing is promised to it."""
        last = self.consumer.acknowledged_lsn
        if last is None or last.value < 1:
            return
        hold = find_consumer_limit("warehouse", LowWaterMark(last, NOON), None)
        assert hold is not None
        mark = min(wanted, self.high, hold.mark.lsn.value)
        for name, found in self.recorded.items():
            if found.lsn.value < mark:
                self.recorded[name] = replace(found, lsn=CommitLsn(mark), note="removed")

    @invariant()
    def nothing_comes_twice_and_nothing_acknowledged_is_missing(self) -> None:
        last = self.consumer.acknowledged_lsn
        acknowledged = [change for change in self.changes if last is not None and change[1] <= last.value]
        assert sorted(self.delivered) == sorted(acknowledged)


TestWindows = Windows.TestCase
