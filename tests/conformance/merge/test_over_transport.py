"""A device that has no connection to its hub's database: a session is one request, and what follows it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from builders.merge.loopback import Loopback, open_loopback, sync_by_requests
from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from rowtide.merge.articles import DEFAULT_LIMITS, ExchangeType
from rowtide.merge.catalogue import list_merged
from rowtide.merge.errors.nodes import GenerationRefused, NodeRestored
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.errors.subscribing import MergeSubscriptionUnknown, UploadLost, UploadMalformed
from rowtide.merge.nodes.connecting import address, open_node, open_synchronised
from rowtide.merge.publishing.device_requests import synchronise_device
from rowtide.merge.session import over_transport
from rowtide.merge.session.history import Summary
from rowtide.merge.session.messages import Acknowledgement, MembershipMoves, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.session.over_transport import RequestedExchange, find_device
from rowtide.merge.session.upload_parts import PartSize

ITEM = "create table item (id integer primary key, name varchar(40), qty integer)"
NUMBERS = "with recursive s (n) as (select 1 union all select n + 1 from s where n < {rows})"
NUMBERED = {
    "FileMember": "create table thing (id integer primary key autoincrement, made_by text)",
    "ServerMember": "create table thing (id serial primary key, made_by text)",
}
PARTITIONED = "create table visit (id integer primary key, technician varchar(20), note varchar(40))"


def insert(first: int, rows: int, name: str) -> str:
    return f"insert into item (id, name, qty) {NUMBERS.format(rows=rows)} select {first} + n, '{name}', n from s"


def ask(merged: Merge, number: int = 0) -> tuple[Summary, list[str]]:
    summary, requests = sync_by_requests(merged.hub.url, PUBLICATION, merged.subscribers[number].url)
    return summary, list(requests)


def begin(merged: Merge) -> None:
    merged.begin(ITEM, insert(0, 20, "first"), item={})


def test_an_empty_session_is_one_request(merged: Merge) -> None:
    begin(merged)
    assert [ask(merged)[1] for _ in range(3)] == [["sync"]] * 3


def test_a_device_only_asks_for_what_it_subscribes_to(merged: Merge) -> None:
    begin(merged)
    with (
        open_node(merged.subscribers[0].url) as node,
        pytest.raises(MergeSubscriptionUnknown, match="field does not subscribe to other"),
    ):
        find_device(node, "other", "field")


def test_rows_go_both_ways_in_one_request(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        insert(1000, 300, "hub"), "update item set name = 'hub' where id <= 5", "delete from item where id = 9"
    )
    merged.subscribers[0].execute(
        insert(2000, 300, "device"), "update item set name = 'device' where id > 10", "delete from item where id = 10"
    )
    summary, requests = ask(merged)

    assert (summary.upload.total.moved, summary.download.total.moved) == (311, 306)
    assert requests[0] == "sync"
    assert set(requests[1:]) <= {"fetch"}
    for one, other in (merged.members[:2], merged.members[1::-1]):
        assert one.rows("item", "id, name, qty") == other.rows("item", "id, name, qty")
    assert ask(merged)[0].is_quiet


def test_direct_sessions_and_requests_alternate(merged: Merge) -> None:
    begin(merged)
    for round_ in range(4):
        merged.hub.execute(f"update item set name = 'hub {round_}' where id = {round_ + 1}")
        merged.subscribers[0].execute(f"update item set qty = {round_} where id = {round_ + 10}")
        summary = ask(merged)[0] if round_ % 2 else merged.sync()
        assert (summary.upload.total.moved, summary.download.total.moved) == (1, 1)
    merged.sync(1)
    merged.sync()
    merged.require_equal("item", columns="id, name, qty")


def test_a_conflict_is_decided_at_the_hub(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update item set name = 'hub' where id = 1")
    merged.subscribers[0].execute("update item set name = 'device' where id = 1")
    summary, _ = ask(merged)

    assert summary.upload.total.conflicts == 1
    assert merged.subscribers[0].execute("select name from item where id = 1") == merged.hub.execute(
        "select name from item where id = 1"
    )


def test_refused_rows_are_named_and_come_again(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[0].execute(
        "insert into item (id, name, qty) values (500, 'good', 1)",
        "insert into item (id, name, qty) values (501, 'x', 3)",
    )
    unique = "create unique index one_name on item (name) where qty >= 1000"
    merged.hub.execute(unique, "update item set qty = 1000 where id = 1", "update item set name = 'taken' where id = 1")
    merged.subscribers[0].execute("insert into item (id, name, qty) values (502, 'taken', 2000)")
    first, _ = ask(merged)
    again, requests = ask(merged)

    assert [each.change.rowguid for each in first.upload.refused] == [merged.subscribers[0].rowguid("item", 502)]
    assert first.upload.total.inserts == 2
    assert again.refused == 1
    assert requests == ["sync"]
    merged.hub.execute("update item set name = 'free' where id = 1")
    ask(merged)
    assert merged.hub.execute("select name from item where id = 502") == [("taken",)]


def test_rows_enter_and_leave_a_partition(merged: Merge) -> None:
    rows = "insert into visit values (1, 'ann', 'a'), (2, 'ben', 'b'), (3, 'ann', 'c')"
    options = [{"host_name": "ann"}, {"host_name": "ben"}]
    merged.begin(PARTITIONED, rows, visit={"where": "technician = host_name()"}, subscriber_options=options)
    device = merged.subscribers[0]
    merged.hub.execute(
        "update visit set technician = 'ben' where id = 1", "update visit set technician = 'ann' where id = 2"
    )
    _, requests = ask(merged)

    assert device.rows("visit", "id, technician") == [(2, "ann"), (3, "ann")]
    assert requests[-1] == "acknowledge"
    merged.hub.execute("update visit set technician = 'ann' where id = 1")
    ask(merged)
    assert device.rows("visit", "id, technician") == [(1, "ann"), (2, "ann"), (3, "ann")]
    device.execute("update visit set note = 'mine' where id = 1")
    ask(merged)
    assert merged.hub.execute("select note from visit where id = 1") == [("mine",)]
    assert ask(merged)[1] == ["sync"]


@pytest.mark.parametrize("name", ["sync", "acknowledge"])
def test_a_lost_answer_changes_nothing(merged: Merge, name: str) -> None:
    rows = "insert into visit values (1, 'ann', 'a'), (2, 'ben', 'b'), (3, 'ann', 'c')"
    options = [{"host_name": "ann"}, {"host_name": "ben"}]
    merged.begin(PARTITIONED, rows, visit={"where": "technician = host_name()"}, subscriber_options=options)
    device = merged.subscribers[0]
    merged.hub.execute(
        "update visit set technician = 'ben' where id = 1", "update visit set technician = 'ann' where id = 2"
    )
    device.execute(
        "update visit set note = 'mine' where id = 3",
        "insert into visit (id, technician, note) values (4, 'ann', 'new')",
    )
    with (
        open_loopback(merged.hub.url, PUBLICATION) as loopback,
        open_synchronised(device.url, DEFAULT_LIMITS) as node,
    ):

        def lose(asked: str) -> None:
            if asked == name:
                raise ConnectionResetError(name)

        loopback.after = lose
        with pytest.raises(ConnectionResetError, match=name):
            synchronise_device(loopback, node, PUBLICATION, address(device.url))
        loopback.after = lambda _name: None
        synchronise_device(loopback, node, PUBLICATION, address(device.url))
    expected = [(2, "ann", "b"), (3, "ann", "mine"), (4, "ann", "new")]
    assert device.rows("visit", "id, technician, note") == expected
    assert merged.hub.rows("visit", "id, technician, note") == [(1, "ben", "a"), *expected]
    assert ask(merged)[0].is_quiet
    assert not merged.merge.list_conflicts(PUBLICATION)


def test_a_download_that_is_lost_begins_again(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    merged.hub.execute(insert(10_000, 5000, "hub"))
    with (
        open_loopback(merged.hub.url, PUBLICATION) as loopback,
        open_synchronised(device.url, DEFAULT_LIMITS) as node,
    ):

        def lose(asked: str) -> None:
            if asked == "fetch" and loopback.requests.count("fetch") == 1:
                loopback.lose_downloads()

        loopback.before = lose
        synchronise_device(loopback, node, PUBLICATION, address(device.url))
        assert loopback.requests == ["sync", "fetch", "sync", "fetch"]
    assert device.execute("select count(*) from item where id > 10000") == [(5000,)]


@dataclass
class Measuring(Loopback):
    """Notes how many rows come with each request, and loses the first parts that it is sent."""

    sizes: list[int] = field(default_factory=list)
    lost: int = 0

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        sent = list(batches())
        self.sizes.append(sum(len(batch.changes) for batch in sent))
        if len(self.sizes) <= self.lost:
            raise UploadLost(request.state.subid)
        return super().synchronise(request, lambda: iter(sent))


@contextmanager
def measuring(merged: Merge, lost: int = 0) -> Iterator[tuple[Measuring, Callable[[], list[tuple[str, int, int]]]]]:
    """Yield the requests of the first device, and a function that synchronises it and returns its progress."""
    url = merged.subscribers[0].url
    loopback = Measuring(partial(open_node, merged.hub.url), PUBLICATION, lost=lost)

    def sync() -> list[tuple[str, int, int]]:
        told: list[tuple[str, int, int]] = []
        with open_synchronised(url, DEFAULT_LIMITS) as node:
            synchronise_device(loopback, node, PUBLICATION, address(url), lambda *each: told.append(each))
        return told

    with closing(loopback):
        yield loopback, sync


def test_an_upload_in_parts_says_how_far_it_is(merged: Merge, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(merged)
    ask(merged)
    monkeypatch.setattr(over_transport, "PartSize", partial(PartSize, rows=2))
    merged.subscribers[0].execute(insert(100, 8, "device"))
    with measuring(merged) as (loopback, sync):
        assert [each for each in sync() if each[0] == "upload"][:3] == [("upload", at, 8) for at in (2, 4, 6)]
        assert loopback.sizes == [2, 2, 2, 2]
    assert len(merged.hub.execute("select * from item where name = 'device'")) == 8


@pytest.mark.parametrize("lost", [2, 3])
def test_an_upload_that_a_gateway_has_lost_comes_again(merged: Merge, lost: int) -> None:
    begin(merged)
    merged.subscribers[0].execute("update item set name = 'device' where id = 1")
    with measuring(merged, lost) as (loopback, sync):
        if lost == 3:
            with pytest.raises(UploadLost, match="RT-8187"):
                sync()
        sync()
        assert loopback.sizes[:lost] == [1] * lost
    assert merged.hub.execute("select id from item where name = 'device'") == [(1,)]


def test_deferred_rows_come_in_parts_of_their_own(merged: Merge, monkeypatch: pytest.MonkeyPatch) -> None:
    merged.begin("create table part (id integer primary key, name varchar(9) unique, qty integer)", part={})
    device = merged.subscribers[0]
    device.execute("insert into part (id, name) values " + ", ".join(f"({at}, 'n{at}')" for at in range(16)))
    ask(merged)
    # The first want values that others still have at the hub, which give them up in later parts than the first ones.
    device.execute("update part set name = 'x' || id", "update part set name = 'n' || (id + 6) where id < 6")
    monkeypatch.setattr(over_transport, "PartSize", partial(PartSize, rows=4))
    with measuring(merged) as (loopback, sync):
        sync()
    assert max(loopback.sizes) == 4
    assert merged.hub.rows("part", "id, name") == device.rows("part", "id, name")
    assert not merged.merge.list_conflicts(PUBLICATION)


def test_one_direction_leaves_the_other(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    merged.hub.execute("update item set name = 'hub' where id = 1")
    device.execute("update item set name = 'device' where id = 2")
    up, _ = sync_by_requests(merged.hub.url, PUBLICATION, device.url, ExchangeType.UPLOAD)
    down, _ = sync_by_requests(merged.hub.url, PUBLICATION, device.url, ExchangeType.DOWNLOAD)
    assert (up.upload.total.moved, up.download.total.moved) == (1, 0)
    assert (down.upload.total.moved, down.download.total.moved) == (0, 1)


def test_numbers_come_from_the_hubs_ranges(merged: Merge) -> None:
    merged.begin(NUMBERED[type(merged.hub).__name__], thing={"identity_range": 10, "threshold": 80})
    for number in range(4):
        for member in merged.members:
            member.execute(*(f"insert into thing (made_by) values ('{number}')" for _ in range(8)))
        summaries = [ask(merged, place)[0] for place in range(2)]
        assert not any(summary.upload.total.conflicts for summary in summaries)
    ask(merged)
    assert len(merged.hub.rows("thing", "id")) == len(merged.subscribers[0].rows("thing", "id")) == 3 * 4 * 8


def test_a_device_follows_schema_changes(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "create table extra (id integer primary key, body varchar(20))", "insert into extra values (1, 'e')"
    )
    merged.merge.add_article(PUBLICATION, "extra")
    merged.hub.execute("alter table item add column colour varchar(10)", "update item set colour = 'red' where id = 3")
    merged.hub.execute("alter table item rename column name to title")
    device = merged.subscribers[0]
    device.execute("update item set qty = 77, name = 'mine' where id = 1")
    _, requests = ask(merged)

    assert "follow" in requests
    assert ask(merged)[0].is_quiet
    assert merged.hub.execute("select qty, title from item where id = 1") == [(77, "mine")]
    assert device.rows("item", "id, title, qty, colour") == merged.hub.rows("item", "id, title, qty, colour")
    device.execute("insert into extra (id, body) values (2, 'mine')")
    ask(merged)
    assert device.rows("extra", "id, body") == merged.hub.rows("extra", "id, body") == [(1, "e"), (2, "mine")]
    merged.sync()
    merged.merge.drop_article(PUBLICATION, "extra")
    device.execute("update extra set body = 'late' where id = 2")
    ask(merged)
    assert merged.hub.execute("select body from extra where id = 2") == [("late",)]


def test_a_device_that_rebuilt_its_table_follows_nothing(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    device.execute(
        "create table made (id integer primary key, name varchar(40), qty integer)",
        "insert into made select id, name, qty from item",
        "drop table item",
        "alter table made rename to item",
        "update item set qty = 77 where id = 1",
    )
    merged.hub.execute("alter table item add column colour varchar(10)")
    with pytest.raises(MergedTableAltered, match="trigger"):
        ask(merged)

    merged.merge.reinitialize(PUBLICATION, device.url, upload_first=True)
    assert merged.hub.execute("select qty from item where id = 1") == [(77,)]


@pytest.mark.parametrize("is_direct", [False, True], ids=["by requests", "directly"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_a_copy_of_a_file_that_went_on_is_refused(
    merged: Merge, tmp_path: Path, rounds: int, *, is_direct: bool
) -> None:
    begin(merged)
    device = next(each for each in merged.subscribers if isinstance(each, FileMember))
    sync_by_requests(merged.hub.url, PUBLICATION, device.url)
    device.execute(f"vacuum into '{tmp_path / 'copy.db'}'")
    for number in range(rounds):
        device.execute(f"update item set name = 'original {number}' where id = 1")
        sync_by_requests(merged.hub.url, PUBLICATION, device.url)
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    with closing(sqlite3.connect(tmp_path / "copy.db", isolation_level=None)) as copy:
        copy.execute("update item set name = 'copy' where id = 2")
    with pytest.raises(NodeRestored, match="or is a copy, since they last synchronised"):
        merged.merge.sync(PUBLICATION, url) if is_direct else sync_by_requests(merged.hub.url, PUBLICATION, url)
    assert sync_by_requests(merged.hub.url, PUBLICATION, device.url)[1] == ["sync"]
    assert not merged.hub.execute("select * from item where name = 'copy'")


class Hostile(Loopback):
    """A device that says of the hub's rows what suits it."""

    claimed: Mapping[int, MembershipMoves] = {}
    received: int | None = None

    def acknowledge(self, said: Acknowledgement) -> None:
        received = said.received if self.received is None else self.received
        super().acknowledge(replace(said, moves={**said.moves, **self.claimed}, received=received))


def test_a_device_cannot_claim_rows_of_others(merged: Merge) -> None:
    rows = "insert into visit values (1, 'ann', 'a'), (2, 'ben', 'b'), (3, 'ann', 'c')"
    options = [{"host_name": "ann"}, {"host_name": "ben"}]
    merged.begin(PARTITIONED, rows, visit={"where": "technician = host_name()"}, subscriber_options=options)
    device, of_ben = merged.subscribers[0], merged.hub.rowguid("visit", 2)
    columns = "visit (id, technician, note, rowguid)"
    with open_node(merged.hub.url) as hub:
        (nickname,) = [article.nickname for article in list_merged(hub.connection)]
    hostile = Hostile(partial(open_node, merged.hub.url), PUBLICATION)
    hostile.claimed = {nickname: MembershipMoves(returned=[of_ben])}
    with closing(hostile), open_synchronised(device.url, DEFAULT_LIMITS) as node:
        for number in range(3):
            device.execute(f"delete from visit where rowguid = '{of_ben}'")
            device.execute(f"insert into {columns} values ({50 + number}, 'ann', 'stolen', '{of_ben}')")
            synchronise_device(hostile, node, PUBLICATION, address(device.url), wanted=RequestedExchange(defers=False))
    assert hostile.requests.count("acknowledge") == 3
    assert merged.hub.rows("visit", "id, technician, note") == [(1, "ann", "a"), (2, "ben", "b"), (3, "ann", "c")]


def test_a_device_cannot_have_what_is_to_come(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    hostile = Hostile(partial(open_node, merged.hub.url), PUBLICATION)
    hostile.received = 1 << 40
    with closing(hostile), open_synchronised(device.url, DEFAULT_LIMITS) as node:
        with pytest.raises(GenerationRefused):
            synchronise_device(hostile, node, PUBLICATION, address(device.url), wanted=RequestedExchange(defers=False))
        merged.hub.execute("update item set name = 'later' where id = 1")
        synchronise_device(hostile, node, PUBLICATION, address(device.url))
    assert device.execute("select name from item where id = 1") == [("later",)]


MISSHAPEN = {
    "no article": lambda batch: replace(batch, article=batch.article + 1000),
    "has not .* values": lambda batch: replace(
        batch, changes=[each._replace(row=(each.row or ())[:-1]) for each in batch.changes]
    ),
    "a rowguid that is none": lambda batch: replace(
        batch, changes=[each._replace(rowguid="'; drop table item; --") for each in batch.changes]
    ),
    "rows beside tombstones": lambda batch: replace(
        batch, changes=[*batch.changes, batch.changes[0]._replace(row=None)]
    ),
}


@pytest.mark.parametrize("reason", MISSHAPEN)
def test_a_batch_that_no_device_sends_is_refused(merged: Merge, reason: str) -> None:
    begin(merged)
    device = merged.subscribers[0]
    device.execute("update item set name = 'device' where id < 5")
    with open_loopback(merged.hub.url, PUBLICATION) as loopback, open_synchronised(device.url, DEFAULT_LIMITS) as node:
        loopback.bend = MISSHAPEN[reason]
        with pytest.raises(UploadMalformed, match=reason):
            synchronise_device(loopback, node, PUBLICATION, address(device.url))
    assert not merged.hub.execute("select * from item where name = 'device'")
    ask(merged)
    assert len(merged.hub.execute("select * from item where name = 'device'")) == 4
