"""What the log shows of published tables besides their columns: generated ones, and their replica identity."""

from __future__ import annotations

from typing import Any

import pytest

from builders.replication.articles import commands
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.core.tables import BeforeImages
from rowtide.handle import connect
from rowtide.replication.errors.delivery import IdentityLost, SchemaChanged
from rowtide.replication.errors.publishing import ImagesLackKey, PublishedTableAltered
from rowtide.replication.subscription_settings import SyncType

LARGE = "select string_agg(md5(i::text), '') from generate_series(1, 2000) i"


def test_a_table_with_a_generated_column_is_delivered(replicated: ReplicatedDatabase) -> None:
    replicated.begin(
        "create table sums (id int primary key, a int, twice int generated always as (a * 2) stored)", sums={}
    )
    replicated.publisher.execute("insert into sums values (1, 1), (2, 2)", "update sums set a = 5 where id = 2")
    replicated.deliver()

    replicated.require_equal("sums")


def test_rows_may_violate_constraints_that_are_not_valid(replicated: ReplicatedDatabase) -> None:
    replicated.begin(
        "create table people (id int primary key)",
        "insert into people values (1)",
        "create table pets (id int primary key, name text, of int, by int references people not enforced)",
        "insert into pets values (1, null, 7, 8)",
        "alter table pets add constraint named not null name not valid",
        "alter table pets add foreign key (of) references people not valid",
        people={},
        pets={},
    )
    replicated.publisher.execute("insert into pets values (2, 'Rex', 1, 9)", "update pets set by = 3, name = 'Tom'")
    replicated.deliver()

    replicated.require_equal("people")
    replicated.require_equal("pets")
    replicated.publisher.execute("alter table pets validate constraint named", "insert into pets values (3, 'Ben', 1)")
    replicated.deliver()
    replicated.require_equal("pets")


def test_whole_row_calls_stop_once_the_identity_is_not_full(replicated: ReplicatedDatabase) -> None:
    table = "create table documents (id int primary key, body text, seen int)"
    replicated.begin(table, documents={"commands": commands(update="CALL")})
    replicated.publisher.execute(f"insert into documents values (1, ({LARGE}), 0)", "update documents set seen = 1")
    replicated.deliver()
    replicated.publisher.execute("alter table documents replica identity default", "update documents set seen = 2")
    with pytest.raises(
        SchemaChanged, match="its replica identity is no longer full in published table public.documents"
    ):
        replicated.deliver()

    assert replicated.subscriber.execute("select seen, body is null from documents") == [(1, False)]


def test_a_mended_identity_goes_on_where_rows_were_added(replicated: ReplicatedDatabase) -> None:
    replicated.begin("create table documents (id int primary key, seen int)", documents={})
    replicated.publisher.execute("insert into documents values (1, 0)")
    replicated.deliver()
    replicated.subscriber.execute("insert into documents values (99, 0)")
    replicated.publisher.execute("alter table documents replica identity nothing")
    (warned,) = (one for one in connect(replicated.publisher.url).health() if one.subject == "articles")
    assert "public.documents: its replica identity no longer has the key" in warned.message
    (shown,) = replicated.replication.status()
    assert (shown.last_error or "").startswith(f"RT-7287: {warned.message}")
    assert str(warned.remediation).startswith('alter table "public"."documents" replica identity full;')

    replicated.publisher.execute("insert into documents values (2, 0)")
    with pytest.raises(IdentityLost) as lost:
        replicated.deliver()

    assert 'Run `alter table "public"."documents" replica identity full`' in str(lost.value)
    assert "then `rowtide replication resume PUBLICATION`" in str(lost.value)
    replicated.publisher.execute("alter table documents replica identity full", "update documents set seen = 1")
    replicated.deliver()
    rows = replicated.subscriber.execute("select id, seen from documents order by id")
    assert rows == [(1, 1), (2, 1), (99, 0)], "not copied: the subscriber's own row is there"


@pytest.mark.parametrize(
    "table",
    [
        "items (id int, note text)",
        "items (id int primary key deferrable, note text)",
        "items (id int not null unique, note text); alter table items replica identity using index items_id_key",
    ],
    ids=["no key", "deferrable", "index"],
)
def test_tables_of_inserts_alone_stay_writable(replicated: ReplicatedDatabase, table: str) -> None:
    options: dict[str, Any] = {"commands": commands(update="NONE", delete="NONE")}
    replicated.begin(f"create table {table}", items=options)
    replicated.publisher.execute("insert into items values (1), (2)", "update items set note = 'x' where id = 1")
    replicated.publisher.execute("delete from items where id = 2")
    replicated.deliver()

    assert replicated.subscriber.execute("select * from items") == [(1, None), (2, None)]
    replicated.replication.add_publication("others")
    with pytest.raises(ImagesLackKey, match="RT-7293: no primary key identifies the rows of public.items"):
        replicated.replication.add_article("others", "items", before_images=BeforeImages.KEY, **options)


def test_a_copy_takes_the_key_that_the_table_has_now(replicated: ReplicatedDatabase) -> None:
    replicated.publish("create table items (id int primary key, code int not null, note text)", items={})
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into items values (1, 10)")
    replicated.deliver()
    replicated.publisher.execute("alter table items drop constraint items_pkey, add primary key (code)")
    replicated.publisher.execute("insert into items values (1, 20), (1, 30)")
    (warned,) = (one for one in connect(replicated.publisher.url).health() if one.subject == "articles")
    assert "public.items has another primary key than when it was published" in warned.message
    replicated.replication.reinitialize(PUBLICATION)
    replicated.publisher.execute("update items set note = 'x' where code = 20", "delete from items where code = 30")
    replicated.deliver()

    replicated.require_equal("items")
    replicated.publisher.execute("alter table items drop constraint items_pkey")
    with pytest.raises(PublishedTableAltered, match="its primary key was dropped"):
        replicated.replication.reinitialize(PUBLICATION)


def test_a_table_whose_old_rows_are_missing_is_copied(replicated: ReplicatedDatabase) -> None:
    made = ("create table documents (id int primary key, seen int)", "create table others (id int primary key)")
    replicated.begin(*made, documents={"commands": commands(update="CALL")}, others={})
    replicated.publisher.execute("insert into documents values (1, 0)", "insert into others values (1)")
    replicated.deliver()
    replicated.publisher.execute("alter table documents replica identity default", "update documents set seen = 2")
    with pytest.raises(IdentityLost):
        replicated.deliver()
    replicated.publisher.execute("alter table documents replica identity full", "insert into others values (2)")
    replicated.deliver()

    replicated.require_equal("documents", "others")


@pytest.mark.exhaustive
def test_calls_that_give_what_changed_go_on_with_key_images(replicated: ReplicatedDatabase) -> None:
    replicated.begin("create table documents (id int primary key, body text, seen int)", documents={})
    replicated.publisher.execute(
        f"insert into documents values (1, ({LARGE}), 0)",
        "alter table documents replica identity default",
        "update documents set seen = 2",
        "update documents set id = 2",
    )
    replicated.deliver()

    replicated.require_equal("documents")


def test_not_null_domain_allows_updates_that_leave_it_unchanged(
    replicated: ReplicatedDatabase,
) -> None:
    domain = "create domain positive as int not null check (value > 0)"
    replicated.begin(domain, "create table stock (id int primary key, n positive, note text)", stock={})
    replicated.publisher.execute(
        "insert into stock select i, i, 'a' from generate_series(1, 10) i",
        "update stock set note = 'b'",
        "update stock set n = n + 1 where id > 5",
    )
    replicated.deliver()

    replicated.require_equal("stock")
    assert replicated.subscriber.execute("select count(*) from stock where note = 'b'") == [(10,)]


def test_a_column_renamed_through_a_parent_is_renamed(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table parent (id int, v text)", "create table child (primary key (id)) inherits (parent)", child={}
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into child values (1, 'a')", "alter table parent owner to current_user")
    replicated.deliver()
    replicated.require_equal("child")
    replicated.publisher.execute("alter table parent rename column v to w", "insert into child values (2, 'b')")
    replicated.deliver()

    replicated.require_equal("child")
