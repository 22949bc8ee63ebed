"""Conflicts of delivery and of merge in one list: by cause, decided together."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from builders.commands.command_lines import rowtide
from builders.replication.peers import Peer
from fixtures.replicated import open_peers
from rowtide.conflicts import InboxState
from rowtide.databases.postgres.embedded import EmbeddedServer
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
    previews = list(inbox.preview(updates.cause, "otherwise"))
    assert [(one.winner, one.nodes, one.failure) for one in previews] == [("publisher", 1, None)] * 5
    assert [one.rows[0].later for one in previews if one.later_changes] == ["it has changed since"]
    assert json.loads(previews[0].rows[0].after or "")["n"] == "1"
    assert [one.rows for one in inbox.preview(deletes.cause, "keep")] == [()]
    assert second.rows("items")[:4] == ["(1,2)", "(2,2)", "(3,9)", "(4,2)"]
    assert inbox.list_conflicts(state=InboxState.SETTLED).conflicts == ()
    assert inbox.comment(updates.cause, "Ask Ann.", noted_by="ben") == 5
    arguments = {"name": updates.cause, "choice": "otherwise"}
    entry = connect(first.url).actions.perform("conflicts decide", arguments, actor="ann")
    assert entry is not None
    refused = found.conflicts[2].conflict_id
    said = f"Conflicts decided: 4. Rows were written for 4. Refused: 1: {refused} (RT-7204)."
    assert (entry.outcome, entry.result) == ("done", said)
    words = ("conflicts", "decide", updates.cause, "--choice", "otherwise")
    ended = rowtide(*words, "--db", first.url)
    assert ended.code == 1
    assert f"RT-1199: 1 of 1 decisions were refused: {refused} (RT-7204)" in ended.errors
    assert second.rows("items") == ["(1,1)", "(2,1)", "(3,9)", "(4,1)", "(5,1)", "(6,0)", "(7,0)", "(8,3)"]
    assert rowtide(*words, "--over-later-changes", "--db", first.url).code == 0
    assert second.rows("items")[2] == "(3,1)"
    shown = inbox.show(found.conflicts[0].conflict_id)
    assert [(note.note, note.decided) for note in shown.notes] == [("Ask Ann.", None), (None, "publisher")]
    columns = sorted((one.column, one.publisher, one.subscriber, one.base, one.differs) for one in shown.columns)
    assert columns == [
        ("id", "1", "1", "1", False),
        ("n", "1", "2", "0", True),
    ]
    (kept,) = inbox.decide(deletes.cause, "keep")
    assert (kept.is_written, kept.failure) == (False, None)

    listed = rowtide("conflicts", "list", "--state", "settled", "--format", "csv", "--db", first.url)
    rows = list(csv.DictReader(io.StringIO(listed.output)))
    assert len(rows) == 6
    assert {(row["source"], row["state"]) for row in rows} == {("replication", "settled")}


def test_a_cause_has_conflicts_of_several_subscribers(server: EmbeddedServer, tmp_path: Path) -> None:
    with open_peers(server, tmp_path, 3) as (first, *others):
        decide_together(first, others)


def decide_together(first: Peer, others: Sequence[Peer]) -> None:
    for peer in (first, *others):
        peer.execute(ITEMS, "insert into items values (1, 0)")
        peer.publish("items")
    for other in others:
        first.subscribe(other, settings=SubscriptionSettings(conflicts=Resolver.SKIP))
        other.execute("update items set n = 2")
    first.execute("update items set n = 1")
    first.deliver()

    inbox = connect(first.url).conflicts
    before, again = inbox.list_conflicts(), inbox.list_conflicts()
    # What is as it was is not read again.
    assert [one is known for one, known in zip(again.conflicts, before.conflicts, strict=True)] == [True, True]
    (cause,) = before.groups
    assert (cause.conflicts, cause.nodes) == (2, 2)
    (decided,) = inbox.decide(before.conflicts[1].conflict_id, "otherwise")
    settled = inbox.list_conflicts().conflicts
    assert [one.state for one in settled] == [InboxState.OPEN, InboxState.SETTLED]
    assert settled[0] == before.conflicts[0]
    assert [decided.failure, *(done.failure for done in inbox.decide(cause.cause, "otherwise"))] == [None, None]
    assert [other.rows("items") for other in others] == [["(1,1)"], ["(1,1)"]]
