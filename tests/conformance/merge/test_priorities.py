"""A subscriber that publishes the same tables again: changes and priorities over two levels of hubs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from builders.merge.merged_databases import PUBLICATION, Member, Merge, open_file_member
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import SubscriberType
from rowtide.merge.errors.publishing import RepublisherNotServer
from rowtide.merge.errors.subscribing import PriorityRefused

CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
ROW = "insert into customer values (1, 'first', 1)"
COLUMNS = "id, name, qty"
BRANCH = "branch"
SERVER = SubscriberType.SERVER


@dataclass
class Levels:
    """A top publisher, a subscriber that publishes again, and one of its subscribers; each can have others."""

    merged: Merge
    options: dict[str, Any]
    others: dict[str, Member] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.top, self.middle, self.leaf = self.merged.members
        self.of_top, self.of_middle = self.merged.merge, MergeReplication(self.middle.url)
        self.top.execute(CUSTOMER, ROW)
        self.of_top.add_publication(PUBLICATION)
        self.of_top.add_article(PUBLICATION, "customer", **self.options)
        self.of_top.add_subscription(PUBLICATION, self.middle.url, subscriber_type=SERVER, priority=75.0)
        self.of_middle.add_publication(BRANCH)
        self.of_middle.add_article(BRANCH, "customer", **self.options)
        self.of_middle.add_subscription(BRANCH, self.leaf.url)

    def sync_middle(self) -> None:
        self.of_top.sync(PUBLICATION, self.middle.url)

    def sync_leaf(self) -> None:
        self.of_middle.sync(BRANCH, self.leaf.url)

    def settle(self) -> list[bool]:
        """Exchange everything, and say what two more rounds move."""
        for _ in range(2):
            self.sync_leaf()
            self.sync_middle()
        self.sync_leaf()
        return [
            publisher.sync(name, member.url).is_quiet
            for _ in range(2)
            for publisher, name, member in (
                (self.of_top, PUBLICATION, self.middle),
                (self.of_middle, BRANCH, self.leaf),
            )
        ]


@pytest.fixture(params=[{}, {"column_tracking": True}], ids=["rows", "columns"])
def levels(request: pytest.FixtureRequest, merged: Merge) -> Levels:
    return Levels(merged, request.param)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Member]:
    with ExitStack() as opened:
        yield opened.enter_context(open_file_member(tmp_path / "other.db"))


def test_changes_travel_over_two_levels(levels: Levels) -> None:
    levels.leaf.execute("insert into customer (id, name) values (2, 'leaf')")
    levels.middle.execute("insert into customer (id, name) values (3, 'middle')")
    levels.top.execute("insert into customer (id, name) values (4, 'top')", "update customer set qty = 9 where id = 1")
    assert all(levels.settle())
    levels.leaf.execute("delete from customer where id = 4")
    levels.top.execute("delete from customer where id = 2")
    assert all(levels.settle())

    assert levels.top.rows("customer", COLUMNS) == [(1, "first", 9), (3, "middle", None)]
    levels.merged.require_equal("customer", columns=COLUMNS)


def test_the_tops_change_wins_over_a_leafs_at_the_middle(levels: Levels) -> None:
    levels.top.execute("update customer set qty = 10")
    levels.leaf.execute("update customer set qty = 20")
    levels.sync_middle()
    assert all(levels.settle())

    assert levels.top.rows("customer", "qty") == [(10,)]
    levels.merged.require_equal("customer", columns=COLUMNS)


@pytest.mark.parametrize(("priority", "winner"), [(60.0, "leaf"), (80.0, "other")])
def test_what_a_leaf_changed_has_its_publishers_priority(
    levels: Levels, other: Member, priority: float, winner: str
) -> None:
    levels.of_top.add_subscription(PUBLICATION, other.url, subscriber_type=SERVER, priority=priority)
    other.execute("update customer set name = 'other'")
    levels.leaf.execute("update customer set name = 'leaf'")
    levels.of_top.sync(PUBLICATION, other.url)
    levels.sync_leaf()
    assert all(levels.settle())

    assert levels.top.rows("customer", "name") == [(winner,)]
    levels.merged.require_equal("customer", columns=COLUMNS)


@pytest.mark.parametrize(("priority", "winner"), [(40.0, "server"), (60.0, "other")])
def test_a_servers_priority_travels_with_its_row(
    levels: Levels, other: Member, tmp_path: Path, priority: float, winner: str
) -> None:
    levels.of_top.add_subscription(PUBLICATION, other.url, subscriber_type=SERVER, priority=priority)
    with open_file_member(tmp_path / "server.db") as server:
        levels.of_middle.add_subscription(BRANCH, server.url, subscriber_type=SERVER, priority=50.0)
        other.execute("update customer set name = 'other'")
        server.execute("update customer set name = 'server'")
        levels.of_top.sync(PUBLICATION, other.url)
        levels.of_middle.sync(BRANCH, server.url)
        levels.settle()

    assert levels.top.rows("customer", "name") == [(winner,)]
    levels.merged.require_equal("customer", columns=COLUMNS)


def test_a_servers_priority_is_below_its_publishers(levels: Levels, other: Member) -> None:
    for publisher, name, priority in ((levels.of_top, PUBLICATION, 100.0), (levels.of_middle, BRANCH, 75.0)):
        with pytest.raises(PriorityRefused, match=f"publisher has {priority}"):
            publisher.add_subscription(name, other.url, subscriber_type=SERVER, priority=priority)


def test_a_client_does_not_publish_again(levels: Levels) -> None:
    of_leaf = MergeReplication(levels.leaf.url)
    of_leaf.add_publication("twig")

    with pytest.raises(RepublisherNotServer, match=BRANCH):
        of_leaf.add_article("twig", "customer", **levels.options)
