"""A device that means harm: nothing that it says in a request reaches beyond its own subscription."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select

from builders.merge.loopback import Loopback
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.merge.articles import DEFAULT_LIMITS, FilterType
from rowtide.merge.catalogue import list_merged, read_nickname
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.definitions import partition_mappings
from rowtide.merge.errors.rows import IdentityRangeDoubtful
from rowtide.merge.errors.subscribing import UploadMalformed
from rowtide.merge.identity_range_policy import IdentityRange
from rowtide.merge.nodes.connecting import address, open_node, open_synchronised
from rowtide.merge.partitions.candidates import STAYED
from rowtide.merge.publishing.device_requests import serve_comparison, synchronise_device
from rowtide.merge.publishing.rows_at_hub import RowsAnswer, RowsRequest, UntrackedRow
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceNumbering,
    MembershipMoves,
    RefusedDownload,
    RowBatch,
    SyncAnswer,
    SyncRequest,
)
from rowtide.merge.session.over_transport import RequestedExchange, find_device
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.comparison import MOST_VERSIONS, Lineage, NodeChange

ITEM = "create table item (id integer primary key, name varchar(40))"
VISIT = "create table visit (id integer primary key, technician varchar(20), note varchar(40))"
VISITS = "insert into visit values (1, 'ann', 'a'), (2, 'ben', 'b')"
OWNERS = [{"host_name": "ann"}, {"host_name": "ben"}]
NUMBERED = {
    "FileMember": "create table thing (id integer primary key autoincrement, made_by text)",
    "ServerMember": "create table thing (id serial primary key, made_by text)",
}


@dataclass
class Hostile(Loopback):
    """A device that changes what it says."""

    bend_request: Callable[[SyncRequest], SyncRequest] = lambda request: request
    bend_said: Callable[[Acknowledgement], Acknowledgement] = lambda said: said
    got: Sequence[RowBatch] = ()
    answers: list[SyncAnswer] = field(default_factory=list)

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        answer, self.got = super().synchronise(self.bend_request(request), batches)
        self.answers.append(answer)
        return answer, self.got

    def acknowledge(self, said: Acknowledgement) -> None:
        super().acknowledge(self.bend_said(said))


def sync(merged: Merge, number: int = 0, **bends: object) -> Hostile:
    """Synchronise the device of a number, which lies."""
    device = merged.subscribers[number]
    hostile = Hostile(partial(open_node, merged.hub.url), PUBLICATION, **bends)  # type: ignore[arg-type]
    with closing(hostile), open_synchronised(device.url, DEFAULT_LIMITS) as node:
        synchronise_device(hostile, node, PUBLICATION, address(device.url), wanted=RequestedExchange(defers=False))
    return hostile


def nickname(merged: Merge) -> int:
    with open_node(merged.hub.url) as hub:
        (found,) = [article.nickname for article in list_merged(hub.connection)]
    return found


def open_conflicts(merged: Merge) -> list[str]:
    listed = merged.merge.list_conflicts(PUBLICATION)
    return [one.conflict for one in listed if one.resolved_time is None]


def test_a_device_gives_its_changes_no_weight(merged: Merge) -> None:
    merged.begin(ITEM, "insert into item (id, name) values (1, 'first')", item={})
    merged.sync()
    merged.hub.execute("update item set name = 'hub' where id = 1")
    merged.subscribers[0].execute("update item set name = 'device' where id = 1")

    def weigh(batch: RowBatch) -> RowBatch:
        return replace(batch, changes=[change._replace(priority=1000.0) for change in batch.changes])

    sync(merged, bend=weigh)
    assert merged.hub.rows("item", "name") == merged.subscribers[0].rows("item", "name") == [("hub",)]


def test_a_device_settles_no_failure_of_another(merged: Merge) -> None:
    merged.begin(ITEM, "insert into item (id, name) values (1, 'first')", item={})
    merged.subscribers[1].execute("create unique index one_name on item (name)")
    merged.hub.execute("insert into item (id, name) values (2, 'first')")
    sync(merged, 1)
    assert open_conflicts(merged) == ["download insert failed"]
    accepted = {nickname(merged): [merged.hub.rowguid("item", 2)]}

    sync(merged, 0, bend_said=lambda said: replace(said, accepted=accepted))
    sync(merged, 0, bend_said=lambda said: replace(said, accepted=accepted))
    assert open_conflicts(merged) == ["download insert failed"]
    merged.subscribers[1].execute("drop index one_name")
    sync(merged, 1)
    assert open_conflicts(merged) == []


def test_a_device_settles_no_refusal_of_the_hub(merged: Merge) -> None:
    merged.begin(ITEM, "insert into item (id, name) values (1, 'first')", item={})
    merged.hub.execute("create unique index one_name on item (name)")
    merged.subscribers[1].execute("insert into item (id, name) values (2, 'first')")
    sync(merged, 1)
    assert open_conflicts(merged) == ["upload insert failed"]
    accepted = {nickname(merged): [merged.subscribers[1].rowguid("item", 2)]}

    sync(merged, 0, bend_said=lambda said: replace(said, accepted=accepted))
    assert open_conflicts(merged) == ["upload insert failed"]


def forged(merged: Merge, rowguid: str, kind: ConflictType, *, width: int = 3) -> RefusedDownload:
    row = tuple(str(number) for number in range(width))
    of_article = nickname(merged)
    return RefusedDownload(of_article, rowguid, "0" * 32, int(kind), "x", "made up", row, None, b"")


def test_a_device_makes_up_no_conflict(merged: Merge) -> None:
    merged.begin(VISIT, VISITS, visit={"where": "technician = host_name()"}, subscriber_options=OWNERS)
    own, of_ben = (merged.hub.rowguid("visit", number) for number in (1, 2))
    made_up = [forged(merged, of_ben, ConflictType.DOWNLOAD_UPDATE_FAILED)]
    sync(merged, bend_said=lambda said: replace(said, refused=made_up))
    assert open_conflicts(merged) == []
    other = [forged(merged, own, ConflictType.UPDATE_CONFLICT)]
    with pytest.raises(UploadMalformed, match="has the type 1, not 6, 8 or 10"):
        sync(merged, bend_said=lambda said: replace(said, refused=other))
    assert open_conflicts(merged) == []
    unfit = [forged(merged, own, ConflictType.DOWNLOAD_UPDATE_FAILED, width=2)]
    with pytest.raises(UploadMalformed, match="has other columns"):
        sync(merged, bend_said=lambda said: replace(said, refused=unfit))
    true = [forged(merged, own, ConflictType.DOWNLOAD_UPDATE_FAILED)]
    sync(merged, bend_said=lambda said: replace(said, refused=true))
    assert open_conflicts(merged) == ["download update failed"]


def compare(merged: Merge, **asked: Any) -> tuple[RowsAnswer, Sequence[RowBatch]]:
    """Ask of rows as the first device."""
    device = merged.subscribers[0]
    with open_synchronised(device.url, DEFAULT_LIMITS) as node:
        known = find_device(node, PUBLICATION, address(device.url))
        state = replace(known.describe(), definitions=known.known)
    with open_node(merged.hub.url) as hub:
        return serve_comparison(hub, RowsRequest(state, **asked))


def test_a_lost_version_includes_nothing_to_come(merged: Merge) -> None:
    """Whoever settles the conflict joins its version to the row's: every node would believe that it has that change."""
    merged.begin(ITEM, "insert into item (id, name) values (1, 'first')", item={})
    merged.settle(1)
    of_item, rowguid = nickname(merged), merged.hub.rowguid("item", 1)
    nodes = []
    for member in (merged.hub, merged.subscribers[1]):
        with open_node(member.url) as node:
            nodes.append(read_nickname(node.connection))
    to_come = Lineage.of(NodeChange(each, MOST_VERSIONS - 1) for each in nodes)
    with pytest.raises(UploadMalformed, match="its lineage has 7 bytes"):
        compare(merged, untracked=[UntrackedRow(of_item, rowguid, ("1", "lost"), b"lineage")])
    compare(merged, untracked=[UntrackedRow(of_item, rowguid, ("1", "lost"), to_come.encode())])
    (conflict,) = merged.merge.list_conflicts(PUBLICATION)
    merged.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)

    merged.settle()
    assert merged.hub.rows("item", "id, name") == [(1, "lost")]
    merged.subscribers[1].execute("update item set name = 'true' where id = 1")
    merged.settle()
    assert merged.hub.rows("item", "id, name") == [(1, "true")]
    merged.require_equal("item", columns="id, name")


def test_a_device_compares_no_row_of_others(merged: Merge) -> None:
    merged.begin(VISIT, VISITS, visit={"where": "technician = host_name()"}, subscriber_options=OWNERS)
    device, of_visit = merged.subscribers[0], nickname(merged)
    own, of_ben = (merged.hub.rowguid("visit", number) for number in (1, 2))
    # It writes to a row that it does not have, so that the hub notes it as one that is to be put right.
    device.execute("update visit set note = 'mine' where id = 1")
    sync(merged, bend=lambda batch: replace(batch, changes=[one._replace(rowguid=of_ben) for one in batch.changes]))
    untracked = [UntrackedRow(of_visit, rowguid, ("1", "ann", "x"), b"") for rowguid in (own, of_ben)]
    rows, keys = {of_visit: [own, of_ben, "none"]}, {of_visit: [("1",), ("2",), ()]}
    answer, batches = compare(merged, rows=rows, keys=keys, untracked=untracked)
    assert answer.keys == {of_visit: [own, None, None]}
    assert [change.rowguid for batch in batches for change in batch.changes] == [own]
    kept = [one for one in merged.merge.list_conflicts(PUBLICATION) if one.reason_code == "untracked"]
    assert [one.rowguid for one in kept] == [own]
    with pytest.raises(UploadMalformed, match="has other columns"):
        compare(merged, untracked=[replace(untracked[0], row=("1",))])


def test_a_device_is_sent_no_row_of_others(merged: Merge) -> None:
    merged.begin(VISIT, VISITS, visit={"where": "technician = host_name()"}, subscriber_options=OWNERS)
    wanted = {nickname(merged): [merged.hub.rowguid("visit", 2)]}

    def ask(request: SyncRequest) -> SyncRequest:
        return replace(request, state=replace(request.state, refused=wanted))

    got = sync(merged, bend_request=ask).got
    assert [change.row for batch in got for change in batch.changes if change.row is not None] == []


NOTES = (
    "create table visit (id integer primary key, technician varchar(20), note varchar(40))",
    "create table remark (id integer primary key, visit integer references visit (id), technician varchar(20))",
    "insert into visit values (1, 'ann', 'a'), (7345, 'ben', 'b')",
)
OF_TECHNICIAN: dict[str, Any] = {"where": "technician = host_name()"}


def begin_remarks(merged: Merge) -> tuple[str, dict[str, int]]:
    """Publish visits and their remarks; return the rowguid of another device's visit, and the nicknames."""
    merged.begin(*NOTES, visit=OF_TECHNICIAN, remark=OF_TECHNICIAN, subscriber_options=OWNERS)
    merged.hub.execute("update visit set note = 'c' where id = 7345")
    merged.settle()
    with open_node(merged.hub.url) as hub:
        return merged.hub.rowguid("visit", 7345), {each.name: each.nickname for each in list_merged(hub.connection)}


def naming(nickname: int, parent: str) -> Callable[[RowBatch], RowBatch]:
    def bend(batch: RowBatch) -> RowBatch:
        if batch.article != nickname:
            return batch
        return replace(batch, changes=[change._replace(parents=(parent,)) for change in batch.changes])

    return bend


def test_a_named_parent_of_others_tells_no_key(merged: Merge) -> None:
    of_ben, nicknames = begin_remarks(merged)
    ann = merged.subscribers[0]
    ann.execute("insert into remark (id, visit, technician) values (5, 1, 'ann')")
    got = sync(merged, bend=naming(nicknames["remark"], of_ben)).got

    sent = [change.row for batch in got for change in batch.changes if change.row is not None]
    assert "7345" not in [value for row in sent for value in row]
    assert merged.hub.execute("select id from remark") == []
    assert ann.execute("select id from remark") == []
    (lost,) = merged.merge.list_conflicts(PUBLICATION)
    assert lost.conflict == "upload insert failed"


def test_an_old_version_makes_no_row_a_devices(merged: Merge) -> None:
    of_ben, nicknames = begin_remarks(merged)
    with open_node(merged.hub.url) as hub, hub.transaction():
        (visit,) = [each for each in list_merged(hub.connection) if each.name == "visit"]
        known = hub.versions.read_known(visit, [of_ben])[of_ben].version
    assert known.last is not None
    lineage, last = known.lineage.encode(), known.last.encode()

    def as_known(change: RowChange) -> RowChange:
        return change._replace(rowguid=of_ben, lineage=lineage, last=last)

    def bend(batch: RowBatch) -> RowBatch:
        if batch.article == nicknames["visit"]:
            return replace(batch, changes=[as_known(change) for change in batch.changes])
        return naming(nicknames["remark"], of_ben)(batch)

    ann = merged.subscribers[0]
    ann.execute("update visit set note = 'd' where id = 1")
    ann.execute("insert into remark (id, visit, technician) values (5, 1, 'ann')")
    sync(merged, bend=bend)
    assert merged.hub.execute("select id from remark") == []
    assert ann.execute("select visit from remark where visit <> 1") == []
    assert merged.hub.execute("select technician, note from visit where id = 7345") == [("ben", "c")]


def test_a_record_of_others_is_no_part_of_a_conflict(merged: Merge) -> None:
    """Its device wins conflicts of records as a whole; it names another's visit as the top of a remark of its own."""
    merged.hub.execute(*NOTES, "insert into remark values (9, 7345, 'ben')")
    merged.merge.add_publication(PUBLICATION)
    whole: dict[str, Any] = {
        "record_conflict_detection": True,
        "record_conflict_resolution": True,
        "resolver": "subscriber-wins",
    }
    merged.merge.add_article(PUBLICATION, "visit", **OF_TECHNICIAN, **whole)
    merged.merge.add_article(PUBLICATION, "remark", resolver="subscriber-wins")
    link = "remark.visit = visit.id"
    merged.merge.add_filter(PUBLICATION, "remark", "visit", link, filter_type=FilterType.BOTH)
    for subscriber, options in zip(merged.subscribers, OWNERS, strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, host_name=options["host_name"])
    merged.settle()
    merged.hub.execute("update visit set note = 'c' where id = 7345", "update remark set technician = 'eve'")
    with open_node(merged.hub.url) as hub:
        nicknames = {each.name: each.nickname for each in list_merged(hub.connection)}
    of_ben = {merged.hub.rowguid("visit", 7345), merged.hub.rowguid("remark", 9)}
    ann = merged.subscribers[0]
    ann.execute("insert into remark (id, visit, technician) values (5, 1, 'ann')")

    found = sync(merged, bend=naming(nicknames["remark"], merged.hub.rowguid("visit", 7345)))
    results = [one.result for one in found.answers if one.result is not None]
    named = {each for one in results for rowguids in one.wanted.values() for each in rowguids}
    assert results
    assert named & of_ben == set()
    assert merged.hub.execute("select note from visit where id = 7345") == [("c",)]
    assert merged.hub.execute("select technician from remark where id = 9") == [("eve",)]
    assert ann.execute("select id from visit where id <> 1") == []


def test_a_device_keeps_no_row_that_left(merged: Merge) -> None:
    merged.begin(VISIT, VISITS, visit={"where": "technician = host_name()"}, subscriber_options=OWNERS)
    rowguid, of_article = merged.hub.rowguid("visit", 1), nickname(merged)
    merged.hub.execute("update visit set technician = 'ben' where id = 1")
    moves = {of_article: MembershipMoves(stayed=[rowguid])}
    sync(merged, bend_said=lambda said: replace(said, moves=moves))

    with open_node(merged.hub.url) as hub:
        stayed = select(partition_mappings.c.rowguid).where(partition_mappings.c.generation == STAYED)
        assert hub.connection.execute(stayed).all() == []


def test_a_device_has_no_weight_of_its_own(merged: Merge) -> None:
    merged.begin(ITEM, "insert into item (id, name) values (1, 'first')", item={})
    merged.subscribers[0].execute("update item set name = 'device' where id = 1")
    merged.hub.execute("update item set name = 'hub' where id = 1")

    def weigh(batch: RowBatch) -> RowBatch:
        return replace(batch, changes=[change._replace(priority=1e9) for change in batch.changes])

    sync(merged, bend=weigh)
    assert merged.hub.execute("select name from item where id = 1") == [("hub",)]


def test_a_device_uses_up_no_numbers_of_others(merged: Merge) -> None:
    merged.begin(NUMBERED[type(merged.hub).__name__], thing={"identity_range": 10, "threshold": 80})
    of_article, most = nickname(merged), (1 << 31) - 1

    def claim(request: SyncRequest) -> SyncRequest:
        numbering = request.numberings[of_article].numbering
        owned = IdentityRange(most - 20, most - 11, most - 10, most)
        return replace(request, numberings={of_article: DeviceNumbering(replace(numbering, last=most), owned)})

    before = [one.max_used for one in merged.merge.list_identity_ranges()]
    merged.subscribers[0].execute("insert into thing (made_by) values ('kept')")
    with pytest.raises(IdentityRangeDoubtful, match="restore-identity-range"):
        sync(merged, bend_request=claim)
    assert [one.max_used for one in merged.merge.list_identity_ranges()] == before
    assert merged.hub.execute("select made_by from thing") == [("kept",)]
    sync(merged)
