"""Rows at subscribers made what is published, while both sides change."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from typing import Any

import psycopg
import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.failpoints import REPAIR_FAILPOINTS, SQLITE_DELIVERY_FAILPOINTS
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from builders.threads import in_thread
from rowtide.replication.conflicts import Resolver
from rowtide.replication.repairing import Repair
from rowtide.replication.subscription_settings import SubscriptionSettings

ORDERS = "create table orders (id int primary key, qty int, note text, ratio float8)"
ROWS = "insert into orders select n, n, 'row ' || n, n / 3.0 from generate_series(1, 20) n"
DAMAGE = (
    "delete from orders where id = 2",
    "update orders set qty = -1 where id in (3, 4)",
    "insert into orders values (50, 50, 'of its own', null)",
)


def repair(replicated: ReplicatedDatabase | ReplicatedFile, **options: Any) -> list[Repair]:
    return list(replicated.replication.repair("shop", wait_s=0, **options))


def results(replicated: ReplicatedDatabase | ReplicatedFile) -> list[str]:
    return [found.result for found in replicated.replication.validate("shop", checksum=True)]


def test_a_dry_run_says_what_would_be_done(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    subscribed.begin(ORDERS, orders={})
    subscribed.publisher.execute(ROWS)
    subscribed.deliver()
    subscribed.subscriber.execute(*DAMAGE)
    before = subscribed.subscriber.execute("select * from orders order by id")
    command = ("replication", "validate", "shop", "--db", subscribed.publisher.url, "--repair", "--dry-run")
    said = rowtide(*command, "--format", "csv")
    assert (said.code, "A dry run: nothing is changed." in said.errors) == (1, True)
    planned = repair(subscribed, delete_extra=True, is_rehearsal=True)

    assert subscribed.subscriber.execute("select * from orders order by id") == before
    assert not subscribed.replication.list_repairs()
    assert Counter(one.action for one in planned) == {"inserted": 1, "updated": 2, "deleted": 1}
    assert [(one.key, one.action) for one in repair(subscribed, delete_extra=True)] == [
        (one.key, one.action) for one in planned
    ]


def test_rows_are_repaired_at_the_position_and_it_is_kept(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    subscribed.begin(ORDERS, orders={})
    subscribed.publisher.execute(ROWS)
    subscribed.deliver()
    subscribed.subscriber.execute(*DAMAGE)
    # Queued: repaired rows are those of before, so that delivery finds what it expects.
    subscribed.publisher.execute(
        "update orders set note = 'newer' where id in (2, 3)", "delete from orders where id = 4"
    )
    done = repair(subscribed)

    assert Counter(one.action for one in done) == {"inserted": 1, "updated": 2, "left": 1}
    assert subscribed.subscriber.execute("select id, qty, note from orders where id in (2, 3, 4, 50) order by id") == [
        (2, 2, "row 2"),
        (3, 3, "row 3"),
        (4, 4, "row 4"),
        (50, 50, "of its own"),
    ]
    kept = {
        one.action: one
        for one in subscribed.replication.list_repairs("shop")
        if one.key in ('{"id": "2"}', '{"id": "3"}')
    }
    assert (kept["inserted"].before, json.loads(kept["inserted"].after or "")["note"]) == (None, "row 2")
    assert (kept["updated"].before, kept["updated"].after) == ('{"qty": "-1"}', '{"qty": "3"}')

    assert [one.action for one in repair(subscribed, delete_extra=True)] == ["deleted"]
    assert repair(subscribed, delete_extra=True) == []
    assert results(subscribed) == ["passed"]
    subscribed.deliver()
    subscribed.require_equal("orders")
    assert len(subscribed.replication.list_repairs()) == 4


@pytest.mark.exhaustive
def test_an_agent_that_delivers_goes_on(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    subscribed.begin(ORDERS, orders={})
    subscribed.publisher.execute(ROWS)
    subscribed.deliver()

    def write(is_over: threading.Event) -> None:
        with psycopg.connect(subscribed.publisher.url, autocommit=True) as session:
            while not is_over.is_set():
                session.execute("update orders set qty = qty + 1 where id > 4")

    with in_thread(lambda is_over: subscribed.replication.run(stop=is_over)), in_thread(write):
        subscribed.subscriber.execute(*DAMAGE, "update orders set ratio = 0 where id between 10 and 12")
        actions = Counter(one.action for one in repair(subscribed, delete_extra=True))

    assert actions == {"inserted": 1, "updated": 5, "deleted": 1}
    assert subscribed.replication.list_errors() == []
    subscribed.deliver()
    subscribed.require_equal("orders")


@pytest.mark.exhaustive
def test_rows_that_need_each_other_are_repaired_in_order(replicated: ReplicatedDatabase) -> None:
    made = (
        "create table parents (id int primary key, name text unique)",
        "create table children (id int primary key, parent int not null references parents)",
    )
    replicated.begin(*made, children={}, parents={})
    replicated.publisher.execute(
        "insert into parents values (1, 'one'), (2, 'two'), (3, 'three')",
        "insert into children values (10, 1), (30, 3)",
    )
    replicated.deliver()
    replicated.subscriber.execute(
        "delete from children",
        "delete from parents where id < 3",
        "update parents set name = 'one' where id = 3",
        "insert into parents values (4, 'two')",
        "insert into children values (40, 4)",
    )
    refused = {one.article: one for one in repair(replicated) if one.action == "refused"}

    assert refused["parents"].key == '{"id": "2"}'
    assert 'duplicate key value violates unique constraint "parents_name_key"' in (refused["parents"].reason or "")

    repair(replicated, delete_extra=True)
    replicated.require_equal("parents", "children")


UNIQUE = (
    "create table t (id int primary key, a int, b int not null, c varchar(5) not null, x int not null, y date)",
    "create unique index on_a on t (a)",
    "create unique index on_b on t (b)",
    "create unique index on_c on t (lower(c))",
    "create unique index on_x on t (x, y)",
)
SWAPPED = (
    "update t set a = -a where id in (1, 2)",
    "update t set a = 3 - id where id in (1, 2)",
    "update t set b = -b where id in (3, 4, 5)",
    "update t set b = case id when 5 then 3 else id + 1 end where id in (3, 4, 5)",
    "update t set c = 'q' || id where id in (6, 7)",
    "update t set c = 'C' || (13 - id) where id in (6, 7)",
    "update t set x = -x where id in (8, 9)",
    "update t set x = 17 - id where id in (8, 9)",
    "delete from t where id = 10",
    "update t set b = 10 where id = 11",
    "update t set b = 11 where id = 12",
)
"""Rows that have each other's values, or one that is missing."""


def test_rows_with_each_others_unique_values_are_repaired(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    subscribed.begin(UNIQUE[0], t={})
    for end in (subscribed.publisher, subscribed.subscriber):
        end.execute(*UNIQUE[1:])
    subscribed.publisher.execute(
        "insert into t select g, g, g, 'c' || g, g, date '2026-01-01' from generate_series(1, 12) g"
    )
    subscribed.deliver()
    subscribed.subscriber.execute(*SWAPPED)
    done = repair(subscribed)

    assert Counter(one.action for one in done) == {"updated": 11, "inserted": 1}
    assert results(subscribed) == ["passed"]


def test_rows_are_repaired_where_no_value_is_free(subscribed: ReplicatedDatabase | ReplicatedFile) -> None:
    """Types without further values, and checks: no row can get another value for a moment."""
    places = "create table t (id int primary key, yes boolean not null, hash bytea not null, place int not null)"
    subscribed.begin(places, t={})
    for column in ("yes", "hash", "place"):
        subscribed.subscriber.execute(f"create unique index on_{column} on t ({column})")
    subscribed.publisher.execute(r"insert into t values (1, true, '\xaa', 1), (2, false, '\xbb', 2)")
    subscribed.deliver()
    subscribed.subscriber.execute("delete from t")
    swapped = "(1, false, {0}bb', 2), (2, true, {0}aa', 1)"
    prefix = "x'" if isinstance(subscribed, ReplicatedFile) else r"'\x"
    subscribed.subscriber.execute(f"insert into t values {swapped.format(prefix)}")
    done = repair(subscribed)

    assert Counter(one.action for one in done) == {"updated": 2}
    assert results(subscribed) == ["passed"]


def test_triggers_act_as_with_delivery(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(
        ORDERS,
        "create table heard (id int)",
        "create function hear() returns trigger language plpgsql as "
        "'begin insert into heard values (new.id); return new; end'",
        "create trigger hear after insert on orders for each row execute function hear()",
    )
    replicated.publish(ORDERS, orders={})
    replicated.subscribe(constraints="not-for-replication")
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    replicated.subscriber.execute("delete from orders where id = 2")
    repair(replicated)

    assert replicated.subscriber.execute("select count(*) from heard") == [(0,)]
    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_repairs_are_printed_and_what_is_left_ends_with_code_1(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    replicated.subscriber.execute(*DAMAGE)
    words = ("replication", "validate", "shop", "--repair", "--format", "jsonl", "--db", replicated.publisher.url)
    ended = rowtide(*words)

    assert (ended.code, ended.errors.split(".")[0]) == (
        1,
        "RT-7238: 1 rows at subscribers of shop were not repaired: 1 extra, 0 refused",
    )
    assert [json.loads(line)["action"] for line in ended.output.splitlines()].count("updated") == 2
    assert rowtide(*words, "--delete-extra").code == 0
    listed = rowtide("replication", "repairs", "--format", "jsonl", "--db", replicated.publisher.url)
    assert len(listed.output.splitlines()) == 4
    assert rowtide("replication", "validate", "shop", "--delete-extra", "--db", replicated.publisher.url).code == 2


@pytest.mark.parametrize("failpoint", [*REPAIR_FAILPOINTS, *SQLITE_DELIVERY_FAILPOINTS])
def test_killed_repair_is_kept_as_often_as_it_was_made(
    subscribed: ReplicatedDatabase | ReplicatedFile, failpoint: str
) -> None:
    subscribed.begin(ORDERS, orders={})
    subscribed.publisher.execute(ROWS)
    subscribed.deliver()
    subscribed.subscriber.execute(*DAMAGE)
    words = ("replication", "validate", "shop", "--repair", "--delete-extra", "--db", subscribed.publisher.url)
    ended = rowtide_process(*words, environment={"ROWTIDE_FAILPOINT": failpoint})
    again = rowtide(*words)

    assert ended.code in (-signal.SIGKILL, 0)
    assert again.code == 0
    kept = Counter(one.action for one in subscribed.replication.list_repairs())
    assert kept == {"inserted": 1, "updated": 2, "deleted": 1}
    subscribed.require_equal("orders")


@pytest.mark.exhaustive
def test_batches_in_streams_are_seen_whole_and_go_on(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(ORDERS)
    replicated.publish(ORDERS, orders={})
    replicated.subscribe(settings=SubscriptionSettings(streams=2))
    replicated.publisher.execute("insert into orders select n, 0, '', 0 from generate_series(1, 400) n")
    replicated.deliver()

    def write(is_over: threading.Event) -> None:
        with psycopg.connect(replicated.publisher.url, autocommit=True) as session:
            while not is_over.is_set():
                session.execute("update orders set qty = qty + 1")

    with in_thread(lambda is_over: replicated.replication.run(stop=is_over)), in_thread(write):
        validated = [results(replicated) for _ in range(3)]
        replicated.subscriber.execute("update orders set note = 'other' where id in (7, 8)")
        actions = Counter(one.action for one in repair(replicated))

    assert (validated, actions) == ([["passed"]] * 3, {"updated": 2})
    replicated.deliver()
    replicated.require_equal("orders")


def test_a_subscriber_that_is_written_to_is_repaired(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(ORDERS)
    replicated.publish(ORDERS, orders={})
    replicated.subscribe(settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    replicated.publisher.execute("insert into orders values (1, 1), (2, 2)")
    replicated.deliver()
    replicated.subscriber.execute("insert into orders values (3)", "update orders set qty = 7 where id = 2")

    assert sorted(one.action for one in repair(replicated)) == ["left", "updated"]
    assert [one.action for one in repair(replicated, delete_extra=True)] == ["deleted"]
    replicated.require_equal("orders")
