"""Decisions of people about conflicts of delivery: written at the subscriber as its own change, and settled with it."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.failpoints import SETTLING_FAILPOINTS
from builders.replication.peers import PUBLICATION, Peer, deliver_until_quiet
from fixtures.replicated import open_peers
from fixtures.servers import SETTINGS
from rowtide.core.errors import RowtideError
from rowtide.core.redaction import hiding
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.replication import ConflictOutcome, ConflictState, ConflictWinner, KeptConflict
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.conflicts import (
    ConflictFound,
    ConflictOutdated,
    ConflictRowsChanged,
    ConflictSettled,
    ConflictsUnknown,
    DeliveryConflictUnknown,
    SettlingRefused,
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
OF_FIRST = ["(1,1,c1)", "(10,1,ten)", "(2,0,x)", "(20,1,y)", "(3,0,c3)", "(4,1,c4)"]
OF_SECOND = ["(1,2,c1)", "(10,2,TEN)", "(2,0,c2)", "(20,2,z)", "(21,2,y)", "(3,0,x)", "(5,2,c5)"]


@pytest.fixture(scope="module")
def timed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A PostgreSQL 18 that keeps commit times."""
    settings = {**SETTINGS, "track_commit_timestamp": "on", "max_active_replication_origins": "32"}
    with EmbeddedServer.start(tmp_path_factory.mktemp("timed"), version=18, settings=settings) as started:
        yield started


@pytest.fixture
def two(timed_server: EmbeddedServer, tmp_path: Path) -> Iterator[tuple[Peer, Peer]]:
    """Two databases with the same rows, which nothing delivers yet."""
    with open_peers(timed_server, tmp_path, 2) as (first, second):
        for peer in (first, second):
            peer.execute(ITEMS, "insert into items select i, 0, 'c' || i from generate_series(1, 6) i")
            peer.publish("items")
        yield first, second


def subscribe(first: Peer, second: Peer, resolver: Resolver, back: Resolver | None = None) -> None:
    first.subscribe(second, settings=SubscriptionSettings(conflicts=resolver))
    second.subscribe(first, settings=SubscriptionSettings(conflicts=back or resolver))


def list_conflicts(publisher: Peer) -> dict[str, KeptConflict]:
    """Return the conflicts that a publisher's subscriber keeps, by kind."""
    return {one.kind: one for one in connect(publisher.url).replication.list_conflicts(PUBLICATION)}


def resolve(publisher: Peer, subscriber: Peer, conflict: KeptConflict, winner: str, **options: Any) -> ConflictOutcome:
    replication = connect(publisher.url).replication
    return replication.resolve(conflict.conflict_id, subscriber.url, winner, decided_by="ann", **options)


@pytest.mark.parametrize("resolver", [Resolver.APPLY, pytest.param(Resolver.SKIP, marks=pytest.mark.exhaustive)])
def test_each_kind_is_decided_otherwise(two: tuple[Peer, Peer], resolver: Resolver) -> None:
    first, second = two
    first.subscribe(second, settings=SubscriptionSettings(conflicts=resolver))
    for here, there in CASES.values():
        first.execute(here)
        second.execute(there)
    first.deliver()
    winner = "present" if resolver is Resolver.APPLY else "delivered"

    found = list_conflicts(first)
    assert list(found)[::-1] == list(CASES)
    assert {one.state for one in found.values()} == {ConflictState.OPEN}
    for conflict in found.values():
        resolve(first, second, conflict, winner)
    if resolver is Resolver.APPLY:
        assert second.rows("items") == OF_SECOND
    else:
        assert second.rows("items") == [row for row in OF_FIRST if row != "(3,0,c3)"]
    settled = list_conflicts(first).values()
    assert {(one.state, one.winner, one.settled_by) for one in settled} == {("settled", winner, "ann")}
    assert all(one.settled_at is not None for one in settled)


@pytest.mark.parametrize("winner", ["delivered", "present"])
def test_both_have_what_was_decided_by_last_commit_time(two: tuple[Peer, Peer], winner: str) -> None:
    first, second = two
    subscribe(first, second, Resolver.LAST_COMMIT_TIME)
    first.execute("update items set n = 1 where id in (1, 2)", "delete from items where id = 3")
    second.execute("update items set n = 2 where id in (1, 2, 3)", "delete from items where id = 2")
    deliver_until_quiet(two)
    assert first.rows("items")[:2] == second.rows("items")[:2] == ["(1,2,c1)", "(3,2,c3)"]

    conflicts = connect(first.url).replication.list_conflicts(PUBLICATION)
    assert sorted(one.kind for one in conflicts) == ["delete_origin_differs", "update_missing", "update_origin_differs"]
    for conflict in conflicts:
        resolve(first, second, conflict, winner)
    deliver_until_quiet(two)
    expected = ["(1,1,c1)", "(2,1,c2)"] if winner == "delivered" else ["(1,2,c1)", "(3,2,c3)"]
    assert first.rows("items") == second.rows("items") == [*expected, "(4,0,c4)", "(5,0,c5)", "(6,0,c6)"]


@pytest.mark.parametrize("winner", ["delivered", pytest.param("present", marks=pytest.mark.exhaustive)])
def test_a_kept_row_reaches_who_has_the_other(two: tuple[Peer, Peer], winner: str) -> None:
    """Each has applied the other's change: whatever is decided at one of them, both come to that."""
    first, second = two
    subscribe(first, second, Resolver.APPLY)
    first.execute("update items set n = 1 where id = 1")
    second.execute("update items set n = 2 where id = 1")
    first.deliver()
    second.deliver()
    (conflict,) = list_conflicts(first).values()
    resolve(first, second, conflict, winner)
    deliver_until_quiet(two)
    chosen = "(1,1,c1)" if winner == "delivered" else "(1,2,c1)"
    assert first.rows("items")[0] == second.rows("items")[0] == chosen


@pytest.mark.parametrize("winner", ["delivered", "present"])
def test_a_stopped_subscription_follows_the_decision(two: tuple[Peer, Peer], winner: str) -> None:
    first, second = two
    first.subscribe(second, settings=SubscriptionSettings(conflicts=Resolver.STOP))
    first.execute("update items set n = 1 where id = 1", "update items set n = 7 where id = 2")
    second.execute("update items set n = 2 where id = 1")
    with pytest.raises(ConflictFound, match="update_origin_differs"):
        first.deliver()
    (conflict,) = list_conflicts(first).values()
    assert (conflict.state, conflict.resolution) == ("open", "stopped")

    assert resolve(first, second, conflict, winner).waits
    assert second.rows("items")[0] == "(1,2,c1)"
    first.deliver()
    assert second.rows("items")[:2] == ["(1,1,c1)" if winner == "delivered" else "(1,2,c1)", "(2,7,c2)"]
    assert [(one.state, one.winner) for one in list_conflicts(first).values()] == [("settled", winner)]


@pytest.mark.exhaustive
def test_a_stopped_conflict_that_was_delivered_is_settled(two: tuple[Peer, Peer]) -> None:
    first, second = two
    first.subscribe(second, settings=SubscriptionSettings(conflicts=Resolver.STOP))
    first.execute("update items set n = 1 where id = 1")
    second.execute("update items set n = 2 where id = 1")
    with pytest.raises(ConflictFound):
        first.deliver()
    connect(first.url).replication.change_subscription(PUBLICATION, second.url, conflicts=Resolver.SKIP)
    first.deliver()
    states = [(one.resolution, one.state) for one in connect(first.url).replication.list_conflicts()]
    assert states == [("skipped", "open"), ("stopped", "settled")]


def differ(first: Peer, second: Peer) -> KeptConflict:
    """Let the second database skip a change of the first's; return the conflict."""
    first.subscribe(second, settings=SubscriptionSettings(conflicts=Resolver.SKIP))
    first.execute("update items set n = 1 where id = 1")
    second.execute("update items set n = 2 where id = 1")
    first.deliver()
    (conflict,) = list_conflicts(first).values()
    return conflict


def test_a_row_that_changed_since_is_not_replaced_unasked(two: tuple[Peer, Peer]) -> None:
    first, second = two
    conflict = differ(first, second)
    second.execute("update items set n = 3 where id = 1")
    with pytest.raises(ConflictRowsChanged, match="row with key id = 1 has changed since"):
        resolve(first, second, conflict, "delivered")
    assert second.rows("items")[0] == "(1,3,c1)"
    seen = resolve(first, second, conflict, "delivered", preview=True)
    assert [(row.before, row.after) for row in seen.changed_since] == [
        ({"id": "1", "n": "3", "code": "c1"}, {"id": "1", "n": "1", "code": "c1"})
    ]
    assert list_conflicts(first)[conflict.kind].state == "open"

    resolve(first, second, conflict, "delivered", over_later_changes=True)
    assert second.rows("items")[0] == "(1,1,c1)"


def test_a_decision_is_repeated_and_changed_only_on_demand(two: tuple[Peer, Peer]) -> None:
    first, second = two
    conflict = differ(first, second)
    preview = resolve(first, second, conflict, "delivered", preview=True)
    assert (len(preview.rows), preview.sent_to, second.rows("items")[0]) == (1, (), "(1,2,c1)")
    assert len(resolve(first, second, conflict, "delivered").rows) == 1
    again = resolve(first, second, conflict, "delivered")
    assert (again.rows, again.is_settled) == ((), True)
    with pytest.raises(ConflictSettled, match="ann chose delivered"):
        resolve(first, second, conflict, "present")
    resolve(first, second, conflict, "present", again=True)
    assert second.rows("items")[0] == "(1,2,c1)"
    # The last decision's row is what later changes are told by.
    second.execute("update items set n = 9 where id = 1")
    with pytest.raises(ConflictRowsChanged):
        resolve(first, second, conflict, "delivered", again=True)
    with pytest.raises(DeliveryConflictUnknown):
        connect(first.url).replication.resolve(99, second.url, ConflictWinner.PRESENT)


def test_two_people_decide_at_once_and_one_wins(two: tuple[Peer, Peer]) -> None:
    first, second = two
    conflict = differ(first, second)
    refused: list[RowtideError] = []
    ready = threading.Barrier(2)

    def decide(winner: str) -> None:
        ready.wait()
        try:
            resolve(first, second, conflict, winner)
        except RowtideError as error:
            refused.append(error)

    threads = [threading.Thread(target=decide, args=(winner,)) for winner in ("delivered", "present")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in refused] == [ConflictSettled]
    chosen = list_conflicts(first)[conflict.kind].winner
    assert second.rows("items")[0] == ("(1,1,c1)" if chosen == "delivered" else "(1,2,c1)")


def test_a_decision_waits_for_a_program_with_the_row(two: tuple[Peer, Peer]) -> None:
    first, second = two
    conflict = differ(first, second)
    refused: list[RowtideError] = []

    def decide() -> None:
        try:
            resolve(first, second, conflict, "delivered")
        except RowtideError as error:
            refused.append(error)

    thread = threading.Thread(target=decide)
    with second.transaction() as other:
        other.execute("update items set n = 8 where id = 1")
        thread.start()
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%items%'"
        while other.execute(waiting).fetchall() == [(0,)]:
            thread.join(0.02)
            other.execute("select pg_stat_clear_snapshot()")
            assert thread.is_alive()
    thread.join()
    assert [type(error) for error in refused] == [ConflictRowsChanged]
    assert second.rows("items")[0] == "(1,8,c1)"


def test_rows_that_do_not_fit_any_more_are_refused(two: tuple[Peer, Peer]) -> None:
    first, second = two
    conflict = differ(first, second)
    second.execute("alter table items add check (n <> 1)")
    with pytest.raises(SettlingRefused, match=r"refuses the row with key id = 1 .*items_n_check"):
        resolve(first, second, conflict, "delivered")
    first.execute("alter table items drop column code")
    first.deliver()
    with pytest.raises(ConflictOutdated, match="the table has no column code any more"):
        resolve(first, second, conflict, "delivered")
    assert list_conflicts(first)[conflict.kind].state == "open"


@pytest.mark.parametrize(
    "failpoint", [SETTLING_FAILPOINTS[0], pytest.param(SETTLING_FAILPOINTS[1], marks=pytest.mark.exhaustive)]
)
def test_a_killed_decision_is_made_as_a_whole_or_not(two: tuple[Peer, Peer], failpoint: str) -> None:
    first, second = two
    conflict = differ(first, second)
    words = ("replication", "resolve", conflict.conflict_id, "--subscriber", second.url, "--winner", "delivered")
    ended = rowtide_process(*words, "--db", first.url, environment={"ROWTIDE_FAILPOINT": failpoint})
    assert ended.code == -signal.SIGKILL
    is_made = failpoint == "conflict_settling.after"
    assert list_conflicts(first)[conflict.kind].state == ("settled" if is_made else "open")
    assert second.rows("items")[0] == ("(1,1,c1)" if is_made else "(1,2,c1)")
    assert rowtide(*words, "--db", first.url).code == 0
    assert second.rows("items")[0] == "(1,1,c1)"


@pytest.mark.exhaustive
def test_a_column_that_is_new_keeps_its_values(two: tuple[Peer, Peer]) -> None:
    first, second = two
    conflict = differ(first, second)
    first.execute("alter table items add column note text default 'none'")
    first.deliver()
    second.execute("update items set note = 'mine' where id = 1")
    resolve(first, second, conflict, "delivered")
    assert second.rows("items")[0] == "(1,1,c1,mine)"


@pytest.mark.exhaustive
def test_hidden_values_are_not_written(two: tuple[Peer, Peer]) -> None:
    first, second = two
    with hiding(wanted=True):
        differ(first, second)
    (conflict,) = list_conflicts(first).values()
    assert json.loads(conflict.new_row or "")["n"] == "***"
    with pytest.raises(ConflictOutdated, match="kept without values"):
        resolve(first, second, conflict, "delivered")


def test_an_unreachable_subscriber_is_named(two: tuple[Peer, Peer]) -> None:
    first, second = two
    differ(first, second)
    connect(first.url).replication.run(once=True)
    name = second.session.info.dbname
    second.session.close()
    first.execute(f'alter database "{name}" allow_connections false')
    found = connect(first.url).replication.read_conflicts()
    assert found.conflicts == ()
    (unread,) = found.unread
    assert unread.since is not None
    assert "not currently accepting connections" in unread.reason
    with pytest.raises(ConflictsUnknown, match="conflicts are unknown at .* since 20"):
        connect(first.url).replication.list_conflicts()
