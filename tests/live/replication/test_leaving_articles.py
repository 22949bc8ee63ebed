"""Articles that are dropped, or copied again, while the others of their subscriptions continue."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, join_level, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from builders.replication.replication_runs import running, wait_rows
from rowtide.replication.errors.delivery import RowNotFound
from rowtide.replication.subscription_settings import IfExists, SyncType

CUSTOMERS = "create table customers (id int primary key, name text)"
ORDERS = "create table orders (id int primary key, customer_id int references customers, qty int)"
FILLED = (
    "insert into customers select i, 'name ' || i from generate_series(1, 50) i",
    "insert into orders select i, i % 50 + 1, i from generate_series(1, 200) i",
)
CHANGED = ("insert into customers values (60, 'new')", "update orders set customer_id = 60 where id < 10")


@pytest.fixture
def shop(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A subscriber that has customers, and orders that refer to them."""
    replicated.publish(CUSTOMERS, ORDERS, *FILLED, customers={}, orders={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    return replicated


def procedures(subscriber: Subscriber) -> list[str]:
    """Return the names of the generated procedures."""
    named = "select proname::text from pg_proc where proname ~ '^sp_MS(ins|upd|del)_' and prokind = 'p' order by 1"
    return [name for (name,) in subscriber.execute(named)]


def test_dropped_article_leaves_rows_and_no_procedure(shop: ReplicatedDatabase) -> None:
    shop.replication.drop_article("shop", "orders")
    shop.publisher.execute(*CHANGED)
    shop.deliver()

    shop.require_equal("customers")
    assert shop.subscriber.execute("select count(*) from orders where customer_id = 60") == [(0,)]
    assert all(name.endswith("publiccustomers") for name in procedures(shop.subscriber))
    assert len(procedures(shop.subscriber)) == 3


@pytest.mark.exhaustive
def test_dropped_article_may_be_added_again_at_once(shop: ReplicatedDatabase) -> None:
    shop.replication.drop_article("shop", "customers")
    shop.subscriber.execute("drop table customers cascade")
    shop.replication.add_article("shop", "customers")
    shop.publisher.execute(*CHANGED)
    shop.deliver()

    shop.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_article_is_copied_again_while_others_go_on(shop: ReplicatedDatabase) -> None:
    shop.subscriber.execute("delete from orders where id < 100")
    assert shop.replication.reinitialize("shop", article="orders") == (shop.subscriber.url,)
    shop.publisher.execute(*CHANGED)
    shop.deliver()

    shop.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_referenced_article_is_copied_again(shop: ReplicatedDatabase) -> None:
    keys = "select conname::text from pg_constraint where conrelid = 'orders'::regclass and contype = 'f'"
    shop.subscriber.execute("update customers set name = 'wrong'")
    shop.replication.reinitialize("shop", article="customers")
    shop.publisher.execute(*CHANGED)
    shop.deliver()

    shop.require_equal("customers", "orders")
    assert shop.subscriber.execute(keys) == [("orders_customer_id_fkey",)]


@pytest.mark.exhaustive
def test_only_article_is_copied_again(replicated: ReplicatedDatabase) -> None:
    replicated.publish(CUSTOMERS, FILLED[0], customers={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.replication.reinitialize("shop", article="customers")
    replicated.publisher.execute("update customers set name = 'later'")
    replicated.deliver()

    replicated.require_equal("customers")


@pytest.mark.exhaustive
def test_article_is_dropped_while_it_is_copied(shop: ReplicatedDatabase) -> None:
    shop.replication.reinitialize("shop", article="orders")
    (main, joining) = list_subscriptions(shop.publisher)
    with shop.open_agent() as agent:
        while agent.step():
            pass
    join_level(shop.publisher, joining)
    shop.replication.drop_article("shop", "orders")
    shop.publisher.execute(*CHANGED)
    shop.deliver()

    shop.require_equal("customers")
    assert [one.agent_id for one in list_subscriptions(shop.publisher)] == [main.agent_id]
    assert len(procedures(shop.subscriber)) == 3
    known = shop.subscriber.execute('select subscription_guid from rowtide_subscriber."MSreplication_subscriptions"')
    assert known == [(main.guid,)]


@pytest.mark.exhaustive
def test_article_is_copied_again_while_it_is_copied(shop: ReplicatedDatabase) -> None:
    shop.replication.reinitialize("shop", article="orders")
    with shop.open_agent() as agent:
        while agent.step():
            pass
    join_level(shop.publisher, list_subscriptions(shop.publisher)[1])
    shop.replication.reinitialize("shop", article="orders")
    shop.publisher.execute(*CHANGED)
    shop.deliver()

    shop.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_file_drops_an_article_and_copies_one_again(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(CUSTOMERS, ORDERS, *FILLED, customers={}, orders={})
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.subscriber.execute("delete from customers")
    replicated_file.replication.drop_article("shop", "orders")
    replicated_file.replication.reinitialize("shop", article="customers")
    replicated_file.publisher.execute(*CHANGED)
    replicated_file.deliver()

    replicated_file.require_equal("customers")
    assert replicated_file.subscriber.execute("select count(*) from orders where customer_id = 60") == [(0,)]


@pytest.mark.exhaustive
def test_run_goes_on_after_its_failing_article_is_copied(shop: ReplicatedDatabase) -> None:
    with running(shop) as run:
        shop.publisher.execute("insert into customers values (60, 'new')")
        wait_until(lambda: bool(shop.subscriber.execute("select 1 from customers where id = 60")), what="delivery")
        shop.subscriber.execute("delete from orders where id = 1")
        shop.publisher.execute("update orders set qty = 0 where id = 1")
        run.wait_trouble(RowNotFound, shop.subscriber)
        run.wait_ended()
    shop.replication.reinitialize("shop", article="orders")
    with running(shop):
        shop.publisher.execute("update customers set name = 'going on' where id = 60")
        wait_rows(shop.subscriber, shop.publisher.execute("select * from customers t order by 1"), "customers")
        wait_until(lambda: len(list_subscriptions(shop.publisher)) == 1, what="the article")
        shop.require_equal("orders")


@pytest.mark.exhaustive
def test_kept_table_is_emptied_and_its_own_keys_come_back(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute(
        CUSTOMERS, ORDERS, "create index on orders (qty)", "create table own (id int references orders)"
    )
    replicated.publish(CUSTOMERS, ORDERS, *FILLED, customers={}, orders={})
    replicated.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP)
    replicated.deliver()
    replicated.deliver()
    definitions = (
        "select pg_get_constraintdef(oid) from pg_constraint where contype = 'f' and conname !~ '^MS' order by 1"
    )
    indexes = "select indexdef from pg_indexes where tablename = 'orders' order by 1"
    before = [replicated.subscriber.execute(query) for query in (definitions, indexes)]
    replicated.replication.reinitialize("shop", article="orders")
    replicated.publisher.execute(*CHANGED)
    replicated.deliver()

    replicated.require_equal("customers", "orders")
    assert [replicated.subscriber.execute(query) for query in (definitions, indexes)] == before
