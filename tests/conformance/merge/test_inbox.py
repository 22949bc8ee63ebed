"""Conflicts of merge as the inbox has them: shown, previewed, commented on, decided by two people at once."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.conflicts.errors import CommentEmpty, InboxConflictUnknown
from rowtide.conflicts.handle import ConflictInbox, DecisionResult
from rowtide.handle import connect

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
FIRST = "insert into item values (1, 'a', 0), (2, 'b', 0)"


def contend(merged: Merge) -> ConflictInbox:
    """Both ends change both rows; the hub's versions win."""
    merged.begin(ITEM, FIRST, item={})
    merged.hub.execute("update item set name = 'hub'")
    merged.subscribers[0].execute("update item set name = 'dev', qty = 4")
    merged.settle()
    return connect(merged.merge.url).conflicts


def test_a_preview_says_what_a_decision_writes(merged: Merge) -> None:
    inbox = contend(merged)
    cause = inbox.list_conflicts().conflicts[0].cause
    merged.hub.execute("update item set name = 'later' where id = 2")
    before = merged.hub.rows("item", "id, name, qty"), merged.merge.list_conflicts(PUBLICATION)

    first, second = sorted(inbox.preview(cause, "otherwise"), key=lambda one: json.loads(one.rows[0].after or "")["id"])
    assert (first.winner, first.failure, first.nodes, first.later_changes) == ("subscriber", None, 3, 0)
    (row,) = first.rows
    assert json.loads(row.before or "")["name"] == "hub"
    assert json.loads(row.after or "") == {**json.loads(row.before or ""), "name": "dev", "qty": "4"}
    assert second.rows[0].later == "name changed"
    kept = list(inbox.preview(cause, "keep"))
    assert [(one.winner, one.rows, one.nodes) for one in kept] == [("publisher", (), 0)] * 2

    # A preview has written nothing: neither rows nor decisions, and nothing is sent.
    assert (merged.hub.rows("item", "id, name, qty"), merged.merge.list_conflicts(PUBLICATION)) == before
    merged.settle()
    assert merged.subscribers[0].rows("item", "name") == [("hub",), ("later",)]
    assert all(done.failure is None for done in inbox.decide(cause, "otherwise", over_later_changes=True))
    merged.settle()
    assert merged.subscribers[1].rows("item", "name, qty") == [("dev", 4), ("dev", 4)]


def test_comments_and_deciders_are_kept(merged: Merge) -> None:
    inbox = contend(merged)
    one, other = inbox.list_conflicts().conflicts
    assert inbox.show(one.conflict_id).notes == ()
    assert inbox.comment(one.cause, " <b>Ann</b> asks the branch.\n", noted_by="ben") == 2
    assert inbox.comment(other.conflict_id, "It was a typing error.", noted_by="ann") == 1
    list(inbox.decide(one.conflict_id, "otherwise", decided_by="ann"))
    list(inbox.decide(one.conflict_id, "keep", again=True, decided_by="ben"))

    shown = inbox.show(one.conflict_id)
    said = [(note.noted_by, note.note, note.decided) for note in shown.notes]
    assert said == [
        ("ben", "<b>Ann</b> asks the branch.", None),
        ("ann", None, "subscriber"),
        ("ben", None, "publisher"),
    ]
    assert (shown.conflict.settled_by, shown.conflict.decided) == ("ben", "publisher")
    columns = {each.column: each for each in shown.columns}
    assert {name for name, each in columns.items() if each.differs} == {"name", "qty"}
    assert (columns["name"].publisher, columns["name"].subscriber, columns["name"].is_base_known) == (
        "hub",
        "dev",
        False,
    )
    assert [note.note for note in inbox.show(other.conflict_id).notes][1:] == ["It was a typing error."]

    with pytest.raises(CommentEmpty):
        inbox.comment(one.conflict_id, " \n", noted_by="ann")
    with pytest.raises(InboxConflictUnknown):
        inbox.comment("absent", "nothing", noted_by="ann")
    with pytest.raises(InboxConflictUnknown):
        inbox.show(one.cause)


def test_one_of_two_deciders_at_once_wins(merged: Merge) -> None:
    inbox = contend(merged)
    one = inbox.list_conflicts().conflicts[0]

    together = threading.Barrier(2)

    def decide(choice: str, person: str) -> list[DecisionResult]:
        deciding = connect(merged.merge.url).conflicts
        together.wait()
        return list(deciding.decide(one.conflict_id, choice, decided_by=person))

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(decide, ("subscriber", "publisher"), ("ann", "ben")))
    refused = [done.failure or "" for (done,) in results]
    winner = "ben" if refused[0] else "ann"
    assert sorted(map(bool, refused)) == [False, True]
    assert f"RT-1197: conflict {one.conflict_id} was settled by {winner} at" in max(refused)
    shown = inbox.show(one.conflict_id)
    assert shown.conflict.settled_by == winner
    assert [note.noted_by for note in shown.notes] == [winner]


def test_commands_show_preview_and_comment(merged: Merge) -> None:
    inbox = contend(merged)
    one = inbox.list_conflicts().conflicts[0]
    words = ("conflicts", "comment", one.cause, "Ask the branch.", "--db", merged.merge.url)
    assert rowtide(*words).code == 0
    shown = rowtide("conflicts", "show", one.conflict_id, "--db", merged.merge.url)
    assert shown.code == 0
    for part in (one.conflict_id, "the publisher won", "open", "Ask the branch.", "hub", "dev"):
        assert part in shown.output, part
    asked = ("conflicts", "preview", one.cause, "--choice", "otherwise", "--format", "jsonl", "--db", merged.merge.url)
    listed = [json.loads(line) for line in rowtide(*asked).output.splitlines()]
    assert [(row["nodes"], row["after"]["name"], row["note"]) for row in listed] == [(3, "dev", None)] * 2
