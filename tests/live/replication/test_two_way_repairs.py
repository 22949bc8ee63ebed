"""Rows repaired where databases publish the same table to each other: what is on its way is left alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from builders.replication.peers import PUBLICATION, Peer, deliver_until_quiet
from rowtide.handle import connect
from rowtide.replication.conflicts import Resolver
from rowtide.replication.repairing import Repair
from rowtide.replication.subscription_settings import IfExists, SubscriptionSettings, SyncType

ITEMS = "create table items (id int primary key, n int)"


def begin(first: Peer, second: Peer, resolver: Resolver) -> None:
    """Give both the same rows, and each the other's changes."""
    settings = SubscriptionSettings(conflicts=resolver)
    for peer in (first, second):
        peer.execute(ITEMS)
        peer.publish("items")
    first.execute("insert into items select i, 0 from generate_series(1, 6) i")
    first.subscribe(second, SyncType.AUTOMATIC, if_exists=IfExists.DELETE, settings=settings)
    first.deliver()
    second.subscribe(first, settings=settings)
    deliver_until_quiet((first, second))


def damage(peer: Peer, *statements: str) -> None:
    """Change rows in a way that nobody delivers, as a lost or a wrongly skipped change does."""
    marked = "select pg_logical_emit_message(true, 'rowtide.origin', json_build_object('subscription', "
    marked += (
        "subscription_guid, 'originator', originator, 'secret', secret)::text) from rowtide_subscriber.\"MSorigins\""
    )
    with peer.transaction() as connection:
        for statement in (marked, *statements):
            connection.execute(statement.encode())


def repair(publisher: Peer, *, delete_extra: bool = False) -> list[tuple[str | None, str]]:
    """Repair the publisher's subscriber; return what became of which row."""
    done: Sequence[Repair] = list(
        connect(publisher.url).replication.repair(PUBLICATION, delete_extra=delete_extra, wait_s=0)
    )
    assert not [one.reason for one in done if one.action == "not compared"]
    return sorted((one.key, one.action) for one in done)


@pytest.mark.parametrize("resolver", [Resolver.SKIP, pytest.param(Resolver.NONE, marks=pytest.mark.exhaustive)])
def test_what_goes_the_other_way_is_not_undone(peers: tuple[Peer, Peer], resolver: Resolver) -> None:
    first, second = peers
    begin(first, second, resolver)
    damage(second, "update items set n = -1 where id = 1", "delete from items where id = 2")
    second.execute(
        "update items set n = 3 where id = 3", "delete from items where id = 4", "insert into items values (7, 7)"
    )
    first.execute("update items set n = 5 where id = 5")

    assert repair(first, delete_extra=True) == [
        ('{"id": "1"}', "updated"),
        ('{"id": "2"}', "inserted"),
        ('{"id": "3"}', "on its way"),
        ('{"id": "4"}', "on its way"),
        ('{"id": "7"}', "on its way"),
    ]
    # Three and one changes: what was repaired does not come back.
    assert deliver_until_quiet(peers) == 4
    assert first.rows("items") == second.rows("items") == ["(1,0)", "(2,0)", "(3,3)", "(5,5)", "(6,0)", "(7,7)"]
    assert repair(first, delete_extra=True) == repair(second, delete_extra=True) == []


@pytest.mark.exhaustive
def test_the_publisher_of_the_repair_wins(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second, Resolver.SKIP)
    first.execute("update items set n = 1 where id = 1")
    second.execute("update items set n = 2 where id = 1")
    deliver_until_quiet(peers)
    assert (first.rows("items")[0], second.rows("items")[0]) == ("(1,1)", "(1,2)")

    assert repair(second) == [('{"id": "1"}', "updated")]
    assert deliver_until_quiet(peers) == 0
    assert first.rows("items")[0] == second.rows("items")[0] == "(1,2)"


@pytest.mark.exhaustive
def test_a_stopped_direction_goes_on_once_repaired(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second, Resolver.STOP)
    damage(second, "update items set n = -1 where id = 1")
    first.execute("update items set n = 8 where id = 1", "update items set n = 9 where id = 1")

    assert repair(first) == [('{"id": "1"}', "updated")]
    deliver_until_quiet(peers)
    assert first.rows("items")[0] == second.rows("items")[0] == "(1,9)"
