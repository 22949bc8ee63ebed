"""Batches do not wait for the disk; they are on disk before their arrival is confirmed to the other node."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, cast

import psycopg

from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.session.pairing import pair
from rowtide.merge.session.synchronisation import synchronise

CUSTOMER = "create table customer (id integer primary key, name varchar(20))"
ROWS = "insert into customer values (1, 'a'), (2, 'b')"

Transactions = list[tuple[str, bool]]
"""The node, and whether a transaction there is durable, in order."""


class Recorded:
    """A node whose transactions are noted."""

    def __init__(self, node: Node, name: str, transactions: Transactions) -> None:
        self._node = node
        self._name = name
        self._transactions = transactions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    @contextmanager
    def transaction(self, *, is_durable: bool = True, is_repeatable: bool = False) -> Iterator[None]:
        with self._node.transaction(is_durable=is_durable, is_repeatable=is_repeatable):
            yield
        self._transactions.append((self._name, is_durable))


def record(merged: Merge) -> Transactions:
    """Synchronise the first subscriber."""
    url, transactions = merged.subscribers[0].url, Transactions()
    with open_node(merged.hub.url) as hub, open_node(url) as subscriber:
        recorded_hub = cast("Node", Recorded(hub, "hub", transactions))
        recorded_subscriber = cast("Node", Recorded(subscriber, "subscriber", transactions))
        synchronise(recorded_hub, recorded_subscriber, pair(hub, subscriber, PUBLICATION, address(url)))
    return transactions


def require_handed_over_durably(transactions: Transactions) -> None:
    for (name, is_durable), (following, _) in pairwise(transactions):
        assert is_durable or following == name, transactions
    assert transactions[-1][1]


def test_what_came_is_on_disk_before_the_other_end_goes_on(merged: Merge) -> None:
    """Deletes are a batch of their own: all but the last need not be durable."""
    merged.begin(CUSTOMER, ROWS, "insert into customer values (3, 'c'), (4, 'd')", customer={})
    merged.hub.execute("update customer set name = 'x' where id = 1", "delete from customer where id = 3")
    merged.subscribers[0].execute("update customer set name = 'y' where id = 2", "delete from customer where id = 4")
    transactions = record(merged)

    assert {("hub", False), ("subscriber", False)} <= set(transactions)
    require_handed_over_durably(transactions)


def test_requested_rows_are_durable_before_the_other_end_goes_on(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    subscriber = merged.subscribers[0]
    subscriber.execute(
        "create unique index refusing on customer (name)", "insert into customer (id, name) values (7, 'taken')"
    )
    merged.hub.execute("insert into customer (id, name) values (3, 'taken')")
    merged.sync()
    require_handed_over_durably(record(merged))
    assert [row[0] for row in subscriber.rows("customer", "id")] == [1, 2, 7]

    subscriber.execute("drop index refusing")
    transactions = record(merged)
    require_handed_over_durably(transactions)
    assert [row[0] for row in subscriber.rows("customer", "id")] == [1, 2, 3, 7]
    merged.settle()
    merged.require_equal("customer", columns="id, name")


def test_a_commit_waits_for_the_disk_where_it_is_to(merged: Merge) -> None:
    merged.begin(CUSTOMER, customer={})
    for member in merged.members:
        with open_node(member.url) as node:
            for is_durable in (False, True, False, True):
                with node.transaction(is_durable=is_durable):
                    waits = waits_for_disk(node)
                assert waits == (is_durable or not is_written_ahead(member))


def waits_for_disk(node: Node) -> bool:
    session = node.connection.connection.driver_connection
    if isinstance(session, sqlite3.Connection):
        return bool(session.execute("pragma synchronous").fetchone()[0] == 2)
    assert isinstance(session, psycopg.Connection)
    row = session.execute("show synchronous_commit").fetchone()
    return row is not None and bool(row[0] == "on")


def is_written_ahead(member: Member) -> bool:
    """Whether a commit that does not wait can be undone, and not more; the other journal keeps the file whole."""
    return not isinstance(member, FileMember) or member.execute("pragma journal_mode") == [("wal",)]
