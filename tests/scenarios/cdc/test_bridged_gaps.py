"""Targets, consumers and followers continue over reconciled gaps: nothing begins again or counts twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.capture.following import FakeReceiver, follow, following, receiving
from builders.commands.command_lines import rowtide
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.targets import TargetFormat

TABLES = ("orders", "items", "lean")
INSTANCES = tuple(f"public_{table}" for table in TABLES)
Rows = dict[int, str | None]


@dataclass
class Replica:
    """Tables kept by changes alone; a change that does not fit the rows that are there fails."""

    tables: dict[str, Rows]

    def insert(self, instance: str, row: Mapping[str, Any]) -> None:
        assert row["id"] not in self.tables[instance], (instance, row)
        self.tables[instance][row["id"]] = row["name"]

    def update(self, instance: str, row: Mapping[str, Any]) -> None:
        assert row["id"] in self.tables[instance], (instance, row)
        self.tables[instance][row["id"]] = row["name"]

    def delete(self, instance: str, row: Mapping[str, Any]) -> None:
        del self.tables[instance][row["id"]]

    def replay(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Apply events of `cdc follow`."""
        for event in events:
            apply = {"insert": self.insert, "update": self.update, "delete": self.delete}[event["operation"]]
            apply(event["instance"], event["after"] or event["before"])


@dataclass
class BridgedDatabase:
    """A captured database with whatever follows it, and what its tables had at published LSNs."""

    captured: CapturedDatabase
    applied: AppliedTargets
    windows: Replica = field(init=False)
    events: Replica = field(init=False)
    posted: Replica = field(init=False)
    known: dict[CommitLsn, dict[str, Rows]] = field(default_factory=dict)
    identities: set[str] = field(default_factory=set)
    _replayed: int = 0

    def __post_init__(self) -> None:
        self.windows, self.events, self.posted = (Replica(self.source()) for _ in range(3))

    def source(self) -> dict[str, Rows]:
        """Return the rows of the source's tables."""
        return {f"public_{table}": dict(self.captured.execute(f"select id, name from {table}")) for table in TABLES}

    def note(self) -> None:
        """Capture everything, and note what the tables have at that LSN."""
        self.captured.capture()
        lsn = self.captured.cdc.get_max_lsn()
        assert lsn is not None
        self.known[lsn] = self.source()

    def consume(self) -> None:
        """Apply the next window of consumer `windows`."""
        with self.captured.cdc.consume("windows") as window:
            for instance in window.instances:
                for row in window.stream_changes(instance, net=True).to_arrow().read_all().to_pylist():
                    apply = {1: self.windows.delete, 2: self.windows.insert, 4: self.windows.update}
                    apply[row["__$operation"]](instance, row)

    def follow(self) -> None:
        """Apply what `cdc follow` prints for consumer `events`."""
        found = follow(self.captured, "--consumer", "events")
        self.events.replay(found)
        identities = {event["id"] for event in found}
        assert len(identities) == len(found)
        assert not identities & self.identities
        self.identities |= identities

    def await_posted(self, receiver: FakeReceiver) -> None:
        """Wait until the follower that runs has posted everything."""
        source = self.source()

        def is_all_posted() -> bool:
            events = [event for request in [*receiver.received] for event in request.events]
            self.posted.replay(events[self._replayed :])
            self._replayed = len(events)
            return self.posted.tables == source

        wait_until(is_all_posted, what="all events are posted")
        assert len(set(receiver.ids)) == len(receiver.ids)

    def all_follow(self, receiver: FakeReceiver) -> None:
        """Let everybody come up to the source, and compare."""
        self.note()
        self.applied.follow()
        self.consume()
        self.follow()
        self.await_posted(receiver)
        self.require_equal()

    def require_equal(self) -> None:
        """Compare targets and replicas with the source, and slices with what it had at each noted LSN."""
        source = self.source()
        assert self.applied.notes() == dict.fromkeys(INSTANCES)
        assert (self.windows.tables, self.events.tables) == (source, source)
        for instance in INSTANCES:
            assert dict(self.applied.rows("now", instance, "id", "name")) == source[instance]
            slices = self.applied.targets.read("past", instance, spark=self.captured.spark).collect()
            for lsn, tables in self.known.items():
                valid = [
                    (row["id"], row["name"])
                    for row in slices
                    if row["valid_from_lsn"] <= lsn.value
                    and (row["valid_to_lsn"] is None or row["valid_to_lsn"] > lsn.value)
                ]
                assert dict(valid) == tables[instance], (instance, lsn)
                assert len(valid) == len(tables[instance])


@pytest.fixture
def bridged(captured: CapturedDatabase) -> BridgedDatabase:
    """Three tables with rows are captured; of `lean` the log has the key's before images alone."""
    for table in TABLES:
        captured.execute(
            f"create table {table} (id int primary key, name text)",
            f"insert into {table} select n, 'old ' || n from generate_series(1, 40) n",
        )
    captured.enable("orders", "items", snapshot=True)
    captured.cdc.enable_table("lean", before_images=BeforeImages.KEY, snapshot=True)
    for consumer in ("windows", "events"):
        captured.cdc.add_consumer(consumer, INSTANCES)
    captured.copy_tables()
    return BridgedDatabase(captured, AppliedTargets(captured))


def change(number: int) -> Iterator[str]:
    """Yield statements that insert, update, delete and give other keys; numbers differ."""
    for table in TABLES:
        yield f"insert into {table} select {number}000 + n, 'new ' || n from generate_series(1, 5) n"
        yield f"update {table} set name = 'changed {number}' where id % 10 = {number}"
        yield f"delete from {table} where id = 20 + {number}"
        yield f"update {table} set id = id + 100 where id = 30 + {number}"


@contextmanager
def lost_slot(captured: CapturedDatabase) -> Iterator[None]:
    """Drop the slot, let the block change rows, and bridge the gap."""
    captured.drop_slot()
    yield
    ended = rowtide("cdc", "reinitialize", "--difference", "--yes", "--db", captured.url)
    assert ended.code == 0, ended.errors


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", TargetFormat)
def test_those_that_follow_go_on_over_a_bridged_gap(bridged: BridgedDatabase, form: TargetFormat) -> None:
    captured, applied = bridged.captured, bridged.applied
    for name, kind in (("now", "current"), ("past", "history")):
        applied.add(name, *INSTANCES, kind=kind, format=form)
    bridged.note()
    applied.follow()
    with receiving(FakeReceiver()) as receiver, following(captured, *INSTANCES, "--from", "0", "--post", receiver.url):
        captured.execute(*change(1))
        bridged.all_follow(receiver)
        before = applied.targets.read_position("past")
        low = [captured.cdc.get_validity_interval(instance).low for instance in INSTANCES]

        # A gap where everybody has what is published.
        with lost_slot(captured):
            captured.execute(*change(2), "truncate items", "insert into items values (3, 'again'), (50, null)")
        bridged.note()
        captured.execute(*change(3))
        bridged.all_follow(receiver)

        # A gap where nobody has what was read before it: one window is over both of its sides.
        captured.execute(*change(4))
        bridged.note()
        captured.execute("update orders set name = 'read, and not captured' where id = 5")
        captured.read_log()
        with lost_slot(captured):
            captured.execute(*change(5), "update orders set name = null where id = 5")
        captured.execute(*change(6))
        bridged.all_follow(receiver)

    assert [captured.cdc.get_validity_interval(instance).low for instance in INSTANCES] == low
    after = applied.targets.read_position("past")
    assert {name: table.snapshot for name, table in after.tables.items()} == {
        name: table.snapshot for name, table in before.tables.items()
    }
    assert captured.manifest().state.epoch == 2
