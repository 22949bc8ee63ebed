"""What only tables of PostgreSQL have: partitions, and truncates."""

from __future__ import annotations

import psycopg
import pytest

from builders.merge.merged_databases import Merge
from rowtide.merge.errors.publishing import MergedTableAltered

pytestmark = [
    pytest.mark.live,
    pytest.mark.parametrize("merged", [("server", "file")], ids=["server hub"], indirect=True),
]

COLUMNS = "id, region, qty"
TABLE = (
    "create table sale (id integer, region varchar(5), qty integer, primary key (id, region)) "
    "partition by list (region)"
)
PARTITIONS = (
    "create table sale_north partition of sale for values in ('n')",
    "create table sale_rest partition of sale default partition by range (id)",
    "create table sale_few partition of sale_rest for values from (0) to (1000)",
)


def begin(merged: Merge) -> None:
    merged.begin(TABLE, *PARTITIONS, "insert into sale values (1, 'n', 1), (2, 's', 2), (3, 's', 3)", sale={})


def require_equal(merged: Merge) -> None:
    merged.settle()
    merged.require_equal("sale", columns=f"{COLUMNS}, cast(rowguid as varchar(36))")
    assert merged.sync().is_quiet


def test_each_row_of_a_large_partition_has_a_rowguid(merged: Merge) -> None:
    """The column is filled a thousand pages at a time."""
    wide = "create table page (id integer primary key, filler text) partition by range (id)"
    merged.begin(
        wide,
        "create table page_1 partition of page for values from (0) to (1000000)",
        "alter table page_1 alter filler set storage plain",
        "insert into page select n, repeat('x', 3900) from generate_series(1, 2200) n",
        page={},
    )

    assert merged.hub.execute("select pg_relation_size('page_1') > 1000 * 8192") == [(True,)]
    merged.require_equal("page", columns="id, cast(rowguid as varchar(36))")
    assert merged.hub.execute("select count(distinct rowguid) from page") == [(2200,)]


@pytest.mark.parametrize(
    "change",
    [
        "insert into sale values (7, 'n', 7)",
        "insert into sale_north values (7, 'n', 7)",
        "update sale set qty = 9 where id = 2",
        "update sale_few set qty = 9 where id = 2",
        "delete from sale where id = 1",
        "delete from sale_north",
        "truncate sale",
        "truncate sale_north",
        "truncate sale_rest",
    ],
)
def test_a_change_through_a_table_or_a_partition_travels(merged: Merge, change: str) -> None:
    begin(merged)
    merged.hub.execute(change)

    require_equal(merged)


def test_a_row_that_moves_to_another_partition_is_the_same_row(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update sale set region = 's' where id = 1")
    merged.subscribers[0].execute("update sale set region = 'n' where id = 2")
    summary = merged.sync()

    require_equal(merged)
    assert (summary.upload.total.updates, summary.download.total.updates) == (1, 1)
    assert merged.hub.rows("sale", COLUMNS) == [(1, "s", 1), (2, "n", 2), (3, "s", 3)]


@pytest.mark.parametrize("verb", ["truncate customer cascade", "truncate customer, orders"])
def test_a_truncate_takes_away_what_it_does(merged: Merge, verb: str) -> None:
    merged.begin(
        "create table customer (id integer primary key, name varchar(5))",
        "create table orders (id integer primary key, customer_id integer references customer (id))",
        "insert into customer values (1, 'a'), (2, 'b')",
        "insert into orders values (1, 1)",
        customer={},
        orders={},
    )
    merged.hub.execute(verb, "insert into customer values (3, 'c')")
    merged.settle()

    assert merged.subscribers[0].rows("customer", "id, name") == [(3, "c")]
    assert merged.subscribers[0].rows("orders") == []


def test_a_truncate_that_is_undone_took_nothing(merged: Merge) -> None:
    begin(merged)
    with psycopg.connect(merged.hub.url) as program:
        program.execute("truncate sale")
        program.rollback()

    assert merged.sync().is_quiet


def test_new_partition_is_tracked_from_the_next_sync_on(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "create table sale_east partition of sale for values in ('e')",
        "insert into sale values (4, 'e', 4)",
        "insert into sale_east values (5, 'e', 5)",
    )
    assert merged.sync().download.total.inserts == 2
    merged.hub.execute("delete from sale_east where id = 4", "insert into sale_east values (6, 'e', 6)")

    require_equal(merged)
    merged.hub.execute("truncate sale_east")
    require_equal(merged)
    assert merged.subscribers[0].rows("sale", COLUMNS) == [(1, "n", 1), (2, "s", 2), (3, "s", 3)]


def test_a_table_that_is_attached_brings_its_rows(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "create table sale_east (like sale including all)",
        "insert into sale_east values (4, 'e', 4), (5, 'e', 5)",
        "alter table sale attach partition sale_east for values in ('e')",
        "update sale set qty = 40 where id = 4",
    )
    assert merged.sync().download.total.inserts == 2

    require_equal(merged)


def test_partition_that_lacks_a_trigger_stops_the_sync(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "do $$ begin execute (select format('drop trigger %I on sale_north', tgname) from pg_trigger "
        "where tgrelid = 'sale_north'::regclass and tgname like 'MSmerge_upd%'); end $$"
    )

    with pytest.raises(MergedTableAltered, match="triggers of partition (public.)?sale_north are missing"):
        merged.sync()


def test_the_column_goes_with_the_article(merged: Merge) -> None:
    begin(merged)
    merged.merge.drop_subscription("shop", merged.subscribers[0].url)
    merged.merge.drop_publication("shop")
    merged.hub.execute("insert into sale_north values (8, 'n', 8)")

    assert merged.hub.rows("sale")[-1] == (8, "n", 8)
