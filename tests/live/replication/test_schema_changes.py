"""Schema changes of published tables are made at the subscribers too, in the order of the log."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import psycopg
import pytest

from builders.commands.command_lines import rowtide_process
from builders.faults.killed_programs import KILLED
from builders.replication.altered_orders import CHANGES, ORDERS, ROWS
from builders.replication.articles import commands
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, Subscriber, list_left_out
from builders.replication.replicated_files import ReplicatedFile
from rowtide.handle import connect
from rowtide.replication.articles.articles import OmittedColumn, decode_article
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.delivery import CopyUnreadable, SchemaChanged
from rowtide.replication.errors.subscribing import SubscriberTableInUse
from rowtide.replication.subscription_settings import SubscriptionSettings, SyncType

REPORTED = {
    **CHANGES,
    "widened": (
        "alter table orders alter column total type bigint",
        "update orders set total = 3000000000 where id = 1",
    ),
    "longer": ("alter table orders alter column customer type varchar(50)",),
    "not null": ("update orders set customer = 'x'", "alter table orders alter column customer set not null"),
    "dropped and added": ("alter table orders drop column total", "alter table orders add column total text"),
    "constrained": ("alter table orders add check (total > 0)", "create index on orders (total)"),
}
"""Changes that an event trigger reports."""
COLUMNS = """
select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute
where attrelid = 'orders'::regclass and attnum > 0 and not attisdropped order by attname
"""


@pytest.mark.parametrize("change", REPORTED)
def test_a_table_is_altered_as_at_the_publisher(replicated: ReplicatedDatabase, change: str) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    replicated.publisher.execute(*REPORTED[change])
    replicated.publisher.execute("update orders set total = total", "delete from orders where total = '20'")
    replicated.deliver()

    assert replicated.subscriber.execute(COLUMNS) == replicated.publisher.execute(COLUMNS)
    replicated.require_equal("orders")


@pytest.mark.parametrize("change", sorted(set(REPORTED) - {"longer"}))
def test_a_file_gets_the_rows_of_an_altered_table(replicated_file: ReplicatedFile, change: str) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute(ROWS)
    replicated_file.publisher.execute(*REPORTED[change])
    replicated_file.publisher.execute("update orders set total = total", "delete from orders where total = '20'")
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_a_table_is_renamed_and_moved(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(
        ROWS,
        "alter table orders rename to purchases",
        "insert into purchases values (3, 'c', 30)",
        "create schema sales",
        "alter table purchases set schema sales",
        "update sales.purchases set total = 31 where id = 3",
    )
    replicated.deliver()

    replicated.require_equal("sales.purchases")


def test_a_file_of_before_an_alteration_is_brought_through_it(replicated_file: ReplicatedFile, tmp_path: Path) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute(ROWS)
    replicated_file.deliver()
    replicated_file.subscriber.copy_to(tmp_path / "backup.db")
    replicated_file.publisher.execute(
        "alter table orders add column note text default 'n'", "update orders set total = 7"
    )
    replicated_file.deliver()
    replicated_file.subscriber.restore(tmp_path / "backup.db")
    replicated_file.publisher.execute("delete from orders where id = 2")
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_a_subscriber_records_its_tables_from_the_beginning(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    recorded = 'select definition from rowtide_subscriber."MSreplication_articles"'
    (before,) = replicated.subscriber.execute(recorded)
    replicated.publisher.execute(ROWS, "alter table orders add column note text")
    replicated.deliver()
    (after,) = replicated.subscriber.execute(recorded)

    names = [[column.name for column in decode_article(text).columns] for (text,) in (before, after)]
    assert names == [["id", "customer", "total"], ["id", "customer", "total", "note"]]


OWN_COLUMNS = {
    "same type": ("varchar(20)", "note varchar(20) default 'own'", True),
    "no equality": ("json", "note json", True),
    "wider type": ("varchar(20)", "note text not null default ''", True),
    "another type": ("varchar(20)", "note int", False),
    "narrower type": ("varchar(20)", "note varchar(2)", False),
    "generated": ("varchar(20)", "note varchar(20) generated always as ('x') stored", False),
}
"""A column of the subscriber's own, where one of that name and the first type is published, and whether it is used."""


@pytest.mark.parametrize("own", OWN_COLUMNS)
def test_a_column_that_is_there_gets_first_values(replicated: ReplicatedDatabase, own: str) -> None:
    kind, definition, is_used = OWN_COLUMNS[own]
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    replicated.subscriber.execute(f"alter table orders add column {definition}")
    replicated.publisher.execute(f"alter table orders add column note {kind} default '{{}}'")
    replicated.publisher.execute("insert into orders values (3, 'c', 30, '[1]')")
    replicated.deliver()

    assert [column.name for column in list_left_out(replicated)] == ([] if is_used else ["note"])
    columns = "id, customer, total, note::text" if is_used else "id, customer, total"
    query = f"select {columns} from orders order by id"
    assert replicated.subscriber.execute(query) == replicated.publisher.execute(query)


@pytest.mark.parametrize(("own", "is_used"), [("text default 'own'", True), ("numeric", False)])
def test_a_column_that_a_file_has_gets_first_values(
    replicated_file: ReplicatedFile, own: str, *, is_used: bool
) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute(ROWS)
    replicated_file.deliver()
    replicated_file.subscriber.execute(f"alter table orders add column note {own}")
    replicated_file.publisher.execute("alter table orders add column note text default '1.10'")
    replicated_file.publisher.execute("insert into orders values (3, 'c', 30, 'x')")
    replicated_file.deliver()

    columns = "id, note" if is_used else "id, total"
    query = f"select {columns} from orders order by id"
    assert replicated_file.subscriber.execute(query) == replicated_file.publisher.execute(query)


DOMAIN = "create domain rated as int default 7"


def test_null_is_the_first_value_for_a_domain_with_a_default(replicated: ReplicatedDatabase) -> None:
    replicated.begin(DOMAIN, ORDERS, orders={})
    replicated.publisher.execute(ROWS, "alter table orders add column rate rated default null")
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal("orders")


def test_a_domains_default_is_the_first_value_in_a_file(replicated_file: ReplicatedFile) -> None:
    """With a check the server writes it into each row, and says nothing of it in the column."""
    replicated_file.publish(DOMAIN, "alter domain rated add check (value > 0)", ORDERS, orders={})
    replicated_file.publisher.execute(ROWS)
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.publisher.execute("alter table orders add column rate rated")
    replicated_file.deliver()

    query = "select id, rate from orders order by id"
    assert replicated_file.subscriber.execute(query) == replicated_file.publisher.execute(query)


def test_first_values_are_those_in_any_sessions_settings(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    settings = {"DateStyle": "SQL, DMY", "IntervalStyle": "sql_standard", "bytea_output": "escape"}
    settings |= {"extra_float_digits": "-10", "quote_all_identifiers": "on"}
    with replicated.writer() as writer:
        for name, value in settings.items():
            writer.execute(f"set local {name} = '{value}'")
        writer.execute(
            "alter table orders add column day date default '2026-02-01', add column raw bytea default '\\x5c00', "
            "add column ratio float8 default 0.1234567890123, add column span interval default '-1 day 02:00'"
        )
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal("orders")


def test_first_values_of_partitions_are_those_of_their_table(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table sales (id int, day date, primary key (id, day)) partition by range (day)",
        "create table sales_1 partition of sales for values from ('2025-01-01') to ('2026-01-01') "
        "partition by list (id)",
        "create table sales_1_1 partition of sales_1 default",
        "create table sales_rest partition of sales default",
        "insert into sales select i, date '2025-12-30' + i from generate_series(1, 5) i",
    )
    replicated.replication.add_article("shop", "sales")
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    replicated.subscriber.execute("update sales set day = day where id = 1", "alter table sales add own int default 7")
    replicated.publisher.execute(
        "alter table sales add qty int default 4 not null", "insert into sales values (9, now())"
    )
    replicated.deliver()

    query = "select id, day, qty from sales order by id"
    assert replicated.subscriber.execute(query) == replicated.publisher.execute(query)
    # Copied again, it would have been made anew.
    assert replicated.subscriber.execute("select distinct own from sales") == [(7,)]


def test_a_transaction_is_delivered_with_its_change(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, "create table other (id int primary key)", orders={}, other={})
    replicated.publisher.execute(ROWS)
    with replicated.writer() as writer:
        writer.execute("insert into orders values (3, 'c', 30)")
        writer.execute("insert into other values (1)")
        writer.execute("alter table orders add column note text default 'n', drop column customer")
        writer.execute("update orders set note = 'changed' where id = 1")
        writer.execute("alter table orders alter column total type bigint")
        writer.execute("insert into orders values (4, 5000000000, 'late')")
        writer.execute("insert into other values (2)")
    reports = replicated.deliver()

    replicated.require_equal("orders", "other")
    assert sum(report.transactions for report in reports) == 2


CASCADED = {
    "before": ("alter table lines add note text", "update orders set id = id + 10"),
    "after": (
        "update orders set id = id + 10",
        "alter table lines add note text",
        "insert into lines values (9, 12, 'x')",
    ),
}
"""Changes of keys, which referencing rows follow, beside changes of the referencing table."""


@pytest.mark.parametrize("change", CASCADED)
def test_a_table_is_altered_beside_keys_that_cascade(replicated: ReplicatedDatabase, change: str) -> None:
    replicated.publish(
        "create table orders (id int primary key)",
        "create table lines (id int primary key, of int references orders on update cascade)",
        "insert into orders values (1), (2)",
        "insert into lines values (1, 1), (2, 2), (3, 2)",
        orders={},
        lines={},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    with replicated.writer() as writer:
        for statement in CASCADED[change]:
            writer.execute(statement)
    replicated.deliver()

    replicated.require_equal("orders", "lines")


def test_each_change_is_made_at_each_subscriber(replicated: ReplicatedDatabase, second_subscriber: Subscriber) -> None:
    replicated.begin(ORDERS, orders={})
    second_subscriber.execute(ORDERS)
    replicated.subscribe(subscriber=second_subscriber)
    replicated.publisher.execute(ROWS, "alter table orders add column note text default 'n'")
    replicated.deliver()
    replicated.publisher.execute("alter table orders drop column customer", "update orders set note = null")
    replicated.deliver()

    replicated.require_equal("orders")
    rows = "select t::text from orders t order by 1"
    assert second_subscriber.execute(rows) == replicated.publisher.execute(rows)


@pytest.mark.exhaustive
def test_a_later_subscriber_gets_the_altered_table(
    replicated: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS, "alter table orders add column note text default 'n'")
    replicated.deliver()
    replicated.subscribe(SyncType.AUTOMATIC, subscriber=second_subscriber)
    replicated.publisher.execute("alter table orders rename column note to remark", "update orders set remark = 'r'")
    replicated.deliver()

    rows = "select t::text from orders t order by 1"
    assert second_subscriber.execute(rows) == replicated.publisher.execute(rows)


def test_a_table_altered_before_its_first_subscription_is_whole(replicated: ReplicatedDatabase) -> None:
    replicated.publish(ORDERS, orders={})
    replicated.publisher.execute(ROWS, "alter table orders add column note text default 'n'")
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal("orders")


@pytest.mark.parametrize(
    "steps", [0, pytest.param(1, marks=pytest.mark.exhaustive), pytest.param(3, marks=pytest.mark.exhaustive)]
)
@pytest.mark.parametrize("change", ["added with a default", "renamed", "dropped", "swapped"])
def test_a_table_is_altered_while_it_is_copied(replicated: ReplicatedDatabase, change: str, steps: int) -> None:
    replicated.publish(ORDERS, orders={})
    replicated.publisher.execute("insert into orders select i, 'c' || i, i from generate_series(1, 40) i")
    replicated.subscribe(SyncType.AUTOMATIC, chunk_bytes=3000)
    with replicated.open_agent() as agent:
        for _ in range(steps):
            agent.step()
        replicated.publisher.execute(*REPORTED[change], "update orders set total = total + 1 where total % 7 = 0")
        with contextlib.suppress(CopyUnreadable):
            agent.step()
        for _ in range(20):
            replicated.publisher.read_log(replicated.publisher.mark())
            agent.step()

    assert replicated.subscriber.execute(COLUMNS) == replicated.publisher.execute(COLUMNS)
    replicated.require_equal("orders")


def test_a_copy_of_an_altered_table_ends_in_runs_that_are_brief(replicated: ReplicatedDatabase) -> None:
    """Each ends before the log is read up to where it began."""
    replicated.publish(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    replicated.subscribe(SyncType.AUTOMATIC)
    with replicated.open_agent() as agent:
        while not replicated.subscriber.execute("select 1 from orders"):
            agent.step()
    replicated.publisher.execute(*REPORTED["dropped"])
    for _ in range(4):
        replicated.publisher.read_log(replicated.publisher.mark())
        with replicated.open_agent() as agent:
            while agent.step():
                pass
            ended = agent.position

    assert ended is not None
    replicated.require_equal("orders")


SWAP = ("alter table pairs rename a to c", "alter table pairs rename b to a", "alter table pairs rename c to b")


def test_a_copy_of_a_table_that_was_altered_and_back(replicated: ReplicatedDatabase) -> None:
    """At its end the table is as it was, but was not when it was read."""
    replicated.publish("create table pairs (id int primary key, a int, b int)", pairs={})
    replicated.publisher.execute("insert into pairs values (1, 10, 20)")
    replicated.subscribe(SyncType.AUTOMATIC)
    with replicated.open_agent() as agent:
        replicated.publisher.execute(*SWAP)
        while agent.step() and not replicated.subscriber.execute("select 1 from pairs"):
            pass
        replicated.publisher.execute(*SWAP)
    replicated.deliver()

    replicated.require_equal("pairs")


def test_what_cannot_be_added_is_left_out_and_named(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(
        ROWS,
        "create type mood as enum ('good', 'bad')",
        "alter table orders add column felt mood",
        "alter table orders add column note text",
        "update orders set felt = 'good', note = 'n'",
    )
    replicated.deliver()

    assert replicated.subscriber.execute("select * from orders order by id") == [
        (1, "ada", 10, "n"),
        (2, None, 20, "n"),
    ]
    assert list_left_out(replicated) == (OmittedColumn(4, "felt", 'type "public.mood" does not exist'),)


def test_a_column_that_a_view_uses_is_kept(replicated: ReplicatedDatabase) -> None:
    definition = "create table orders (id int primary key, customer text not null, total int)"
    replicated.begin(definition, orders={})
    replicated.subscriber.execute("create view customers as select customer from orders")
    replicated.publisher.execute(
        "insert into orders values (1, 'ada', 10)",
        "alter table orders drop column customer",
        "insert into orders values (2, 20)",
        "alter table orders add column customer text default 'x'",
        "insert into orders values (3, 30)",
        "update orders set total = total + 1",
    )
    replicated.deliver()

    rows = "select id, customer, total from orders order by id"
    assert replicated.subscriber.execute(rows) == [(1, "ada", 11), (2, None, 21), (3, None, 31)]
    kept, left_out = list_left_out(replicated)
    assert (kept.name, kept.is_kept) == ("customer", True)
    assert "other objects depend on it" in kept.reason
    assert left_out == OmittedColumn(4, "customer", "the subscriber keeps a dropped column of this name")
    said = [one.message for one in connect(replicated.publisher.url).health() if one.subject == "articles"]
    assert any(fact.startswith("a column was dropped from a published table, and a subscriber keeps") for fact in said)


def test_a_file_keeps_a_column_that_a_view_uses(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.subscriber.execute("create view customers as select customer from orders")
    replicated_file.publisher.execute(
        ROWS, "alter table orders drop column customer", "insert into orders values (3, 30)"
    )
    replicated_file.deliver()

    rows = "select id, customer, total from orders order by id"
    assert replicated_file.subscriber.execute(rows) == [(1, "ada", 10), (2, None, 20), (3, None, 30)]


def test_without_replicate_ddl_added_columns_are_left_out(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(ORDERS)
    replicated.publisher.execute(ORDERS)
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION, replicate_ddl=False)
    replicated.replication.add_article(PUBLICATION, "orders")
    replicated.subscribe()
    replicated.publisher.execute(ROWS, "alter table orders add column note text", "update orders set note = 'n'")
    replicated.deliver()

    rows = "select id, customer, total from orders order by id"
    assert replicated.subscriber.execute(rows) == replicated.publisher.execute(rows)
    reason = "the publication does not replicate schema changes"
    assert list_left_out(replicated) == (OmittedColumn(4, "note", reason),)
    said = [one.message for one in connect(replicated.publisher.url).health() if one.subject == "articles"]
    assert f"public.orders.note to {replicated.subscriber.url}: {reason}" in said[0]
    (validated,) = replicated.replication.validate(PUBLICATION, checksum=True)
    assert (validated.result, validated.left_out) == ("passed", ("note",))


def test_a_custom_procedure_has_to_take_the_new_columns(replicated: ReplicatedDatabase) -> None:
    body = "begin insert into orders values (c1, c2, c3); end"
    procedure = f"create procedure put(c1 int, c2 text, c3 int{{more}}) language plpgsql as '{body}'"
    replicated.subscriber.execute(procedure.format(more=""))
    replicated.begin(ORDERS, orders={"commands": commands(insert="CALL put")})
    replicated.publisher.execute(ROWS, "alter table orders add column note text", "insert into orders values (3)")
    with pytest.raises(SchemaChanged, match=r"procedure put has to take \(c1 integer, c2 text, c3 integer, c4 text\)"):
        replicated.deliver()
    replicated.subscriber.execute(procedure.format(more=", c4 text"))
    replicated.deliver()

    replicated.require_equal("orders")


@pytest.mark.parametrize("failpoint", ["subscriber_commit.before", "subscriber_commit.after"])
def test_a_kill_leaves_all_of_a_change_or_nothing(replicated: ReplicatedDatabase, failpoint: str) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute(ROWS)
    replicated.deliver()
    with replicated.writer() as writer:
        writer.execute("update orders set total = 11")
        writer.execute("alter table orders add column note text default 'n', drop column customer")
        writer.execute("insert into orders values (3, 30, 'c')")
    replicated.publisher.read_log(replicated.publisher.mark())
    run = ("replication", "run", "--once", "--db", replicated.publisher.url)
    assert rowtide_process(*run, environment={"ROWTIDE_FAILPOINT": failpoint}).code == KILLED
    replicated.deliver()

    replicated.require_equal("orders")


ALTERED_AT_ONCE = """
alter table orders drop column customer; alter table orders add column note text;
alter table orders rename column total to sum; alter table orders alter column sum type bigint;
alter table orders rename column note to remark
"""


@pytest.mark.parametrize("change", ["at once", "dropped", "widened", "swapped"])
def test_a_copy_waits_until_the_log_says_what_was_altered(replicated: ReplicatedDatabase, change: str) -> None:
    replicated.publish(ORDERS, ROWS, orders={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute(*REPORTED.get(change, (ALTERED_AT_ONCE,)))
    with replicated.open_agent() as agent:
        for _ in range(2):
            assert not agent.step()
        replicated.publisher.read_log()
        while agent.position is None:
            agent.step()
            replicated.publisher.read_log()
    replicated.deliver()

    assert replicated.subscriber.execute(COLUMNS) == replicated.publisher.execute(COLUMNS)
    replicated.require_equal("orders")


@pytest.mark.parametrize("conflicts", [None, Resolver.APPLY])
@pytest.mark.parametrize("name", ["replicated", "replicated_16"])
def test_who_keeps_a_table_from_its_change_is_named(
    name: str, request: pytest.FixtureRequest, conflicts: Resolver | None
) -> None:
    replicated: ReplicatedDatabase = request.getfixturevalue(name)
    replicated.subscriber.execute("create table orders (id int primary key)")
    replicated.publish("create table orders (id int primary key)", orders={})
    replicated.subscribe(settings=SubscriptionSettings(conflicts=conflicts))
    replicated.publisher.execute("alter table orders add note text", "insert into orders values (1, 'n')")
    with psycopg.connect(replicated.subscriber.url, application_name="a report") as reader:
        reader.execute("select from orders")
        with pytest.raises(SubscriberTableInUse) as raised:
            replicated.deliver()
        holder = rf"pid {reader.info.backend_pid} \(postgres, a report, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\)"
        assert re.search(rf", by {holder}\.", str(raised.value))
    replicated.deliver()
    replicated.require_equal("orders")
