"""Each node numbers new rows from ranges of its own, which the publisher gives it."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from builders.merge.merged_databases import PUBLICATION, SERVER, Member, Merge, open_file_member, open_server_member
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.articles import SubscriberType
from rowtide.merge.definitions import identity_ranges
from rowtide.merge.errors.publishing import KeyNotNumbered, MergeArticleExists
from rowtide.merge.errors.subscribing import IdentityRangeUnfit
from rowtide.merge.identity_range_policy import IdentityRange
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.session.identity_ranges import read_numberings, renew_ranges, take_ranges
from rowtide.merge.session.messages import GivenRanges
from rowtide.merge.session.pairing import pair

DEFINITIONS = {
    "FileMember": "create table thing (id integer primary key autoincrement, made_by text)",
    "ServerMember": "create table thing (id serial primary key, made_by text)",
}
IDENTITY = "create table thing (id bigint generated always as identity primary key, made_by text)"
REFUSALS = (sqlite3.IntegrityError, psycopg.Error)


def begin(merged: Merge, definition: str | None = None, size: int = 10, **options: Any) -> None:
    definition = definition or DEFINITIONS[type(merged.hub).__name__]
    merged.begin(definition, "insert into thing (made_by) values ('before')", thing={"identity_range": size, **options})


def insert(member: Member, name: str, count: int = 1) -> None:
    for _ in range(count):
        member.execute(f"insert into thing (made_by) values ('{name}')")


def require_equal(merged: Merge, rows: int) -> None:
    merged.settle()
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    merged.require_equal("thing", columns="id, made_by")
    assert len(merged.hub.rows("thing")) == rows
    assert merged.conflicts() == []


def insert_until_refused(member: Member, most: int) -> int:
    """Return how many rows a node has numbers for."""
    done = 0
    with suppress(*REFUSALS):
        for _ in range(most):
            insert(member, "many")
            done += 1
    return done


def test_plain_inserts_at_all_nodes_never_collide(merged: Merge) -> None:
    begin(merged)
    for number in range(3):
        for name, member in zip("hab", merged.members, strict=True):
            insert(member, f"{name}{number}", count=3)
        merged.sync(number % 2)
    require_equal(merged, rows=28)


def test_both_ranges_are_used_and_then_refused(merged: Merge) -> None:
    begin(merged)
    for member in merged.subscribers:
        assert insert_until_refused(member, 30) == 20
        with pytest.raises(REFUSALS, match="RT-8053"):
            insert(member, "one more")
    require_equal(merged, rows=41)
    for member in merged.subscribers:
        assert insert_until_refused(member, 30) >= 10
    require_equal(merged, rows=len(merged.subscribers[0].rows("thing")) + len(merged.subscribers[1].rows("thing")) - 41)


def test_ranges_are_listed_and_never_overlap(merged: Merge) -> None:
    begin(merged)
    for member in merged.subscribers:
        insert(member, "many", count=12)
    merged.settle()
    listed = merged.merge.list_identity_ranges("shop")

    assert {each.node is None for each in listed} == {True, False}
    assert len(listed) == 3
    bounds = sorted(
        pair
        for each in listed
        for pair in ((each.range_begin, each.range_end), (each.next_range_begin, each.next_range_end))
    )
    assert all(end - begin == 9 for begin, end in bounds)
    assert all(one[1] < other[0] for one, other in pairwise(bounds))


def test_received_rows_do_not_move_the_numbering(merged: Merge) -> None:
    begin(merged, size=1000)
    insert(merged.subscribers[1], "b", count=2)
    merged.settle()
    urls = [each.url for each in merged.subscribers]
    for name, member in zip("hab", merged.members, strict=True):
        insert(member, name)
    owned = {each.node: each for each in merged.merge.list_identity_ranges()}
    for node, name, member in zip((None, *map(address, urls)), "hab", merged.members, strict=True):
        (key,) = member.execute(f"select max(id) from thing where made_by = '{name}'")[0]
        assert owned[node].range_begin <= key <= owned[node].next_range_end
    require_equal(merged, rows=6)


def test_a_threshold_gives_new_ranges_early(merged: Merge) -> None:
    begin(merged, threshold=50)
    before = {each.node: each.range_begin for each in merged.merge.list_identity_ranges()}
    insert(merged.subscribers[0], "a", count=5)
    merged.sync(0)
    after = {each.node: each.range_begin for each in merged.merge.list_identity_ranges()}

    assert [node for node in after if after[node] != before[node] and node is not None] != []
    require_equal(merged, rows=6)


def test_the_publisher_can_be_given_numbers_by_hand(merged: Merge) -> None:
    begin(merged)
    assert not merged.merge.adjust_identity_range("shop", "thing")
    assert insert_until_refused(merged.hub, 30) == 20
    assert merged.merge.adjust_identity_range("shop", "thing")
    insert(merged.hub, "h")
    require_equal(merged, rows=22)


def test_a_restored_publisher_goes_on_behind_what_it_gave(merged: Merge) -> None:
    begin(merged)
    top = max(each.max_used or 0 for each in merged.merge.list_identity_ranges())
    assert merged.merge.restore_identity_range("shop", "thing") == top + 2 * 10 * 2


def test_dropped_subscriptions_number_without_ranges(merged: Merge) -> None:
    begin(merged)
    subscriber = merged.subscribers[0]
    merged.merge.drop_subscription("shop", subscriber.url)
    insert(subscriber, "free", count=30)
    assert len(subscriber.rows("thing")) == 31
    assert len(merged.merge.list_identity_ranges()) == 2


@pytest.mark.exhaustive
def test_reinitialized_devices_keep_numbers_of_their_own(merged: Merge) -> None:
    begin(merged)
    insert(merged.hub, "h", count=2)
    insert(merged.subscribers[1], "b", count=2)
    merged.settle()
    merged.merge.reinitialize("shop", merged.subscribers[0].url)
    for member in merged.members:
        insert(member, "after")
    require_equal(merged, rows=8)


def test_a_hubs_key_must_be_one_that_it_numbers(merged: Merge) -> None:
    merged.hub.execute("create table thing (id integer primary key, v text)")
    merged.merge.add_publication("shop")
    with pytest.raises(KeyNotNumbered):
        merged.merge.add_article("shop", "thing", identity_range=10)


def test_one_publication_gives_a_tables_numbers(merged: Merge) -> None:
    begin(merged)
    merged.merge.add_publication("other")
    with pytest.raises(MergeArticleExists, match="identity ranges"):
        merged.merge.add_article("other", "thing", identity_range=10)


@pytest.mark.live
@pytest.mark.parametrize("size", [10, 100])
def test_identity_columns_and_bulk_inserts_stay_in_their_range(server: EmbeddedServer, size: int) -> None:
    """A statement that needs more numbers than the primary range has left fails as a whole, as in SQL Server."""
    with fresh_database(server) as one, fresh_database(server) as other, ExitStack() as opened:
        hub, subscriber = (opened.enter_context(open_server_member(url)) for url in (one, other))
        merged = Merge(hub, [subscriber])
        begin(merged, IDENTITY, size=size)
        bulk = f"insert into thing (made_by) select 'bulk' from generate_series(1, {size - 2})"
        subscriber.execute(bulk)
        with pytest.raises(psycopg.Error, match="reached maximum value of sequence"):
            subscriber.execute(bulk)
        subscriber.execute(bulk)
        insert(hub, "h")
        require_equal(merged, rows=2 * (size - 2) + 2)


def test_a_subscriber_that_publishes_has_ranges_to_give(merged: Merge) -> None:
    begin(merged, publisher_identity_range=100)
    with open_node(merged.hub.url) as hub, open_node(merged.subscribers[0].url) as device:
        found = pair(hub, device, PUBLICATION, address(merged.subscribers[0].url))
        (article,) = found.articles
        subscription = replace(found.at_hub, subscriber_type=SubscriberType.SERVER)
        (numbering,) = read_numberings(device, found.at_subscriber, [article]).values()

        def ask(given: IdentityRange | None, used: int | None) -> GivenRanges:
            there = replace(numbering, given=given, used=used)
            asked = {article.nickname: there}
            return renew_ranges(hub, found.publication, [article], subscription, asked)[article.nickname]

        first = ask(None, None).given
        assert first is not None
        assert first == IdentityRange(first.begin, first.begin + 99, first.begin + 100, first.begin + 199)
        # No number is left out, and a publisher whose numbers are above all keys goes on above these.
        of_hub = select(identity_ranges).where(identity_ranges.c.is_own)
        own = hub.connection.execute(of_hub).mappings().one()
        assert first.next_end == (own["range_begin"] - 1 if hub.keys.numbers_above_all else own["max_used"])
        assert ask(first, None).given is ask(first, first.end - 1).given is None
        second = ask(first, first.end).given
        assert second is not None
        assert second == IdentityRange(first.next_begin, first.next_end, second.next_begin, second.next_begin + 99)
        assert second.next_begin > first.next_end
        stored = hub.connection.execute(select(identity_ranges).where(identity_ranges.c.is_pub_range == 1)).mappings()
        assert [(row["subid"], row["range_begin"], row["is_own"]) for row in stored] == [
            (subscription.subid, second.begin, 0)
        ]


def test_given_ranges_are_stored_beside_the_subscribers_own(merged: Merge) -> None:
    begin(merged, publisher_identity_range=100)
    with open_node(merged.hub.url) as hub, open_node(merged.subscribers[0].url) as device:
        found = pair(hub, device, PUBLICATION, address(merged.subscribers[0].url))
        (article,) = found.articles
        as_server = replace(found.at_subscriber, subscriber_type=SubscriberType.SERVER)
        (before,) = read_numberings(device, as_server, [article]).values()
        owned, given = IdentityRange(5001, 5010, 6001, 6010), IdentityRange(7001, 7100, 8001, 8100)
        for ranges in (GivenRanges(), GivenRanges(given=given)):
            take_ranges(device, as_server, [article], {article.nickname: ranges})
            (there,) = read_numberings(device, as_server, [article]).values()
            assert (there.owned, there.given) == (before.owned, ranges.given)
        take_ranges(device, as_server, [article], {article.nickname: GivenRanges(owned)})
        (there,) = read_numberings(device, as_server, [article]).values()
        assert (there.owned, there.given) == (owned, given)
        stored = device.connection.execute(select(identity_ranges.c.is_own)).scalars()
        assert list(stored) == [1, 1]
    insert(merged.subscribers[0], "one")
    ((number,),) = merged.subscribers[0].execute("select id from thing where made_by = 'one'")
    assert number == 5001


@pytest.mark.exhaustive
@pytest.mark.live
def test_a_republisher_gives_numbers_from_its_own_range(server: EmbeddedServer, tmp_path: Path) -> None:
    with fresh_database(server) as one, fresh_database(server) as other, ExitStack() as opened:
        top = opened.enter_context(open_file_member(tmp_path / "top.db"))
        middle, leaf = (opened.enter_context(open_server_member(url)) for url in (one, other))
        above, below = Merge(top, [middle]), Merge(middle, [leaf])
        ranges = {"identity_range": 10, "publisher_identity_range": 100}
        above.begin(DEFINITIONS["FileMember"], subscriber_options=[SERVER], thing=ranges)
        below.merge.add_publication("branch")
        below.merge.add_article("branch", "thing", identity_range=5)
        with pytest.raises(IdentityRangeUnfit):
            below.merge.add_subscription("branch", f"sqlite:///{tmp_path}/leaf.db")
        below.merge.add_subscription("branch", leaf.url)
        for _ in range(3):
            for name, member in zip("tml", (top, middle, leaf), strict=True):
                insert(member, name, count=2)
            below.merge.sync("branch", leaf.url)
            above.sync()
            below.merge.sync("branch", leaf.url)

        rows = top.rows("thing", "id, made_by")
        assert rows == middle.rows("thing", "id, made_by") == leaf.rows("thing", "id, made_by")
        assert len(rows) == 18
        assert above.conflicts() == []
        given = [one for one in above.merge.list_identity_ranges("shop") if one.node is not None]
        assert [(one.is_pub_range, one.range_end - one.range_begin) for one in given] == [(False, 9), (True, 99)]
