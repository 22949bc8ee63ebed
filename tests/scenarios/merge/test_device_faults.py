"""Devices that are prepared, rebuilt and moved: killed at each commit, and at random between synchronisations."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from builders.faults.failpoints import MERGE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge, open_file_member
from fixtures.merged import KINDS, live_if_a_server
from rowtide.merge.articles import Partition
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.publishing.requests import Existing

PROGRAM = """
import sys
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Partition
from rowtide.merge.errors.subscribing import MergeSubscriptionExists
from rowtide.merge.publishing.requests import Existing
merge = MergeReplication(sys.argv[1])
try:
    merge.{call}
except MergeSubscriptionExists:
    pass
"""
ITEM = "create table item (id integer primary key, region varchar(10), name varchar(20))"
ROWS = "insert into item values (1, 'n', 'a'), (2, 'n', 'b'), (3, 's', 'c'), (4, 's', 'd')"
COLUMNS = "id, region, name"
BY_REGION: dict[str, Any] = {"where": "region = host_name()"}
CALLS = {
    "prepared": f"subscribe_existing({PUBLICATION!r}, sys.argv[2], Existing.KEEP, partition=Partition('n'))",
    "rebuilt": f"reinitialize({PUBLICATION!r}, sys.argv[2], upload_first=True)",
    "moved": f"change_subscription({PUBLICATION!r}, sys.argv[2], partition=Partition('s'))",
}
MOST_HITS = 60


def passes(kinds: Sequence[str], failpoint: str) -> bool:
    """Tell whether the hub or the first subscriber is of the failpoint's kind."""
    return {"sqlite": "file", "postgres": "server"}[failpoint.split("_", maxsplit=1)[0]] in kinds[:2]


def rebuild(member: Member, *, keeps_rowguids: bool = False) -> None:
    """Copy the table, and drop the old one with its triggers."""
    columns, definition = COLUMNS, ITEM
    if keeps_rowguids:
        columns, definition = f"{COLUMNS}, rowguid", f"{ITEM[:-1]}, rowguid {guid_type(member)})"
    member.execute(
        f"create table item_new as select {columns} from item",
        "drop table item",
        definition,
        f"insert into item ({columns}) select {columns} from item_new",
        "drop table item_new",
    )


def guid_type(member: Member) -> str:
    return "text" if isinstance(member, FileMember) else "uuid"


def prepare(merged: Merge, case: str) -> None:
    """Bring the first subscriber to where a call is about to be made, with work that only it has."""
    device = merged.subscribers[0]
    merged.hub.execute(ITEM, ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", **BY_REGION)
    if case == "prepared":
        device.execute(ITEM, "insert into item values (1, 'n', 'a'), (3, 's', 'c')")
    else:
        merged.merge.add_subscription(PUBLICATION, device.url, partition=Partition("n"))
    if case == "rebuilt":
        rebuild(device)
    device.execute(
        "update item set name = 'own' where id = 1", "insert into item (id, region, name) values (9, 'n', 'new')"
    )
    merged.hub.execute("update item set name = 'hub' where id = 2")


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize(
    ("merged", "failpoint"),
    [
        pytest.param(kinds, failpoint, id=f"{name}-{failpoint}", marks=live_if_a_server(kinds))
        for name, kinds in KINDS.items()
        for failpoint in MERGE_FAILPOINTS
        if passes(kinds, failpoint)
    ],
    indirect=["merged"],
)
def test_calls_that_are_killed_can_be_repeated(merged: Merge, failpoint: str, case: str) -> None:
    prepare(merged, case)
    killed = 0
    for hit in range(1, MOST_HITS):
        urls = [merged.hub.url, merged.subscribers[0].url]
        ended = run_program(PROGRAM.format(call=CALLS[case]), *urls, failpoint=f"{failpoint}@{hit}")
        if ended != KILLED:
            break
        killed += 1
    for _ in range(2):
        merged.sync()

    assert killed
    (found,) = merged.merge.validate(PUBLICATION, merged.subscribers[0].url, checksum=True)
    assert found.is_equal
    names = [(1, "own"), (2, "hub"), (3, "c"), (4, "d"), (9, "new")]
    assert merged.hub.rows("item", "id, name") == names
    assert merged.conflicts() == []
    assert merged.sync().is_quiet


class RandomDevices:
    """Two devices by region, whose users write at all times; what is written is told apart by its text."""

    def __init__(self, merged: Merge, seed: int) -> None:
        self.merged = merged
        self.random = random.Random(seed)
        self.written = 0
        self.replaced: set[str] = set()
        self.is_subscribed = [True for _ in merged.subscribers]
        self.has_rowguids = [True for _ in merged.subscribers]
        merged.hub.execute(ITEM, ROWS)
        merged.merge.add_publication(PUBLICATION)
        merged.merge.add_article(PUBLICATION, "item", **BY_REGION)
        for subscriber, region in zip(merged.subscribers, "ns", strict=True):
            merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))

    def step(self) -> None:
        self.random.choice(
            [self.write, self.write, self.write, self.insert, self.sync, self.rebuild, self.move, self.drop]
        )()

    def write(self) -> None:
        """Change a row anywhere; what it replaces is not looked for any more."""
        member = self.random.choice(self.merged.members)
        rows = member.rows("item", "id, name")
        if not rows:
            return
        key, before = self.random.choice(rows)
        self.replaced.add(before)
        member.execute(f"update item set name = '{self._text()}' where id = {key}")

    def insert(self) -> None:
        text = self._text()
        region = self.random.choice("ns")
        member = self.random.choice(self.merged.members)
        member.execute(f"insert into item (id, region, name) values ({self.written + 100}, '{region}', '{text}')")

    def _text(self) -> str:
        self.written += 1
        return f"text {self.written}"

    def sync(self) -> None:
        number = self._choose()
        if not self.is_subscribed[number]:
            self.subscribe(number)
        try:
            self.merged.sync(number)
        except MergedTableAltered:
            self._reinitialize(number)

    def rebuild(self) -> None:
        number = self._choose()
        keeps_rowguids = self.has_rowguids[number] and self.random.choice([True, False])
        rebuild(self.merged.subscribers[number], keeps_rowguids=keeps_rowguids)
        self.has_rowguids[number] = keeps_rowguids

    def move(self) -> None:
        number = self._choose()
        self._mend(number)
        partition = Partition(self.random.choice("ns"))
        self.merged.merge.change_subscription(PUBLICATION, self.merged.subscribers[number].url, partition=partition)

    def drop(self) -> None:
        """End a subscription with nothing left to upload; the device's user continues, and subscribes again later."""
        number = self._choose()
        self._mend(number)
        self.merged.sync(number)
        self.merged.merge.drop_subscription(PUBLICATION, self.merged.subscribers[number].url)
        self.is_subscribed[number] = False

    def subscribe(self, number: int) -> None:
        """Take the device's table over: by the user's choice its rows replace the hub's where they differ."""
        device = self.merged.subscribers[number]
        theirs: dict[int, str] = dict(self.merged.hub.rows("item", "id, name"))
        for key, name in device.rows("item", "id, name"):
            if theirs.get(key) != name:
                self.replaced.add(theirs.get(key, ""))
        partition = Partition(self.random.choice("ns"))
        self.merged.merge.subscribe_existing(PUBLICATION, device.url, Existing.KEEP, partition=partition)
        self.is_subscribed[number] = self.has_rowguids[number] = True

    def _choose(self) -> int:
        return self.random.randrange(len(self.merged.subscribers))

    def _mend(self, number: int) -> None:
        url = self.merged.subscribers[number].url
        if not self.is_subscribed[number]:
            self.subscribe(number)
        if any(each.reason for each in self.merged.merge.list_unsent(PUBLICATION, url)):
            self._reinitialize(number)

    def _reinitialize(self, number: int) -> None:
        url = self.merged.subscribers[number].url
        self.merged.merge.reinitialize(PUBLICATION, url, upload_first=True)
        self.has_rowguids[number] = True

    def require_nothing_lost(self) -> None:
        """All nodes come to rest, and what was written is there, was replaced, or is kept as a conflict."""
        for number in range(len(self.merged.subscribers)):
            self._mend(number)
        self.merged.settle(2)
        for subscriber in self.merged.subscribers:
            found = self.merged.merge.validate(PUBLICATION, subscriber.url, checksum=True)
            assert all(each.is_equal for each in found), found
        assert all(summary.is_quiet for summary in self.merged.settle(2))
        there = {name for (name,) in self.merged.hub.rows("item", "name")}
        kept = {json.loads(losing)["name"] for _, _, losing, *_ in self.merged.conflicts() if losing}
        written = {f"text {number}" for number in range(1, self.written + 1)}
        assert written <= there | kept | self.replaced


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.exhaustive if seed else ()) for seed in range(25)]
)
def test_devices_lose_nothing_whatever_is_done(tmp_path: Path, seed: int) -> None:
    with ExitStack() as opened:
        members = [opened.enter_context(open_file_member(tmp_path / f"member_{number}.db")) for number in range(3)]
        devices = RandomDevices(Merge(members[0], members[1:]), seed)
        for _ in range(8 if seed == 0 else 30):
            devices.step()
        devices.require_nothing_lost()


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(6))
def test_devices_of_both_kinds_lose_nothing(merged: Merge, seed: int) -> None:
    devices = RandomDevices(merged, seed)
    for _ in range(20):
        devices.step()
    devices.require_nothing_lost()
