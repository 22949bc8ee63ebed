"""Conflicts of delivery and of merge in one list: by cause, decided together."""

from __future__ import annotations

import csv
import io

from builders.commands.command_lines import rowtide
from builders.replication.peers import Peer
from rowtide.conflicts import InboxState
from rowtide.handle import connect
from rowtide.replication.conflicts import Resolver
from rowtide.replication.subscription_settings import SubscriptionSettings

ITEMS = "create table items (id int primary key, n int)"


def test_conflicts_of_a_cause_are_one_decision(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    for peer in peers:
        peer.execute(ITEMS, "insert into items select i, 0 from generate_series(1, 8) i")
        peer.publish("items")
    first.subscribe(second, settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    first.execute("update items set n = 1 where id < 6", "delete from items where id = 8")
    second.execute("update items set n = 2 where id < 6", "update items set n = 3 where id = 8")
    first.deliver()

    inbox = connect(first.url).conflicts
    found = inbox.list_conflicts(table="items", state=InboxState.OPEN)
    updates, deletes = found.groups
    assert (updates.kind, updates.conflicts, updates.differing_columns, updates.won) == (
        "update_origin_differs",
        5,
        "n",
        "subscriber",
    )
    assert (deletes.kind, deletes.conflicts) == ("delete_origin_differs", 1)
    assert found.conflicts[0].key == '{"id": "1"}'
    assert inbox.list_conflicts(min_age_days=1).conflicts == inbox.list_conflicts(kind="insert_exists").conflicts == ()

    # One of the rows has changed since: it is refused, and the others are decided.
    second.execute("update items set n = 9 where id = 3")
    words = ("conflicts", "decide", updates.cause, "--choice", "otherwise")
    ended = rowtide(*words, "--db", first.url)
    assert ended.code == 1
    assert "RT-1199: 1 of 5 decisions were refused" in ended.errors
    assert second.rows("items") == ["(1,1)", "(2,1)", "(3,9)", "(4,1)", "(5,1)", "(6,0)", "(7,0)", "(8,3)"]
    assert rowtide(*words, "--over-later-changes", "--db", first.url).code == 0
    assert second.rows("items")[2] == "(3,1)"
    (kept,) = inbox.decide(deletes.cause, "keep")
    assert (kept.is_written, kept.failure) == (False, None)

    listed = rowtide("conflicts", "list", "--state", "settled", "--format", "csv", "--db", first.url)
    rows = list(csv.DictReader(io.StringIO(listed.output)))
    assert len(rows) == 6
    assert {(row["source"], row["state"]) for row in rows} == {("replication", "settled")}
