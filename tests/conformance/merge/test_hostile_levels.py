"""A device below a regional hub, whose file somebody edited: it stops neither that hub nor the one above it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from builders.merge.merged_databases import FileMember, Member, RepublishedMerge
from builders.merge_machines.kept_writes import read_nickname_of
from fixtures.merged import live_if_a_server, open_members
from rowtide.merge.errors.nodes import GenerationRefused
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.session.purge import purge

DEFINITION = "create table item (id integer primary key, note varchar(20), amount integer)"
ROWS = "insert into item values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"
KINDS = {
    "files": ("file", "file", "file", "file"),
    "servers": ("server", "server", "file", "file"),
    "a file between": ("server", "file", "server", "file"),
}
"""The top hub's kind, the regional hub's, that of another subscriber of the top hub, and the device's."""
REGION, OTHER, DEVICE = range(3)
FUTURE = 0xFFFFFF


class Levels(RepublishedMerge):
    """Three levels that have synchronised each change so far."""

    @property
    def device(self) -> FileMember:
        device = self.subscribers[DEVICE]
        assert isinstance(device, FileMember)
        return device

    @property
    def regional(self) -> Member:
        return self.subscribers[REGION]

    def exchange(self) -> None:
        """Synchronise from the bottom up and down again, twice."""
        for number in (DEVICE, REGION, OTHER, REGION, DEVICE) * 2:
            assert not self.sync(number).refused

    def include(self, nickname: int, key: int) -> None:
        """Let the device's version of a row include a generation that its node has not reached."""
        self.device.execute(f"update item set note = 'mine' where id = {key}")
        # What it logs becomes metadata.
        with open_node(self.device.url) as node, node.changes.enumerating():
            pass
        self.device.execute_as_agent(
            f"update MSmerge_stored_contents set lineage = x'{nickname:012x}{FUTURE:08x}' where rowguid = "
            f"(select rowguid from item where id = {key})"
        )


@pytest.fixture(
    params=[
        pytest.param(kinds, id=name, marks=[*live_if_a_server(kinds), *([pytest.mark.exhaustive] * (name != "files"))])
        for name, kinds in KINDS.items()
    ]
)
def levels(request: pytest.FixtureRequest) -> Iterator[Levels]:
    with ExitStack() as opened:
        members = open_members(request, opened, request.param)
        merge = Levels(members[0], members[1:])
        merge.begin(DEFINITION, ROWS, item={"column_tracking": True})
        yield merge


@pytest.mark.parametrize("is_known", [True, False], ids=["another subscriber's", "a node's that nobody knows"])
@pytest.mark.parametrize("is_new", [False, True], ids=["a row of all", "a new row"])
def test_a_future_generation_is_refused_at_once(levels: Levels, *, is_known: bool, is_new: bool) -> None:
    """The other node's later changes would count as included. Only the device is refused, until it begins again."""
    levels.exchange()
    key = 9 if is_new else 1
    if is_new:
        levels.device.execute(f"insert into item (id, note) values ({key}, 'new')")
    levels.include(read_nickname_of(levels.subscribers[OTHER]) if is_known else 77, key)
    with pytest.raises(GenerationRefused, match="still to come"):
        levels.sync(DEVICE)
    for number in (REGION, OTHER):
        assert not levels.sync(number).refused
    levels.subscribers[OTHER].execute("update item set note = 'other' where id = 1")
    for number in (OTHER, REGION):
        assert not levels.sync(number).refused
    assert levels.regional.execute("select note from item where id = 1") == [("other",)]
    levels.lower.merge.reinitialize(levels.lower.publication, levels.device.url)
    levels.device.execute("update item set note = 'again' where id = 2")
    levels.exchange()
    levels.require_equal("item", columns="id, note, amount")
    assert levels.hub.execute("select note from item where id in (1, 2) order by id") == [("other",), ("again",)]


@pytest.mark.parametrize("purged", range(4))
def test_what_a_device_has_received_is_no_future(levels: Levels, purged: int) -> None:
    """It may include it in any row, also where it has purged the rows that had it."""
    for turn in range(2):
        for number, member in enumerate(levels.members):
            member.execute(f"update item set amount = {10 * turn + number} where id = {number % 3 + 1}")
            member.execute(f"insert into item (id, note) values ({10 * turn + number + 10}, 'n')")
        levels.exchange()
    for member in (levels.hub, levels.regional, levels.device)[:purged]:
        with open_node(member.url) as node:
            assert purge(node)
        levels.exchange()
    levels.device.execute(
        "update item set note = 'later' where id in (1, 2)",
        "insert into item (id, note) values (5, 'new')",
        "delete from item where id = 3",
    )
    levels.exchange()
    levels.subscribers[OTHER].execute("update item set amount = 7 where id in (1, 2)")
    levels.device.execute("update item set amount = 8 where id = 10")
    levels.exchange()
    levels.require_equal("item", columns="id, note, amount")
    assert levels.hub.execute("select note, amount from item where id in (1, 2)") == [("later", 7)] * 2
