"""Random histories of a published schema: rows, schema changes, kills; what each subscriber shows after them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import DEADLINE_S, LoggedDatabase
from builders.commands.command_lines import rowtide_process
from builders.faults.failpoints import (
    DELIVERY_FAILPOINTS,
    JOINING_FAILPOINTS,
    LOG_READER_FAILPOINTS,
    SNAPSHOT_FAILPOINTS,
    STREAM_FAILPOINTS,
)
from builders.faults.killed_programs import KILLED
from builders.faults.server_kills import Servers, kill_server
from builders.replication.published_schemas import PublishedSchema, SmallTables
from builders.replication.published_tables import PublishedTable, SchemaChanges, Session, random_condition
from builders.replication.replicated_databases import PUBLICATION, join_level, list_subscriptions, open_only_agent
from builders.replication.subscriber_looks import COMMITS, At, Looks
from builders.replication.subscriber_users import users_at_work
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.replication.subscription_settings import Constraints, IfExists, SubscriptionSettings, SyncType

_PLACES = (*DELIVERY_FAILPOINTS, *LOG_READER_FAILPOINTS, *SNAPSHOT_FAILPOINTS, *JOINING_FAILPOINTS, *STREAM_FAILPOINTS)
_MOST_STREAMS = 8
_HAS_KEPT_OWN = "own text default 'the subscriber''s'"


@dataclass(frozen=True)
class KilledDatabases:
    """A publisher, its distribution database and its subscribers, on servers that may be killed."""

    servers: Servers
    publisher: LoggedDatabase
    distribution_db: str
    subscribers: Sequence[At]


class ReplicationMachine:
    """A publisher, its subscribers, and what is done to them by chance.

    Every subscriber shows, whenever it is looked at, the tables as one of the publisher's transactions left them, but
    for those that it copies. With `servers` they are killed, too.
    """

    def __init__(
        self,
        publisher: LoggedDatabase,
        subscribers: Sequence[At],
        seed: int,
        *,
        schema: Callable[[random.Random], PublishedSchema] = SmallTables,
        servers: Servers | None = None,
        distribution_db: str | None = None,
    ) -> None:
        self._publisher = publisher
        self._subscribers = subscribers
        self._servers = servers
        self._chosen = random.Random(seed)
        self._schema = schema(self._chosen)
        self._changes = SchemaChanges(self._chosen)
        self._replication = connect(publisher.url).replication
        self._looks = Looks(self._schema.is_comparable)
        self._streams = 1
        self._seed = seed
        self.happened: list[str] = []
        """The steps that were taken."""
        self._publish(distribution_db)

    def _publish(self, distribution_db: str | None) -> None:
        commits = f"create table {COMMITS} (n int primary key)"
        definitions = [commits, *self._schema.definitions()]
        self._publisher.execute(*definitions)
        with self._publisher.transaction() as connection:
            self._schema.begin(connection)
        self._replication.add_publication(PUBLICATION, lake=str(self._publisher.lake), distribution_db=distribution_db)
        self._replication.add_article(PUBLICATION, COMMITS)
        for table in self._tables:
            self._add(table, IfExists.FAIL)
        with self._publisher.transaction() as connection:
            self._looks.note(connection, self._tables)
        for subscriber in self._subscribers:
            if subscriber.keeps:
                _run(subscriber.url, *definitions)
                _run(subscriber.url, *(f"alter table {one.name} add {_HAS_KEPT_OWN}" for one in self._tables))
            self._replication.add_subscription(
                PUBLICATION,
                subscriber.url,
                sync_type=SyncType.AUTOMATIC,
                if_exists=IfExists.KEEP if subscriber.keeps else IfExists.FAIL,
                constraints=Constraints.NOT_FOR_REPLICATION if subscriber.keeps else None,
                settings=SubscriptionSettings(streams=1),
            )

    @classmethod
    def on(
        cls,
        killed: KilledDatabases,
        seed: int,
        schema: Callable[[random.Random], PublishedSchema] = SmallTables,
    ) -> ReplicationMachine:
        """Return one whose servers are killed, too."""
        return cls(
            killed.publisher,
            killed.subscribers,
            seed,
            schema=schema,
            servers=killed.servers,
            distribution_db=killed.distribution_db,
        )

    @property
    def _tables(self) -> list[PublishedTable]:
        return self._schema.tables

    def run(self, steps: int) -> None:
        """Take steps by chance, then deliver everything and compare."""
        with self._told():
            for _ in range(steps):
                self._step()
            self._deliver()

    def run_for(self, seconds: float) -> None:
        """As `run`, for a time."""
        end = time.monotonic() + seconds
        with self._told():
            while time.monotonic() < end:
                self._step()
            self._deliver()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Let a failure say what came before it."""
        try:
            yield
        except BaseException as error:
            error.add_note(f"ROWTIDE_SOAK_SEED={self._seed}: {', '.join(self.happened)}")
            raise

    def _step(self) -> None:
        step = self._chosen.choice(self._steps())
        self.happened.append(step.__name__)
        step()

    def _steps(self) -> list[Callable[[], None]]:
        often = [self._transact] * 6 + [self._alter] * 2
        runs = [self._deliver, self._run_and_kill, self._run_beside_users]
        seldom = [self._end_sessions, self._add_article, self._drop_article, self._copy_again, self._change_streams]
        kills = [] if self._servers is None else [self._run_and_kill_servers] * 3
        return [*often, *runs, *runs[:2], *seldom, *kills]

    def _transact(self) -> None:
        """A transaction of changes, now and then with a schema change in it."""
        with self._publisher.transaction() as connection:
            for _ in range(self._chosen.randint(1, 6)):
                if self._chosen.random() < 0.07:
                    self._change_schema(connection)
                self._schema.change_rows(connection, self._chosen.choice(self._tables))
            self._looks.note(connection, self._tables)

    def _alter(self) -> None:
        with self._publisher.transaction() as connection:
            self._change_schema(connection)
            self._looks.note(connection, self._tables)

    def _change_schema(self, connection: Session) -> None:
        # The server alters no table with checks that wait.
        connection.execute("set constraints all immediate")
        self._changes.make(connection, self._chosen.choice(self._tables))
        connection.execute("set constraints all deferred")

    def _add(self, table: PublishedTable, if_exists: IfExists) -> None:
        columns = None if table.chosen is None else tuple(table.published)
        self._replication.add_article(PUBLICATION, table.name, if_exists=if_exists, columns=columns, where=table.where)

    def _add_article(self) -> None:
        """Publish another table, which has rows, while the others are delivered; some rows and columns, or all."""
        table = self._schema.new_table(f"t{next(self._changes.names)}")
        if table is None:
            return
        with self._publisher.transaction() as connection:
            connection.execute(table.creation().encode())
            for _ in range(4):
                self._schema.change_rows(connection, table)
        if self._chosen.random() < 0.5:
            table.chosen = frozenset({*table.key, *(name for name in table.columns if self._chosen.random() < 0.6)})
        table.condition = random_condition(self._chosen, table)
        self._add(table, IfExists.KEEP)
        self._tables.append(table)
        self._transact()

    def _drop_article(self) -> None:
        leaving = [table for table in self._tables if self._schema.can_leave(table)]
        if len(leaving) > 1:
            dropped = self._chosen.choice(leaving)
            self._tables.remove(dropped)
            dropped.is_whole = False
            self._replication.drop_article(PUBLICATION, dropped.name)

    def _copy_again(self) -> None:
        """Let one subscriber, or all, copy a table again while the others are delivered."""
        table = self._chosen.choice(self._tables)
        subscriber = self._chosen.choice([None, *(one.url for one in self._subscribers)])
        self._replication.reinitialize(PUBLICATION, subscriber, article=table.name)
        table.is_whole = False

    def _change_streams(self) -> None:
        """Let several connections deliver to the PostgreSQL subscribers, or one."""
        self._streams = self._chosen.choice([1, 1, self._chosen.randint(2, _MOST_STREAMS)])
        for subscriber in self._subscribers:
            if not subscriber.is_file:
                self._replication.change_subscription(PUBLICATION, subscriber.url, streams=self._streams)

    def _deliver(self) -> None:
        """Deliver everything; every subscriber then shows what the last transaction left."""
        self._publisher.read_log()
        while self._step_all() or any(one.joins is not None for one in list_subscriptions(self._publisher)):
            self._publisher.read_log()
        for table in self._tables:
            table.is_whole = True
        for subscriber in self._subscribers:
            assert self._look(subscriber) == self._looks.last
        self._looks.forget_earlier()

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
        with TemporaryDirectory() as folder:
            # A log reader that is killed is started again: once over all processes.
            armed = {"ROWTIDE_FAILPOINT": place, "ROWTIDE_FAILPOINT_MARK": f"{folder}/killed"}
            ended = rowtide_process(*DELIVERY, "--once", "--db", self._publisher.url, environment=armed)
        assert ended.code in {0, KILLED}, ended.errors
        self._recover()
        for subscriber in self._subscribers:
            self._look(subscriber)

    def _run_beside_users(self) -> None:
        """Run until everything is delivered, while users of the subscribers hold locks; none of them loses."""
        with users_at_work([one.url for one in self._subscribers if not one.is_file], self._chosen):
            for _ in range(self._chosen.randint(0, 3)):
                self._transact()
            ended = rowtide_process(*DELIVERY, "--once", "--db", self._publisher.url)
        assert ended.code == 0, ended.errors
        for subscriber in self._subscribers:
            assert self._look(subscriber) == self._looks.last

    def _run_and_kill_servers(self) -> None:
        """Run while a whole server, or a second one, is killed and started again at any moment; write meanwhile."""
        assert self._servers is not None
        with self._running() as run:
            for _ in range(self._chosen.randint(1, 2)):
                self._transact()
                self._look_for(self._chosen.choice([0, 0.2, 1, 2]))
                self._kill(self._chosen.choice(self._servers.all))
                self._transact()
            self._wait_delivered(run)

    def _kill(self, server: EmbeddedServer) -> None:
        """Kill a server while a user's transaction is open, which has no effect, and start it again."""
        with closing(psycopg.connect(self._publisher.url)) as lost:
            lost.execute(f"insert into {COMMITS} values (0)".encode())
            kill_server(server)
            time.sleep(self._chosen.choice([0, 0, 0.5]))
            server.restart("immediate")
        self._publisher.session.close()
        self._publisher.session = psycopg.connect(self._publisher.url, autocommit=True)

    @contextmanager
    def _running(self) -> Iterator[CaptureProcess]:
        """Run as a service; what is killed with it left prepared is recovered."""
        with TemporaryDirectory() as folder, CaptureProcess(self._publisher.url, Path(folder), DELIVERY) as run:
            yield run
            if self._chosen.random() < 0.5:
                run.terminate()
            else:
                run.process.send_signal(signal.SIGKILL)
                run.process.wait()
        self._recover()

    def _wait_delivered(self, run: CaptureProcess) -> None:
        deadline = time.monotonic() + DEADLINE_S
        waiting = list(self._subscribers)
        while waiting:
            assert run.process.poll() is None, run.messages()
            assert time.monotonic() < deadline, run.messages()
            waiting = [one for one in waiting if self._look(one) < self._looks.last]
            time.sleep(0.1)

    def _look_for(self, seconds: float) -> None:
        """Look at the subscribers again and again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for subscriber in self._subscribers:
                self._look(subscriber)
            time.sleep(0.02)

    def _look(self, subscriber: At) -> int:
        return self._looks.look(subscriber, is_divided=self._streams > 1)

    def _recover(self) -> None:
        """Complete what streams that were killed left prepared: each batch is whole then."""
        if self._streams > 1:
            for subscriber in self._subscribers:
                if not subscriber.is_file:
                    ended = rowtide_process("replication", "recover", subscriber.url)
                    assert ended.code == 0, ended.errors

    def _end_sessions(self) -> None:
        """An administrator ends all sessions of ours, or there are none: what was open has no effect."""
        self._publisher.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name ~ '^rowtide'"
        )


def _run(url: str, *statements: str) -> None:
    with psycopg.connect(url) as session:
        for sql_text in statements:
            session.execute(sql_text.encode())
