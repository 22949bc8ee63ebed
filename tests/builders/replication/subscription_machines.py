"""A publisher with two subscribers, of either kind, whose agents come and go: a state machine's rules."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from builders.capture.captured_databases import LoggedDatabase
from builders.replication.replicated_databases import (
    PUBLICATION,
    let_go,
    list_subscriptions,
    open_only_agent,
    publish_alone,
)
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.replication.running.subscription_agent import SubscriptionAgent

ITEMS = "create table items (id int primary key, n int not null)"
NOTES = "create table notes (id serial primary key)"
SUBSCRIBERS = st.sampled_from(["postgresql", "sqlite"])


class _Killed(Exception):
    """Ends an agent as a kill does."""


class Subscriptions(RuleBasedStateMachine):
    """Whatever an agent lives through, its subscriber gets each change once."""

    server: ClassVar[EmbeddedServer]

    def __init__(self) -> None:
        super().__init__()
        self._held = ExitStack()
        folder = Path(self._held.enter_context(TemporaryDirectory(prefix="rowtide-")))
        publisher, copy, self._other = (self._held.enter_context(fresh_database(self.server)) for _ in range(3))
        session = self._held.enter_context(psycopg.connect(publisher, autocommit=True))
        self._publisher = LoggedDatabase(publisher, folder / "lake", session)
        self._file = folder / "copy.db"
        self._urls = {"postgresql": copy, "sqlite": f"sqlite:///{self._file}"}
        self._replication = connect(publisher).replication
        publish_alone(self._publisher, PUBLICATION, ITEMS)
        publish_alone(self._publisher, "unread", NOTES)
        for url in self._urls.values():
            self._replication.add_subscription(PUBLICATION, url)
        self._agents: dict[str, tuple[SubscriptionAgent, ExitStack]] = {}
        self._numbers = count(1)
        for kind in self._urls:
            self._start(kind)
        self._deliver()

    @rule(rows=st.integers(1, 3))
    def write(self, rows: int) -> None:
        numbers = [next(self._numbers) for _ in range(rows)]
        self._publisher.execute(
            *(f"insert into items values ({number}, 0)" for number in numbers), "update items set n = n + 1"
        )

    @rule()
    def let_time_pass(self) -> None:
        """What is read now is of no concern to any subscriber, and the log store lets go of all that it may."""
        self._publisher.execute("insert into notes default values")
        self._deliver()
        let_go(self._publisher)

    @rule(kind=SUBSCRIBERS, is_killed=st.booleans())
    def restart(self, kind: str, *, is_killed: bool) -> None:
        if kind in self._agents:
            self._stop(kind, is_killed=is_killed)
            self._start(kind)
            self._deliver()

    @precondition(lambda self: self._agents)
    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(sorted(self._agents)))
        self._stop(kind, is_killed=False)
        self._replication.pause(PUBLICATION, self._urls[kind])

    @precondition(lambda self: len(self._agents) < len(self._urls))
    @rule()
    def resume(self) -> None:
        for kind in self._urls.keys() - self._agents.keys():
            self._replication.resume(PUBLICATION, self._urls[kind])
            self._start(kind)
        self._deliver()

    @rule()
    def copy_to_another(self) -> None:
        """A subscription of a third database, with a snapshot of its own, from its beginning to its end."""
        self._replication.add_subscription(PUBLICATION, self._other)
        subscription = next(found for found in list_subscriptions(self._publisher) if found.subscriber == self._other)
        with open_only_agent(self._publisher, subscription) as agent:
            self._deliver(agent)
        assert self._read(self._other) == self._rows()
        self._replication.drop_subscription(PUBLICATION, self._other)
        with psycopg.connect(self._other) as session:
            session.execute("drop table items")

    def teardown(self) -> None:
        try:
            self.resume()
        finally:
            for kind in list(self._agents):
                self._stop(kind, is_killed=False)
            self._held.close()

    def _start(self, kind: str) -> None:
        stack = ExitStack()
        (subscription,) = (
            found for found in list_subscriptions(self._publisher) if found.subscriber == self._urls[kind]
        )
        self._agents[kind] = stack.enter_context(open_only_agent(self._publisher, subscription)), stack

    def _stop(self, kind: str, *, is_killed: bool) -> None:
        """A killed process reports nothing more; its session is gone."""
        _, stack = self._agents.pop(kind)
        if is_killed:
            with suppress(_Killed):
                stack.__exit__(_Killed, _Killed(), None)
        else:
            stack.close()

    def _deliver(self, *others: SubscriptionAgent) -> None:
        """Bring what is committed to those whose agents run, and compare."""
        self._publisher.read_log()
        for agent in [*(agent for agent, _ in self._agents.values()), *others]:
            # A copy ends behind what is read by then.
            while agent.step() or agent.position is None:
                self._publisher.read_log()
        for kind in self._agents:
            assert self._read(self._urls[kind]) == self._rows()

    def _rows(self) -> Sequence[tuple[object, ...]]:
        return self._publisher.execute("select id, n from items order by id")

    def _read(self, url: str) -> Sequence[tuple[object, ...]]:
        query = "select id, n from items order by id"
        if url == self._urls["sqlite"]:
            with closing(sqlite3.connect(self._file)) as file:
                return file.execute(query).fetchall()
        with psycopg.connect(url) as session:
            return session.execute(query).fetchall()
