"""A regional hub: it subscribes to a publication, and publishes the same tables to devices of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from builders.merge.merged_databases import PUBLICATION, Member, Merge
from builders.merge_machines.merge_machine_base import attempt
from fixtures.merged import live_if_a_server, open_member
from rowtide.merge.articles import FilterType, Partition, SubscriberType
from rowtide.merge.errors.nodes import NodeRestored

CUSTOMER = "create table customer (id integer primary key, region varchar(9), name varchar(20), qty integer)"
ORDERS = (
    "create table orders (id integer primary key, customer_id integer references customer (id) {action}, "
    "note varchar(20))"
)
ROWS = (
    "insert into customer values (1, 'n', 'one', 1), (2, 'n', 'two', 2), (3, 's', 'three', 3)",
    "insert into orders values (10, 1, 'first'), (20, 2, 'second'), (30, 3, 'third')",
)
COLUMNS = {"customer": "id, region, name, qty", "orders": "id, customer_id, note"}
DEVICES = "region"
KINDS = {
    "files": ("file", "file", "file", "file"),
    "server region": ("server", "server", "file", "server"),
    "file region": ("server", "file", "file", "server"),
    "file top": ("file", "server", "file", "server"),
}
"""The top hub's kind, the regional hub's, and its devices'."""


class Levels:
    """The top hub, a regional hub that subscribes to `shop` and publishes `region`, and its devices."""

    def __init__(self, members: list[Member]) -> None:
        self.top, self.region, *self.devices = members
        self.upper = Merge(self.top, [self.region])
        self.lower = Merge(self.region, self.devices, DEVICES)
        self.merge = self.lower.merge

    def begin(
        self, *, where: str | None = None, kind: FilterType = FilterType.JOIN, action: str = "", **options: Any
    ) -> None:
        """Publish two tables from level to level; `where` is the upper filter of customers, with their orders."""
        self.top.execute(CUSTOMER, ORDERS.format(action=action), *ROWS)
        top = self.upper.merge
        top.add_publication(PUBLICATION)
        for table in COLUMNS:
            top.add_article(PUBLICATION, table, where=where if table == "customer" else None, **options)
        if where is not None:
            top.add_filter(PUBLICATION, "orders", "customer", "orders.customer_id = customer.id", filter_type=kind)
        partition = None if where is None else Partition("n")
        top.add_subscription(PUBLICATION, self.region.url, subscriber_type=SubscriberType.SERVER, partition=partition)
        self.merge.add_publication(DEVICES)
        for table in COLUMNS:
            self.merge.add_article(DEVICES, table, **options)
        for device in self.devices:
            self.merge.add_subscription(DEVICES, device.url)

    def sync(self) -> bool:
        """Synchronise all levels once, from the devices up and down again; tell whether anything moved."""
        rounds = [self.merge.sync(DEVICES, device.url) for device in self.devices]
        rounds.append(self.upper.sync())
        rounds += [self.merge.sync(DEVICES, device.url) for device in self.devices]
        assert not any(summary.refused for summary in rounds)
        return not all(summary.is_quiet for summary in rounds)

    def settle(self) -> None:
        """Synchronise until all have the same; then nothing moves."""
        for _ in range(2):
            self.sync()
        for _ in range(2):
            assert not self.sync()

    def require_equal(self, region: str | None = None) -> None:
        """All have the top hub's rows, or those of a region."""
        for table, columns in COLUMNS.items():
            rows = self.region.rows(table, columns)
            for device in self.devices:
                assert device.rows(table, columns) == rows
        expected = [row for row in self.top.rows("customer", COLUMNS["customer"]) if region in (None, row[1])]
        assert self.region.rows("customer", COLUMNS["customer"]) == expected


@pytest.fixture(
    params=[
        pytest.param(kinds, id=name, marks=[*live_if_a_server(kinds), *([pytest.mark.exhaustive] * (name != "files"))])
        for name, kinds in KINDS.items()
    ]
)
def levels(request: pytest.FixtureRequest) -> Iterator[Levels]:
    with ExitStack() as opened:
        yield Levels([open_member(request, opened, kind, number) for number, kind in enumerate(request.param)])


def test_changes_travel_through_all_levels(levels: Levels) -> None:
    levels.begin()
    levels.top.execute("update customer set name = 'top' where id = 1", "delete from orders where id = 30")
    levels.region.execute("update customer set name = 'region' where id = 2")
    levels.devices[0].execute(
        "update customer set qty = 33 where id = 3",
        "insert into customer (id, region, name) values (4, 'n', 'device')",
        "insert into orders (id, customer_id, note) values (40, 4, 'device')",
    )
    levels.settle()

    assert levels.top.rows("customer", COLUMNS["customer"]) == [
        (1, "n", "top", 1),
        (2, "n", "region", 2),
        (3, "s", "three", 33),
        (4, "n", "device", None),
    ]
    assert levels.top.rows("orders", COLUMNS["orders"]) == [(10, 1, "first"), (20, 2, "second"), (40, 4, "device")]
    levels.require_equal()


def test_conflicts_of_each_level_come_to_one_row(levels: Levels) -> None:
    levels.begin()
    levels.top.execute("update customer set name = 'top' where id = 1", "update customer set qty = 5 where id = 2")
    levels.region.execute("update customer set name = 'region' where id = 1")
    levels.devices[0].execute(
        "update customer set name = 'first' where id = 1",
        "update customer set qty = 7 where id = 2",
        "delete from orders where id = 10",
    )
    levels.devices[1].execute(
        "update customer set name = 'second' where id = 1", "update orders set note = 'late' where id = 10"
    )
    levels.settle()

    levels.require_equal()
    for table, columns in COLUMNS.items():
        assert levels.top.rows(table, columns) == levels.region.rows(table, columns)


def test_a_region_has_its_partition_and_its_devices_too(levels: Levels) -> None:
    levels.begin(where="region = host_name()")
    levels.top.execute("update customer set region = 'n' where id = 3", "update customer set region = 's' where id = 1")
    levels.devices[1].execute("update orders set note = 'changed' where id = 20")
    levels.settle()

    assert [row[0] for row in levels.devices[0].rows("customer", "id")] == [2, 3]
    assert levels.devices[0].rows("orders", COLUMNS["orders"]) == [(20, 2, "changed"), (30, 3, "third")]
    levels.require_equal("n")


@pytest.mark.exhaustive
def test_a_purge_in_the_middle_loses_nothing(levels: Levels) -> None:
    levels.begin()
    levels.devices[0].execute("update customer set qty = 10 where id = 1", "delete from orders where id = 20")
    levels.settle()
    levels.merge.cleanup()
    levels.upper.merge.cleanup()
    levels.top.execute("update customer set qty = 11 where id = 1")
    levels.devices[1].execute("update customer set name = 'after' where id = 2")
    levels.region.execute("update customer set name = 'both' where id = 3")
    levels.devices[0].execute("update customer set name = 'mine' where id = 3")
    levels.settle()

    levels.require_equal()
    assert levels.top.rows("customer", COLUMNS["customer"])[:2] == [(1, "n", "one", 11), (2, "n", "after", 2)]


@pytest.mark.exhaustive
def test_a_row_that_leaves_a_region_is_judged_at_the_top(levels: Levels) -> None:
    levels.begin(where="region = host_name()")
    levels.settle()
    levels.devices[0].execute("update customer set qty = 8 where id = 1")
    levels.devices[1].execute("delete from orders where id = 20")
    levels.top.execute("update customer set region = 's' where id in (1, 2)")
    levels.upper.sync()
    levels.settle()

    assert levels.devices[0].rows("customer", "id") == []
    levels.require_equal("n")
    levels.top.execute("update customer set region = 'n' where id in (1, 2)")
    levels.settle()
    levels.require_equal("n")
    assert [row[0] for row in levels.devices[1].rows("customer", "id")] == [1, 2]
    assert levels.devices[0].rows("orders", "id") == levels.top.rows("orders", "id")[:1]


@pytest.mark.parametrize("kind", [FilterType.JOIN, FilterType.BOTH])
def test_versions_refused_at_the_top_leave_the_region(levels: Levels, kind: FilterType) -> None:
    """The region does not have the rows that its devices wrote to: the top hub's are put in their place, or nothing."""
    levels.begin(where="region = host_name()", kind=kind, column_tracking=True)
    levels.settle()
    first, second = levels.devices
    levels.top.execute("insert into customer (id, region, name, qty) values (4, 'n', 'top', 4)")
    levels.top.execute("insert into orders (id, customer_id, note) values (40, 4, 'top')")
    of_customers = {key: levels.top.rowguid("customer", key) for key in (3, 4)}
    of_orders = {key: levels.top.rowguid("orders", key) for key in (30, 40)}
    for key, rowguid in of_customers.items():
        first.execute(f"insert into customer (id, region, name, rowguid) values ({key + 4}, 'n', 'a', '{rowguid}')")
    for key, rowguid in of_orders.items():
        first.execute(f"insert into orders (id, customer_id, note, rowguid) values ({key + 5}, 1, 'a', '{rowguid}')")
    for device in (first, second):
        levels.merge.sync(DEVICES, device.url)
    second.execute("update customer set name = 'b' where name = 'a'", "update orders set note = 'b' where note = 'a'")
    for _ in range(2):
        levels.sync()
    assert len(levels.upper.conflicts()) == len(of_customers) + len(of_orders)
    for table, expected in (("customer", "(4, 'n', 'top', 4)"), ("orders", "(40, 4, 'top')")):
        rows = levels.top.rows(table, COLUMNS[table])
        assert expected in map(repr, rows)
        assert levels.region.rows(table, COLUMNS[table]) == [row for row in rows if row[0] not in (3, 30)]
    second.execute("update customer set name = 'c' where id = 4", "update orders set note = 'c' where id = 40")
    levels.top.execute("update customer set qty = 5 where id = 4")
    levels.settle()
    levels.require_equal("n")
    assert (4, "n", "c", 5) in levels.top.rows("customer", COLUMNS["customer"])
    assert len(levels.upper.conflicts()) == len(of_customers) + len(of_orders)


def test_rows_that_follow_the_tops_key_are_no_change(levels: Levels) -> None:
    levels.begin(action="on update cascade", resolver="subscriber-wins")
    levels.settle()
    levels.top.execute("update customer set id = 7 where id = 1", "update orders set note = 'later'")
    levels.upper.sync()
    assert levels.upper.sync().is_quiet
    levels.settle()

    followed = [(10, 7, "later"), (20, 2, "later"), (30, 3, "later")]
    assert levels.top.rows("orders", COLUMNS["orders"]) == followed
    levels.require_equal()
    levels.region.execute("insert into orders (id, customer_id, note) values (40, 2, 'region')")
    levels.lower.settle(1)
    levels.top.execute("update customer set id = 8 where id = 2")
    levels.settle()

    assert levels.top.rows("orders", COLUMNS["orders"])[1:] == [(20, 8, "later"), followed[2], (40, 8, "region")]
    levels.require_equal()
    assert levels.upper.conflicts() == levels.lower.conflicts() == []


@pytest.mark.exhaustive
def test_devices_begin_again_after_their_hub_did(levels: Levels) -> None:
    levels.begin()
    levels.settle()
    levels.top.execute("update customer set name = 'new'")
    levels.upper.merge.reinitialize(PUBLICATION, levels.region.url)
    for device in levels.devices:
        with pytest.raises(NodeRestored, match="reinitialize"):
            levels.merge.sync(DEVICES, device.url)
        levels.merge.reinitialize(DEVICES, device.url)
    levels.devices[0].execute("update customer set qty = 70 where id = 1")
    levels.settle()

    levels.require_equal()
    assert levels.top.rows("customer", "qty")[-1] == (70,)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(1, 12))])
def test_levels_converge_whatever_is_cut(levels: Levels, seed: int) -> None:
    chance = random.Random(seed)
    levels.begin(where="region = host_name()" if seed % 2 else None, compensate_for_errors=True)
    for _ in range(3):
        for member in (levels.top, levels.region, *levels.devices):
            for _ in range(chance.randint(0, 3)):
                attempt(member, statement(chance))
        chosen = chance.choice([(levels.upper, 0), (levels.lower, 0), (levels.lower, 1)])
        chosen[0].cut_sync(chosen[1], chance.randint(1, 8), is_before=chance.random() < 0.5)
        if chance.random() < 0.3:
            levels.merge.cleanup()
        levels.sync()
    levels.settle()

    levels.require_equal("n" if seed % 2 else None)


def statement(chance: random.Random) -> str:
    """Return a change that any member may make; the region of a customer changes too."""
    customer, order = chance.randint(1, 5), 10 * chance.randint(1, 5)
    return chance.choice(
        [
            f"insert into customer (id, region, name) values ({customer}, '{chance.choice('ns')}', 'new')",
            f"update customer set name = 'n{chance.random():.4f}' where id = {customer}",
            f"update customer set region = '{chance.choice('ns')}' where id = {customer}",
            f"delete from customer where id = {customer}",
            f"insert into orders (id, customer_id, note) values ({order}, {customer}, 'new')",
            f"update orders set note = 'o{chance.random():.4f}' where id = {order}",
            f"delete from orders where id = {order}",
        ]
    )
