"""Transactions of any content, read in small parts while they are delivered, by readers and agents that come and go."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase, is_open
from rowtide.log import reader
from rowtide.log.opening import open_log_reader
from rowtide.replication.distribution.run_context import DeliveryReport, Watchers
from rowtide.replication.subscription_settings import SubscriptionSettings

TABLES = (
    "create table parent (id int primary key, name text)",
    "create table child (id int primary key, parent int references parent, note text)",
)
TRANSACTIONS = 50


def statements(chosen: random.Random, number: int) -> Iterator[str]:
    """Yield a transaction's statements; each leaves both tables with some rows."""
    first = number * 1000
    for place in range(chosen.randint(1, 4)):
        at, count = first + place * 200, chosen.choice((1, 5, 40, 150))
        match chosen.randrange(9):
            case 0 | 1 | 2:
                yield f"insert into parent select i, 'name ' || i from generate_series({at}, {at + count}) i"
            case 3:
                yield (
                    f"insert into parent select i from generate_series({at}, {at + count}) i;"
                    f"insert into child select i, i, 'note' from generate_series({at}, {at + count}) i"
                )
            case 4:
                yield f"update parent set name = 'changed by {at}' where id % 7 = {place}"
            case 5:
                yield f"update child set id = -id, note = 'moved by {at}' where id % 11 = {place}"
            case 6:
                yield f"delete from child where id % 5 = {place}"
            case 7:
                yield "truncate child"
            case _:
                yield f"alter table child add column added_{at} int default {at}"


@dataclass
class Course:
    """A log reader and an agent that go some steps in turn, and are opened again at random; none of them waits."""

    replicated: ReplicatedDatabase
    chosen: random.Random
    held: ExitStack
    reports: list[DeliveryReport] = field(default_factory=list)
    open_at_end: int = 0

    def __post_init__(self) -> None:
        self._reading, self._delivering = (self.held.enter_context(ExitStack()) for _ in range(2))
        self._open_reader()
        self._open_agent()

    def go_on(self) -> None:
        match self.chosen.randrange(20):
            case 0:
                self._reading.close()
                self._open_reader()
            case 1:
                self._delivering.close()
                self._open_agent()
            case turn if turn < 12:
                for _ in range(self.chosen.randint(1, 6)):
                    self._reader.step()
            case _:
                while self._agent.step():
                    pass
        self.open_at_end += is_open(self.replicated.subscriber)

    def _open_reader(self) -> None:
        wait_until(self._is_free, what="the slot is free")
        self._reader = self._reading.enter_context(open_log_reader(self.replicated.publisher.url))

    def _open_agent(self) -> None:
        opened = self.replicated.open_agent(Watchers(on_batch=self.reports.append))
        self._agent = self._delivering.enter_context(opened)

    def _is_free(self) -> bool:
        return not self.replicated.publisher.execute("select slot_name from pg_replication_slots where active")


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 10))])
def test_any_transactions_arrive_whole(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(reader, "MAX_BATCH_MESSAGES", 25)
    replicated.subscriber.execute(*TABLES)
    replicated.publish(*TABLES, parent={}, child={})
    replicated.subscribe(settings=SubscriptionSettings(streams=1 + seed % 2))
    replicated.deliver()
    chosen = random.Random(seed)
    with ExitStack() as held:
        course = Course(replicated, chosen, held)
        for number in range(1, TRANSACTIONS):
            with replicated.writer() as writer:
                for statement in statements(chosen, number):
                    writer.execute(statement.encode())
            for _ in range(chosen.randint(0, 12)):
                course.go_on()
    assert course.open_at_end
    replicated.deliver()
    replicated.require_equal("parent", "child")
    reached = [report.reached for report in course.reports]
    assert reached == sorted(set(reached))
