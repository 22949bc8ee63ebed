"""Changes of published tables reach a SQLite file: every operation, through every call format, exactly once."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pytest

from builders.replication.articles import commands
from builders.replication.ordered_calls import in_order
from builders.replication.replicated_files import ReplicatedFile, declare
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.distribution.calls.batch_limits import BatchLimits
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.distributor.subscription_records import list_subscribed, list_subscriptions
from rowtide.replication.errors.delivery import CommandRefused, RowNotFound
from rowtide.replication.targets.sqlite.delivery import SqliteDelivery
from rowtide.tracking import ChangeTracking, Storage

ORDERS = "create table orders (id int primary key, qty int not null, note text, amount numeric(10, 2))"
CHANGES = (
    "insert into orders select i, i % 7, 'note ' || i, i / 3.0 from generate_series(1, 100) i",
    "update orders set qty = qty + 1 where id % 2 = 0",
    "update orders set note = null, amount = null where id % 3 = 0",
    "update orders set qty = qty where id % 4 = 0",
    "update orders set id = id + 1000 where id % 10 = 0",
    "update orders set id = id + 1000, qty = -1 where id % 11 = 0 and id < 1000",
    "delete from orders where id % 5 = 1",
    "insert into orders select i, 0 from generate_series(201, 210) i",
)
EVERY_FORMAT: list[dict[str, Any]] = [
    {},
    {"before_images": BeforeImages.KEY},
    {"commands": commands(update="CALL")},
    {"commands": commands(update="MCALL")},
    {"commands": commands(update="XCALL", delete="XCALL")},
    {"commands": commands("SQL", "SQL", "SQL")},
]


@pytest.mark.parametrize("options", EVERY_FORMAT)
def test_every_call_format_delivers_publisher_rows_to_the_file(
    replicated_file: ReplicatedFile, options: dict[str, Any]
) -> None:
    replicated_file.begin(ORDERS, orders=options)
    replicated_file.publisher.execute(*CHANGES)
    replicated_file.deliver()

    replicated_file.require_equal("orders")


@pytest.mark.parametrize("options", EVERY_FORMAT)
def test_keys_differing_in_case_or_trailing_blanks_are_distinct(
    replicated_file: ReplicatedFile, options: dict[str, Any]
) -> None:
    replicated_file.begin(
        "create table words (word text, code char(4), at timestamptz, v int, primary key (code, word, at))",
        at_file=["create table words (word text collate nocase, code text collate rtrim, at timestamp, v integer)"],
        words=options,
    )
    replicated_file.publisher.execute(
        "insert into words select word, code, now(), 0 from unnest(array['a', 'A', 'a ', '', 'Ä', 'ä']) word, "
        "unnest(array['b', 'B', '']) code",
        "update words set v = 1 where word = 'a' and code = 'b'",
        "update words set word = 'c' where word = 'a ' and code = 'B'",
        "delete from words where word = 'A'",
        "delete from words where word = 'ä' and code = ''",
    )
    replicated_file.deliver()

    replicated_file.require_equal("words")


def test_operations_not_propagated_stay_at_the_publisher(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={"commands": commands(update="NONE", delete="NONE")})
    replicated_file.publisher.execute(
        "insert into orders values (1, 1), (2, 1)", "update orders set qty = 5", "delete from orders where id = 2"
    )
    replicated_file.publisher.execute("truncate orders")
    replicated_file.deliver()

    assert replicated_file.subscriber.execute("select id, qty from orders order by id") == [(1, 1), (2, 1)]


def test_a_table_without_key_is_published_for_its_inserts(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(
        "create table notes (at int, what text)", notes={"commands": commands(update="NONE", delete="NONE")}
    )
    replicated_file.publisher.execute("insert into notes values (1, 'a'), (1, 'a'), (null, null)")
    replicated_file.deliver()

    replicated_file.require_equal("notes")


@pytest.mark.parametrize("update", ["SCALL", "MCALL"])
def test_update_sets_changed_columns_and_key_only_if_it_changed(replicated_file: ReplicatedFile, update: str) -> None:
    replicated_file.begin(ORDERS, orders={"commands": commands(update=update)})
    replicated_file.publisher.execute("insert into orders values (1, 1, 'theirs', 1)")
    replicated_file.deliver()
    replicated_file.subscriber.execute(
        "update orders set note = 'mine'",
        "create table told (what text)",
        "create trigger of_key after update of id on orders begin insert into told values ('key'); end",
        "create trigger of_any after update on orders begin insert into told values ('any'); end",
    )
    replicated_file.publisher.execute("update orders set qty = 2", "update orders set qty = 2")
    replicated_file.publisher.execute("update orders set id = 7")
    replicated_file.deliver()

    assert replicated_file.subscriber.execute("select id, qty, note from orders") == [(7, 2, "mine")]
    assert replicated_file.subscriber.execute("select what, count(*) from told group by 1") == [("any", 3), ("key", 1)]


@pytest.mark.parametrize("suffix", [" without rowid", " strict", " strict, without rowid"])
def test_tables_of_every_form_are_delivered_to(replicated_file: ReplicatedFile, suffix: str) -> None:
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscriber.execute(declare(replicated_file.table("orders"), suffix=suffix))
    replicated_file.subscribe()
    replicated_file.publisher.execute(*CHANGES)
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_names_that_need_quoting_are_delivered_to(replicated_file: ReplicatedFile) -> None:
    name = """it's "the" [table] $1?"""
    quoted = '"' + name.replace('"', '""') + '"'
    articles: dict[str, Any] = {name: {}}
    replicated_file.begin(f'create table {quoted} ({quoted} int primary key, "select" text, "? :a" int)', **articles)
    replicated_file.publisher.execute(
        f"insert into {quoted} values (1, 'a', 1), (2, 'b', 2)",
        f'update {quoted} set "? :a" = 3, {quoted} = 5 where {quoted} = 1',
        f"delete from {quoted} where {quoted} = 2",
    )
    replicated_file.deliver()

    replicated_file.require_equal(quoted)


def test_foreign_keys_are_not_for_replication_and_triggers_fire(replicated_file: ReplicatedFile) -> None:
    orders, lines = (
        "create table orders (id integer primary key, qty integer)",
        "create table lines (id integer primary key, of_order integer references orders on delete cascade)",
    )
    replicated_file.begin(orders, lines, at_file=[orders, lines], orders={}, lines={})
    replicated_file.subscriber.execute(
        "create table seen (id integer)",
        "create trigger see after insert on lines begin insert or ignore into seen values (new.id); end",
    )
    with replicated_file.publisher.transaction() as writer:
        writer.execute("insert into orders values (1, 1), (2, 1)")
        writer.execute("insert into lines values (1, 1), (2, 2)")
        writer.execute("delete from orders where id = 1")
    replicated_file.deliver()

    replicated_file.require_equal("orders", "lines")
    assert replicated_file.subscriber.execute("select id from seen order by id") == [(1,), (2,)]


def test_a_truncate_is_delivered_in_its_place(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute(
        "insert into orders values (1, 1)", "truncate orders", "insert into orders values (1, 2)", "truncate orders"
    )
    replicated_file.publisher.execute("insert into orders values (1, 3)")
    replicated_file.deliver()

    replicated_file.require_equal("orders")


def test_a_row_filter_moves_rows_in_and_out(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={"where": "qty > 3"})
    replicated_file.publisher.execute(*CHANGES)
    replicated_file.deliver()

    orders = replicated_file.table("orders")
    published = replicated_file.published(orders, "(select * from public.orders where qty > 3) o")
    assert replicated_file.stored(orders, "orders") == published
    assert len(published) > 10


def test_source_transactions_are_gathered_and_never_divided(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    for first in range(0, 50, 10):
        replicated_file.publisher.execute(f"insert into orders select {first} + i, 1 from generate_series(1, 10) i")
    batches = replicated_file.deliver(BatchLimits(transactions=100, commands=15))

    assert [(batch.transactions, batch.commands) for batch in batches] == [(2, 20), (2, 20), (1, 10)]
    replicated_file.require_equal("orders")


@pytest.mark.exhaustive
def test_large_transaction_is_atomic_and_refusal_names_the_row(
    replicated_file: ReplicatedFile,
) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute("insert into orders select i, 1 from generate_series(1, 100000) i")
    (batch,) = replicated_file.deliver()
    assert (batch.transactions, batch.commands) == (1, 100_000)
    replicated_file.subscriber.execute("delete from orders where id = 23456")
    replicated_file.publisher.execute("update orders set qty = 2")
    with pytest.raises(RowNotFound, match="key id = 23456 "):
        replicated_file.deliver()

    assert replicated_file.subscriber.execute("select count(*) from orders where qty = 2") == [(0,)]
    assert replicated_file.subscriber.execute("pragma integrity_check") == [("ok",)]


THINGS = (
    "create table things (code bytea, tags int[], at timestamptz, flag bool, v int, primary key (code, tags, at, flag))"
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", ["update things set v = 2", "update things set flag = false", "delete from things"])
@pytest.mark.parametrize(("update", "delete"), [("SCALL", "CALL"), ("XCALL", "XCALL"), ("SQL", "SQL")])
def test_missing_row_is_named_and_delivery_resumes_once_restored(
    replicated_file: ReplicatedFile, change: str, update: str, delete: str
) -> None:
    replicated_file.begin(THINGS, things={"commands": commands(update=update, delete=delete)})
    replicated_file.publisher.execute("insert into things values ('\\x00ff', '{1,2}', '2024-02-29 00:00Z', true, 1)")
    replicated_file.deliver()
    replicated_file.subscriber.execute("create table kept as select * from things", "delete from things")
    replicated_file.publisher.execute(change)
    with pytest.raises(RowNotFound) as raised:
        replicated_file.deliver()

    assert (raised.value.table, raised.value.command) == ("public.things", change.split(maxsplit=1)[0])
    assert raised.value.key.startswith("code = \\x00ff, tags = {1,2}, at = 2024-02-29 00:00:00+00, flag = t")
    replicated_file.subscriber.execute("insert into things select * from kept")
    replicated_file.deliver()
    replicated_file.require_equal("things")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("at_the_subscriber", "code", "reason"),
    [
        ("insert into orders values (1, 0, null, null)", "SQLITE_CONSTRAINT_PRIMARYKEY", "orders.id"),
        (
            "create trigger no before insert on orders begin select raise(abort, 'not here'); end",
            "SQLITE_CONSTRAINT_TRIGGER",
            "not here",
        ),
        ("create trigger no before insert on orders begin select raise(ignore); end", "row count", "changed 0"),
        ("alter table orders drop column note", "SQLITE_ERROR", "no column named note"),
        ("drop table orders", "SQLITE_ERROR", "no such table"),
    ],
)
def test_refused_command_is_named_with_article_key_and_reason(
    replicated_file: ReplicatedFile, at_the_subscriber: str, code: str, reason: str
) -> None:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.subscriber.execute(at_the_subscriber)
    replicated_file.publisher.execute("insert into orders values (1, 1)")

    with pytest.raises(CommandRefused, match="refused insert of public.orders with key id = 1 ") as raised:
        replicated_file.deliver()
    assert raised.value.sqlstate == code
    assert re.search(reason, raised.value.reason)


def test_an_update_that_finds_two_rows_is_refused(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, at_file=["create table orders (id integer, qty integer, note, amount)"], orders={})
    replicated_file.publisher.execute("insert into orders values (1, 1)")
    replicated_file.deliver()
    replicated_file.subscriber.execute("insert into orders select * from orders")
    replicated_file.publisher.execute("update orders set qty = 2")

    with pytest.raises(CommandRefused, match="it was about one row and changed 2"):
        replicated_file.deliver()
    assert replicated_file.subscriber.execute("select qty from orders") == [(1,), (1,)]


def test_a_text_that_is_no_utf_8_is_refused_with_its_row(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin("create table words (id int primary key, word text)", words={})
    with open_engine(replicated_file.publisher.url).connect() as connection:
        (subscription,) = list_subscriptions(connection)
        (article,) = list_subscribed(connection, subscription.agent_id)
    with closing(SqliteDelivery.open(subscription)) as delivery:
        delivery.begin()
        with pytest.raises(CommandRefused, match="insert of public.words with key id = 1 .encoding.: 'utf-8' codec"):
            delivery.run(in_order([ProcedureCall(0, 1, article, Operation.INSERT, [b"1", b"caf\xe9"])]))


def test_more_bitmaps_than_statements_are_kept_are_delivered(replicated_file: ReplicatedFile) -> None:
    columns = [f"c{number}" for number in range(10)]
    replicated_file.begin(
        f"create table wide (id int primary key, {', '.join(f'{name} int' for name in columns)})", wide={}
    )
    replicated_file.publisher.execute("insert into wide (id) select generate_series(1, 1023)")
    changes = ", ".join(f"c{place} = case when id >> {place} & 1 = 1 then id end" for place in range(10))
    replicated_file.publisher.execute(
        f"update wide set {changes}", f"update wide set {changes.replace('id end', '-id end')}"
    )
    replicated_file.deliver()

    replicated_file.require_equal("wide")


@pytest.mark.parametrize("storage", Storage)
def test_delivered_changes_are_tracked_if_the_file_is_tracked(
    replicated_file: ReplicatedFile, storage: Storage
) -> None:
    replicated_file.publish("create table orders (id int primary key, qty int)", orders={})
    replicated_file.subscriber.execute("create table orders (id integer primary key, qty integer)")
    tracking = ChangeTracking(replicated_file.subscriber.program)
    tracking.enable_tracking("orders", storage=storage)
    replicated_file.subscribe()
    replicated_file.publisher.execute(
        "insert into orders values (1, 1), (2, 2), (3, 3)", "update orders set qty = 5 where id = 1"
    )
    replicated_file.deliver()
    with tracking.changes(["orders"]) as copied:
        assert sorted(change.row for change in copied) == [(1, 5), (2, 2), (3, 3)]
    replicated_file.publisher.execute("update orders set id = 7 where id = 2", "delete from orders where id = 3")
    replicated_file.deliver()

    with tracking.changes(["orders"], since=copied.anchor) as changes:
        changed = sorted((change.operation.value, *change.row) for change in changes)
    assert changed == [("delete", 2), ("delete", 3), ("insert", 7, 2)]


def test_a_key_column_that_was_dropped_is_not_taken_for_a_text(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(
        "create table words (word text primary key, v int)",
        at_file=["create table words (word text, v integer)"],
        words={},
    )
    replicated_file.publisher.execute("insert into words values ('word', 1)")
    replicated_file.deliver()
    replicated_file.subscriber.execute("alter table words drop column word")
    replicated_file.publisher.execute("delete from words")

    with pytest.raises(CommandRefused, match="no such column: t.word"):
        replicated_file.deliver()
