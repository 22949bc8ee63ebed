"""The text of views, materialized views, functions and procedures is published, and nothing else of them."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.articles.call_formats import parse_command
from rowtide.replication.errors.publishing import (
    ExecutionsNotLogged,
    ObjectNotFound,
    SchemaArticleUsesUnpublished,
    UpdatableCallRefused,
)
from rowtide.replication.errors.subscribing import ScriptRefused, SubscriberTableExists
from rowtide.replication.subscription_settings import IfExists, SyncType

ORDERS = (
    "create table orders (id int primary key, qty int, price numeric)",
    "create table hidden (id int primary key)",
    "create function tax(numeric) returns numeric immutable language sql as 'select $1 * 0.2'",
    (
        "create view priced with (security_barrier = true) as "
        "select id, qty * price + tax(price) as total from orders where qty > 0 with check option"
    ),
    "create view large as select * from priced where total > 100",
    "insert into orders select i, i, i from generate_series(1, 50) i",
    "create materialized view totals (of, total) as select id % 3, sum(total) from priced group by 1",
    "create unique index on totals (of)",
    "create procedure add_order(id int) language plpgsql as $$begin insert into orders values (id, 1, 1); end$$",
)
OBJECTS = ("tax", "priced", "public.large", "totals", "add_order")


def publish(replicated: ReplicatedDatabase) -> None:
    replicated.publish(*ORDERS, orders={})
    for name in OBJECTS:
        assert replicated.replication.add_schema_article("shop", name)


def test_objects_are_made_in_order_and_filled_after_the_copy(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()

    replicated.require_equal("orders", "large", "totals")
    described = "select pg_get_viewdef(oid), reloptions from pg_class where relname in ('priced', 'large', 'totals')"
    assert replicated.subscriber.execute(described) == replicated.publisher.execute(described)
    replicated.subscriber.execute("refresh materialized view concurrently totals", "call add_order(99)")
    with pytest.raises(SubscriberTableExists, match="public.orders, .*public.priced, public.large, public.totals"):
        replicated.replication.reinitialize("shop", if_exists=IfExists.FAIL)


@pytest.mark.exhaustive
def test_tables_that_views_read_are_copied_again(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscribe(SyncType.AUTOMATIC)
    for if_exists in (IfExists.DROP, IfExists.TRUNCATE):
        replicated.replication.reinitialize("shop", if_exists=if_exists)
        replicated.deliver()
        replicated.deliver()
        replicated.require_equal("orders", "large", "totals")


@pytest.mark.parametrize("how", ["reinitialized", "changed", "altered meanwhile"])
def test_one_table_that_views_read_is_copied_again(replicated: ReplicatedDatabase, how: str) -> None:
    publish(replicated)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    replicated.subscriber.execute("create view own as select * from orders", "grant select on large to public")
    if how == "altered meanwhile":
        replicated.publisher.execute("alter table orders add column note text default 'n'")
        replicated.deliver()
        replicated.publisher.execute("alter table orders add column more int generated always as (id + 1) stored")
    if how == "changed":
        replicated.replication.change_article("shop", "orders", where="price > 0")
    else:
        replicated.replication.reinitialize("shop", article="orders")
    replicated.publisher.execute("insert into orders (id, qty, price) values (77, 7, 700)")
    replicated.deliver()
    replicated.deliver()

    replicated.publisher.execute("refresh materialized view totals")
    replicated.require_equal("orders", "large", "totals")
    assert replicated.subscriber.execute("select count(*) from own where id = 77") == [(1,)]
    assert "=r/" in str(replicated.subscriber.execute("select relacl::text from pg_class where relname = 'large'"))


@pytest.mark.exhaustive
def test_adding_again_renews_the_text_at_subscribers(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    replicated.publisher.execute(
        "drop view large",
        "create view large as select total, 'x' as more from priced",
        "alter table orders add column note text",
        "create view noted as select note from orders",
    )
    replicated.replication.drop_article("shop", "public.large")
    replicated.replication.add_schema_article("shop", "large")
    replicated.require_equal("large")
    with pytest.raises(ScriptRefused, match='view public.noted .42703.: column "note" does not exist'):
        replicated.replication.add_schema_article("shop", "noted")
    replicated.deliver()
    replicated.replication.add_schema_article("shop", "noted")

    replicated.require_equal("large", "noted")


def test_articles_are_listed_and_dropped_by_name(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    listed = [(article.article, article.type) for article in replicated.replication.list_articles("shop")]
    assert listed == [
        ("orders", "table"),
        ("public.add_order(integer)", "procedure"),
        ("public.large", "view"),
        ("public.priced", "view"),
        ("public.tax(numeric)", "function"),
        ("public.totals", "materialized-view"),
    ]
    for name in ("tax(numeric)", "priced", "large", "public.totals", "public.add_order"):
        replicated.replication.drop_article("shop", name)
    assert [article.article for article in replicated.replication.list_articles("shop")] == ["orders"]
    replicated.replication.drop_publication("shop")


def test_what_cannot_be_published_so_is_refused_with_its_reason(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        *ORDERS,
        "create view of_both as select o.qty, h.id from orders o, hidden h",
        orders={"columns": ("id", "price")},
    )
    add = replicated.replication.add_schema_article
    with pytest.raises(SchemaArticleUsesUnpublished) as raised:
        add("shop", "of_both")
    assert raised.value.missing == "public.hidden, column qty of public.orders"
    with pytest.raises(SchemaArticleUsesUnpublished, match="column qty of public.orders, public.tax"):
        add("shop", "priced")
    with pytest.raises(ExecutionsNotLogged, match="not its call"):
        add("shop", "add_order", ArticleType.PROCEDURE_EXECUTION)
    with pytest.raises(ObjectNotFound, match="there is no view orders"):
        add("shop", "orders", ArticleType.VIEW)
    with pytest.raises(UpdatableCallRefused):
        parse_command(Operation.UPDATE, "vcall sp_x")
    assert not add("shop", "hidden")


@pytest.mark.exhaustive
def test_a_subscriber_that_refuses_an_object_is_reported(replicated: ReplicatedDatabase) -> None:
    replicated.publish(*ORDERS, orders={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.subscriber.execute("create table tax (id int)", "create view priced as select 1 as id")
    replicated.replication.add_schema_article("shop", "tax")
    replicated.replication.add_schema_article("shop", "priced")
    replicated.subscriber.execute("create view mine as select total from priced", "drop table tax")
    replicated.publisher.execute("drop view priced cascade", "create view priced as select 'x'::text as total")
    replicated.replication.drop_article("shop", "public.priced")
    with pytest.raises(ScriptRefused, match="view public.priced .2BP01."):
        replicated.replication.add_schema_article("shop", "priced")


@pytest.mark.exhaustive
def test_a_file_gets_the_tables_alone(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(*ORDERS, orders={})
    for name in OBJECTS:
        replicated_file.replication.add_schema_article("shop", name)
    replicated_file.subscribe(SyncType.AUTOMATIC)
    replicated_file.replication.add_schema_article("shop", "large")
    replicated_file.deliver()

    replicated_file.require_equal("orders")
