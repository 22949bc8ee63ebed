"""Articles that are added to a publication with subscribers: copied during delivery, then part of it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, join_level, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from builders.replication.replication_runs import running, wait_rows
from rowtide.handle import connect
from rowtide.replication.errors.delivery import JoiningRefused
from rowtide.replication.errors.subscribing import SubscriberTableExists
from rowtide.replication.subscription_settings import IfExists, SyncType

CUSTOMERS = "create table customers (id int primary key, name text)"
ORDERS = "create table orders (id int primary key, customer_id int references customers, qty int)"
CUSTOMERS_FILLED = "insert into customers select i, 'name ' || i from generate_series(1, 50) i"
ORDERS_FILLED = "insert into orders select i, i % 50 + 1, i from generate_series(1, 200) i"


@pytest.fixture
def customers(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A subscriber that has customers; orders, which refer to them, are not published yet."""
    replicated.publish(CUSTOMERS, CUSTOMERS_FILLED, ORDERS, ORDERS_FILLED, customers={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    return replicated


def foreign_keys(subscriber: Subscriber) -> list[tuple[Any, ...]]:
    """Return the names and tables of a subscriber's foreign keys."""
    return subscriber.execute(
        "select conname::text, conrelid::regclass::text from pg_constraint where contype = 'f' "
        "and connamespace <> 'rowtide_subscriber'::regnamespace order by 1"
    )


def test_added_article_is_copied_and_joins(customers: ReplicatedDatabase) -> None:
    customers.replication.add_article("shop", "orders")
    customers.publisher.execute("insert into customers values (60, 'new')", "update orders set customer_id = 60")
    customers.deliver()

    customers.require_equal("customers", "orders")
    assert len(list_subscriptions(customers.publisher)) == 1
    customers.publisher.execute("delete from orders where id < 50", "insert into orders values (500, 60, 1)")
    customers.deliver()
    customers.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_article_that_is_copied_again_may_be_renamed_meanwhile(customers: ReplicatedDatabase) -> None:
    customers.replication.reinitialize("shop", article="customers")
    customers.publisher.execute("alter table customers rename to clients", "insert into clients values (60, 'new')")
    customers.deliver()

    customers.require_equal("clients")


THINGS = "create table things (id int primary key, u int unique)"
RENAMED = ("alter table things rename to goods", "alter table goods add n int", "insert into goods values (1, 1, 1)")


@pytest.mark.exhaustive
@pytest.mark.parametrize("if_exists", [IfExists.DROP, IfExists.TRUNCATE])
def test_a_table_that_is_copied_again_was_renamed(replicated: ReplicatedDatabase, if_exists: IfExists) -> None:
    replicated.publish(THINGS, "insert into things values (2, 2)", things={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.publisher.execute(*RENAMED)
    replicated.replication.reinitialize("shop", article="things", if_exists=if_exists)
    replicated.deliver()

    replicated.require_equal("goods")
    left = "select relname::text from pg_class where relkind = 'r' and relname in ('things', 'goods')"
    assert replicated.subscriber.execute(left) == [("goods",)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("if_exists", [IfExists.DROP, IfExists.TRUNCATE])
def test_a_files_table_that_is_copied_again_was_renamed(replicated_file: ReplicatedFile, if_exists: IfExists) -> None:
    replicated_file.publish(THINGS, "insert into things values (2, 2)", things={})
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.publisher.execute(*RENAMED)
    replicated_file.replication.reinitialize("shop", article="things", if_exists=if_exists)
    replicated_file.deliver()

    replicated_file.require_equal("goods")
    left = "select name from sqlite_schema where type = 'table' and name in ('things', 'goods')"
    assert replicated_file.subscriber.execute(left) == [("goods",)]


@pytest.mark.exhaustive
def test_foreign_keys_come_when_the_article_joins(customers: ReplicatedDatabase) -> None:
    customers.replication.add_article("shop", "orders")
    customers.deliver()

    assert foreign_keys(customers.subscriber) == [("orders_customer_id_fkey", "orders")]


@pytest.mark.exhaustive
def test_referenced_article_brings_the_keys_of_others(replicated: ReplicatedDatabase) -> None:
    replicated.publish(CUSTOMERS, CUSTOMERS_FILLED, ORDERS, ORDERS_FILLED, orders={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.replication.add_article("shop", "customers")
    replicated.deliver()

    assert foreign_keys(replicated.subscriber) == [("orders_customer_id_fkey", "orders")]
    replicated.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_others_go_on_while_an_article_is_copied(customers: ReplicatedDatabase) -> None:
    customers.replication.add_article("shop", "orders")
    (main, joining) = list_subscriptions(customers.publisher)
    with customers.writer():
        # A transaction that is open keeps the copy from beginning.
        with customers.writer() as other:
            other.execute("insert into customers values (61, 'meanwhile')")
        customers.publisher.read_log(customers.publisher.mark())
        join_level(customers.publisher, joining)
        with customers.open_agent() as agent:
            while agent.step():
                pass
        assert customers.subscriber.execute("select name from customers where id = 61") == [("meanwhile",)]
        assert main.agent_id == joining.joins
    customers.deliver()
    customers.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_two_articles_added_at_once_both_join(customers: ReplicatedDatabase) -> None:
    # The server allows eight prepared transactions.
    customers.replication.change_subscription("shop", customers.subscriber.url, streams=8)
    customers.publisher.execute("create table lines (order_id int references orders, n int, primary key (order_id, n))")
    customers.replication.add_article("shop", "lines")
    customers.replication.add_article("shop", "orders")
    customers.publisher.execute("insert into lines select i, 1 from generate_series(1, 100) i")
    customers.deliver()

    customers.require_equal("customers", "orders", "lines")
    assert foreign_keys(customers.subscriber) == [
        ("lines_order_id_fkey", "lines"),
        ("orders_customer_id_fkey", "orders"),
    ]


def test_file_gets_an_added_article(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(CUSTOMERS, CUSTOMERS_FILLED, ORDERS, ORDERS_FILLED, customers={})
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.deliver()
    replicated_file.replication.add_article("shop", "orders")
    replicated_file.publisher.execute("insert into customers values (60, 'new')", "update orders set customer_id = 60")
    replicated_file.deliver()

    replicated_file.require_equal("customers", "orders")
    replicated_file.publisher.execute("delete from orders where id < 50", "insert into orders values (500, 60, 1)")
    replicated_file.deliver()
    replicated_file.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_article_joins_while_a_run_delivers(customers: ReplicatedDatabase) -> None:
    with running(customers):
        customers.publisher.execute("insert into customers values (70, 'before')")
        customers.replication.add_article("shop", "orders")
        wait_until(lambda: len(list_subscriptions(customers.publisher)) == 1, what="the article")
        customers.publisher.execute("insert into orders values (1000, 70, 1)")
        expected = customers.publisher.execute("select * from orders t order by 1")
        wait_rows(customers.subscriber, expected)


@pytest.mark.exhaustive
def test_run_once_ends_when_the_article_has_joined(customers: ReplicatedDatabase) -> None:
    customers.replication.add_article("shop", "orders")
    customers.publisher.execute(
        "insert into customers values (70, 'before')", "insert into orders values (1000, 70, 1)"
    )
    customers.replication.run(once=True)

    customers.require_equal("customers", "orders")
    assert len(list_subscriptions(customers.publisher)) == 1


@pytest.mark.exhaustive
def test_article_whose_table_is_there_stops_alone(customers: ReplicatedDatabase) -> None:
    customers.subscriber.execute("create table orders (id int)")
    customers.replication.add_article("shop", "orders")
    customers.publisher.execute("insert into customers values (80, 'others')")
    with pytest.raises(SubscriberTableExists):
        customers.replication.run(once=True)

    customers.require_equal("customers")
    states = [one.state for one in customers.replication.status()]
    assert states == ["active without public.orders", "stopped: public.orders is to be copied"]


@pytest.mark.exhaustive
def test_run_once_fails_if_the_article_is_refused(customers: ReplicatedDatabase) -> None:
    customers.subscriber.execute("alter table customers drop constraint customers_pkey")
    customers.replication.add_article("shop", "orders")
    customers.publisher.execute("insert into customers values (80, 'others')")
    with pytest.raises(JoiningRefused, match="no unique constraint matching given keys"):
        customers.replication.run(once=True)

    customers.require_equal("customers")


@pytest.mark.exhaustive
def test_paused_subscriber_gets_the_article_when_it_resumes(customers: ReplicatedDatabase) -> None:
    customers.replication.pause("shop", customers.subscriber.url)
    customers.replication.add_article("shop", "orders")
    customers.replication.pause("shop", customers.subscriber.url)
    customers.publisher.execute("insert into customers values (70, 'later')", "update orders set customer_id = 70")
    customers.replication.run(once=True)
    assert customers.subscriber.execute("select to_regclass('orders') is null") == [(True,)]
    customers.replication.resume("shop", customers.subscriber.url)
    customers.replication.run(once=True)

    customers.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_article_waits_for_the_subscriptions_own_copy(replicated: ReplicatedDatabase) -> None:
    replicated.publish(CUSTOMERS, CUSTOMERS_FILLED, ORDERS, ORDERS_FILLED, customers={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.replication.add_article("shop", "orders")
    replicated.publisher.execute("insert into customers values (70, 'later')", "update orders set customer_id = 70")
    join_level(replicated.publisher, list_subscriptions(replicated.publisher)[1])
    assert replicated.subscriber.execute("select to_regclass('orders') is null") == [(True,)]
    replicated.deliver()

    replicated.require_equal("customers", "orders")


@pytest.mark.exhaustive
def test_subscriber_that_is_down_gets_the_article_afterwards(
    customers: ReplicatedDatabase, second_subscriber: Subscriber
) -> None:
    customers.subscribe(SyncType.AUTOMATIC, subscriber=second_subscriber)
    customers.deliver()
    name = make_url(second_subscriber.url).database
    second_subscriber.session.close()
    customers.publisher.execute(f"alter database {name} rename to {name}_gone")
    with running(customers):
        customers.replication.add_article("shop", "orders")
        wait_until(lambda: len(list_subscriptions(customers.publisher)) == 3, what="the other subscriber's article")
        customers.require_equal("customers", "orders")
        customers.publisher.execute(f"alter database {name}_gone rename to {name}")
        wait_until(lambda: len(list_subscriptions(customers.publisher)) == 2, what="the article")
    with psycopg.connect(second_subscriber.url) as session:
        assert session.execute("select count(*) from orders").fetchone() == (200,)


@pytest.mark.exhaustive
def test_status_health_and_validation_say_what_is_copied(customers: ReplicatedDatabase) -> None:
    customers.deliver()
    customers.replication.add_article("shop", "orders")
    copying = [one for one in customers.replication.status() if one.joining is not None]
    assert [one.state for one in copying] == ["public.orders is to be copied"]
    facts = [one.message for one in connect(customers.publisher.url).health()]
    assert any("public.orders is to be copied" in fact for fact in facts)
    compared = {one.article: one.result for one in customers.replication.validate("shop")}
    assert compared == {"customers": "passed", "orders": "not compared"}
    assert len(customers.replication.list_subscriptions()) == 1
    customers.publisher.read_log(customers.publisher.mark())
    join_level(customers.publisher, list_subscriptions(customers.publisher)[1])
    customers.publisher.read_log(customers.publisher.mark())
    join_level(customers.publisher, list_subscriptions(customers.publisher)[1])
    (ready,) = [one.state for one in customers.replication.status() if one.joining is not None]
    assert ready.startswith("public.orders is copied; its commits are whole from LSN ")
