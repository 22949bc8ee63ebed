"""Changes of published tables reach the subscriber: every operation, through every call format, exactly once."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.replication.articles.call_formats import CallFormat, Command, KeyUpdates
from rowtide.replication.distribution.calls.batch_limits import BatchLimits
from rowtide.replication.distribution.run_context import Watchers
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused, CommandRefused, RowNotFound
from rowtide.replication.errors.publishing import ImagesNeeded
from rowtide.replication.targets.postgres.delivery.streams.several_connections import open_delivery

ORDERS = "create table orders (id int primary key, qty int not null, note text, amount numeric(10, 2))"
CHANGES = (
    "insert into orders select i, i % 7, 'note ' || i, i / 3.0 from generate_series(1, 100) i",
    "update orders set qty = qty + 1 where id % 2 = 0",
    "update orders set note = null, amount = null where id % 3 = 0",
    "update orders set id = id + 1000 where id % 10 = 0",
    "update orders set id = id + 1000, qty = -1 where id % 11 = 0 and id < 1000",
    "delete from orders where id % 5 = 1",
    "insert into orders select i, 0 from generate_series(201, 210) i",
)


def commands(insert: str = "CALL", update: str = "SCALL", delete: str = "CALL") -> dict[Operation, Command]:
    formats = {Operation.INSERT: insert, Operation.UPDATE: update, Operation.DELETE: delete}
    return {operation: Command(CallFormat(name)) for operation, name in formats.items()}


@pytest.mark.parametrize(
    ("chosen", "images"),
    [
        (commands(), None),
        (commands(), BeforeImages.KEY),
        (commands(update="CALL"), None),
        (commands(update="MCALL"), None),
        (commands(update="XCALL", delete="XCALL"), None),
        (commands("SQL", "SQL", "SQL"), None),
    ],
)
@pytest.mark.parametrize("key_updates", KeyUpdates)
def test_every_call_format_delivers_the_publisher_rows(
    replicated: ReplicatedDatabase,
    chosen: dict[Operation, Command],
    images: BeforeImages | None,
    key_updates: KeyUpdates,
) -> None:
    if key_updates is KeyUpdates.DELETE_INSERT and images is BeforeImages.KEY:
        replicated.publish(ORDERS)
        with pytest.raises(ImagesNeeded, match="--key-updates delete-insert needs all values"):
            replicated.replication.add_article("shop", "orders", before_images=images, key_updates=key_updates)
        return
    replicated.begin(ORDERS, orders={"commands": chosen, "before_images": images, "key_updates": key_updates})
    replicated.publisher.execute(*CHANGES)
    replicated.deliver()

    replicated.require_equal("orders")


def test_operations_not_propagated_stay_at_the_publisher(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={"commands": commands(update="NONE", delete="NONE")})
    replicated.publisher.execute(
        "insert into orders values (1, 1), (2, 1)", "update orders set qty = 5", "delete from orders where id = 2"
    )
    replicated.deliver()

    assert replicated.subscriber.execute("select id, qty from orders order by id") == [(1, 1), (2, 1)]


def test_a_table_without_key_is_published_for_its_inserts(replicated: ReplicatedDatabase) -> None:
    replicated.begin(
        "create table notes (at int, what text)", notes={"commands": commands(update="NONE", delete="NONE")}
    )
    replicated.publisher.execute("insert into notes values (1, 'a'), (1, 'a'), (null, null)")
    replicated.deliver()

    replicated.require_equal("notes")


def test_unpublished_columns_never_leave_the_publisher(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={"columns": ("id", "amount")})
    replicated.subscriber.execute("alter table orders alter qty set default 7")
    replicated.publisher.execute(
        "insert into orders values (1, 1, 'secret', 2.5)", "update orders set note = 'still secret', amount = 3.5"
    )
    replicated.deliver()

    assert replicated.subscriber.execute("table orders") == [(1, 7, None, Decimal("3.50"))]
    assert "secret" not in str(replicated.publisher.records())


def test_a_large_value_that_an_update_leaves_alone_stays(replicated: ReplicatedDatabase) -> None:
    large = "select string_agg(md5(i::text), '') from generate_series(1, 2000) i"
    replicated.begin(
        "create table documents (id int primary key, body text, seen int)",
        documents={"before_images": BeforeImages.KEY},
    )
    replicated.publisher.execute(
        f"insert into documents values (1, ({large}), 0)",
        "update documents set seen = 1",
        "update documents set id = 2, seen = 2",
    )
    replicated.deliver()

    replicated.require_equal("documents")


def test_only_changes_after_the_subscription_are_delivered(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(ORDERS, "insert into orders values (1, 1)")
    replicated.subscriber.execute(ORDERS, "insert into orders values (1, 1)")
    replicated.publisher.enable()
    replicated.replication.add_publication("shop")
    replicated.replication.add_article("shop", "orders")
    with replicated.writer() as early:
        # It began before the subscription and commits after it.
        early.execute("insert into orders values (2, 2)")
        replicated.publisher.execute("insert into orders values (3, 3)")
        replicated.subscriber.execute("insert into orders values (3, 3)")
        replicated.subscribe()
    replicated.publisher.execute("insert into orders values (4, 4)")
    replicated.deliver()

    replicated.require_equal("orders")


def test_source_transactions_are_gathered_and_never_divided(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    for first in range(0, 50, 10):
        replicated.publisher.execute(f"insert into orders select {first} + i, 1 from generate_series(1, 10) i")
    by_commands = replicated.deliver(BatchLimits(transactions=100, commands=15))
    replicated.publisher.execute(*(f"update orders set qty = {qty} where id = 1" for qty in range(5)))
    by_transactions = replicated.deliver(BatchLimits(transactions=2, commands=100))

    assert [(batch.transactions, batch.commands) for batch in by_commands] == [(2, 20), (2, 20), (1, 10)]
    assert [(batch.transactions, batch.commands) for batch in by_transactions] == [(2, 2), (2, 2), (1, 1)]
    replicated.require_equal("orders")


def test_large_transaction_is_atomic_and_refusal_names_the_row(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders select i, 1 from generate_series(1, 25000) i")
    (batch,) = replicated.deliver()
    assert (batch.transactions, batch.commands) == (1, 25_000)
    replicated.subscriber.execute("delete from orders where id = 23456")
    replicated.publisher.execute("update orders set qty = 2")
    with pytest.raises(RowNotFound, match="key id = 23456 "):
        replicated.deliver()

    assert replicated.subscriber.execute("select count(*) from orders where qty = 2") == [(0,)]


def test_order_is_kept_between_tables(replicated: ReplicatedDatabase) -> None:
    lines = "create table lines (id int primary key, of_order int not null references orders)"
    replicated.begin(ORDERS, lines, orders={}, lines={})
    with replicated.writer() as writer:
        for number in range(20):
            writer.execute("insert into orders values (%s, 1)", [number])
            writer.execute("insert into lines values (%s, %s)", [number, number])
        for number in range(0, 20, 2):
            writer.execute("delete from lines where id = %s", [number])
            writer.execute("delete from orders where id = %s", [number])
    replicated.deliver()

    replicated.require_equal("orders", "lines")


def test_missing_row_is_named_and_delivery_resumes_once_restored(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1), (2, 2)")
    replicated.deliver()
    replicated.subscriber.execute("delete from orders where id = 2")
    replicated.publisher.execute("update orders set qty = 10 where id = 1", "update orders set qty = 20 where id = 2")
    with pytest.raises(RowNotFound, match="the row with key id = 2 of public.orders .* applying update"):
        replicated.deliver()

    assert replicated.subscriber.execute("select id, qty from orders") == [(1, 1)]
    replicated.subscriber.execute("insert into orders values (2, 2)")
    replicated.deliver()
    replicated.require_equal("orders")


@pytest.mark.parametrize(
    ("at_the_subscriber", "sqlstate"),
    [("insert into orders values (1, 0)", "23505"), ("alter table orders add check (qty < 1)", "23514")],
)
def test_refused_command_is_named_with_article_key_and_reason(
    replicated: ReplicatedDatabase, at_the_subscriber: str, sqlstate: str
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute(at_the_subscriber)
    replicated.publisher.execute("insert into orders values (1, 1)")

    with pytest.raises(CommandRefused, match=f"refused insert of public.orders with key id = 1 .{sqlstate}.") as raised:
        replicated.deliver()
    assert raised.value.reason


def test_a_batch_that_fails_at_its_commit_is_reported_as_that(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute(
        "create table known (id int primary key)",
        "alter table orders add foreign key (id) references known deferrable initially deferred",
    )
    replicated.publisher.execute("insert into orders values (1, 1)")

    with pytest.raises(BatchRefused, match=r"refused to commit a batch .23503.: .* violates foreign key"):
        replicated.deliver()


def test_an_error_names_the_command_and_its_transaction(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (2, 1)")
    replicated.publisher.execute("insert into orders values (8, 1)", "insert into orders values (1, 1), (2, 1), (3, 1)")
    with pytest.raises(CommandRefused) as raised:
        replicated.replication.run(once=True)

    (written,) = replicated.replication.list_errors()
    assert (written.xact_seqno, written.command_id) == (raised.value.lsn, raised.value.command_id)
    (found,) = [
        browsed.command
        for browsed in replicated.replication.browse_commands(from_lsn=raised.value.lsn, to_lsn=raised.value.lsn)
        if browsed.command_id == written.command_id
    ]
    assert found.startswith('{CALL "sp_MSins_publicorders" (2, 1')


def test_a_batch_of_an_agent_that_was_replaced_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    (subscription,) = list_subscriptions(replicated.publisher)
    first = open_delivery(subscription)
    second = open_delivery(subscription)
    try:
        first.begin()
        with pytest.raises(AgentReplaced, match="another agent has taken over delivery to .* .epoch 2"):
            first.end(first.progress.position)
        second.begin()
        second.end(second.progress.position)
        assert (second.progress.batch, second.progress.epoch) == (1, 2)
    finally:
        first.close()
        second.close()


def test_batch_is_refused_once_the_subscriber_was_set_back(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    (subscription,) = list_subscriptions(replicated.publisher)
    progress = 'rowtide_subscriber."MSreplication_subscriptions"'
    delivery = open_delivery(subscription)
    try:
        replicated.subscriber.execute(f"create table backup as table {progress}")
        reached = Position(delivery.progress.position.value + 1)
        delivery.begin()
        delivery.end(reached)
        # Restored from a backup under its agent: in the same epoch, without the last batch.
        replicated.subscriber.execute(f"delete from {progress}", f"insert into {progress} table backup")
        delivery.begin()
        with pytest.raises(AgentReplaced, match="epoch 1, position"):
            delivery.end(Position(reached.value + 1))
    finally:
        delivery.close()


def test_a_schema_change_that_is_not_published_stops_nothing(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={"columns": ("id", "qty")})
    replicated.publisher.execute(
        "alter table orders add column extra int", "alter table orders drop column note", "create index on orders (qty)"
    )
    replicated.publisher.execute("insert into orders (id, qty, extra) values (1, 1, 1)")
    replicated.deliver()

    assert replicated.subscriber.execute("select id, qty from orders") == [(1, 1)]


def test_partition_rows_arrive_in_an_unpartitioned_table(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(
        "create table parts (id int primary key, v int) partition by range (id)",
        "create table low partition of parts for values from (0) to (10)",
        "create table high partition of parts for values from (10) to (20)",
    )
    replicated.subscriber.execute("create table parts (id int primary key, v int)")
    replicated.begin(parts={})
    replicated.publisher.execute(
        "insert into parts select i, i from generate_series(0, 19) i",
        "delete from parts where id = 15",
        "update parts set id = 15 where id = 5",
        "update parts set v = 0 where id = 15",
    )
    replicated.deliver()

    replicated.require_equal("parts")


@pytest.mark.parametrize("images", [None, BeforeImages.KEY])
@pytest.mark.parametrize("is_partitioned_there", [False, True])
def test_row_changed_as_it_moves_between_partitions_is_whole(
    replicated: ReplicatedDatabase, images: BeforeImages | None, *, is_partitioned_there: bool
) -> None:
    columns = "id int, region text, v int, note text, large text, primary key (id, region)"
    partitioned = (
        f"create table parts ({columns}) partition by list (region)",
        "create table north partition of parts for values in ('north')",
        "create table south (large text, note text, v int, region text not null, id int not null)",
        "alter table parts attach partition south for values in ('south')",
        "alter table parts alter large set storage external",
    )
    replicated.publisher.execute(*partitioned)
    replicated.subscriber.execute(*(partitioned if is_partitioned_there else [f"create table parts ({columns})"]))
    replicated.begin(parts={"before_images": images})
    large = "string_agg(md5(i::text), '' order by i)"
    replicated.publisher.execute(
        f"insert into parts select 1, 'north', 1, 'first', {large} from generate_series(1, 500) i",
        f"insert into parts select 2, 'south', 2, null, {large} from generate_series(1, 600) i",
        "update parts set region = 'south', v = 10, note = null where id = 1",
        "update parts set region = 'north', note = 'moved' where id = 2",
        "update parts set v = null where id = 1",
    )
    replicated.deliver()

    assert replicated.subscriber.execute("select id, region, v, note, length(large) from parts order by id") == [
        (1, "south", None, None, 500 * 32),
        (2, "north", 2, "moved", 600 * 32),
    ]
    replicated.require_equal("parts")


def test_truncate_is_delivered_in_place_unless_deletes_are_not(replicated: ReplicatedDatabase) -> None:
    kept = "create table kept (id int primary key)"
    replicated.begin(ORDERS, kept, orders={}, kept={"commands": commands(delete="NONE")})
    replicated.publisher.execute(
        "insert into orders values (1, 1)",
        "insert into kept values (1)",
        "truncate orders, kept",
        "insert into orders values (1, 2)",
    )
    replicated.deliver()

    replicated.require_equal("orders")
    assert replicated.subscriber.execute("table kept") == [(1,)]


def test_delivery_ends_when_it_is_asked_to(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders values (1, 1)")
    stop, delivered = threading.Event(), threading.Event()
    running = threading.Thread(
        target=lambda: replicated.replication.run(
            stop=stop, watchers=Watchers(on_batch=lambda _report: delivered.set())
        )
    )
    running.start()
    try:
        assert delivered.wait(60)
    finally:
        stop.set()
        running.join(60)
    assert not running.is_alive()
    replicated.require_equal("orders")
