"""Conflicts that are resolved again, after the row has changed, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.conflicts import InboxState
from rowtide.handle import connect
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.conflicts.stored_conflicts import MergeConflict
from rowtide.merge.errors.rows import ChangedSince, StillReferenced

ITEM = "create table item (id integer primary key, name varchar(20), qty integer, note varchar(20))"
COLUMNS = "id, name, qty, note"
FIRST = "insert into item values (1, 'a', 0, '')"
Begin = Callable[[Merge], None]


def begin(merged: Merge, **options: object) -> None:
    merged.begin(ITEM, FIRST, item=options)


def only_conflict(merged: Merge) -> MergeConflict:
    [conflict] = merged.merge.list_conflicts(PUBLICATION)
    return conflict


def resolve(merged: Merge, winner: Winner, conflict: MergeConflict, *, over: bool = False) -> bool:
    return merged.merge.resolve(conflict.conflict_id, winner, over_later_changes=over)


def contend(merged: Merge, hub: str, device: str) -> MergeConflict:
    """Both ends change the row; return the conflict."""
    merged.hub.execute(hub)
    merged.subscribers[0].execute(device)
    merged.settle()
    return only_conflict(merged)


def of_names(merged: Merge) -> MergeConflict:
    return contend(merged, "update item set name = 'hub'", "update item set name = 'dev'")


def everywhere(merged: Merge) -> list[tuple[object, ...]]:
    merged.settle()
    merged.require_equal("item", columns=COLUMNS)
    assert all(summary.is_quiet for summary in merged.settle())
    return merged.hub.rows("item", COLUMNS)


def test_tracked_columns_that_the_loser_left_stay(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    merged.hub.execute("update item set qty = 5")
    conflict = contend(merged, "update item set name = 'hub'", "update item set name = 'dev', note = 'dev'")
    merged.subscribers[1].execute("update item set qty = 7")
    merged.settle()

    assert resolve(merged, Winner.SUBSCRIBER, conflict)
    assert everywhere(merged) == [(1, "dev", 7, "dev")]
    assert resolve(merged, Winner.PUBLISHER, conflict)
    assert everywhere(merged) == [(1, "hub", 7, "")]


@pytest.mark.parametrize("tracked", [False, True])
def test_later_changes_are_replaced_only_when_asked_for(merged: Merge, *, tracked: bool) -> None:
    begin(merged, column_tracking=tracked)
    conflict = of_names(merged)
    merged.subscribers[1].execute("update item set name = 'later', qty = 7")
    merged.settle()

    with pytest.raises(ChangedSince, match="name changed" if tracked else "name, qty changed"):
        resolve(merged, Winner.SUBSCRIBER, conflict)
    assert everywhere(merged) == [(1, "later", 7, "")]
    assert resolve(merged, Winner.SUBSCRIBER, conflict, over=True)
    assert everywhere(merged) == [(1, "dev", 7 if tracked else 0, "")]
    replaced = next(
        each
        for each in merged.merge.list_conflicts(PUBLICATION)
        if each != conflict and each.losing_row and "later" in each.losing_row
    )
    assert json.loads(replaced.losing_row or "")["qty"] == "7"
    assert replaced.resolved_time is not None
    assert merged.merge.status()[0].open_conflicts == 0

    # The record gives back what gave way.
    assert resolve(merged, Winner.PUBLISHER, replaced)
    assert everywhere(merged) == [(1, "later", 7, "")]


def test_a_row_that_is_gone_returns_only_when_asked_for(merged: Merge) -> None:
    begin(merged)
    conflict = of_names(merged)
    merged.subscribers[1].execute("delete from item")
    merged.settle()

    asked = ("merge", "resolve", conflict.conflict_id, "--winner", "subscriber", "--db", merged.hub.url)
    assert "it was deleted" in rowtide(*asked).require_error(8170)
    assert rowtide(*asked, "--over-later-changes").code == 0
    assert everywhere(merged) == [(1, "dev", 0, "")]
    kinds = [each.conflict_type for each in merged.merge.list_conflicts(PUBLICATION)]
    assert sorted(kinds) == [ConflictType.UPDATE_CONFLICT, ConflictType.UPDATE_WINS_DELETE_CONFLICT]
    assert resolve(merged, Winner.PUBLISHER, conflict)
    assert everywhere(merged) == []


def test_a_delete_that_lost_takes_no_later_change_along(merged: Merge) -> None:
    begin(merged, resolver="publisher-wins")
    conflict = contend(merged, "update item set name = 'hub'", "delete from item")
    assert conflict.conflict_type == ConflictType.UPDATE_WINS_DELETE_CONFLICT
    merged.subscribers[1].execute("update item set note = 'later'")
    merged.settle()

    with pytest.raises(ChangedSince, match="note changed"):
        resolve(merged, Winner.SUBSCRIBER, conflict)
    assert resolve(merged, Winner.SUBSCRIBER, conflict, over=True)
    assert everywhere(merged) == []
    assert any("later" in str(each.losing_row) for each in merged.merge.list_conflicts(PUBLICATION))
    assert resolve(merged, Winner.PUBLISHER, conflict)
    assert everywhere(merged) == [(1, "hub", 0, "later")]


def test_a_row_that_was_restored_already_is_not_replaced(merged: Merge) -> None:
    begin(merged, resolver="publisher-wins")
    conflict = contend(merged, "delete from item", "update item set name = 'dev'")
    assert resolve(merged, Winner.SUBSCRIBER, conflict)
    assert not resolve(merged, Winner.SUBSCRIBER, conflict)
    merged.settle()
    merged.subscribers[1].execute("update item set note = 'later'")
    merged.settle()

    with pytest.raises(ChangedSince, match="note changed"):
        resolve(merged, Winner.PUBLISHER, conflict)
    with pytest.raises(ChangedSince, match="note changed"):
        resolve(merged, Winner.SUBSCRIBER, conflict)
    assert everywhere(merged) == [(1, "dev", 0, "later")]


def of_delete_at_hub(merged: Merge) -> None:
    contend(merged, "delete from item", "update item set name = 'dev'")


def of_delete_at_device(merged: Merge) -> None:
    contend(merged, "update item set name = 'hub'", "delete from item")


def of_keys(merged: Merge) -> None:
    contend(
        merged,
        "insert into item (id, name, qty, note) values (2, 'hub', 0, '')",
        "insert into item (id, name, qty, note) values (2, 'dev', 0, '')",
    )


def of_refused_update(merged: Merge) -> None:
    merged.hub.execute(
        "create unique index refusing on item (qty)", "insert into item (id, name, qty, note) values (7, 'x', 7, '')"
    )
    merged.subscribers[0].execute("update item set qty = 7, name = 'dev' where id = 1")
    merged.sync()
    merged.hub.execute("drop index refusing")


@pytest.mark.parametrize("contest", [of_names, of_delete_at_hub, of_delete_at_device, of_keys, of_refused_update])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("resolver", ["publisher-wins", "subscriber-wins"])
def test_resolutions_turn_back(merged: Merge, contest: Begin, *, tracked: bool, resolver: str) -> None:
    begin(merged, column_tracking=tracked, resolver=resolver)
    contest(merged)
    conflict = only_conflict(merged)
    is_of_hub = conflict.origin_datasource == PUBLICATION
    loser, winner = (Winner.PUBLISHER, Winner.SUBSCRIBER)[:: 1 if is_of_hub else -1]
    before = merged.hub.rows("item", COLUMNS)

    for _ in range(2):
        assert resolve(merged, loser, conflict)
        restored = everywhere(merged)
        assert restored != before
        assert resolve(merged, winner, conflict)
        assert everywhere(merged) == before
    assert resolve(merged, loser, conflict)
    assert everywhere(merged) == restored


@pytest.mark.parametrize("tracked", [False, True])
def test_a_row_as_the_hub_has_it_counts_as_unchanged(merged: Merge, *, tracked: bool) -> None:
    """It has the winner's value in its own type, or one that neither had."""
    merged.begin(
        "create table item (id integer primary key, price numeric(10,2), qty integer, note varchar(20))",
        "insert into item values (1, 1, 1, '')",
        item={"column_tracking": tracked, "resolver": "additive:qty" if not tracked else "averaging:qty"},
    )
    merged.hub.execute("update item set qty = 5, note = 'hub'")
    merged.subscribers[0].execute("update item set qty = 3, price = 2.5, note = 'dev'")
    merged.settle()
    conflict = only_conflict(merged)

    assert resolve(merged, Winner.SUBSCRIBER, conflict)
    assert [tuple(map(str, row)) for row in merged.hub.rows("item", "qty, note")] == [("3", "dev")]


def test_children_return_and_go_with_their_parent(merged: Merge) -> None:
    line = "create table line (id integer primary key, item_id integer references item (id), name varchar(20))"
    merged.begin(ITEM, FIRST, line, item={"resolver": "publisher-wins"}, line={})
    merged.hub.execute("insert into item (id, name, qty, note) values (2, 'hub', 0, '')")
    merged.subscribers[0].execute(
        "insert into item (id, name, qty, note) values (2, 'dev', 0, '')",
        "insert into line (id, item_id, name) values (1, 2, 'x')",
        "insert into line (id, item_id, name) values (2, 2, 'y')",
    )
    merged.settle()
    kept = {each.article: each for each in merged.merge.list_conflicts(PUBLICATION)}
    before = everywhere(merged)
    for _ in range(2):
        assert resolve(merged, Winner.SUBSCRIBER, kept["item"])
        everywhere(merged)
        merged.require_equal("line", columns="id, item_id, name")
        assert [name for (name,) in merged.hub.rows("line", "name")] == ["x", "y"]
        assert resolve(merged, Winner.PUBLISHER, kept["item"])
        assert everywhere(merged) == before
        assert [member.rows("line", "id") for member in merged.members] == [[]] * 3

    # A child that came since keeps its parent.
    assert resolve(merged, Winner.SUBSCRIBER, kept["item"])
    merged.hub.execute("insert into line (id, item_id, name) select 9, max(id), 'later' from item")
    with pytest.raises(StillReferenced, match="line"):
        resolve(merged, Winner.PUBLISHER, kept["item"])


def test_the_inbox_decides_once_unless_told_again(merged: Merge) -> None:
    begin(merged)
    conflict = of_names(merged)
    inbox = connect(merged.merge.url).conflicts
    (listed,) = inbox.list_conflicts(state=InboxState.OPEN).conflicts
    assert (listed.conflict_id, listed.won, listed.differing_columns) == (conflict.conflict_id, "publisher", "name")
    assert json.loads(listed.publisher_row or "")["name"] == "hub"

    (done,) = inbox.decide(listed.cause, "otherwise")
    assert done.is_written
    assert [row[1] for row in everywhere(merged)] == ["dev"]
    (refused,) = inbox.decide(listed.conflict_id, "keep")
    assert "RT-1197" in (refused.failure or "")
    (back,) = inbox.decide(listed.conflict_id, "keep", again=True)
    assert back.failure is None
    assert [row[1] for row in everywhere(merged)] == ["hub"]


def test_comments_and_deciders_are_listed_by_conflict(merged: Merge) -> None:
    begin(merged)
    conflict = of_names(merged)
    assert merged.merge.list_conflict_notes() == {}
    merged.merge.comment_on_conflicts([conflict.conflict_id], "ask the shop", "anna")
    merged.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER, decided_by="bert")

    (noted,) = merged.merge.list_conflict_notes().values()
    assert [(each.noted_by, each.note, each.winner) for each in noted] == [
        ("anna", "ask the shop", None),
        ("bert", None, "subscriber"),
    ]
    assert merged.merge.list_conflict_notes("none") == {}


def test_who_wrote_which_version_is_known(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    merged.hub.execute("update item set qty = 5")
    conflict = contend(merged, "update item set name = 'hub'", "update item set name = 'dev', note = 'dev'")
    detail = connect(merged.merge.url).conflicts.show(conflict.conflict_id)
    publisher, subscriber = detail.written
    device = merged.merge.status(PUBLICATION)
    assert (publisher.side, publisher.node) == ("publisher", None)
    assert subscriber.side == "subscriber"
    assert subscriber.node in {one.subscriber for one in device}
    for version in detail.written:
        assert version.earliest is None or version.earliest <= version.latest
        assert version.latest <= conflict.create_time + timedelta(seconds=1)
    # The device had changed both: what they were before is not known. The hub's quantity is later than its own.
    assert {one.column: one.base for one in detail.columns if one.is_base_known} | {"rowguid": ""} == {
        "id": "1",
        "qty": "0",
        "rowguid": "",
    }
    shown = rowtide("conflicts", "show", conflict.conflict_id, "--db", merged.merge.url)
    assert "the publisher's version was written" in shown.output


def test_a_version_of_before_a_cleanup_is_unknown(merged: Merge) -> None:
    begin(merged)
    conflict = of_names(merged)
    prefix = "" if merged.hub.url.startswith("sqlite") else "rowtide_merge."
    merged.hub.execute_as_agent(f'delete from {prefix}"MSmerge_stored_genhistory"')
    assert connect(merged.merge.url).conflicts.show(conflict.conflict_id).written == ()


def test_a_preview_counts_the_nodes_that_have_the_row(merged: Merge) -> None:
    item = "create table item (id integer primary key, owner varchar(20), name varchar(20), qty integer)"
    rows = "insert into item values (1, 'a', 'x', 0), (2, 'b', 'x', 0)"
    of = [{"host_name": name} for name in ("a", "b", "c")]
    merged.begin(item, rows, item={"where": "owner = host_name()"}, subscriber_options=of[: len(merged.subscribers)])
    conflict = contend(merged, "update item set name = 'hub' where id = 1", "update item set name = 'dev' where id = 1")
    (preview,) = connect(merged.merge.url).conflicts.preview(conflict.conflict_id, "otherwise")
    assert (preview.nodes, preview.is_exact) == (2, True)
    # The row is gone: who gets it again depends on what is written.
    merged.hub.execute("delete from item where id = 1")
    (preview,) = connect(merged.merge.url).conflicts.preview(conflict.conflict_id, "otherwise")
    assert (preview.nodes, preview.is_exact) == (1 + len(merged.subscribers), False)
