"""Generated columns of published tables: a subscriber computes the stored ones as the publisher does."""

from __future__ import annotations

import pytest

from builders.replication.articles import commands
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, list_left_out
from rowtide.core.tables import BeforeImages
from rowtide.diagnosis.result import State
from rowtide.handle import connect
from rowtide.replication.errors.publishing import VirtualColumnPublished
from rowtide.replication.subscription_settings import SyncType

SUMS = "create table sums (id int primary key, a int, b int, twice int generated always as (a * 2) stored)"
ALTERED = {
    "expression": "alter table sums alter column twice set expression as (a * 5)",
    "added": "alter table sums add column c int default 4, add column thrice bigint generated always as (c * 3) stored",
    "renamed": "alter table sums rename column twice to doubled",
    "renamed with what it is of": "alter table sums rename column a to first",
    "type": "alter table sums alter column twice type bigint",
    "dropped": "alter table sums drop column twice",
    "dropped with what it is of": "alter table sums drop column a cascade",
    "ordinary": "alter table sums alter column twice drop expression",
}
"""What is done to a generated column."""
VIRTUAL = "create table sums (id int primary key, a int, twice int generated always as (a * 2) virtual)"
"""Of PostgreSQL 18."""


@pytest.mark.parametrize("change", ALTERED)
def test_a_generated_column_is_altered_as_published(replicated: ReplicatedDatabase, change: str) -> None:
    replicated.begin(SUMS, sums={})
    replicated.publisher.execute("insert into sums values (1, 1, 1), (2, 2, 2)")
    replicated.publisher.execute(
        ALTERED[change], "update sums set b = 7 where id = 1", "insert into sums values (3, 3)"
    )
    if change == "ordinary":
        replicated.publisher.execute("update sums set twice = -1 where id = 2")
    replicated.deliver()

    replicated.require_equal("sums")
    assert not list_left_out(replicated)


def test_what_no_trigger_reported_comes_with_a_copy(replicated: ReplicatedDatabase) -> None:
    replicated.publish(SUMS, sums={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    with replicated.publisher.transaction() as connection:
        connection.execute("set event_triggers = off")
        connection.execute("alter table sums alter column twice drop expression")
        connection.execute("alter table sums add column thrice int generated always as (a * 3) stored")
    replicated.publisher.execute("insert into sums values (1, 1, 1, -1)")
    replicated.deliver()
    replicated.replication.reinitialize(PUBLICATION)
    replicated.publisher.execute("update sums set twice = -2")
    replicated.deliver()

    replicated.require_equal("sums")


@pytest.mark.parametrize("is_written", [False, True], ids=["unwritten", "written"])
def test_a_dropped_expression_that_no_trigger_saw_is_named(replicated: ReplicatedDatabase, *, is_written: bool) -> None:
    replicated.begin(SUMS, sums={})
    replicated.publisher.execute("insert into sums values (1, 1, 1)")
    replicated.deliver()
    with replicated.publisher.transaction() as connection:
        connection.execute("set event_triggers = off")
        connection.execute("alter table sums alter column twice drop expression")
    if is_written:
        replicated.publisher.execute("insert into sums values (2, 2, 2, -2)", "update sums set twice = -1 where id = 1")
    replicated.deliver()
    (validated,) = replicated.replication.validate(PUBLICATION)

    assert (validated.result, validated.left_out) == ("passed", ("twice",))


def test_what_a_transaction_adds_before_it_needs_a_copy_comes(replicated: ReplicatedDatabase) -> None:
    replicated.begin(SUMS, sums={})
    with replicated.publisher.transaction() as connection:
        connection.execute("insert into sums values (1, 1, 1)")
        connection.execute("alter table sums add column c int default 4")
        connection.execute("alter table sums add column thrice int generated always as (a * 3) stored")
        connection.execute("alter table sums rename column b to second")
        connection.execute("alter table sums add column numbered serial")
    replicated.deliver()

    rows = "select id, a, second, c, thrice, numbered from sums"
    assert replicated.subscriber.execute(rows) == replicated.publisher.execute(rows) == [(1, 1, 1, 4, 3, 1)]
    assert not list_left_out(replicated)


def test_a_generated_column_that_a_subscriber_lacks_is_named(replicated: ReplicatedDatabase) -> None:
    replicated.begin(SUMS, sums={})
    replicated.subscriber.execute("alter table sums drop column twice")
    (validated,) = replicated.replication.validate(PUBLICATION)
    replicated.deliver()

    assert validated.left_out == ("twice",)
    (left,) = list_left_out(replicated)
    assert (left.name, left.reason) == ("twice", "the subscriber's table has no such column")
    replicated.subscriber.execute("alter table sums add column twice int generated always as (a * 2) stored")
    replicated.publisher.execute("insert into sums values (1, 1)")
    replicated.deliver()
    assert not list_left_out(replicated)


def test_a_refused_generated_column_is_left_out(replicated: ReplicatedDatabase) -> None:
    own = "create function double(int) returns int immutable language sql return $1 * 2"
    replicated.begin(SUMS, sums={})
    replicated.publisher.execute(
        own,
        "alter table sums add column more int generated always as (double(a)) stored",
        "insert into sums values (1, 1)",
    )
    replicated.deliver()

    (left,) = list_left_out(replicated)
    assert (left.name, left.is_kept) == ("more", False)
    assert "function public.double(integer) does not exist" in left.reason
    assert replicated.subscriber.execute("select id, twice from sums") == [(1, 2)]


def test_a_table_with_a_virtual_column_stays_writable(replicated: ReplicatedDatabase) -> None:
    replicated.publish(VIRTUAL, sums={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into sums values (1, 1), (2, 2)", "update sums set a = 5 where id = 1")
    replicated.publisher.execute("delete from sums where id = 2")
    replicated.deliver()

    assert replicated.subscriber.execute("select * from sums") == [(1, 5)]


def test_a_virtual_column_that_is_added_blocks_no_update(replicated: ReplicatedDatabase) -> None:
    parts = (
        "create table part_1 partition of parts for values from (0) to (10)",
        "create table part_2 partition of parts default",
    )
    parted = "create table parts (id int primary key, a int) partition by range (id)"
    replicated.publish("create table sums (id int primary key, a int)", parted, *parts, sums={}, parts={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    for table in ("sums", "parts"):
        replicated.publisher.execute(f"insert into {table} values (1, 1), (2, 2), (20, 1)")
        replicated.publisher.execute(f"alter table {table} add column twice int generated always as (a * 2) virtual")
        replicated.publisher.execute(f"update {table} set a = 5 where id = 1", f"delete from {table} where id <> 1")
    replicated.deliver()

    for table in ("sums", "parts"):
        assert replicated.subscriber.execute(f"select * from {table}") == [(1, 5)]
    replicated.replication.reinitialize(PUBLICATION)
    replicated.publisher.execute("update sums set id = 9")
    replicated.deliver()
    assert replicated.subscriber.execute("select * from sums") == [(9, 5)]


def test_a_virtual_column_that_no_trigger_saw_is_named(replicated: ReplicatedDatabase) -> None:
    replicated.begin("create table sums (id int primary key, a int)", sums={})
    with replicated.publisher.transaction() as connection:
        connection.execute("set event_triggers = off")
        connection.execute("alter table sums add column twice int generated always as (a * 2) virtual")
    found = [one for one in connect(replicated.publisher.url).health() if "is virtual" in one.message]
    (failing,) = found

    assert failing.state is State.FAILING
    assert 'the server refuses updates and deletes of "public"."sums": column twice is virtual' in failing.message
    replicated.publisher.execute("alter table public.sums replica identity default", "update sums set a = 1")


@pytest.mark.parametrize(
    "options",
    [{"commands": commands(update="CALL")}, {"where": "a > 1"}, {"before_images": BeforeImages.FULL}],
    ids=["call", "filter", "images"],
)
def test_whole_rows_of_a_virtual_column_are_refused(replicated: ReplicatedDatabase, options: dict[str, object]) -> None:
    with pytest.raises(VirtualColumnPublished, match="RT-7292: .* column twice is virtual"):
        replicated.publish(VIRTUAL, sums=options)
