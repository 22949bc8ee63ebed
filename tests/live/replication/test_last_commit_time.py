"""The last commit time decides conflicts: whoever changed what, all databases come to the same rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from builders.replication.peers import PUBLICATION, Peer, deliver_until_quiet
from fixtures.replicated import open_peers
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.conflicts import ClockSkewed, CommitTimesNotKept, OriginNeeded
from rowtide.replication.subscription_settings import SubscriptionSettings, SyncType
from rowtide.replication.targets.postgres import delivery_marks

ITEMS = "create table items (id int primary key, n int, code text unique)"
LAST = SubscriptionSettings(conflicts=Resolver.LAST_COMMIT_TIME)


@pytest.fixture(scope="module")
def timed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A PostgreSQL 18 that keeps commit times."""
    settings = {**SETTINGS, "track_commit_timestamp": "on", "max_active_replication_origins": "32"}
    with EmbeddedServer.start(tmp_path_factory.mktemp("timed"), version=18, settings=settings) as started:
        yield started


@pytest.fixture
def two(timed_server: EmbeddedServer, tmp_path: Path) -> Iterator[tuple[Peer, ...]]:
    """Two databases with the same rows: the first one's, which were copied."""
    with open_peers(timed_server, tmp_path, 2) as (first, second):
        first.execute(ITEMS, "insert into items select i, 0, 'c' || i from generate_series(1, 6) i")
        first.publish("items")
        first.subscribe(second, SyncType.AUTOMATIC, settings=LAST)
        first.deliver()
        second.publish("items")
        second.subscribe(first, settings=LAST)
        yield first, second


def require_equal(*peers: Peer) -> list[str]:
    """Deliver everything; return the rows, which all have."""
    deliver_until_quiet(peers)
    rows = [peer.rows("items") for peer in peers]
    assert all(found == rows[0] for found in rows)
    return rows[0]


def test_a_unique_column_is_renamed_and_dropped_between_changes(two: tuple[Peer, Peer]) -> None:
    first, second = two
    # Each text is one transaction.
    first.execute(
        "update items set code = 'a' where id = 1; alter table items rename code to name; "
        "update items set name = 'b' where id = 1; delete from items where id = 6"
    )
    assert require_equal(first, second)[0] == "(1,0,b)"
    second.execute("update items set name = 'c' where id = 2")
    require_equal(first, second)
    first.execute("alter table items drop name; update items set n = 5 where id = 1")
    require_equal(first, second)
    second.execute("update items set n = 6 where id = 2", "delete from items where id = 3")

    assert require_equal(first, second) == ["(1,5)", "(2,6)", "(4,0)", "(5,0)"]


@pytest.mark.exhaustive
def test_the_later_of_two_changes_stays_at_both(two: tuple[Peer, Peer]) -> None:
    first, second = two
    first.execute("update items set n = 1 where id in (1, 3, 5)")
    second.execute("update items set n = 2 where id in (1, 2)", "delete from items where id = 3")
    first.execute("update items set n = 1 where id = 2", "delete from items where id = 4")
    second.execute("update items set n = 2 where id = 4", "delete from items where id = 5")
    second.execute("insert into items values (7, 2, 'second')")
    first.execute("insert into items values (7, 1, 'first')", "update items set id = 8 where id = 6")

    assert require_equal(first, second) == ["(1,2,c1)", "(2,1,c2)", "(4,2,c4)", "(7,1,first)", "(8,0,c6)"]
    kept = connect(first.url).replication.list_conflicts(PUBLICATION)
    assert {(one.kind, one.resolution) for one in kept} == {
        ("update_origin_differs", "skipped"),
        ("update_origin_differs", "applied"),
        ("update_missing", "skipped"),
        ("delete_origin_differs", "skipped"),
        ("insert_exists", "applied"),
    }


@pytest.mark.exhaustive
def test_a_late_insert_does_not_bring_a_deleted_row_back(two: tuple[Peer, Peer]) -> None:
    first, second = two
    first.execute("update items set n = 1 where id < 4")
    second.execute("delete from items where id = 1", "truncate items")

    assert require_equal(first, second) == []


@pytest.mark.exhaustive
def test_of_rows_with_one_unique_value_the_last_stays(two: tuple[Peer, Peer]) -> None:
    first, second = two
    deliver_until_quiet(two)
    first.execute("insert into items values (10, 1, 'same')", "insert into items values (20, 1, 'late')")
    second.execute("insert into items values (11, 2, 'same')", "update items set code = 'late' where id = 1")
    second.execute("update items set code = 'c1' where id = 1", "delete from items where id = 11")
    second.execute("insert into items values (12, 2, 'other')")
    first.execute("update items set code = 'other' where id = 2", "update items set n = 5 where id = 20")

    rows = require_equal(first, second)
    assert [row for row in rows if not row.endswith((",c3)", ",c4)", ",c5)", ",c6)"))] == [
        "(1,0,c1)",
        "(2,0,other)",
        "(20,5,late)",
    ]
    kept = [one for peer in two for one in connect(peer.url).replication.list_conflicts(PUBLICATION)]
    assert {(one.kind, one.resolution) for one in kept} >= {("insert_exists", "skipped"), ("update_exists", "applied")}


def test_values_of_partial_and_expression_indexes_and_nulls(two: tuple[Peer, Peer]) -> None:
    first, second = two
    for peer in two:
        peer.execute("create unique index on items (lower(code), (n % 10)) where n > 0")
    first.deliver()
    first.execute("insert into items values (10, 1, 'same')", "insert into items values (20, 1, 'late')")
    second.execute("insert into items values (11, 11, 'SAME')", "update items set code = 'LATE', n = 1 where id = 1")
    second.execute("update items set n = 0 where id = 1", "insert into items values (12, 0, 'Late')")
    first.execute("insert into items values (21, 7, 'Other')")
    second.execute("insert into items values (13, 27, 'oTHER')")
    first.execute("update items set n = 2 where id = 21", "insert into items values (30, 3, null), (31, 4, null)")
    second.execute("update items set code = null where id = 6", "delete from items where id = 5")

    assert [row for row in require_equal(first, second) if not row.endswith(",0,c" + row[1] + ")")] == [
        "(1,0,LATE)",
        "(11,11,SAME)",
        "(12,0,Late)",
        "(13,27,oTHER)",
        "(21,2,Other)",
        "(30,3,)",
        "(31,4,)",
        "(6,0,)",
    ]


@pytest.mark.exhaustive
def test_repaired_rows_are_older_than_any_change(two: tuple[Peer, Peer]) -> None:
    first, second = two
    deliver_until_quiet(two)
    ((guid,),) = second.execute('select subscription_guid from rowtide_subscriber."MSorigins"')
    with second.transaction() as connection:
        connection.execute('call rowtide_subscriber."sp_MSmarkorigin"(%s)', (guid,))
        connection.execute("update items set n = -1 where id < 4")
        connection.execute("delete from items where id = 5")
    replication = connect(first.url).replication
    done = [one.action for one in replication.repair(PUBLICATION, wait_s=0)]
    old = "select count(*) from items where pg_xact_commit_timestamp(xmin) = timestamptz '1970-01-01 00:00:00Z'"

    assert sorted(done) == ["inserted", *["updated"] * 3]
    assert first.rows("items") == second.rows("items")
    assert second.execute(old) == [(6,)], "copied or repaired"
    first.execute("update items set n = 9 where id in (1, 5)")
    assert require_equal(first, second)[0] == "(1,9,c1)"


@pytest.mark.exhaustive
def test_deleted_keys_are_forgotten_once_confirmed(two: tuple[Peer, Peer]) -> None:
    first, second = two
    first.execute("delete from items where id = 1")
    deliver_until_quiet(two)
    for peer in two:
        confirmed = "select confirmed_at > now() - interval '1 minute' from rowtide_subscriber.\"MSorigins\""
        assert peer.execute(confirmed) == [(True,)], "also by the publisher that wrote nothing"
    count = 'select count(*) from rowtide_subscriber."MSdeleted_keys"'
    assert (first.execute(count), second.execute(count)) == ([(1,)], [(1,)])

    for peer in two:
        peer.execute("update rowtide_subscriber.\"MSorigins\" set confirmed_at = now() + interval '1 hour'")
        peer.execute(f"insert into items values (2{two.index(peer)}, 0, 'new {two.index(peer)}')")
    deliver_until_quiet(two)

    assert (first.execute(count), second.execute(count)) == ([(0,)], [(0,)])


@pytest.mark.exhaustive
def test_a_clock_that_is_ahead_stops(two: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = two
    an_hour_ago = "select (extract(epoch from clock_timestamp() - interval '1 hour') * 1000000)::bigint"
    monkeypatch.setattr("rowtide.replication.targets.postgres.conflicts.versions._NOW", an_hour_ago)
    first.execute("update items set n = 1")
    with pytest.raises(ClockSkewed):
        first.deliver()


def test_an_origin_that_another_session_has_is_needed(two: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = two
    deliver_until_quiet(two)
    ((guid,),) = second.execute('select subscription_guid from rowtide_subscriber."MSorigins"')
    monkeypatch.setattr("rowtide.replication.targets.postgres.conflicts.versions._PATIENCE_S", 0.0)
    monkeypatch.setattr("rowtide.replication.targets.postgres.comparison.repairs._ORIGIN_PATIENCE_S", 0.0)
    second.execute("update items set n = -1 where id = 2")
    first.execute("update items set n = 1 where id = 1")
    said = f"delivery to {re.escape(second.url)} has no replication origin: .* is already active"
    replication = connect(first.url).replication
    with psycopg.connect(second.url, autocommit=True) as other:
        assert delivery_marks.mark_session(other, guid) is None
        with pytest.raises(OriginNeeded, match=said):
            first.deliver()
    with psycopg.connect(second.url, autocommit=True) as other:
        assert delivery_marks.mark_session(other, guid, "repair") is None
        with pytest.raises(OriginNeeded, match=said):
            list(replication.repair(PUBLICATION, wait_s=0))
    assert second.rows("items")[0] == "(1,0,c1)"

    monkeypatch.undo()
    deliver_until_quiet(two)
    assert second.rows("items")[0] == "(1,1,c1)"


def test_both_servers_have_to_keep_commit_times(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    first.execute(ITEMS)
    first.publish("items")
    with pytest.raises(CommitTimesNotKept, match="does not keep commit times"):
        first.subscribe(second, SyncType.AUTOMATIC, settings=LAST)


@pytest.mark.exhaustive
def test_rows_copied_in_chunks_are_older_than_any_change(timed_server: EmbeddedServer, tmp_path: Path) -> None:
    with open_peers(timed_server, tmp_path, 2) as (first, second):
        first.execute(
            ITEMS, "insert into items select i, 0, 'c' || i from generate_series(1, 20000) i", "analyze items"
        )
        first.publish("items")
        first.subscribe(second, SyncType.AUTOMATIC, settings=LAST, chunk_bytes=100_000)
        ((chunks,),) = second.execute('select count(*) from rowtide_subscriber."MSsnapshot_chunks"')
        first.execute("update items set n = 1 where id = 7")
        first.deliver()
        first.execute("update items set n = 2 where id = 7")
        first.deliver()

        assert chunks > 2
        assert second.execute("select n from items where id = 7") == [(2,)]
        assert second.execute("select count(*) from items") == [(20000,)]


def test_with_hidden_keys_a_lost_row_is_kept_without_its_values(two: tuple[Peer, Peer]) -> None:
    first, second = two
    first.execute("update items set code = 'secret-code' where id = 1")
    second.execute("update items set n = 2 where id = 1")
    connect(first.url).replication.run(once=True, hide_keys=True)
    ((kept,),) = second.execute('select (old_row, new_row, present_rows)::text from rowtide_subscriber."MSconflicts"')
    assert "secret-code" not in kept
    assert "***" in kept
    require_equal(*two)
