"""A schema that was there first is kept: what cannot hold during the copy is off, and restored to the letter."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, list_subscriptions
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.errors.subscribing import SubscriberNotCleared, SubscriberTableBusy, SubscriberTablesUnfit
from rowtide.replication.subscription_settings import Constraints, IfExists, SyncType

SHOP = (
    "create type mood as enum ('sad', 'glad')",
    "create domain email as text check (value like '%@%')",
    "create table customers (id int generated always as identity primary key, mail email unique, feels mood)",
    (
        "create table orders (id int primary key, customer int not null references customers on delete cascade, "
        "qty int check (qty > 0), total int generated always as (qty * 2) stored, parent int references orders)"
    ),
    "comment on constraint orders_customer_fkey on orders is 'whose it is'",
    "create table parts (id int, day date, primary key (id, day)) partition by range (day)",
    "create table parts_25 partition of parts for values from ('2025-01-01') to ('2026-01-01')",
    "create table notes (of_order int references orders, body text default 'none')",
    "create unique index on orders (qty, id)",
    "create view large as select o.*, c.mail from orders o join customers c on c.id = o.customer where qty > 5",
    "create table audit (what text)",
    (
        "create function audit() returns trigger language plpgsql as $$begin insert into audit values (tg_table_name); "
        "return new; end$$"
    ),
    "create trigger noting after insert on orders for each row execute function audit()",
    "create trigger noting after insert on parts for each row execute function audit()",
    "create trigger never after insert on orders for each row execute function audit()",
    "alter table orders disable trigger never",
)
FILLED = (
    "insert into customers (mail, feels) select i || '@x', 'glad' from generate_series(1, 50) i",
    "insert into orders (id, customer, qty) select i, 1 + i % 50, i from generate_series(1, 300) i",
    "update orders set parent = id - 50 where id > 50",
    "insert into parts select i, date '2025-01-01' + i from generate_series(1, 20) i",
)
CATALOGUE = """
select 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid),
       obj_description(oid, 'pg_constraint')
from pg_constraint where connamespace = 'public'::regnamespace
union all select 'trigger', tgrelid::regclass::text, tgname, tgenabled::text, pg_get_triggerdef(oid)
from pg_trigger where not tgisinternal
union all select 'column', attrelid::regclass::text, attname, attidentity::text, pg_get_expr(adbin, adrelid)
from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
where attnum > 0 and attrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)
union all select 'relation', oid::regclass::text, relkind::text, pg_get_viewdef(oid), pg_get_indexdef(oid)
from pg_class where relnamespace = 'public'::regnamespace
order by 1, 2, 3, 4
"""


def catalogue(replicated: ReplicatedDatabase) -> list[tuple[Any, ...]]:
    return replicated.subscriber.execute(CATALOGUE)


def publish(replicated: ReplicatedDatabase) -> None:
    replicated.publish(*SHOP, customers={}, orders={})
    replicated.replication.add_article("shop", "parts", commands={})
    replicated.publisher.execute(*FILLED)


def keep(replicated: ReplicatedDatabase, **options: Any) -> None:
    given = {"if_exists": IfExists.KEEP, "constraints": Constraints.ENFORCE, "chunk_bytes": 8192, **options}
    replicated.subscribe(SyncType.AUTOMATIC, **given)


@pytest.mark.exhaustive
def test_a_table_that_is_renamed_during_its_copy_is_restored(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    keep(replicated)
    with replicated.open_agent() as agent:
        agent.step()
        replicated.publisher.execute(
            "alter table orders rename to purchases",
            "alter table purchases rename column customer to buyer",
            "alter table customers rename column id to number",
            "drop view large",
            "alter table purchases drop column parent",
        )
        for _ in range(20):
            replicated.publisher.read_log(replicated.publisher.mark())
            agent.step()

    replicated.require_equal("customers", "parts")
    rows = "select id, buyer, qty, total from purchases order by id"
    assert replicated.subscriber.execute(rows) == replicated.publisher.execute(rows)
    assert replicated.subscriber.execute("select count(*), count(parent) from large") == [(295, 0)]
    keys = """
        select conname, pg_get_constraintdef(oid), obj_description(oid, 'pg_constraint') from pg_constraint
        where contype = 'f' and connamespace = 'public'::regnamespace and conname <> 'orders_parent_fkey' order by 1
    """
    assert [
        (name, definition.removesuffix(" DEFERRABLE"), comment)
        for name, definition, comment in replicated.subscriber.execute(keys)
    ] == replicated.publisher.execute(keys)
    assert replicated.subscriber.execute(
        "select tgrelid::regclass::text, tgname, tgenabled::text from pg_trigger where not tgisinternal order by 1, 2"
    ) == [
        ("parts", "noting", "O"),
        ("parts_25", "noting", "O"),
        ("purchases", "never", "D"),
        ("purchases", "noting", "O"),
    ]


def test_a_schema_is_copied_to_and_restored_to_the_letter(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    before = catalogue(replicated)
    keep(replicated)
    with replicated.open_agent() as agent:
        while agent.position is None:
            replicated.publisher.execute(
                "delete from customers where id = (select min(id) from customers)",
                "insert into customers (mail) select 'new' || random() || '@x'",
                "update orders set qty = qty + 1 where id % 7 = 0",
            )
            agent.step()
    replicated.deliver()
    replicated.deliver()

    replicated.require_equal("customers", "orders", "parts", "large")
    assert replicated.subscriber.execute("select * from audit") == []
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        replicated.subscriber.execute("insert into orders values (-1, -1, 1)")
    kept = {fact[:3] for fact in catalogue(replicated)}
    assert kept == {fact[:3] for fact in before}
    # The log has a child's delete behind its parent's, and rows that reference each other one by one.
    replicated.publisher.execute(
        "delete from orders where id > 200",
        "insert into orders (id, customer, qty, parent) values (901, 30, 1, 902), (902, 30, 1, null)",
    )
    replicated.deliver()
    replicated.require_equal("orders")
    assert replicated.subscriber.execute("select * from audit") == [("orders",), ("orders",)]
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)

    assert catalogue(replicated) == before


def test_all_that_does_not_fit_is_listed_at_once(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table people (id int primary key, name varchar(40), born date, score bigint)",
        "create table places (id int primary key, person int, of numeric(10, 2))",
        people={},
        places={},
    )
    replicated.subscriber.execute(
        "create table towns (id int primary key)",
        "create table people (id int primary key, name varchar(20) not null, score int, born text, extra int not null)",
        "create table places (id int primary key, person int references towns, of numeric(8, 2), own int default 1)",
    )
    before = catalogue(replicated)
    with pytest.raises(SubscriberTablesUnfit) as raised:
        keep(replicated, if_exists=IfExists.TRUNCATE)

    assert raised.value.reasons == (
        "public.people: column name is character varying(20), published as character varying(40); "
        "public.people: column born is text, published as date; "
        "public.people: column score is integer, published as bigint; "
        "public.people: column extra is not null, has no default and is not published; "
        "public.places: column of is numeric(8,2), published as numeric(10,2); "
        'foreign key places_person_fkey of public.places references "public"."towns", which is empty and not published'
    )
    assert catalogue(replicated) == before
    assert list_subscriptions(replicated.publisher) == ()


@pytest.mark.exhaustive
def test_wider_columns_and_tables_that_are_not_there_are_taken(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table people (id int primary key, name varchar(40), score smallint)",
        "create table pets (id int primary key, owner int references people, tag text unique)",
        "insert into people select i, 'p' || i, i from generate_series(1, 9) i",
        "insert into pets select i, i, 'tag ' || i from generate_series(1, 9) i",
        people={},
        pets={},
    )
    replicated.subscriber.execute("create table people (id bigint primary key, name text, score numeric, own int)")
    keep(replicated)
    replicated.publisher.execute(
        "update people set name = 'x', score = 7 where id = 2", "delete from pets where id = 2"
    )
    replicated.deliver()
    replicated.deliver()

    query = "select id, name, score from people order by id"
    assert replicated.subscriber.execute(query) == replicated.publisher.execute(query)
    replicated.require_equal("pets")
    made = replicated.subscriber.execute(
        "select conname from pg_constraint where conrelid = 'pets'::regclass order by 1"
    )
    assert [name for (name,) in made if "not_null" not in name] == ["pets_owner_fkey", "pets_pkey", "pets_tag_key"]


@pytest.mark.exhaustive
def test_a_copy_given_up_midway_is_restored_on_request(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    before = catalogue(replicated)
    keep(replicated)
    with replicated.open_agent() as agent:
        agent.step()
    replicated.subscriber.execute("insert into orders (id, customer, qty) values (-1, -1, 1)")
    with pytest.raises(SubscriberNotCleared, match="orders_customer_fkey.*switched off during the copy"):
        replicated.replication.drop_subscription("shop", replicated.subscriber.url)
    replicated.subscriber.execute("truncate orders, customers")
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)

    assert catalogue(replicated) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "reinitialized"])
def test_the_next_subscription_restores_what_the_last_left_off(
    replicated: ReplicatedDatabase, *, is_lost: bool
) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    before = catalogue(replicated)
    keep(replicated)
    with replicated.open_agent() as agent:
        agent.step()
    if is_lost:
        replicated.replication.drop_subscription("shop", replicated.subscriber.url, ignore_subscriber=True)
        keep(replicated, if_exists=IfExists.TRUNCATE)
    else:
        replicated.replication.reinitialize("shop", if_exists=IfExists.TRUNCATE)
    replicated.deliver()
    replicated.deliver()

    replicated.require_equal("customers", "orders", "parts")
    recorded = replicated.subscriber.execute('select count(*) from rowtide_subscriber."MSreplication_subscriptions"')
    assert recorded == [(1,)]
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)
    assert catalogue(replicated) == before


@pytest.mark.exhaustive
def test_foreign_keys_stay_where_they_are_not_checked(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    before = catalogue(replicated)
    keep(replicated, constraints=Constraints.NOT_FOR_REPLICATION)
    columns = [fact for fact in catalogue(replicated) if fact[0] != "column"]
    assert columns == [fact for fact in before if fact[0] != "column"]
    with replicated.open_agent() as agent:
        agent.step()
        replicated.publisher.execute("truncate orders, notes", "insert into orders values (1, 1, 1)")
        while agent.position is None:
            agent.step()
    replicated.deliver()

    replicated.require_equal("customers", "orders", "parts")
    replicated.replication.drop_subscription("shop", replicated.subscriber.url)
    assert catalogue(replicated) == before


@pytest.mark.parametrize("constraints", Constraints)
def test_a_referenced_table_is_copied_again_alone(replicated: ReplicatedDatabase, constraints: Constraints) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    before = catalogue(replicated)
    keep(replicated, constraints=constraints)
    replicated.deliver()
    replicated.deliver()
    replicated.subscriber.execute("insert into notes values (7)", "set session_replication_role = replica")
    replicated.subscriber.execute("delete from customers where id < 9", "reset session_replication_role")
    replicated.replication.reinitialize("shop", article="customers")
    replicated.publisher.execute("insert into customers (mail) values ('new@x')")
    replicated.deliver()

    replicated.require_equal("customers", "orders", "parts")
    assert [fact for fact in catalogue(replicated) if fact[0] == "trigger"] == [
        fact for fact in before if fact[0] == "trigger"
    ]
    assert {fact[2] for fact in before if fact[0] == "constraint"} <= {fact[2] for fact in catalogue(replicated)}


@pytest.mark.exhaustive
def test_a_table_in_use_is_reported_before_anything_changes(replicated: ReplicatedDatabase) -> None:
    publish(replicated)
    replicated.subscriber.execute(*SHOP)
    before = catalogue(replicated)
    with psycopg.connect(replicated.subscriber.url) as reading:
        reading.execute("select from orders")
        with pytest.raises(SubscriberTableBusy, match="lock timeout"):
            keep(replicated)

    assert catalogue(replicated) == before


def test_files_triggers_are_off_during_the_copy_alone(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(
        "create table orders (id int primary key, qty int not null, note text unique)",
        "insert into orders select i, i, 'note ' || i from generate_series(1, 300) i",
        orders={},
    )
    file = replicated_file.subscriber
    file.execute(
        "create table orders (id integer primary key, qty integer not null, note text unique, own text default 'x')",
        "create table noted (id integer)",
        "create trigger note after insert on orders begin insert into noted values (new.id); end",
        "create view large as select * from orders where qty > 100",
    )
    schema = (
        "select type, name, sql from sqlite_schema where name not like 'MS%' and tbl_name not like 'MS%' order by 2"
    )
    before = file.execute(schema)
    replicated_file.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP, chunk_bytes=8192)
    replicated_file.publisher.execute("update orders set note = 'other' where id = 1")
    replicated_file.deliver()
    replicated_file.deliver()

    assert file.execute("select count(*), count(distinct note), min(own) from orders") == [(300, 300, "x")]
    assert file.execute("select * from noted") == []
    assert file.execute(schema) == before
    replicated_file.publisher.execute("insert into orders values (999, 1)")
    replicated_file.deliver()
    assert file.execute("select * from noted") == [(999,)]


def test_a_files_unfit_columns_are_listed(replicated_file: ReplicatedFile) -> None:
    replicated_file.publish(
        "create table orders (id int primary key, price numeric, note text)",
        "insert into orders values (1, 1)",
        orders={},
    )
    file = replicated_file.subscriber
    file.execute("create table orders (id integer primary key, price real, extra text not null)")
    with pytest.raises(SubscriberTablesUnfit) as raised:
        replicated_file.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP)
    assert raised.value.reasons == (
        "public.orders: column price is declared REAL, which would change numeric values: text; "
        "public.orders: column note (text) is missing; "
        "public.orders: column extra is not null, has no default and is not published"
    )
    file.execute(
        "drop table orders",
        "create table orders (id integer primary key, price text, note text)",
        "create trigger no before insert on orders begin select raise(abort, 'no'); end",
    )
    replicated_file.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.KEEP)
    assert file.execute("select name from sqlite_schema where type = 'trigger'") == []
    replicated_file.replication.drop_subscription("shop", file.url, ignore_subscriber=True)
    replicated_file.subscribe(SyncType.AUTOMATIC, if_exists=IfExists.DELETE)
    replicated_file.replication.drop_subscription("shop", file.url)

    assert file.execute("select name from sqlite_schema where type = 'trigger'") == [("no",)]
