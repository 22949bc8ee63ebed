"""Changes of one number at several nodes add up, whatever is cut off."""

from __future__ import annotations

import random

import pytest

from builders.merge.merged_databases import Merge

STOCK = "create table stock (id integer primary key, name varchar(20), qty integer, price numeric(10, 2))"
BEGINNING = "insert into stock values (1, 'screw', 100, 1.50)"
TRACKING = [pytest.param({}, id="rows"), pytest.param({"column_tracking": True}, id="columns")]


def begin(merged: Merge, options: dict[str, bool], column: str = "qty") -> None:
    merged.begin(STOCK, BEGINNING, stock={"resolver": f"additive:{column}"} | options)


@pytest.mark.parametrize("tracking", TRACKING)
def test_changes_of_all_nodes_add_up(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, tracking)
    merged.hub.execute("update stock set qty = qty - 10")
    merged.subscribers[0].execute("update stock set qty = qty - 20", "update stock set qty = qty - 3")
    merged.subscribers[1].execute("update stock set qty = qty + 7")
    merged.settle(3)

    assert merged.hub.rows("stock", "qty") == [(74,)]
    merged.require_equal("stock", columns="id, name, qty")
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.parametrize("tracking", TRACKING)
def test_decimals_add_up_exactly(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, tracking, "price")
    merged.hub.execute("update stock set price = price + 0.10")
    merged.subscribers[0].execute("update stock set price = price + 0.20")
    merged.settle()

    for member in merged.members:
        [(price,)] = member.execute("select price from stock")
        assert round(float(price), 9) == 1.8
    merged.require_equal("stock", columns="id, name, qty")


def test_a_change_of_another_column_leaves_the_number(merged: Merge) -> None:
    begin(merged, {})
    merged.hub.execute("update stock set qty = qty - 10")
    merged.subscribers[0].execute("update stock set name = 'nail'")
    merged.settle()

    assert merged.hub.rows("stock", "qty") == [(90,)]
    merged.require_equal("stock", columns="id, name, qty")


@pytest.mark.exhaustive
@pytest.mark.parametrize("tracking", TRACKING)
@pytest.mark.parametrize("seed", range(3))
def test_interrupted_syncs_count_every_additive_change_once(
    merged: Merge, tracking: dict[str, bool], seed: int
) -> None:
    begin(merged, tracking)
    chance, total = random.Random(seed), 100
    for _ in range(25):
        member = chance.choice(merged.members)
        change = chance.randint(-9, 9)
        member.execute(f"update stock set qty = qty + {change}")
        total += change
        if chance.random() < 0.7:
            merged.cut_sync(chance.randrange(2), chance.randint(1, 9), is_before=chance.random() < 0.5)
        if chance.random() < 0.3:
            merged.sync(chance.randrange(2))
    merged.settle(3)

    assert merged.hub.rows("stock", "qty") == [(total,)]
    merged.require_equal("stock", columns="id, name, qty")


@pytest.mark.parametrize("tracking", TRACKING)
def test_two_nodes_that_come_to_the_same_number_both_count(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, tracking)
    for member in merged.members:
        member.execute("update stock set qty = qty - 10")
    merged.settle()

    assert merged.hub.rows("stock", "qty") == [(70,)]
    merged.require_equal("stock", columns="id, name, qty")
