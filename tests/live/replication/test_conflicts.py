"""Conflicts between databases that publish to each other: found by kind, resolved as the subscription says, kept."""

from __future__ import annotations

import json

import pytest

from builders.commands.hints import run_printed
from builders.replication.peers import PUBLICATION, Peer, deliver_until_quiet
from rowtide.handle import connect
from rowtide.replication.conflict_decisions import KeptConflict
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.conflicts import (
    ConflictFound,
    ConflictsFixed,
    ConflictsNotDetectable,
    ConflictsUndecided,
)
from rowtide.replication.subscription_settings import SubscriptionSettings

ITEMS = "create table items (id int primary key, n int, code text unique)"

CASES = {
    "insert_exists": ("insert into items values (10, 1, 'ten')", "insert into items values (10, 2, 'TEN')"),
    "update_origin_differs": ("update items set n = 1 where id = 1", "update items set n = 2 where id = 1"),
    "update_exists": ("update items set code = 'x' where id = 2", "update items set code = 'x' where id = 3"),
    "update_missing": ("update items set n = 1 where id = 4", "delete from items where id = 4"),
    "delete_origin_differs": ("delete from items where id = 5", "update items set n = 2 where id = 5"),
    "delete_missing": ("delete from items where id = 6", "delete from items where id = 6"),
    "multiple_unique_conflicts": (
        "insert into items values (20, 1, 'y')",
        "insert into items values (20, 2, 'z'), (21, 2, 'y')",
    ),
}
"""What two databases do, for each kind that the second one finds."""
OUTCOMES = {
    Resolver.APPLY: ["(1,1,c1)", "(10,1,ten)", "(2,0,x)", "(20,1,y)", "(4,1,c4)"],
    Resolver.SKIP: ["(1,2,c1)", "(10,2,TEN)", "(2,0,c2)", "(20,2,z)", "(21,2,y)", "(3,0,x)", "(5,2,c5)"],
}


def begin(first: Peer, second: Peer, resolver: Resolver) -> None:
    """Give both the same rows, and each the other's changes; `resolver` is of the first one's."""
    for peer in (first, second):
        peer.execute(ITEMS, "insert into items select i, 0, 'c' || i from generate_series(1, 6) i")
        peer.publish("items")
    first.subscribe(second, settings=SubscriptionSettings(conflicts=resolver))
    second.subscribe(first, settings=SubscriptionSettings(conflicts=Resolver.SKIP))


def list_conflicts(peer: Peer) -> list[KeptConflict]:
    return list(connect(peer.url).replication.list_conflicts(PUBLICATION))


@pytest.mark.exhaustive
def test_rows_changed_in_turn_are_no_conflict(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second, Resolver.STOP)
    for round_ in range(2):
        for peer in peers:
            peer.execute("update items set n = n + 1 where id = 1", f"insert into items values (7, {round_}, 'new')")
            deliver_until_quiet(peers)
            peer.execute("update items set id = 8 where id = 7", "delete from items where id = 8")
            deliver_until_quiet(peers)

    assert first.rows("items") == second.rows("items") == [f"({i},{4 * (i == 1)},c{i})" for i in range(1, 7)]
    assert list_conflicts(first) == list_conflicts(second) == []


@pytest.mark.parametrize("deferrable", ["", pytest.param(" deferrable", marks=pytest.mark.exhaustive)])
def test_a_conflict_among_many_changes_is_found(peers: tuple[Peer, Peer], deferrable: str) -> None:
    first, second = peers
    begin(first, second, Resolver.SKIP)
    for peer in peers:
        peer.execute(
            "alter table items drop constraint items_code_key",
            f"alter table items add constraint items_code_key unique (code){deferrable}",
        )
    second.execute("insert into items values (500, 5, 'code 300')")
    first.execute(
        "insert into items select i, 0, 'code ' || i from generate_series(100, 399) i",
        "update items set n = id where id > 150",
        "delete from items where id = 160",
    )
    second.execute("update items set n = -1 where id = 3")
    first.execute("update items set n = 7 where id < 5")
    first.deliver()

    kinds = [conflict.kind for conflict in list_conflicts(first)[::-1]]
    assert kinds == ["insert_exists", "update_missing", "update_origin_differs"]
    assert second.rows("items")[:3] == first.rows("items")[:3]
    assert len(second.rows("items")) == len(first.rows("items"))


@pytest.mark.parametrize("resolver", [Resolver.APPLY, pytest.param(Resolver.SKIP, marks=pytest.mark.exhaustive)])
def test_conflicts_are_resolved_and_kept_with_both_rows(peers: tuple[Peer, Peer], resolver: Resolver) -> None:
    first, second = peers
    begin(first, second, resolver)
    for here, there in CASES.values():
        first.execute(here)
        second.execute(there)
    first.deliver()

    found = list_conflicts(first)[::-1]
    assert [conflict.kind for conflict in found] == list(CASES)
    assert {conflict.resolution for conflict in found} == {"applied" if resolver is Resolver.APPLY else "skipped"}
    assert second.rows("items") == OUTCOMES[resolver]
    changed = found[1]
    assert [json.loads(row or "") for row in (changed.old_row, changed.new_row, changed.present_rows)] == [
        {"id": "1", "n": "0", "code": "c1"},
        {"id": "1", "n": "1", "code": "c1"},
        [{"id": "1", "n": "2", "code": "c1"}],
    ]
    assert [len(json.loads(conflict.present_rows)) for conflict in found] == [1, 1, 2, 0, 1, 0, 2]


@pytest.mark.exhaustive
def test_by_default_a_conflict_stops_and_is_kept_once(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    for peer in peers:
        peer.execute(ITEMS)
        peer.publish("items")
    first.subscribe(second)
    with pytest.raises(ConflictsUndecided, match="nothing says what is done about conflicts there") as undecided:
        second.subscribe(first)
    run_printed(undecided.value, first.url, PUBLICATION=PUBLICATION, URL=second.url)
    second.subscribe(first)
    first.execute("insert into items values (1, 1, 'one')", "insert into items values (2, 2, 'two')")
    second.execute("insert into items values (2, 0, 'mine')")
    for _ in range(2):
        with pytest.raises(ConflictFound, match="conflict of type insert_exists .* with key id = 2") as conflict:
            first.deliver()
    with pytest.raises(ConflictFound):
        second.deliver()
    assert [(found.kind, found.resolution) for found in list_conflicts(first)] == [("insert_exists", "stopped")]

    for at in range(3):
        run_printed(conflict.value, first.url, at)
    first.deliver()
    assert second.rows("items") == first.rows("items")
    assert [found.resolution for found in list_conflicts(first)] == ["applied", "stopped"]
    with pytest.raises(ConflictsFixed):
        connect(first.url).replication.change_subscription(PUBLICATION, second.url, conflicts=Resolver.NONE)


@pytest.mark.exhaustive
def test_schema_changes_are_delivered_beside_conflicts(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second, Resolver.APPLY)
    first.execute(
        "alter table items add column note text default 'none'", "update items set note = 'here' where id = 1"
    )
    second.execute("update items set n = 2 where id = 1")
    first.deliver()
    second.execute("update items set note = 'there' where id = 2")
    deliver_until_quiet(peers)

    assert second.rows("items")[:2] == ["(1,0,c1,here)", "(2,0,c2,there)"]
    assert first.rows("items")[1:] == second.rows("items")[1:]
    assert {found.kind for found in list_conflicts(first)} == {"update_origin_differs"}


@pytest.mark.exhaustive
def test_articles_whose_conflicts_are_not_found_are_refused(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    for peer in peers:
        peer.execute(ITEMS)
    first.publish("items", where="n > 0")
    stop = SubscriptionSettings(conflicts=Resolver.STOP)
    with pytest.raises(ConflictsNotDetectable, match="it has a row filter"):
        first.subscribe(second, settings=stop)
    with pytest.raises(ConflictsNotDetectable, match="the server of .* does not keep commit times|row filter"):
        first.subscribe(second, settings=SubscriptionSettings(conflicts=Resolver.LAST_COMMIT_TIME))
