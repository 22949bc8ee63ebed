"""Two databases that publish the same tables to each other: no change goes back to where it came from."""

from __future__ import annotations

from builders.peers import Peer, deliver_until_quiet
from rowtide.replication.sync_types import SyncType

ITEMS = "create table items (id int primary key, n int)"


def begin(first: Peer, second: Peer) -> None:
    """Give the first the rows, the second a copy, and each the other's changes."""
    first.execute(ITEMS)
    first.publish("items")
    first.execute("insert into items select i, 0 from generate_series(1, 5) i")
    first.subscribe(second, SyncType.AUTOMATIC)
    first.deliver()
    second.publish("items")
    second.subscribe(first)


def test_changes_go_to_the_other_side_and_not_back(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second)
    first.execute(
        "update items set n = 1 where id = 1", "delete from items where id = 5", "insert into items values (11, 1)"
    )
    second.execute(
        "update items set n = 2 where id = 2", "delete from items where id = 4", "insert into items values (12, 2)"
    )

    assert deliver_until_quiet(peers) == 6
    assert first.rows("items") == second.rows("items") == ["(1,1)", "(11,1)", "(12,2)", "(2,2)", "(3,0)"]
