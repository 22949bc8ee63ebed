"""What the hub's foreign keys do with a deleted row to rows that its deleter had not seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from builders.merge.merged_databases import PUBLICATION, SERVER, Member, Merge, Values
from fixtures.merged import live_if_a_server, open_members
from rowtide.merge.articles import ExchangeType, FilterType, Partition, UnseenChildren
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.rows import Place
from rowtide.merge.session.hub.cascading_deletes import Cascades
from rowtide.merge.versions.changes import Row, Write

CUSTOMER = "create table customer (id integer primary key, region text)"
ORDERS = "create table orders (id integer primary key, cid integer default 9 references customer (id) {action}, v text)"
LINE = "create table line (id integer primary key, oid integer references orders (id) {action}, v text)"
LEVELS = [("file", "file", "file", "file"), ("server", "server", "file", "file"), ("file", "server", "file", "server")]
ACTIONS = ["on delete cascade", "on delete set null", "on delete set default"]
TABLES = {"customer": "id", "orders": "id, cid, v", "line": "id, oid, v"}
RECORD = {"on_unseen_children": "record"}
TRACKED = {"column_tracking": True}


def begin(merged: Merge, action: str = "on delete cascade", **customer: object) -> None:
    merged.begin(
        CUSTOMER,
        ORDERS.format(action=action),
        LINE.format(action=action),
        "insert into customer (id) values (1), (2), (9)",
        "insert into orders (id, cid, v) values (10, 1, 'both know')",
        "insert into line (id, oid, v) values (100, 10, 'both know')",
        customer=customer,
        orders={},
        line={},
    )


@pytest.fixture(params=[pytest.param(kinds, marks=live_if_a_server(kinds)) for kinds in LEVELS], ids=" ".join)
def levels(request: pytest.FixtureRequest) -> Iterator[tuple[Merge, Merge]]:
    """A hub with a device, and a regional hub below it with a device of its own: the merges of both hubs."""
    with ExitStack() as opened:
        hub, region, device, below = open_members(request, opened, request.param)
        upper, lower = Merge(hub, [region, device]), Merge(region, [below], "region")
        hub.execute(CUSTOMER, ORDERS.format(action="on delete cascade"), "insert into customer (id) values (1), (2)")
        upper.begin(subscriber_options=[SERVER, {}], customer={}, orders={})
        lower.begin(customer={}, orders={})
        yield upper, lower


def rows(member: Member, table: str = "orders") -> list[Values]:
    return member.rows(table, TABLES[table])


def require_rest(merged: Merge, *tables: str) -> None:
    """After some rounds all have the same rows, and nothing is left to do."""
    merged.settle(3)
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    for table in tables or TABLES:
        merged.require_equal(table, columns=TABLES[table])


def lost(merged: Merge) -> list[tuple[int, str, object]]:
    """Return the type, the table and the first text of each conflict's losing row."""
    return [
        (each.conflict_type, each.article, (json.loads(each.losing_row) if each.losing_row else {}).get("v"))
        for each in merged.merge.list_conflicts()
    ]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_delete_that_reaches_an_unseen_child_is_refused(merged: Merge, action: str) -> None:
    begin(merged, action)
    device, other = merged.subscribers
    other.execute("insert into orders (id, cid, v) values (11, 1, 'new')")
    merged.sync(1)
    device.execute("delete from customer where id = 1")

    assert merged.sync(0).refused == 0
    require_rest(merged)
    assert (11, 1, "new") in rows(merged.hub)
    assert [key for (key,) in rows(merged.hub, "customer")] == [1, 2, 9]
    assert rows(merged.hub, "line") == [(100, 10, "both know")]
    if action.endswith("cascade"):
        assert (10, 1, "both know") in rows(merged.hub)
    assert ConflictType.UPLOAD_DELETE_FAILED in {each for each, *_ in lost(merged)}
    assert {each.reason_code for each in merged.merge.list_conflicts()} == {"RT-8160"}


def test_a_child_that_another_updated_stays_with_its_parent(merged: Merge) -> None:
    begin(merged)
    device, other = merged.subscribers
    other.execute("update orders set v = 'newer' where id = 10")
    merged.sync(1)
    device.execute("delete from customer where id = 1")
    merged.sync(0)

    require_rest(merged)
    assert rows(merged.hub) == [(10, 1, "newer")]
    assert rows(merged.hub, "line") == [(100, 10, "both know")]


def test_grandchildren_count(merged: Merge) -> None:
    begin(merged)
    device, other = merged.subscribers
    other.execute("insert into line (id, oid, v) values (101, 10, 'new')")
    merged.sync(1)
    device.execute("delete from customer where id = 1")
    merged.sync(0)

    require_rest(merged)
    assert rows(merged.hub, "line") == [(100, 10, "both know"), (101, 10, "new")]
    assert [key for (key,) in rows(merged.hub, "customer")] == [1, 2, 9]


@pytest.mark.parametrize("action", ["on delete cascade", "on delete set null"])
def test_each_child_lost_is_recorded_where_that_is_wanted(merged: Merge, action: str) -> None:
    begin(merged, action, **RECORD)
    device, other = merged.subscribers
    other.execute(
        "insert into orders (id, cid, v) values (11, 1, 'new')", "insert into line (id, oid, v) values (110, 11, 'its')"
    )
    merged.sync(1)
    device.execute("delete from customer where id = 1")
    assert merged.sync(0).upload.total.conflicts == len(lost(merged))

    require_rest(merged)
    assert [key for (key,) in rows(merged.hub, "customer")] == [2, 9]
    if action.endswith("null"):
        assert rows(merged.hub) == [(10, None, "both know"), (11, None, "new")]
        assert lost(merged) == [(ConflictType.UPDATE_CONFLICT, "orders", "new")]
    else:
        assert rows(merged.hub) == []
        gone = ConflictType.UPDATE_DELETE_WINS_CONFLICT
        assert sorted(lost(merged)) == [(gone, "line", "its"), (gone, "orders", "new")]


def test_a_lost_child_returns_once_it_has_a_parent(merged: Merge) -> None:
    begin(merged, **RECORD)
    device, other = merged.subscribers
    other.execute(
        "insert into orders (id, cid, v) values (11, 1, 'new')", "insert into line (id, oid, v) values (110, 11, 'its')"
    )
    merged.sync(1)
    device.execute("delete from customer where id = 1")
    merged.settle()
    merged.hub.execute("insert into customer (id) values (1)")
    order = next(each for each in merged.merge.list_conflicts() if each.article == "orders")
    assert merged.merge.resolve(order.conflict_id, Winner.SUBSCRIBER)
    require_rest(merged)
    assert rows(merged.hub) == [(11, 1, "new")]
    assert rows(merged.hub, "line") == [(110, 11, "its")]


def test_a_delete_that_is_let_through_later_records_children(merged: Merge) -> None:
    begin(merged)
    device, other = merged.subscribers
    other.execute("insert into orders (id, cid, v) values (11, 1, 'new')")
    merged.sync(1)
    device.execute("delete from customer where id = 1")
    merged.settle()
    refused = next(each for each in merged.merge.list_conflicts() if each.article == "customer")

    assert merged.merge.resolve(refused.conflict_id, Winner.SUBSCRIBER)
    require_rest(merged)
    assert rows(merged.hub) == []
    gone = ConflictType.UPDATE_DELETE_WINS_CONFLICT
    assert (gone, "orders", "new") in lost(merged)


@pytest.mark.parametrize("unseen", ["refuse", "record"])
def test_a_new_key_clears_no_unseen_reference(merged: Merge, unseen: str) -> None:
    begin(merged, "on delete restrict on update set null", on_unseen_children=UnseenChildren(unseen))
    device, other = merged.subscribers
    other.execute("insert into orders (id, cid, v) values (11, 1, 'new')")
    merged.sync(1)
    device.execute("update customer set id = 3 where id = 1")
    merged.sync(0)

    require_rest(merged)
    if unseen == "refuse":
        assert (11, 1, "new") in rows(merged.hub)
        assert (ConflictType.UPLOAD_UPDATE_FAILED, "customer", None) in lost(merged)
    else:
        assert (11, None, "new") in rows(merged.hub)
        assert lost(merged) == [(ConflictType.UPDATE_CONFLICT, "orders", "new")]


def test_an_update_is_judged_by_the_columns_that_are_referenced(merged: Merge) -> None:
    merged.hub.execute(CUSTOMER, ORDERS.format(action="on delete restrict on update set null"))
    merged.merge.add_publication(PUBLICATION)
    for table in ("customer", "orders"):
        merged.merge.add_article(PUBLICATION, table)
    merged.hub.execute(
        "insert into customer (id, region) values (1, 'a'), (2, 'b')", "insert into orders (id, cid) values (10, 1)"
    )
    key = merged.hub.rowguid("customer", 1)
    with open_node(merged.hub.url) as hub, hub.transaction():
        hub.apply_log()
        publication = get_publication(hub.connection, PUBLICATION)
        articles = {each.nickname: each for each in list_articles(hub.connection, publication.pubid)}
        customer, orders = articles.values()

        def judge(rowguid: str, row: Row | None, *, is_live: bool = True) -> list[Place]:
            cascades = Cascades(hub, articles, {}, 9, 0, publication)
            write = Write(rowguid, row, is_live, b"", None, None, 9)
            parts = [(customer, [write]), (orders, [write._replace(rowguid=merged.hub.rowguid("orders", 10))])]
            read = hub.versions.read_known
            return list(cascades.judge(parts, lambda asked: [read(*each) for each in asked]).refused)

        assert judge(key, ("3", "a")) == [(customer.nickname, key)]
        assert judge(key, ("1", "new")) == judge(key, ("3", "a"), is_live=False) == judge(key, None) == []
        assert judge(merged.hub.rowguid("customer", 2), ("3", "b")) == []


@pytest.mark.parametrize("action", ["on update set null", "on update set default"])
def test_a_received_key_clears_no_reference_of_ones_own(merged: Merge, action: str) -> None:
    orders = ORDERS.format(action=action)
    merged.begin(CUSTOMER, orders, "insert into customer (id) values (1), (9)", customer={}, orders=TRACKED)
    device = merged.subscribers[0]
    device.execute("insert into orders (id, cid, v) values (11, 1, 'own')")
    merged.hub.execute("update customer set id = 5 where id = 1")

    require_rest(merged, "customer", "orders")
    assert rows(merged.hub) == [(11, 5, "own")]


def test_children_that_the_deleter_knew_go_without_a_word(merged: Merge) -> None:
    begin(merged)
    device, other = merged.subscribers
    other.execute("insert into orders (id, cid, v) values (11, 1, 'known')")
    merged.settle()
    device.execute("delete from customer where id = 1")
    merged.sync(0)

    require_rest(merged)
    assert rows(merged.hub) == []
    assert merged.merge.list_conflicts() == []


def test_a_file_without_foreign_keys_deletes_what_it_knew(merged: Merge) -> None:
    begin(merged)
    device = next(each for each in merged.subscribers if each.url.startswith("sqlite"))
    number = list(merged.subscribers).index(device)
    device.execute("pragma foreign_keys = off", "delete from customer where id = 1")
    merged.sync(number)

    require_rest(merged)
    assert rows(merged.hub) == []
    assert merged.merge.list_conflicts() == []


@pytest.mark.parametrize("unseen", ["refuse", "record"])
def test_deletes_of_logical_records_are_judged_alike(merged: Merge, unseen: str) -> None:
    hub = merged.hub
    hub.execute(
        CUSTOMER,
        ORDERS.format(action=""),
        LINE.format(action="on delete cascade"),
        "insert into customer (id) values (1), (2)",
        "insert into orders (id, cid, v) values (10, 1, 'both know')",
        "insert into line (id, oid, v) values (100, 10, 'both know')",
    )
    merged.merge.add_publication("shop")
    merged.merge.add_article("shop", "customer")
    merged.merge.add_article("shop", "orders", on_unseen_children=UnseenChildren(unseen))
    merged.merge.add_article("shop", "line")
    merged.merge.add_filter("shop", "orders", "customer", "orders.cid = customer.id", filter_type=FilterType.RECORD)
    for subscriber in merged.subscribers:
        merged.merge.add_subscription("shop", subscriber.url)
    device, other = merged.subscribers
    other.execute("insert into line (id, oid, v) values (101, 10, 'new')")
    merged.sync(1)
    device.execute("delete from orders where id = 10")
    merged.sync(0)

    require_rest(merged)
    if unseen == "refuse":
        assert rows(hub) == [(10, 1, "both know")]
        assert rows(hub, "line") == [(100, 10, "both know"), (101, 10, "new")]
        assert {kind for kind, *_ in lost(merged)} == {ConflictType.UPLOAD_DELETE_FAILED}
    else:
        assert rows(hub) == rows(hub, "line") == []
        assert lost(merged) == [(ConflictType.UPDATE_DELETE_WINS_CONFLICT, "line", "new")]


def test_rows_of_one_table_count_too(merged: Merge) -> None:
    merged.begin(
        "create table node (id integer primary key, above integer references node (id) on delete cascade, v text)",
        "insert into node values (1, null, 'top'), (2, 1, 'below'), (3, null, 'alone')",
        node={},
    )
    device, other = merged.subscribers
    other.execute("insert into node (id, above, v) values (4, 2, 'new')")
    merged.sync(1)
    device.execute("delete from node where id in (1, 3)")
    merged.sync(0)

    merged.settle(3)
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    merged.require_equal("node", columns="id, above, v")
    assert merged.hub.rows("node", "id, above") == [(1, None), (2, 1), (4, 2)]


def test_rows_of_other_partitions_and_tables_are_recorded(merged: Merge) -> None:
    hub = merged.hub
    hub.execute(
        CUSTOMER,
        "create table orders (id integer primary key, cid integer references customer (id) on delete cascade, "
        "v text, region text)",
        "create table note (id integer primary key, cid integer references customer (id) on delete cascade, v text)",
        "create table mark (note integer references note (id) on delete cascade, v text)",
        "insert into customer values (1, 'n'), (2, 'n')",
        "insert into orders values (10, 1, 'of n', 'n'), (11, 1, 'of s', 's')",
        "insert into note values (5, 1, 'a note'), (6, 2, 'stays')",
        "insert into mark values (5, 'a mark')",
    )
    merged.merge.add_publication("shop")
    merged.merge.add_article("shop", "customer")
    merged.merge.add_article("shop", "orders", where="region = host_name()")
    for subscriber, region in zip(merged.subscribers, "ns", strict=True):
        merged.merge.add_subscription("shop", subscriber.url, partition=Partition(region))
    merged.subscribers[0].execute("delete from customer where id = 1")
    merged.sync(0)

    assert hub.rows("customer", "id") == [(2,)]
    assert hub.rows("note", "id") == [(6,)]
    gone = ConflictType.UPDATE_DELETE_WINS_CONFLICT
    assert sorted((kind, text) for kind, _, text in lost(merged)) == [
        (gone, "a mark"),
        (gone, "a note"),
        (gone, "of s"),
    ]
    merged.settle()
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    assert all(member.rows("orders") == [] for member in merged.members)


@pytest.mark.parametrize("dropped", ["line", "orders"])
def test_rows_of_dropped_articles_are_recorded(merged: Merge, dropped: str) -> None:
    begin(merged)
    merged.subscribers[0].execute("delete from customer where id = 1")
    merged.subscribers[1].execute("insert into line (id, oid, v) values (101, 10, 'new')")
    merged.sync(1)
    merged.merge.drop_article("shop", "line")
    if dropped == "orders":
        merged.merge.drop_article("shop", "orders")
    merged.sync(0)

    assert [key for (key,) in rows(merged.hub, "customer")] == [2, 9]
    assert rows(merged.hub, "line") == []
    assert (ConflictType.UPDATE_DELETE_WINS_CONFLICT, "new") in {(kind, text) for kind, _, text in lost(merged)}


def test_many_customers_return_with_their_orders(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "with recursive n (i) as (select 20 union all select i + 1 from n where i < 40) "
        "insert into customer (id) select i from n",
        "insert into orders (id, cid, v) select id * 100, id, 'old' from customer where id >= 20",
    )
    merged.settle()
    device, other = merged.subscribers
    other.execute("insert into orders (id, cid, v) values (1, 25, 'new')")
    merged.sync(1)
    device.execute("delete from customer where id >= 20")
    merged.sync(0)

    require_rest(merged)
    assert [key for (key,) in rows(merged.hub, "customer") if key >= 20] == [25]
    assert [key for key, *_ in rows(merged.hub) if key != 10] == [1, 2500]


def test_a_regional_hubs_cascade_spares_what_is_not_uploaded(levels: tuple[Merge, Merge]) -> None:
    upper, lower = levels
    upper.hub.execute("delete from customer where id = 1")
    lower.subscribers[0].execute("insert into orders (id, cid, v) values (11, 1, 'below')")
    lower.sync()
    upper.merge.sync(upper.publication, lower.hub.url, exchange=ExchangeType.DOWNLOAD)
    assert rows(lower.hub) == [(11, 1, "below")]

    for _ in range(3):
        upper.settle(1)
        lower.settle(1)
    assert all(summary.is_quiet and not summary.refused for merge in levels for summary in merge.settle(1))
    assert all(rows(member, table) == [] for member in [*upper.members, *lower.members] for table in ["orders"])
    assert "below" in {text for *_, text in lost(upper)}


def test_a_delete_from_below_is_refused_above(levels: tuple[Merge, Merge]) -> None:
    upper, lower = levels
    lower.subscribers[0].execute("insert into orders (id, cid, v) values (10, 1, 'below')")
    for merge in (lower, upper, lower):
        merge.settle(1)
    upper.subscribers[1].execute("insert into orders (id, cid, v) values (11, 1, 'new')")
    upper.sync(1)
    lower.subscribers[0].execute("delete from customer where id = 1")
    lower.sync()
    assert rows(lower.hub) == []

    for _ in range(2):
        upper.settle(1)
        lower.settle(1)
    assert all(summary.is_quiet and not summary.refused for merge in levels for summary in merge.settle(1))
    kept = [(10, 1, "below"), (11, 1, "new")]
    assert all(rows(member) == kept for member in [*upper.members, *lower.members])


def test_a_key_changed_with_its_children_takes_none_away(merged: Merge) -> None:
    begin(merged, "on update cascade")
    device, other = merged.subscribers
    other.execute("insert into orders (id, cid, v) values (11, 1, 'new')", "update orders set v = 'x' where id = 10")
    merged.sync(1)
    device.execute("update customer set id = 3 where id = 1")
    merged.sync(0)

    require_rest(merged)
    assert (11, 3, "new") in rows(merged.hub)
