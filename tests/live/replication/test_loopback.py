"""Databases that publish the same tables to each other: no change goes back to where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from builders.replication.peers import PUBLICATION, Peer, deliver_until_quiet
from fixtures.replicated import open_peers
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.log.origin_marks import is_marked
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.conflicts import (
    ForwardingUndecided,
    TableDeliveredBack,
    TableDeliveredInRing,
    TableDeliveredTwice,
    TriggersUnsent,
)
from rowtide.replication.subscription_settings import Constraints, IfExists, SubscriptionSettings, SyncType

ITEMS = "create table items (id int primary key, n int)"
DISJOINT = SubscriptionSettings(conflicts=Resolver.NONE)


@pytest.fixture
def three(server: EmbeddedServer, tmp_path: Path) -> Iterator[tuple[Peer, ...]]:
    """Three databases that publish a table, which has no rows."""
    with open_peers(server, tmp_path, 3) as peers:
        for peer in peers:
            peer.execute(ITEMS)
            peer.publish("items")
        yield peers


def begin(first: Peer, second: Peer) -> None:
    """Give the first the rows, the second a copy, and each the other's changes."""
    for peer in (first, second):
        peer.execute(ITEMS)
        peer.publish("items")
    first.execute("insert into items select i, 0 from generate_series(1, 5) i")
    first.subscribe(second, SyncType.AUTOMATIC, if_exists=IfExists.DELETE, settings=DISJOINT)
    first.deliver()
    second.subscribe(first, settings=DISJOINT)


@pytest.mark.parametrize("name", ["peers", pytest.param("peers_16", marks=pytest.mark.exhaustive)])
def test_changes_go_to_the_other_side_and_not_back(name: str, request: pytest.FixtureRequest) -> None:
    first, second = request.getfixturevalue(name)
    begin(first, second)
    for peer, n in ((first, 1), (second, 2)):
        peer.execute(f"update items set n = {n} where id = {n}", f"insert into items values (1{n}, {n})")
        peer.execute(f"delete from items where id = {6 - n}")

    assert deliver_until_quiet((first, second)) == 6
    assert first.rows("items") == second.rows("items") == ["(1,1)", "(11,1)", "(12,2)", "(2,2)", "(3,0)"]
    brought = [row["after"] for row in second.records() if is_marked(row["origin"])]
    assert ["11", "1"] in brought


@pytest.mark.exhaustive
def test_copied_rows_do_not_come_back(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second)
    second.execute("insert into items values (6, 6)")
    deliver_until_quiet(peers)
    first.reinitialize(IfExists.DELETE)
    first.execute("insert into items values (7, 7)")

    assert deliver_until_quiet(peers) == 0, "the copy has it"
    assert first.rows("items") == second.rows("items")
    assert len(first.rows("items")) == 7


@pytest.mark.exhaustive
def test_schema_changes_do_not_come_back(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second)
    first.execute("alter table items add column note text default 'none'")
    deliver_until_quiet(peers)
    for peer in peers:
        peer.execute(f"insert into items values (1{peers.index(peer)}, 1)")
    deliver_until_quiet(peers)

    assert first.rows("items") == second.rows("items")
    assert first.rows("items")[:3] == ["(1,0,none)", "(10,1,none)", "(11,1,)"]


@pytest.mark.exhaustive
def test_a_mark_without_the_secret_marks_nothing(peers: tuple[Peer, Peer], caplog: pytest.LogCaptureFixture) -> None:
    first, second = peers
    begin(first, second)
    ((guid,),) = first.execute('select subscription_guid from rowtide_subscriber."MSorigins"')
    for secret in ("guessed", ""):
        content = f'{{"subscription": "{guid}", "originator": "x", "secret": "{secret}"}}'
        with first.transaction() as forging:
            forging.execute("select pg_logical_emit_message(true, 'rowtide.origin', %s)", [content])
            forging.execute("insert into items values (%s, 9)", [90 + len(secret)])

    assert deliver_until_quiet(peers) == 2
    assert first.rows("items") == second.rows("items")
    assert [line.message.split()[0] for line in caplog.records] == ["mark_not_verified"]


@pytest.mark.exhaustive
def test_marks_of_a_dropped_subscription_still_count(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second)
    first.execute("insert into items values (6, 6)")
    first.deliver()
    first.unsubscribe(second)

    assert second.deliver() == 0


@pytest.mark.exhaustive
def test_native_subscriptions_can_leave_delivered_changes_out(peers: tuple[Peer, Peer]) -> None:
    first, second = peers
    begin(first, second)
    second.execute("create publication native for table items")
    second.execute("select pg_create_logical_replication_slot('native', 'pgoutput')")
    first.execute("insert into items values (6, 6)")
    first.deliver()
    second.execute("insert into items values (7, 7)")
    changes = (
        "select data from pg_logical_slot_get_binary_changes('native', null, null, 'proto_version', '1',"
        " 'publication_names', 'native', 'origin', 'none')"
    )
    inserts = [data for (data,) in second.execute(changes) if data[:1] == b"I"]

    assert [data[-1:] for data in inserts] == [b"7"]


@pytest.mark.exhaustive
def test_a_role_that_may_not_set_origins_delivers_and_says_so(
    peers: tuple[Peer, Peer], make_role: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = peers
    role = make_role("login")
    second.execute(
        "create publication elsewhere",
        "grant create, usage on schema public to public",
        f'grant create on database "{second.session.info.dbname}" to public',
    )
    first.execute(ITEMS, "insert into items values (1, 1)")
    first.publish("items")
    url = make_url(second.url).set(username=role).render_as_string(hide_password=False)
    connect(first.url).replication.add_subscription(PUBLICATION, url)
    first.deliver()
    first.execute("insert into items values (2, 2)")
    first.deliver()

    assert second.rows("items") == ["(1,1)", "(2,2)"]
    assert {line.message.split()[0] for line in caplog.records} == {"origin_not_set"}
    second.execute(f'drop owned by "{role}" cascade')


@pytest.mark.exhaustive
def test_a_chain_forwards_what_it_is_told_to(three: tuple[Peer, ...]) -> None:
    first, second, third = three
    first.subscribe(second)
    with pytest.raises(ForwardingUndecided, match="does not get from there"):
        second.subscribe(third)
    second.subscribe(third, forward=False)
    first.execute("insert into items values (1, 1)")
    second.execute("insert into items values (2, 2)")
    deliver_until_quiet(three)
    assert third.rows("items") == ["(2,2)"]

    second.unsubscribe(third)
    second.subscribe(third, SyncType.AUTOMATIC, forward=True, if_exists=IfExists.DELETE)
    first.execute("insert into items values (3, 3)")
    deliver_until_quiet(three)

    assert third.rows("items") == second.rows("items") == ["(1,1)", "(2,2)", "(3,3)"]
    assert third.records()[-1]["origin"].startswith("rowtide.origin/")


def test_forwarding_does_not_close_a_cycle(three: tuple[Peer, ...]) -> None:
    first, second, third = three
    first.subscribe(second)
    with pytest.raises(TableDeliveredBack, match="its changes would come back"):
        second.subscribe(first, forward=True)
    second.subscribe(third, forward=True)
    with pytest.raises(TableDeliveredInRing):
        third.subscribe(second)
    with pytest.raises(TableDeliveredBack):
        third.subscribe(first, forward=True)
    third.subscribe(first, forward=False)


def test_a_mesh_does_not_bring_a_change_twice(three: tuple[Peer, ...]) -> None:
    first, second, third = three
    first.subscribe(second)
    first.subscribe(third)
    with pytest.raises(TableDeliveredTwice, match="already receives the same changes"):
        second.subscribe(third, forward=True)


@pytest.mark.exhaustive
def test_what_is_carried_further_is_known_there(three: tuple[Peer, ...]) -> None:
    first, second, third = three
    second.subscribe(third, forward=True)
    first.subscribe(second)
    with pytest.raises(TableDeliveredTwice):
        first.subscribe(third)


@pytest.mark.exhaustive
def test_triggers_whose_writes_would_not_travel_are_refused(three: tuple[Peer, ...]) -> None:
    first, second, third = three
    second.execute(
        "create function act() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger acts after insert on items for each row execute function act()",
    )
    first.subscribe(second, constraints=Constraints.ENFORCE)
    second.subscribe(third, forward=False)
    with pytest.raises(TriggersUnsent, match="trigger acts on public.items would write in delivered transactions"):
        first.deliver()
    first.unsubscribe(second)
    with pytest.raises(TriggersUnsent):
        first.subscribe(second, constraints=Constraints.ENFORCE)
    first.subscribe(second, constraints=Constraints.NOT_FOR_REPLICATION)
