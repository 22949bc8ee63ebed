"""Random histories of a published schema: rows, schema changes, kills; what each subscriber shows after them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from builders.captured_databases import LoggedDatabase
from builders.command_lines import rowtide_process
from builders.failpoints import (
    DELIVERY_FAILPOINTS,
    JOINING_FAILPOINTS,
    LOG_READER_FAILPOINTS,
    SNAPSHOT_FAILPOINTS,
    STREAM_FAILPOINTS,
)
from builders.killed_programs import KILLED
from builders.replicated_databases import PUBLICATION, join_level, list_subscriptions, open_only_agent
from rowtide.handle import connect
from rowtide.replication.sync_types import SyncType

COMMITS = "commits"
"""A published table with a row for each transaction: the largest number tells what a subscriber has."""
KEYS = 12
"""Rows of a table have keys up to this, so that they meet."""
_TYPES = ("int", "bigint", "text", "varchar(20)")
_WIDER = {"int": "bigint", "varchar(20)": "text"}
_DEFINITION = "id int primary key, u int unique deferrable, parent int"
_PLACES = (*DELIVERY_FAILPOINTS, *LOG_READER_FAILPOINTS, *SNAPSHOT_FAILPOINTS, *JOINING_FAILPOINTS, *STREAM_FAILPOINTS)

Rows = Sequence[tuple[Any, ...]]
Session = psycopg.Connection[tuple[Any, ...]]


@dataclass
class PublishedTable:
    """A table as it is now: its name, and its columns beside those of every table.

    `is_whole`: no subscriber is copying it.
    """

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False

    @property
    def query(self) -> str:
        """What shows its rows as texts, on either kind of database."""
        names = ("id", "u", "parent", *self.columns)
        return f"select {', '.join(f'cast({name} as text)' for name in names)} from {self.name} order by {self.name}.id"


@dataclass(frozen=True)
class Shown:
    """A table as a transaction left it: the rows that its query shows."""

    table: PublishedTable
    query: str
    rows: Rows


class ReplicationMachine:
    """A publisher, its subscribers, and what is done to them by chance.

    Every subscriber shows, whenever it is looked at, the tables as one of the publisher's transactions left them, but
    for those that it copies.
    """

    def __init__(self, publisher: LoggedDatabase, subscribers: Sequence[str], seed: int) -> None:
        self._publisher = publisher
        self._subscribers = subscribers
        self._chosen = random.Random(seed)
        self._replication = connect(publisher.url).replication
        self._numbers = count(1)
        self._history: dict[int, Sequence[Shown]] = {}
        self._tables = [PublishedTable("t1"), PublishedTable("t2", {"c1": "int"})]
        self._names = count(3)
        self._last = 0
        self._streams = 1
        publisher.execute(
            f"create table {COMMITS} (n int primary key)",
            *(_creation(table) for table in self._tables),
        )
        self._replication.add_publication(PUBLICATION, lake=str(publisher.lake))
        for name in (COMMITS, *(table.name for table in self._tables)):
            self._replication.add_article(PUBLICATION, name)
        self._transact()
        for url in subscribers:
            self._replication.add_subscription(PUBLICATION, url, sync_type=SyncType.AUTOMATIC)

    def run(self, steps: int) -> None:
        """Take steps by chance, then deliver everything and compare."""
        for _ in range(steps):
            self._chosen.choice(self._steps())()
        self._deliver()

    def _steps(self) -> list[Callable[[], None]]:
        often = [self._transact] * 6 + [self._alter] * 2
        seldom = [self._end_sessions, self._add_article, self._drop_article, self._copy_again, self._change_streams]
        return [*often, self._deliver, self._deliver, self._run_and_kill, self._run_and_kill, *seldom]

    def _transact(self) -> None:
        """A transaction of changes, now and then with a schema change in it."""
        with self._publisher.transaction() as connection:
            for _ in range(self._chosen.randint(1, 6)):
                if self._chosen.random() < 0.07:
                    self._change_schema(connection)
                self._change_rows(connection, self._chosen.choice(self._tables))
            self._commit(connection)

    def _alter(self) -> None:
        with self._publisher.transaction() as connection:
            self._change_schema(connection)
            self._commit(connection)

    def _commit(self, connection: Session) -> None:
        """Number a transaction, and note what it leaves."""
        self._last = next(self._numbers)
        connection.execute(f"insert into {COMMITS} values ({self._last})")
        self._history[self._last] = [
            Shown(table, table.query, connection.execute(table.query).fetchall()) for table in self._tables
        ]

    def _add_article(self) -> None:
        """Publish another table, which has rows, while the others are delivered."""
        table = PublishedTable(f"t{next(self._names)}", {f"c{next(self._names)}": self._chosen.choice(_TYPES)})
        with self._publisher.transaction() as connection:
            connection.execute(_creation(table))
            for _ in range(4):
                self._change_rows(connection, table)
        self._replication.add_article(PUBLICATION, table.name)
        self._tables.append(table)
        self._transact()

    def _drop_article(self) -> None:
        if len(self._tables) > 1:
            dropped = self._tables.pop(self._chosen.randrange(len(self._tables)))
            dropped.is_whole = False
            self._replication.drop_article(PUBLICATION, dropped.name)

    def _copy_again(self) -> None:
        """Let one subscriber, or all, copy a table again while the others are delivered."""
        table = self._chosen.choice(self._tables)
        subscriber = self._chosen.choice([None, *self._subscribers])
        self._replication.reinitialize(PUBLICATION, subscriber, article=table.name)
        table.is_whole = False

    def _change_rows(self, connection: Session, table: PublishedTable) -> None:
        number, other = self._chosen.randint(1, KEYS), self._chosen.randint(1, KEYS)
        names = ["id", "u", "parent", *table.columns]
        values = [str(number), str(100 + self._chosen.randint(1, KEYS)), str(other)]
        values += [self._value(type_text) for type_text in table.columns.values()]
        name, first = table.name, str(1000 * number + 1)
        statements = [
            f"insert into {name} ({', '.join(names)}) select {', '.join(values)} where {_without(name, values)}",
            f"insert into {name} (id) select generate_series(1, 60) + {1000 * number} where {_without(name, [first])}",
            f"update {name} set parent = {other} where id = {number}",
            f"update {name} set u = {2 * 100 + number + other} - u where u in ({100 + number}, {100 + other})",
            f"update {name} set id = {other} where id = {number} and {_without(name, [str(other)])}",
            f"delete from {name} where id = {number}",
            f"delete from {name} where id > {500 + 1000 * other}",
        ]
        statements += [
            f"update {name} set {column} = {self._value(type_text)} where id <= {number}"
            for column, type_text in table.columns.items()
        ]
        if self._chosen.random() < 0.02:
            statements = [f"truncate {name}"]
        connection.execute(self._chosen.choice(statements))

    def _change_schema(self, connection: Session) -> None:
        # The server alters no table with checks that wait.
        connection.execute("set constraints all immediate")
        table = self._chosen.choice(self._tables)
        self._chosen.choice(list(self._schema_changes(table)))(connection)
        connection.execute("set constraints all deferred")

    def _schema_changes(self, table: PublishedTable) -> Iterator[Callable[[Session], None]]:
        def add(connection: Session) -> None:
            name, type_text = f"c{next(self._names)}", self._chosen.choice(_TYPES)
            default = f" default {self._value(type_text, or_null=False)}"
            clause = self._chosen.choice(["", default, f"{default} not null"])
            connection.execute(f"alter table {table.name} add column {name} {type_text}{clause}")
            connection.execute(f"alter table {table.name} alter column {name} drop not null")
            table.columns[name] = type_text

        def drop(connection: Session) -> None:
            name = self._chosen.choice(list(table.columns))
            connection.execute(f"alter table {table.name} drop column {name}")
            del table.columns[name]

        def rename_column(connection: Session) -> None:
            name, new = self._chosen.choice(list(table.columns)), f"c{next(self._names)}"
            connection.execute(f"alter table {table.name} rename column {name} to {new}")
            table.columns = {new if known == name else known: of for known, of in table.columns.items()}

        def widen(connection: Session) -> None:
            name = self._chosen.choice([name for name, of in table.columns.items() if of in _WIDER])
            wider = _WIDER[table.columns[name]]
            connection.execute(f"alter table {table.name} alter column {name} type {wider}")
            table.columns[name] = wider

        def rename(connection: Session) -> None:
            new = f"t{next(self._names)}"
            connection.execute(f"alter table {table.name} rename to {new}")
            table.name = new

        yield from (add, rename)
        if table.columns:
            yield from (drop, rename_column)
        if any(of in _WIDER for of in table.columns.values()):
            yield widen

    def _value(self, type_text: str, *, or_null: bool = True) -> str:
        number = self._chosen.randint(0, 9)
        if or_null and number == 0:
            return "null"
        return (
            f"'text {number} ''{'x' * self._chosen.choice([1, 9])}'"
            if type_text in {"text", "varchar(20)"}
            else str(number)
        )

    def _deliver(self) -> None:
        """Deliver everything; every subscriber then shows what the last transaction left."""
        self._publisher.read_log()
        while self._step_all() or any(one.joins is not None for one in list_subscriptions(self._publisher)):
            self._publisher.read_log()
        for table in self._tables:
            table.is_whole = True
        for url in self._subscribers:
            assert self._look(url) == self._last

    def _change_streams(self) -> None:
        """Let several connections deliver to the PostgreSQL subscribers, or one."""
        self._streams = self._chosen.choice([1, 2, 4])
        for url in self._subscribers:
            if not url.startswith("sqlite"):
                self._replication.change_subscription(PUBLICATION, url, streams=self._streams)

    def _step_all(self) -> bool:
        """Deliver what is read; return whether a copy waits for more to be read."""
        is_any = False
        for subscription in list_subscriptions(self._publisher):
            if subscription.joins is not None:
                join_level(self._publisher, subscription)
                continue
            with open_only_agent(self._publisher, subscription) as agent:
                while agent.step():
                    pass
                is_any |= agent.position is None
        return is_any

    def _run_and_kill(self) -> None:
        """Run until everything is delivered, or until a step at which the process is killed."""
        place = f"{self._chosen.choice(_PLACES)}@{self._chosen.randint(1, 3)}"
        run = ("replication", "run", "--once", "--db", self._publisher.url)
        with TemporaryDirectory() as folder:
            # A log reader that is killed is started again: once over all processes.
            armed = {"ROWTIDE_FAILPOINT": place, "ROWTIDE_FAILPOINT_MARK": f"{folder}/killed"}
            ended = rowtide_process(*run, environment=armed)
        assert ended.code in {0, KILLED}, ended.errors
        for url in self._subscribers:
            # What several streams have prepared is committed one after the other.
            if ended.code == 0 or self._streams == 1 or url.startswith("sqlite"):
                self._look(url)

    def _end_sessions(self) -> None:
        """An administrator ends all sessions of ours, or there are none: what was open has no effect."""
        self._publisher.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ '^rowtide'"
        )

    def _look(self, url: str) -> int:
        """Compare a subscriber with what the transaction left that it has last; return the transaction's number."""
        if url.startswith("sqlite"):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
                file.execute("begin")
                return self._compare(lambda query: file.execute(query).fetchall())
        with psycopg.connect(url) as session:
            session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            return self._compare(lambda query: session.execute(query.encode()).fetchall())

    def _compare(self, read: Callable[[str], Rows]) -> int:
        number: int = read(f"select coalesce(max(n), 0) from {COMMITS}")[0][0]
        for left in self._history.get(number, ()):
            # Rows that are being copied are of several moments.
            if left.table.is_whole:
                shown = read(left.query)
                assert shown == list(left.rows), f"{left.query}: {set(shown) ^ set(left.rows) or (shown, left.rows)}"
        return number


def _without(name: str, values: Sequence[str]) -> str:
    """Return the condition that a table has neither the key nor the unique value of a row."""
    taken = f"id = {values[0]}" + (f" or u = {values[1]}" if len(values) > 1 else "")
    return f"not exists (select from {name} where {taken})"


def _creation(table: PublishedTable) -> str:
    columns = "".join(f", {name} {type_text}" for name, type_text in table.columns.items())
    return f"create table {table.name} ({_DEFINITION}{columns})"
