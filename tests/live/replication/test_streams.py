"""Batches over several connections: committed by all or none, in log order where calls depend on each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.replication.articles import commands
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.distribution.run_context import SkippedCommand, Watchers
from rowtide.replication.distributor.subscription_records import list_subscribed
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused, RowNotFound
from rowtide.replication.errors.subscribing import PreparedTransactionsLacking, StreamsUnsupported
from rowtide.replication.subscription_settings import SubscriptionSettings
from rowtide.replication.targets.postgres.delivery.streams.several_connections import open_delivery

ACCOUNTS = "create table accounts (id int primary key, balance int not null)"
FILLED = "insert into accounts select i, 0 from generate_series(1, 300) i"
PREPARED = "select count(*) from pg_prepared_xacts where database = current_database()"


def begin(
    replicated: ReplicatedDatabase, *tables: str, streams: int = 2, at_subscriber: tuple[str, ...] = (), **options: Any
) -> None:
    """Make tables on both sides, publish them, each with the options given for it, and subscribe in streams."""
    names = [sql.split()[2] for sql in tables if sql.startswith("create table")]
    replicated.subscriber.execute(*tables, *at_subscriber)
    replicated.publish(*tables, **{name: options.get(name, {}) for name in names})
    replicated.subscribe(streams=streams)


def count_divided(subscriber: Subscriber) -> int:
    """Return the number of the last batch that was committed in streams; 0 before the first."""
    ((decided,),) = subscriber.execute('select decided from rowtide_subscriber."MSreplication_subscriptions"')
    return 0 if decided is None else int(decided.rsplit(":", 1)[1])


@contextmanager
def delivering(replicated: ReplicatedDatabase) -> Iterator[None]:
    """Deliver what is committed in a thread, until the block ends."""
    failures: list[BaseException] = []

    def deliver() -> None:
        try:
            replicated.deliver()
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=deliver)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
    assert not thread.is_alive()
    assert not failures


@pytest.mark.parametrize("streams", [2, 4])
def test_a_batch_in_streams_reaches_what_the_publisher_has(replicated: ReplicatedDatabase, streams: int) -> None:
    begin(replicated, ACCOUNTS, streams=streams)
    replicated.publisher.execute(FILLED)
    replicated.deliver()
    first = count_divided(replicated.subscriber)
    replicated.publisher.execute(
        "update accounts set balance = id",
        "delete from accounts where id % 7 = 0",
        "update accounts set id = id + 1000 where id % 5 = 0",
        "update accounts set balance = balance + 1",
    )
    replicated.deliver()

    assert (first, count_divided(replicated.subscriber)) == (1, 2)
    replicated.require_equal("accounts")
    assert replicated.subscriber.execute(PREPARED) == [(0,)]


@pytest.mark.parametrize(
    ("then", "last_divided"),
    [
        pytest.param("select 1", 2, id="rows"),
        pytest.param("update accounts set id = id + 1000 where id % 5 = 0", 2, id="keys", marks=pytest.mark.exhaustive),
        pytest.param("truncate accounts", 1, id="truncate", marks=pytest.mark.exhaustive),
        pytest.param(
            "insert into accounts select i, 1 from generate_series(2000, 4000) i",
            2,
            id="inserts",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_batch_is_sent_in_streams_while_it_is_read(
    replicated: ReplicatedDatabase, then: str, last_divided: int
) -> None:
    begin(replicated, ACCOUNTS, streams=4)
    divided = []
    with replicated.open_agent() as agent:
        # For the first batch the streams are opened; the second one finds them open.
        for statements in ((FILLED, "update accounts set balance = 1"), ("update accounts set balance = 2", then)):
            replicated.publisher.execute(*statements)
            replicated.publisher.read_log()
            while agent.step():
                pass
            divided.append(count_divided(replicated.subscriber))

    assert divided == [1, last_divided]
    replicated.require_equal("accounts")
    assert replicated.subscriber.execute(PREPARED) == [(0,)]


@pytest.mark.exhaustive
def test_a_batch_that_is_refused_while_it_is_sent_is_undone(replicated: ReplicatedDatabase) -> None:
    begin(replicated, ACCOUNTS)
    replicated.publisher.execute(FILLED)
    replicated.publisher.read_log()
    with replicated.open_agent() as agent:
        while agent.step():
            pass
        replicated.subscriber.execute("delete from accounts where id = 77")
        replicated.publisher.execute("update accounts set balance = 1")
        replicated.publisher.read_log()
        with pytest.raises(RowNotFound, match="id = 77"):
            agent.step()
    replicated.subscriber.execute("insert into accounts values (77, 0)")
    left = replicated.subscriber.execute("select distinct balance from accounts where id > 200")
    replicated.deliver()

    assert left == [(0,)]
    replicated.require_equal("accounts")
    assert replicated.subscriber.execute(PREPARED) == [(0,)]


@pytest.mark.exhaustive
def test_unique_values_move_between_rows_in_streams(replicated: ReplicatedDatabase) -> None:
    table = "create table accounts (id int primary key, code text unique)"
    begin(replicated, table, accounts={"commands": commands(update="XCALL", delete="XCALL")})
    replicated.publisher.execute(
        "insert into accounts select i, 'c' || i from generate_series(1, 100) i",
        "update accounts set code = 'x' where id = 1",
        "update accounts set code = 'c1' where id = 2",
        "update accounts set code = 'c2' where id = 3",
        "delete from accounts where id = 50",
        "insert into accounts values (200, 'c50')",
    )
    replicated.deliver()

    assert count_divided(replicated.subscriber) == 1
    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_equal_values_of_other_texts_are_found_by_their_locks(replicated: ReplicatedDatabase) -> None:
    # 1.0 and 1.00 are one value of a unique index, and two texts.
    table = "create table accounts (id int primary key, code numeric unique)"
    begin(replicated, table, accounts={"commands": commands(update="XCALL", delete="XCALL")})
    replicated.publisher.execute("insert into accounts select i, i from generate_series(1, 200) i")
    replicated.deliver()
    replicated.publisher.execute(
        # An odd number, so that each value is freed in one stream and brought in the other.
        "delete from accounts where id <= 151",
        "insert into accounts select i + 1000, i + 0.00 from generate_series(1, 151) i",
    )
    replicated.deliver()

    assert count_divided(replicated.subscriber) == 1
    replicated.require_equal("accounts")
    assert replicated.subscriber.execute(PREPARED) == [(0,)]


@pytest.mark.exhaustive
def test_rows_that_refer_to_each_other_in_circles_arrive(replicated: ReplicatedDatabase) -> None:
    begin(
        replicated,
        "create table lovers (id int primary key, loves int)",
        "create table loved (id int primary key, loves int)",
        at_subscriber=(
            "alter table lovers add foreign key (loves) references loved deferrable initially deferred",
            "alter table loved add foreign key (loves) references lovers deferrable initially deferred",
        ),
    )
    with replicated.writer() as writer:
        writer.execute("insert into lovers select i, i from generate_series(1, 100) i")
        writer.execute("insert into loved select i, i from generate_series(1, 100) i")
    replicated.publisher.execute("insert into lovers select i, i % 100 + 1 from generate_series(101, 300) i")
    replicated.deliver()
    with replicated.writer() as writer:
        writer.execute("delete from lovers where id > 100")
        writer.execute("update lovers set loves = null")
        writer.execute("delete from loved where id < 50")
    replicated.deliver()

    assert count_divided(replicated.subscriber) > 0
    replicated.require_equal("lovers", "loved")


@pytest.mark.exhaustive
def test_rows_without_key_are_each_inserted_once(replicated: ReplicatedDatabase) -> None:
    table = "create table history (at int, note text)"
    begin(replicated, table, history={"commands": commands(update="NONE", delete="NONE")})
    replicated.publisher.execute("insert into history select i % 3, 'same' from generate_series(1, 300) i")
    replicated.deliver()

    assert count_divided(replicated.subscriber) == 1
    replicated.require_equal("history")


@pytest.mark.exhaustive
def test_a_constraint_that_fails_in_one_stream_undoes_all(replicated: ReplicatedDatabase) -> None:
    at_subscriber = (
        "create table known (id int primary key)",
        "insert into known select i from generate_series(1, 300) i where i <> 77",
        "alter table accounts add foreign key (id) references known deferrable initially deferred",
    )
    begin(replicated, ACCOUNTS, at_subscriber=at_subscriber)
    replicated.publisher.execute(FILLED)
    with pytest.raises(BatchRefused, match="refused to commit a batch .23503."):
        replicated.deliver()
    left = replicated.subscriber.execute("select count(*) from accounts"), replicated.subscriber.execute(PREPARED)
    replicated.subscriber.execute("insert into known values (77)")
    replicated.deliver()

    assert left == ([(0,)], [(0,)])
    assert count_divided(replicated.subscriber) == 1
    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_errors_are_skipped_only_on_one_connection(replicated: ReplicatedDatabase) -> None:
    begin(replicated, ACCOUNTS)
    replicated.publisher.execute(FILLED)
    replicated.deliver()
    replicated.subscriber.execute("delete from accounts where id = 77")
    replicated.publisher.execute("update accounts set balance = 1")
    skipped: list[SkippedCommand] = []
    watchers = Watchers(on_skipped=skipped.append)
    replicated.replication.run(once=True, watchers=watchers, skip_errors="20598")

    assert ["id = 77" in str(command.error) for command in skipped] == [True]
    assert replicated.subscriber.execute("select count(*), sum(balance) from accounts") == [(299, 299)]
    # The second batch, which was sent over one connection in the end, is no longer in streams.
    assert count_divided(replicated.subscriber) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "at_subscriber"),
    [
        ({"accounts": {"commands": commands("SQL", "SQL", "SQL")}}, ()),
        (
            {},
            (
                "create function seen() returns trigger language plpgsql as 'begin return new; end'",
                "create trigger seen before insert on accounts for each row execute function seen()",
                "alter table accounts enable always trigger seen",
            ),
        ),
    ],
    ids=["statements", "trigger"],
)
def test_what_runs_other_code_is_never_divided(
    replicated: ReplicatedDatabase, options: dict[str, Any], at_subscriber: tuple[str, ...]
) -> None:
    begin(replicated, ACCOUNTS, at_subscriber=at_subscriber, **options)
    replicated.publisher.execute(FILLED)
    replicated.deliver()

    assert count_divided(replicated.subscriber) == 0
    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_schema_changes_and_truncates_come_between_streams(replicated: ReplicatedDatabase) -> None:
    begin(replicated, ACCOUNTS)
    replicated.publisher.execute(FILLED, "alter table accounts add note text", "update accounts set note = 'n' || id")
    replicated.deliver()
    before = count_divided(replicated.subscriber)
    replicated.publisher.execute("truncate accounts", "insert into accounts select i, 1 from generate_series(1, 300) i")
    replicated.deliver()

    assert before > 1
    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_a_deadlock_with_a_program_costs_our_attempt_only(replicated: ReplicatedDatabase) -> None:
    begin(replicated, ACCOUNTS)
    replicated.publisher.execute(FILLED)
    replicated.deliver()
    replicated.publisher.execute("update accounts set balance = 1")
    with psycopg.connect(replicated.subscriber.url) as program:
        program.execute("update accounts set balance = balance + 0 where id = 299")
        with delivering(replicated):
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
            wait_until(
                lambda: replicated.subscriber.execute(waiting) != [(0,)],
                what="a stream that waits for the program",
            )
            # It has this row: one of the two has to go.
            program.execute("update accounts set balance = balance + 0 where id in (1, 2)")
            program.commit()

    replicated.require_equal("accounts")


@pytest.mark.exhaustive
def test_a_batch_of_replaced_streams_is_refused(replicated: ReplicatedDatabase) -> None:
    begin(replicated, ACCOUNTS)
    replicated.publisher.execute(FILLED)
    replicated.publisher.read_log()
    (subscription,) = list_subscriptions(replicated.publisher)
    with replicated.open_agent() as agent:
        agent.step()
        with open_engine(replicated.publisher.url).connect() as connection:
            articles = list_subscribed(connection, subscription.agent_id)
        open_delivery(subscription, articles).close()
        with pytest.raises(AgentReplaced):
            agent.step()
    replicated.deliver()

    replicated.require_equal("accounts")
    assert replicated.subscriber.execute(PREPARED) == [(0,)]


@pytest.mark.exhaustive
def test_more_streams_than_the_server_prepares_are_refused(replicated: ReplicatedDatabase) -> None:
    begin(replicated, ACCOUNTS)
    place = ("shop", "--subscriber", replicated.subscriber.url, "--db", replicated.publisher.url)
    refused = rowtide("replication", "change-subscription", *place, "--streams", "9")

    assert "RT-7212: 9 streams need 9 prepared transactions" in refused.errors
    assert "alter system set max_prepared_transactions = 9" in refused.errors
    assert list_subscriptions(replicated.publisher)[0].settings.streams == 2
    recorded = 'select streams from rowtide_subscriber."MSreplication_subscriptions"'
    replicated.deliver()
    assert replicated.subscriber.execute(recorded) == [(2,)]
    with pytest.raises(PreparedTransactionsLacking):
        replicated.replication.run(once=True, streams=9)


def test_a_file_has_one_stream(replicated_file: ReplicatedFile) -> None:
    replicated_file.subscriber.execute(ACCOUNTS)
    replicated_file.publish(ACCOUNTS, accounts={})
    with pytest.raises(StreamsUnsupported):
        replicated_file.subscribe(settings=SubscriptionSettings(streams=2))
    replicated_file.subscribe()
    with pytest.raises(StreamsUnsupported, match="over one connection, not 2"):
        replicated_file.replication.run(once=True, streams=2)
