"""A subscription brings rows while they change: copied in chunks, then handed over, each change once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.hints import run_printed
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, list_subscriptions
from builders.servers.ddl import opened_by_owner
from builders.threads import in_thread
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import RowsHidden
from rowtide.log.opening import open_log_reader
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.distribution.run_context import Watchers
from rowtide.replication.errors.delivery import CopyRefused
from rowtide.replication.errors.subscribing import (
    ArticleTableMissing,
    LsnNotGiven,
    LsnNotKept,
    ProceduresMissing,
    SubscriberTableExists,
)
from rowtide.replication.snapshot.agent import SnapshotReport
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.subscription_settings import IfExists, SyncType
from rowtide.replication.targets.kinds import kind_of

ORDERS = "create table orders (id int primary key, qty int not null, note text)"
FILLED = "insert into orders select i, i % 7, repeat('note ' || i, 10) from generate_series(1, 2000) i"
ONE_PAGE = 8192


def automatic(replicated: ReplicatedDatabase, **options: Any) -> None:
    replicated.subscribe(SyncType.AUTOMATIC, **options)


def test_subscriber_gets_tables_rows_and_later_changes(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated)
    replicated.publisher.execute("update orders set qty = 100 where id <= 10", "delete from orders where id = 11")
    replicated.deliver()

    replicated.require_equal("orders")
    replicated.publisher.execute("insert into orders values (5000, 1)", "delete from orders where id = 12")
    replicated.deliver()
    replicated.require_equal("orders")


def test_once_delivers_what_changed_during_the_copy(replicated: ReplicatedDatabase) -> None:
    """The log is read beyond what the run is to deliver, but not up to where the copy has ended."""
    publisher = replicated.publisher
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated)
    (subscription,) = list_subscriptions(publisher)
    with open_log_reader(publisher.url) as reader:
        manifest = publisher.manifest()

        def read_log(_copied: SnapshotReport) -> None:
            target = publisher.mark()
            while manifest.refresh().position.log <= target:
                reader.step()

        run = partial(replicated.replication.run, once=True, watchers=Watchers(on_snapshot=read_log))
        ended = threading.Thread(target=run, daemon=True)
        ended.start()
        find_status = partial(kind_of(subscription.subscriber).find_status, subscription.subscriber, subscription.guid)
        wait_until(lambda: find_status() is SnapshotStatus.HANDING_OVER, what="the end of the copy")
    ended.join()
    (compared,) = replicated.replication.validate("shop")
    assert (compared.reason, compared.published_rows) == (None, 2000)


def test_rows_hidden_by_a_policy_are_not_left_out_but_refused(
    logged: LoggedDatabase, second_subscriber: Subscriber
) -> None:
    with opened_by_owner(logged) as owner:
        replicated = ReplicatedDatabase(owner, second_subscriber)
        hiding = "create policy of_few on orders using (id < 10)"
        forced = "alter table orders enable row level security, force row level security"
        replicated.publish(ORDERS, FILLED, hiding, forced, orders={})
        automatic(replicated)
        with pytest.raises(RowsHidden, match="bypassrls") as hidden:
            replicated.deliver()
        assert second_subscriber.execute("select count(*) from orders") == [(0,)]
        run_printed(hidden.value, owner.url, at=1, NAME="orders")
        for _ in range(2):
            # The copy ends behind what was read when it was made.
            replicated.deliver()
        replicated.require_equal("orders")
        owner.execute("alter table orders force row level security")
        with pytest.raises(RowsHidden):
            replicated.replication.validate("shop")


@pytest.mark.parametrize("key", ["int", "text", 'text collate "C"', "uuid", "numeric", "bytea", "timestamptz"])
def test_chunks_follow_the_order_of_the_key_whatever_its_type(replicated: ReplicatedDatabase, key: str) -> None:
    made = {
        "uuid": "md5(i::text)::uuid",
        "numeric": "i / 7.0",
        "bytea": "decode(md5(i::text), 'hex')",
        "timestamptz": "'2020-01-01'::timestamptz + i * interval '1 hour'",
    }.get(key, "i" if key == "int" else "chr(64 + mod(i, 60)) || ' é''\\' || i")
    replicated.publish(
        f"create table items (k {key} primary key, v int)",
        f"insert into items select {made}, i from generate_series(1, 3000) i",
        items={},
    )
    automatic(replicated, chunk_bytes=ONE_PAGE)
    with changing(
        replicated, f"update items set v = v + 1 where k = (select {made} from (select %s::int as i) n)", 3000
    ):
        replicated.deliver()
    replicated.deliver()

    replicated.require_equal("items")


@contextmanager
def changing(replicated: ReplicatedDatabase, statement: str, values: int) -> Iterator[None]:
    """Change rows one after the other, each in a transaction, until the block ends."""

    def change(is_over: threading.Event) -> None:
        chosen = random.Random(1)
        with psycopg.connect(replicated.publisher.url, autocommit=True) as session:
            while not is_over.is_set():
                session.execute(statement, [chosen.randint(1, values)])

    with in_thread(change):
        yield


def test_rows_moving_between_chunks_during_the_copy_arrive_once(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated, chunk_bytes=ONE_PAGE)
    agent = replicated.open_agent()
    chosen = random.Random(7)
    with agent as copying:
        while copying.position is None:
            # From a chunk that is there to one that is not, and back; both, or neither, have it by then.
            for _ in range(20):
                one, other = chosen.randint(1, 2000), chosen.randint(2001, 4000)
                source, target = chosen.sample((one, other), 2)
                replicated.publisher.execute(
                    f"update orders set id = {target}, note = 'moved' where id = {source} "
                    f"and not exists (select from orders where id = {target})"
                )
            replicated.publisher.execute(
                f"delete from orders where id = {chosen.randint(1, 4000)}",
                f"insert into orders values ({chosen.randint(1, 4000)}, 0) on conflict do nothing",
            )
            copying.step()
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_filtered_article_is_copied_and_continued_by_its_filter(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={"where": "qty < 3", "columns": ("id", "qty")})
    automatic(replicated, chunk_bytes=ONE_PAGE)
    with changing(replicated, "update orders set qty = (qty + 1) %% 7 where id = %s", 2000):
        replicated.deliver()
    replicated.deliver()

    at_publisher = replicated.publisher.execute("select id, qty from orders where qty < 3 order by id")
    assert replicated.subscriber.execute("select * from orders order by id") == at_publisher


def test_transaction_open_during_the_copy_arrives_whole(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    with replicated.writer() as writer:
        # Idle now: it can commit behind all that the subscription begins with.
        writer.execute("update orders set qty = -1 where id % 2 = 0")
        writer.execute("insert into orders values (9000, 1)")
        automatic(replicated, chunk_bytes=ONE_PAGE)
        with replicated.open_agent() as agent:
            while agent.position is None:
                agent.step()
    replicated.deliver()

    replicated.require_equal("orders")
    assert replicated.subscriber.execute("select count(*) from orders where qty = -1") == [(1000,)]


@pytest.mark.exhaustive
def test_truncate_between_two_chunks_restarts_the_copy(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated, chunk_bytes=ONE_PAGE)
    with replicated.open_agent() as agent:
        agent.step()
        replicated.publisher.execute("truncate orders", "insert into orders values (1, 77, 'after'), (1999, 78, 'it')")
        while agent.position is None:
            agent.step()
        replicated.publisher.execute("update orders set qty = 79 where id = 1999")
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_a_truncate_behind_the_copy_is_delivered(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated, chunk_bytes=ONE_PAGE)
    with replicated.open_agent() as agent:
        while agent.position is None:
            agent.step()
    replicated.publisher.execute("truncate orders", "insert into orders values (1, 77)")
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_keyless_and_key_image_tables_are_copied_in_one_snapshot(replicated: ReplicatedDatabase) -> None:
    inserts = {operation: Command(CallFormat.NONE) for operation in (Operation.UPDATE, Operation.DELETE)}
    replicated.publish(
        "create table notes (at int, what text)",
        "insert into notes select i % 5, repeat('n', 50) from generate_series(1, 2000) i",
        "create table parts (id int primary key, v int) partition by range (id)",
        "create table low partition of parts for values from (0) to (1000)",
        "create table high partition of parts for values from (1000) to (5000)",
        "insert into parts select i, i from generate_series(1, 2000) i",
        notes={"commands": inserts},
        parts={},
    )
    automatic(replicated, chunk_bytes=ONE_PAGE)
    with changing(replicated, "insert into notes values (%s, 'later')", 9):
        replicated.deliver()
    replicated.publisher.execute("update parts set id = id + 2000 where id < 10")
    replicated.deliver()

    replicated.require_equal("notes", "parts")


def test_names_types_collations_and_generated_columns_are_kept(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute("create type mood as enum ('sad', 'happy')")
    replicated.publish(
        "create type mood as enum ('sad', 'happy')",
        'create schema "Odd %s"',
        """create table "Odd %s"."or""der's" (
            "K %s" varchar(10) collate "C", part char(3), feels mood, at timestamptz(3) not null, many int[],
            price numeric(10, 2), doubled numeric generated always as (price * 2) stored, at_home inet default '::1',
            primary key (part, "K %s"))""",
        """insert into "Odd %s"."or""der's" ("K %s", part, feels, at, many, price)
        select 'k' || i, i % 3, 'sad', now(), array[i, null], i from generate_series(1, 1500) i""",
        **{'"Odd %s"."or""der\'s"': {}},
    )
    automatic(replicated, chunk_bytes=ONE_PAGE)
    replicated.publisher.execute(
        """update "Odd %s"."or""der's" set price = price + 1, "K %s" = 'x' || "K %s" where price > 1400"""
    )
    replicated.deliver()

    replicated.require_equal('"Odd %s"."or""der\'s"')
    columns = """
        select attname, format_type(atttypid, atttypmod), attnotnull, attgenerated, attcollation::regcollation
        from pg_attribute where attrelid = '"Odd %s"."or""der''s"'::regclass and attnum > 0 order by attnum"""
    assert [row[:5] for row in replicated.subscriber.execute(columns)] == [
        row[:5] for row in replicated.publisher.execute(columns)
    ]


def test_unique_and_foreign_keys_hold_after_the_copy(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table parents (id int primary key, name text unique, above int references parents on delete cascade)",
        "create table children (id int primary key, parent int references parents on update cascade on delete cascade)",
        "insert into parents select i, 'p' || i, nullif(i / 2, 0) from generate_series(1, 1000) i",
        "insert into children select i, i from generate_series(1, 1000) i",
        children={},
        parents={},
    )
    automatic(replicated, chunk_bytes=ONE_PAGE)
    swap = """
        with a as (select %s as i)
        update parents set name = case when id = i then 'x' || id || random() else name end from a where id = i"""
    with changing(replicated, swap, 1000):
        replicated.deliver()
    replicated.publisher.execute("delete from parents where id = 4")
    replicated.deliver()

    replicated.require_equal("parents", "children")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        replicated.subscriber.execute("insert into children values (9999, 9999)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        replicated.subscriber.execute("insert into parents select 9999, name from parents where id = 1")
    kept = replicated.subscriber.execute('select count(*) from rowtide_subscriber."MSsnapshot_chunks"')
    assert kept == [(0,)]


@pytest.mark.parametrize(
    ("if_exists", "rows"),
    [(IfExists.KEEP, 2001), (IfExists.DELETE, 2000), (IfExists.TRUNCATE, 2000), (IfExists.DROP, 2000)],
)
def test_what_becomes_of_a_table_that_is_there_is_said(
    replicated: ReplicatedDatabase, if_exists: IfExists, rows: int
) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    replicated.subscriber.execute(ORDERS + " with (fillfactor = 50)", "insert into orders values (-1, 0)")
    with pytest.raises(SubscriberTableExists, match="already has a table public.orders"):
        automatic(replicated)
    automatic(replicated, if_exists=if_exists, chunk_bytes=ONE_PAGE)
    replicated.deliver()

    assert replicated.subscriber.execute("select count(*) from orders") == [(rows,)]
    is_ours = replicated.subscriber.execute("select reloptions is null from pg_class where relname = 'orders'")
    assert is_ours == [(if_exists is IfExists.DROP,)]


@pytest.mark.parametrize("held_as", ["bigint", "numeric"])
def test_rows_are_copied_into_columns_of_other_types(replicated: ReplicatedDatabase, held_as: str) -> None:
    """What one end writes in binary form the other would take for something else."""
    filled = "insert into kept select i, i * 7, '2026-01-01' from generate_series(1, 50) i"
    replicated.publish("create table kept (id int primary key, n int, at timestamptz)", filled, kept={})
    replicated.subscriber.execute(f"create table kept (id int primary key, n {held_as}, at timestamptz)")
    automatic(replicated, if_exists=IfExists.KEEP)
    replicated.deliver()
    assert replicated.subscriber.execute("select id, n::text, at from kept order by id") == [
        (number, str(number * 7), datetime(2026, 1, 1, tzinfo=UTC)) for number in range(1, 51)
    ]


@pytest.mark.exhaustive
def test_refused_copy_keeps_earlier_chunks_and_can_resume(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated, chunk_bytes=ONE_PAGE)
    replicated.subscriber.execute("alter table orders add constraint small check (id < 1500)")
    with pytest.raises(CopyRefused, match="the snapshot of public.orders .23514."):
        replicated.deliver()

    assert replicated.subscriber.execute("select count(*) > 0 from orders") == [(True,)]
    replicated.subscriber.execute("alter table orders drop constraint small")
    replicated.deliver()
    replicated.require_equal("orders")


def test_progress_is_reported_chunk_by_chunk(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated, chunk_bytes=ONE_PAGE)
    reports: list[SnapshotReport] = []
    with replicated.open_agent(watchers=Watchers(on_snapshot=reports.append)) as agent:
        while agent.position is None:
            agent.step()

    assert reports[-1].chunks == reports[-1].of_chunks > 3
    assert reports[-1].copied_bytes > 100_000
    assert all(before.chunks < after.chunks for before, after in pairwise(reports))


def test_sync_type_none_needs_what_script_procedures_prints(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, orders={})
    replicated.subscriber.execute(ORDERS)
    with pytest.raises(ProceduresMissing, match="sp_MSins_publicorders"):
        replicated.subscribe(SyncType.NONE)
    replicated.subscriber.execute(*replicated.replication.script_procedures("shop"))
    replicated.subscribe(SyncType.NONE)
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.deliver()

    replicated.require_equal("orders")


def test_subscription_begins_at_the_lsn_of_a_backup(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, orders={})
    replicated.subscriber.execute(ORDERS)
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.subscriber.execute("insert into orders values (1, 1)")
    backup = CommitLsn(replicated.publisher.mark())
    replicated.publisher.execute("insert into orders values (2, 2)", "update orders set qty = 3")
    replicated.publisher.read_log()
    with pytest.raises(LsnNotGiven, match="needs an LSN"):
        replicated.subscribe(SyncType.FROM_LSN)
    for beyond in (CommitLsn(1), CommitLsn(backup.value + (1 << 40))):
        with pytest.raises(LsnNotKept):
            replicated.subscribe(SyncType.FROM_LSN, lsn=beyond)
    replicated.subscribe(SyncType.FROM_LSN, lsn=backup)
    replicated.deliver()

    replicated.require_equal("orders")


def test_without_a_snapshot_the_tables_must_be_there(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, orders={})
    with pytest.raises(ArticleTableMissing):
        replicated.subscribe(SyncType.REPLICATION_SUPPORT_ONLY)


def test_one_connection_is_left_when_the_copy_is_handed_over(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, FILLED, orders={})
    automatic(replicated)
    with replicated.open_agent() as agent:
        while agent.position is None:
            agent.step()
        replicated.publisher.read_log()
        while agent.step():
            pass

        def connected() -> list[str]:
            names = replicated.subscriber.execute(
                "select application_name from pg_stat_activity "
                "where datname = current_database() and application_name like 'rowtide%'"
            )
            return [name.split(" on ")[0] for (name,) in names]

        wait_until(lambda: connected() == ["rowtide distribution"], what="only delivery's connection is left")
