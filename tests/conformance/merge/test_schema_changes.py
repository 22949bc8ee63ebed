"""A publisher's table is altered while it has subscribers; they follow at their next synchronisation."""

from __future__ import annotations

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge, ServerMember
from rowtide.merge.articles import Partition
from rowtide.merge.conflicts.resolvers import Winner

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item (id, name, qty) values (1, 'a', 1), (2, 'b', 2)"


def begin(merged: Merge, **options: object) -> None:
    merged.begin(ITEM, ROWS, item=options)
    merged.settle(1)


def both(merged: Merge, columns: str) -> None:
    """All have the same rows, two more rounds move nothing, and a comparison finds nothing."""
    merged.settle(2)
    merged.require_equal("item", columns=columns)
    assert all(summary.is_quiet for summary in merged.settle(1))
    for subscriber in merged.subscribers:
        assert all(one.is_equal for one in merged.merge.validate(PUBLICATION, subscriber.url, checksum=True))


@pytest.mark.parametrize("tracked", [False, True])
def test_a_new_column_is_followed_with_its_values(merged: Merge, tracked: bool) -> None:  # noqa: FBT001
    begin(merged, column_tracking=tracked)
    device = merged.subscribers[0]
    device.execute("update item set qty = 10 where id = 1", "insert into item (id, name, qty) values (3, 'c', 3)")
    merged.hub.execute(
        "alter table item add column note varchar(10)",
        f"update item set note = 'hub' where id in ({'1, 2' if tracked else '2'})",
        "alter table item add column state varchar(10) not null default 'new'",
        "update item set state = 'old' where id = 2",
    )
    merged.sync()
    assert device.rows("item", "id, name, qty, note, state") == [
        (1, "a", 10, "hub" if tracked else None, "new"),
        (2, "b", 2, "hub", "old"),
        (3, "c", 3, None, "new"),
    ]
    device.execute("insert into item (id, note) values (4, 'device')", "update item set state = 'x' where id = 3")
    both(merged, "id, name, qty, note, state")
    assert merged.hub.rows("item", "id, note, state")[2:] == [(3, None, "x"), (4, "device", "new")]


@pytest.mark.parametrize("tracked", [False, True])
def test_columns_are_dropped_renamed_and_retyped(merged: Merge, tracked: bool) -> None:  # noqa: FBT001
    begin(merged, column_tracking=tracked)
    device = merged.subscribers[0]
    device.execute("update item set qty = 10 where id = 1", "update item set name = 'd' where id = 2")
    merged.hub.execute("alter table item rename column qty to amount")
    merged.settle(1)
    assert device.rows("item", "id, name, amount") == [(1, "a", 10), (2, "d", 2)]

    device.execute("update item set amount = 20 where id = 1", "update item set name = 'e' where id = 2")
    if isinstance(merged.hub, ServerMember):
        merged.hub.execute(
            "insert into item (id, name, amount) values (5, 'f', 5)",
            "alter table item alter column amount type varchar(10) using amount || 'x'",
        )
        merged.settle(1)
        assert device.rows("item", "id, name, amount") == [(1, "a", "20"), (2, "e", "2"), (5, "f", "5x")]
    if isinstance(merged.hub, ServerMember) or not tracked:
        merged.hub.execute("alter table item drop column name", "update item set amount = '7' where id = 1")
        merged.sync()
        with pytest.raises(Exception, match="name"):
            device.execute("select name from item")
        device.execute("update item set amount = '30' where id = 2")
        both(merged, "id, amount")


def test_letters_beyond_ascii_differ_in_case(merged: Merge) -> None:
    table = 'create table item (id integer primary key, "ä" integer unique, "Ä" integer unique)'
    merged.begin(table, 'insert into item (id, "ä", "Ä") values (1, 1, 2)', item={})
    merged.settle(1)
    if isinstance(merged.hub, ServerMember):
        merged.hub.execute('alter table item alter column "Ä" type varchar(10)', "update item set \"Ä\" = '007'")
        merged.settle(1)
        merged.hub.execute('alter table item drop column "Ä"')
    merged.hub.execute('update item set "ä" = 3')
    both(merged, 'id, "ä"')


def test_filters_follow_renamed_columns(merged: Merge) -> None:
    merge, device = merged.merge, merged.subscribers[0]
    merged.hub.execute(
        "create table customer (id integer primary key, region varchar(5))",
        "create table orders (id integer primary key, customer_id integer, note varchar(5))",
        "insert into customer values (1, 'n'), (2, 's')",
        "insert into orders values (1, 1, 'a'), (2, 2, 'b')",
    )
    merge.add_publication(PUBLICATION)
    merge.add_article(PUBLICATION, "customer", where="Region = host_name() or region = 'region'")
    merge.add_article(PUBLICATION, "orders")
    merge.add_filter(PUBLICATION, "orders", "customer", "customer_id = customer.id")
    merge.add_subscription(PUBLICATION, device.url, partition=Partition("n"))
    merged.hub.execute(
        'alter table customer rename column region to "Order"',
        "alter table customer rename column id to note",
        "alter table orders rename column customer_id to number",
        """insert into customer (note, "Order") values (3, 'n')""",
        "insert into orders (id, number, note) values (3, 3, 'c')",
    )
    device.execute("update orders set note = 'd' where id = 1")
    for _ in range(2):
        merged.sync()

    assert [each.condition for each in merge.list_filters(PUBLICATION)] == [
        """"Order" = host_name() or "Order" = 'region'""",
        "orders.number = customer.note",
    ]
    assert device.rows("customer", 'note, "Order"') == [(1, "n"), (3, "n")]
    assert device.rows("orders", "id, number, note") == [(1, 1, "d"), (3, 3, "c")]
    merged.hub.execute("""update customer set "Order" = 's' where note = 1""")
    merged.sync()
    assert device.rows("orders", "id") == [(3,)]
    assert merged.sync().is_quiet


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("is_noticed", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_conflicts_are_settled_after_a_schema_change(merged: Merge, *, tracked: bool, is_noticed: bool) -> None:
    begin(merged, column_tracking=tracked, resolver="publisher-wins")
    device = merged.subscribers[0]
    device.execute(
        "update item set name = 'lost 1', qty = 10 where id = 1", "update item set name = 'lost 2' where id = 2"
    )
    merged.hub.execute("update item set name = 'hub' where id = 1", "delete from item where id = 2")
    merged.settle(1)
    merged.hub.execute(
        "alter table item rename column name to title",
        "alter table item add column state varchar(10) not null default 'new'",
        "update item set state = 'old' where id = 1",
    )
    if is_noticed:
        merged.merge.alter_article(PUBLICATION, "item", "drop column qty")
        merged.settle(1)
    for conflict in merged.merge.list_conflicts(PUBLICATION):
        assert merged.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)

    both(merged, "id, title, state")
    assert merged.hub.rows("item", "id, title, state") == [(1, "lost 1", "old"), (2, "lost 2", "new")]


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("is_told", [True, False])
def test_a_column_dropped_and_added_again_is_a_new_one(merged: Merge, *, tracked: bool, is_told: bool) -> None:
    begin(merged, column_tracking=tracked)
    merged.subscribers[0].execute("update item set name = 'device' where id = 2")
    if is_told or not isinstance(merged.hub, ServerMember):
        # A file has no catalogue that would tell.
        merged.merge.alter_article(PUBLICATION, "item", "drop column name")
        merged.merge.alter_article(PUBLICATION, "item", "add column name varchar(20)")
    else:
        merged.hub.execute("alter table item drop column name", "alter table item add column name varchar(20)")

    both(merged, "id, name, qty")
    assert merged.hub.rows("item", "id, name, qty") == [(1, None, 1), (2, None, 2)]
    merged.subscribers[0].execute("update item set name = 'again' where id = 1")
    both(merged, "id, name, qty")


def test_a_dropped_columns_name_is_given_to_another(merged: Merge) -> None:
    begin(merged)
    files = [subscriber for subscriber in merged.subscribers if isinstance(subscriber, FileMember)]
    for file in files:
        file.execute(
            "create table seen (name)",
            "create trigger see after update of name on item begin insert into seen values (new.name || old.qty); end",
        )
    merged.merge.alter_article(PUBLICATION, "item", "drop column name")
    merged.merge.alter_article(PUBLICATION, "item", "rename column qty to name")
    merged.merge.alter_article(PUBLICATION, "item", "add column qty integer")

    both(merged, "id, name, qty")
    assert merged.hub.rows("item", "id, name, qty") == [(1, 1, None), (2, 2, None)]
    for file in files:
        file.execute("update item set name = 7 where id = 1")
        assert file.rows("seen") == [("71",)]
