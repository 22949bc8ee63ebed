"""SQLite files as subscribers: what they are refused for, agents that take turns, locks, restored files."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from builders.commands.command_lines import rowtide_process
from builders.faults.failpoints import SQLITE_DELIVERY_FAILPOINTS
from builders.replication.articles import commands
from builders.replication.replicated_databases import ReplicatedDatabase, open_only_agent
from builders.replication.replicated_files import ReplicatedFile, declare
from rowtide.core.errors import Remedy
from rowtide.core.lsn import Position
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.sqlite.errors import FileBusy, FileNotOpened
from rowtide.databases.urls import DatabaseKindUnknown, UrlNotRead
from rowtide.replication.distribution.agent import DistributionAgent
from rowtide.replication.distribution.run_context import Trouble, Watchers
from rowtide.replication.distributor.subscription_records import Subscription, list_subscriptions
from rowtide.replication.errors.delivery import AgentReplaced
from rowtide.replication.errors.subscribing import (
    ArticleTableMissing,
    ColumnAlters,
    NameShared,
    ProceduresUnsupported,
    SubscriberFileFailed,
    SubscriberFileReplaced,
    SubscriberNotCleared,
    SubscriberUnprepared,
    SubscriberWithoutFile,
    SubscriptionExists,
    SubscriptionUnknown,
)
from rowtide.replication.subscription_settings import SyncType
from rowtide.replication.targets.sqlite.delivery import SqliteDelivery

ORDERS = "create table orders (id int primary key, qty int)"
SCHEMA = "select type, name, sql from sqlite_schema order by name"
WRITE_VERSION = 18
"""Where the file says which programs may write to it; see https://www.sqlite.org/fileformat.html."""


def subscription_of(replicated_file: ReplicatedFile) -> Subscription:
    with open_engine(replicated_file.publisher.url).connect() as connection:
        return list_subscriptions(connection)[-1]


@contextmanager
def opened(replicated_file: ReplicatedFile, **options: Any) -> Iterator[SqliteDelivery]:
    """Take hold of the file as an agent does."""
    with closing(SqliteDelivery.open(subscription_of(replicated_file), **options)) as delivery:
        yield delivery


@contextmanager
def agent_of(replicated_file: ReplicatedFile) -> Iterator[DistributionAgent]:
    with open_only_agent(replicated_file.publisher) as agent:
        agent.step()
        assert agent._distribution is not None
        yield agent._distribution


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        ("create table others (id integer)", "id, qty"),
        ("create table orders (id integer primary key)", "qty"),
        ("create table orders (id integer primary key, qty integer as (id + 1))", "qty"),
        ("create view orders as select 1 as id, 1 as qty", "id, qty"),
    ],
)
def test_a_file_without_a_published_table_or_column_is_refused(
    replicated_file: ReplicatedFile, made: str, missing: str
) -> None:
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscriber.execute(made)
    before = replicated_file.subscriber.execute(SCHEMA)

    with pytest.raises(ArticleTableMissing, match=f"no table public.orders .* columns: {missing}"):
        replicated_file.subscribe()
    assert replicated_file.subscriber.execute(SCHEMA) == before
    assert replicated_file.replication.status() == ()


def test_tables_and_columns_are_found_in_whatever_case(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(
        ORDERS, at_file=["create table Orders (ID integer primary key, note text, Qty integer)"], orders={}
    )
    replicated_file.publisher.execute("insert into orders values (1, 1)", "update orders set qty = 2")
    replicated_file.deliver()

    assert replicated_file.subscriber.execute("select id, qty from orders") == [(1, 2)]


def test_column_that_alters_values_is_refused_with_a_declaration(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish("create table prices (id int primary key, price numeric(10, 2))", prices={})
    replicated_file.subscriber.execute("create table prices (id integer primary key, price decimal(10, 2))")

    with pytest.raises(ColumnAlters) as raised:
        replicated_file.subscribe()
    assert str(raised.value) == (
        "RT-7144: column price of public.prices is declared decimal(10, 2) at the subscriber, "
        "which would change numeric(10,2) values. Declare it text, or exclude it from the article with --columns."
    )


@pytest.mark.parametrize(
    ("definitions", "articles", "name", "others"),
    [
        (
            (
                "create schema sales",
                "create table sales.orders (id int primary key)",
                "create table orders (id int primary key)",
            ),
            ("public.orders", "sales.orders"),
            "orders",
            "public.orders and sales.orders",
        ),
        (
            ('create table "Orders" (id int primary key)', "create table orders (id int primary key)"),
            ('"Orders"', "orders"),
            "orders",
            "public.Orders and public.orders",
        ),
        (
            ('create table orders (id int primary key, "ID" int)',),
            ("orders",),
            "ID",
            "public.orders.id and public.orders.ID",
        ),
        (
            ("create table msreplication_objects (id int primary key)",),
            ("msreplication_objects",),
            "msreplication_objects",
            "rowtide's own MSreplication_objects and public.msreplication_objects",
        ),
    ],
)
def test_published_names_that_coincide_in_the_file_are_refused(
    replicated_file: ReplicatedFile, definitions: tuple[str, ...], articles: tuple[str, ...], name: str, others: str
) -> None:
    options: dict[str, Any] = {article: {} for article in articles}
    replicated_file.publish(*definitions, **options)
    replicated_file.subscriber.execute("create table orders (id integer primary key)")

    with pytest.raises(NameShared, match=f'{others} would have the same name "{name}"'):
        replicated_file.subscribe()


def test_tables_of_one_name_in_two_publications_need_two_files(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin("create table orders (id int primary key, qty int)", orders={})
    replicated_file.publisher.execute("create schema sales", "create table sales.orders (id int primary key, qty int)")
    replicated_file.replication.add_publication("other")
    replicated_file.replication.add_article("other", "sales.orders")
    with pytest.raises(NameShared, match="sales.orders and public.orders of another subscription, to shop, would have"):
        replicated_file.replication.add_subscription(
            "other", replicated_file.subscriber.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY
        )
    replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url)
    replicated_file.replication.add_subscription(
        "other", replicated_file.subscriber.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY
    )
    replicated_file.publisher.execute("insert into sales.orders values (1, 1)")
    replicated_file.deliver()

    replicated_file.require_equal("sales.orders")


@pytest.mark.parametrize(("publication", "which"), [("shop", "an earlier"), ("other", "another")])
def test_a_name_that_a_lost_subscription_has_is_refused(
    replicated_file: ReplicatedFile, publication: str, which: str
) -> None:
    """A file that was out of reach when its subscription was dropped has the record still."""
    replicated_file.begin("create table orders (id int primary key, qty int)", orders={})
    if publication == "other":
        replicated_file.replication.add_publication("other")
    replicated_file.publisher.execute("create schema sales", "create table sales.orders (id int primary key, qty int)")
    replicated_file.replication.add_article(publication, "sales.orders")
    replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url, ignore_subscriber=True)
    replicated_file.replication.drop_article("shop", "orders")

    with pytest.raises(
        NameShared, match=f"sales.orders and public.orders of {which} subscription, to shop, would have"
    ):
        replicated_file.replication.add_subscription(
            publication, replicated_file.subscriber.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY
        )


@pytest.mark.parametrize("operation", ["insert", "update", "delete"])
def test_custom_procedure_is_refused_on_subscribing(replicated_file: ReplicatedFile, operation: str) -> None:
    replicated_file.publish(ORDERS, orders={"commands": commands(**{operation: "CALL my_own"})})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders")))

    with pytest.raises(
        ProceduresUnsupported, match=f"which cannot have procedure my_own for {operation}s of public.orders"
    ):
        replicated_file.subscribe()


@pytest.mark.parametrize("url", ["oracle://user:secret@host/name", "no url", "/a/path", ""])
def test_unknown_url_kind_is_refused_without_its_password(replicated_file: ReplicatedFile, url: str) -> None:
    replicated_file.publish(ORDERS, orders={})

    for use in (replicated_file.replication.add_subscription, replicated_file.replication.drop_subscription):
        with pytest.raises((DatabaseKindUnknown, UrlNotRead), match="sqlite") as raised:
            use("shop", url)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///file:a?mode=ro&uri=true"])
def test_a_subscriber_is_a_file(replicated_file: ReplicatedFile, url: str) -> None:
    replicated_file.publish(ORDERS, orders={})

    with pytest.raises(SubscriberWithoutFile, match="does not name a file"):
        replicated_file.replication.add_subscription("shop", url)


def test_missing_or_non_sqlite_file_is_refused(replicated_file: ReplicatedFile, tmp_path: Path) -> None:
    replicated_file.publish(ORDERS, orders={})
    other = tmp_path / "other.db"
    with pytest.raises(FileNotOpened):
        replicated_file.replication.add_subscription(
            "shop", f"sqlite:///{other}", sync_type=SyncType.REPLICATION_SUPPORT_ONLY
        )
    assert not other.exists()
    other.write_bytes(b"something else " * 100)
    with pytest.raises(FileNotOpened, match="not a database"):
        replicated_file.replication.add_subscription("shop", f"sqlite:///{other}")


def test_path_is_stored_absolute_for_agents_in_any_directory(
    replicated_file: ReplicatedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders")))
    monkeypatch.chdir(tmp_path)
    without_snapshot = SyncType.REPLICATION_SUPPORT_ONLY
    replicated_file.replication.add_subscription("shop", "sqlite:///copy.db", sync_type=without_snapshot)
    with pytest.raises(SubscriptionExists):
        replicated_file.replication.add_subscription("shop", f"sqlite:///{tmp_path}/../{tmp_path.name}/copy.db")
    monkeypatch.chdir("/")
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.deliver()

    replicated_file.require_equal("orders")
    (status,) = replicated_file.replication.status()
    assert status.subscriber == replicated_file.subscriber.url
    monkeypatch.chdir(tmp_path)
    replicated_file.replication.drop_subscription("shop", "sqlite:///copy.db")
    assert replicated_file.replication.status() == ()


def test_dropped_subscriptions_leave_no_trace_and_the_rows(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(ORDERS, "create table lines (id int primary key)", orders={})
    for name in ("orders", "lines"):
        replicated_file.subscriber.execute(declare(replicated_file.table(name)))
    before = replicated_file.subscriber.execute(SCHEMA)
    replicated_file.replication.add_publication("other")
    replicated_file.replication.add_article("other", "lines")
    replicated_file.subscribe()
    replicated_file.replication.add_subscription(
        "other", replicated_file.subscriber.url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY
    )
    replicated_file.publisher.execute("insert into orders values (1, 1)", "insert into lines values (1)")
    replicated_file.deliver()
    replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url)
    replicated_file.publisher.execute("insert into orders values (2, 2)", "insert into lines values (2)")
    replicated_file.deliver()
    assert replicated_file.subscriber.execute("select id from lines") == [(1,), (2,)]
    replicated_file.replication.drop_subscription("other", replicated_file.subscriber.url)

    assert replicated_file.subscriber.execute(SCHEMA) == before
    assert replicated_file.subscriber.execute("select id from orders") == [(1,)]
    with pytest.raises(SubscriptionUnknown):
        replicated_file.replication.drop_subscription("other", replicated_file.subscriber.url)


def test_subscription_of_a_missing_file_can_be_dropped(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.subscriber.path.unlink()
    with pytest.raises(FileNotOpened):
        replicated_file.deliver()
    with pytest.raises(SubscriberNotCleared, match="is paused, but not dropped: .* cannot be opened"):
        replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url)
    (status,) = replicated_file.replication.status()
    assert status.state == "paused"
    replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url, ignore_subscriber=True)

    assert replicated_file.replication.status() == ()
    assert not replicated_file.subscriber.path.exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", SQLITE_DELIVERY_FAILPOINTS)
def test_killed_add_subscription_is_repeated_and_leaves_no_trace(
    replicated_file: ReplicatedFile, failpoint: str
) -> None:
    url, subscriber = replicated_file.publisher.url, replicated_file.subscriber.url
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders")))
    before = replicated_file.subscriber.execute(SCHEMA)
    ended = rowtide_process(
        *("replication", "add-subscription", "shop", "--subscriber", subscriber, "--db", url),
        *("--sync-type", "replication-support-only"),
        environment={"ROWTIDE_FAILPOINT": failpoint},
    )
    assert ended.code == -signal.SIGKILL
    assert replicated_file.replication.status() == ()
    replicated_file.subscribe()
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.deliver()
    replicated_file.require_equal("orders")
    replicated_file.replication.drop_subscription("shop", subscriber)

    assert replicated_file.subscriber.execute(SCHEMA) == before


def test_a_batch_of_an_agent_that_was_replaced_is_refused(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    with opened(replicated_file) as first, opened(replicated_file) as second:
        with pytest.raises(AgentReplaced, match="another agent has taken over delivery to .* .epoch 2"):
            first.begin()
        second.begin()
        second.end(second.progress.position)
        assert (second.progress.batch, second.progress.epoch) == (1, 2)


def test_batch_is_refused_once_the_file_was_set_back(replicated_file: ReplicatedFile, tmp_path: Path) -> None:
    replicated_file.begin(ORDERS, orders={})
    with opened(replicated_file) as delivery, closing(sqlite3.connect(tmp_path / "backup.db")) as backup:
        replicated_file.subscriber.program.backup(backup)
        reached = Position(delivery.progress.position.value + 1)
        delivery.begin()
        delivery.end(reached)
        # Restored within the file, under its agent: in the same epoch, without the last batch.
        backup.backup(replicated_file.subscriber.program)
        with pytest.raises(AgentReplaced, match="epoch 1, position"):
            delivery.begin()


def test_an_agent_that_starts_waits_for_the_batch_in_hand(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    with opened(replicated_file) as first:
        first.begin()
        with pytest.raises(FileBusy), opened(replicated_file, patience_s=0.05):
            pass
        first.end(first.progress.position)
        with opened(replicated_file, patience_s=0.05) as second:
            assert (second.progress.batch, second.progress.epoch) == (1, 2)


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_locked_file_is_waited_for_and_delivered_to_once_free(replicated_file: ReplicatedFile, journal: str) -> None:
    replicated_file.subscriber.execute(f"pragma journal_mode = {journal}")
    replicated_file.begin(ORDERS, orders={})
    with opened(replicated_file, patience_s=0.05) as delivery:
        replicated_file.subscriber.execute("begin immediate")
        with pytest.raises(FileBusy, match=r"locked by another program for 0.05 seconds") as raised:
            delivery.begin()
        assert raised.value.remedy is Remedy.RETRY
        replicated_file.subscriber.execute("commit")
        delivery.begin()
        delivery.end(delivery.progress.position)


def test_lasting_reader_delays_a_commit_without_write_ahead_log(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    with opened(replicated_file, patience_s=0.05) as delivery:
        replicated_file.subscriber.execute("begin", "select * from orders")
        delivery.begin()
        with pytest.raises(FileBusy):
            delivery.end(delivery.progress.position)
        replicated_file.subscriber.execute("commit")
        delivery.begin()
        delivery.end(delivery.progress.position)
        assert delivery.progress.batch == 1


@pytest.mark.exhaustive
def test_a_program_that_keeps_the_lock_is_waited_out_by_a_run(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.subscriber.execute("begin immediate")
    troubles: Queue[Trouble] = Queue()
    watchers = Watchers(on_trouble=troubles.put)
    with ThreadPoolExecutor() as threads:
        running = threads.submit(lambda: replicated_file.replication.run(once=True, watchers=watchers))
        trouble = troubles.get(timeout=60)
        replicated_file.subscriber.execute("commit")
        running.result(timeout=60)

    assert isinstance(trouble.error, FileBusy)
    assert trouble.pause_s is not None
    replicated_file.require_equal("orders")


def test_the_batch_that_met_a_full_disk_comes_again(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin("create table orders (id int primary key, note text)", orders={})
    replicated_file.publisher.execute("insert into orders select i, repeat('x', 1000) from generate_series(1, 500) i")
    replicated_file.publisher.read_log()
    with agent_of(replicated_file) as agent:
        delivery = agent._delivery
        assert isinstance(delivery, SqliteDelivery)
        delivery._file.connection.execute("pragma max_page_count = 20")
        with pytest.raises(SubscriberFileFailed, match="cannot be written .SQLITE_FULL.: database or disk is full"):
            agent.step()
    assert replicated_file.subscriber.execute("select count(*) from orders") == [(0,)]
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_the_batch_comes_again_when_the_file_may_be_written(
    replicated_file: ReplicatedFile,
) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.subscriber.program.close()
    content = bytearray(replicated_file.subscriber.path.read_bytes())
    replicated_file.subscriber.path.write_bytes(content[:WRITE_VERSION] + b"\x03" + content[WRITE_VERSION + 1 :])
    with pytest.raises(SubscriberFileFailed, match="SQLITE_READONLY"):
        replicated_file.deliver()
    with pytest.raises(SubscriberNotCleared, match="SQLITE_READONLY"):
        replicated_file.replication.drop_subscription("shop", replicated_file.subscriber.url)
    replicated_file.subscriber.path.write_bytes(content)
    replicated_file.subscriber.program = sqlite3.connect(replicated_file.subscriber.path, isolation_level=None)
    replicated_file.deliver()

    replicated_file.require_equal("orders")


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_file_restored_from_an_old_copy_gets_what_it_lacks(
    replicated_file: ReplicatedFile, tmp_path: Path, journal: str
) -> None:
    replicated_file.subscriber.execute(f"pragma journal_mode = {journal}")
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.deliver()
    copy = tmp_path / "backup.db"
    replicated_file.subscriber.copy_to(copy)
    replicated_file.publisher.execute("insert into orders values (2, 2)", "update orders set qty = 3 where id = 1")
    replicated_file.deliver()
    replicated_file.subscriber.restore(copy)
    assert replicated_file.subscriber.execute("select * from orders") == [(1, 1)]
    replicated_file.deliver()

    replicated_file.require_equal("orders")


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_file_replaced_under_an_agent_is_reopened_and_caught_up(
    replicated_file: ReplicatedFile, tmp_path: Path, journal: str
) -> None:
    replicated_file.subscriber.execute(f"pragma journal_mode = {journal}")
    replicated_file.begin(ORDERS, orders={})
    copy = tmp_path / "backup.db"
    replicated_file.subscriber.copy_to(copy)
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.publisher.read_log()
    with agent_of(replicated_file) as agent:
        while agent.step():
            pass
        replicated_file.subscriber.restore(copy)
        replicated_file.publisher.execute("insert into orders values (2, 2)")
        replicated_file.publisher.read_log()
        with pytest.raises(SubscriberFileReplaced) as raised:
            agent.step()
    assert raised.value.remedy is Remedy.RETRY
    assert replicated_file.subscriber.execute("select * from orders") == []
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_a_file_from_before_the_subscription_is_refused(replicated_file: ReplicatedFile, tmp_path: Path) -> None:
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders")))
    replicated_file.subscriber.copy_to(tmp_path / "backup.db")
    replicated_file.subscribe()
    replicated_file.subscriber.restore(tmp_path / "backup.db")

    with pytest.raises(SubscriberUnprepared):
        replicated_file.deliver()


def test_one_publication_is_delivered_to_a_database_and_a_file(
    replicated: ReplicatedDatabase, replicated_file: ReplicatedFile
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders")))
    replicated_file.subscribe()
    replicated.publisher.execute("insert into orders values (1, 1), (2, 2)", "update orders set qty = 3 where id = 1")
    replicated.deliver()

    replicated.require_equal("orders")
    replicated_file.require_equal("orders")
