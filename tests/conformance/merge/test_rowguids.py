"""Rowguids that are no UUIDs: a program wrote them, or somebody edited the metadata. They reach no other node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge, open_file_member
from fixtures.merged import live_if_a_server, open_members
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.errors.nodes import RowguidMalformed
from rowtide.merge.errors.publishing import RowguidUnfit

DEFINITION = "create table item (id integer primary key, note varchar(20))"
ROWS = "insert into item values (1, 'a'), (2, 'b')"
MALFORMED = [
    "'none'",
    "upper('{0}')",
    "replace('{0}', '-', '')",
    "x'ff00'",
    "'{0}' || char(10)",
    "printf('%.300c', 'x')",
]
KINDS = {"files": ("file", "file", "file"), "a server subscribes": ("file", "file", "server")}
ONE = "01a21362-b286-7000-8001-84db807206bc"


@dataclass
class Nodes:
    """A file that publishes a table to a device's file and to another database."""

    merge: Merge

    @property
    def hub(self) -> FileMember:
        assert isinstance(self.merge.hub, FileMember)
        return self.merge.hub

    @property
    def device(self) -> FileMember:
        (device, _) = self.merge.subscribers
        assert isinstance(device, FileMember)
        return device

    def sync(self, number: int) -> None:
        assert not self.merge.sync(number).refused

    def require_shared(self) -> None:
        """What either subscriber writes reaches all."""
        for number, member in enumerate(self.merge.subscribers):
            member.execute(f"insert into item (id, note) values ({7 + number}, 'later')")
        for number in (0, 1, 0):
            self.sync(number)
        self.merge.require_equal("item", columns="id, note")


@pytest.fixture(params=[pytest.param(kinds, id=name, marks=live_if_a_server(kinds)) for name, kinds in KINDS.items()])
def nodes(request: pytest.FixtureRequest) -> Iterator[Nodes]:
    with ExitStack() as opened:
        members = open_members(request, opened, request.param)
        merge = Merge(members[0], members[1:])
        merge.begin(DEFINITION, ROWS, item={})
        yield Nodes(merge)


@pytest.mark.parametrize("rowguid", MALFORMED)
def test_a_devices_row_is_named_and_given_another(nodes: Nodes, rowguid: str) -> None:
    """Its file and rowguid are named; the row is deleted there and inserted again, as the error says."""
    nodes.device.execute(f"insert into item (id, note, rowguid) values (3, 'c', {rowguid.format(ONE)})")
    with pytest.raises(RowguidMalformed, match="no UUID in lower case") as refused:
        nodes.sync(0)
    assert nodes.device.url.removeprefix("sqlite:///") in str(refused.value)
    nodes.sync(1)
    assert "without a rowguid" in refused.value.hint
    nodes.device.execute("delete from item where id = 3", "insert into item (id, note) values (3, 'c')")
    nodes.require_shared()


def test_a_hubs_row_is_named_and_given_another(nodes: Nodes) -> None:
    nodes.hub.execute("insert into item (id, note, rowguid) values (3, 'c', 'none')")
    for number in (0, 1):
        with pytest.raises(RowguidMalformed, match="'none'") as refused:
            nodes.sync(number)
        assert nodes.hub.url.removeprefix("sqlite:///") in str(refused.value)
    nodes.hub.execute("delete from item where id = 3", "insert into item (id, note) values (3, 'c')")
    nodes.require_shared()


@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("is_at_hub", [False, True], ids=["device", "hub"])
def test_a_line_of_no_row_harms_nobody(nodes: Nodes, kind: int, *, is_at_hub: bool) -> None:
    """No node can have the row, so that its absence is of no interest to any."""
    logged = f"insert into MSmerge_log (tablenick, rowguid, kind) select nickname, 'none', {kind} from "
    (nodes.hub if is_at_hub else nodes.device).execute_as_agent(logged + "sysmerge_stored_articles")
    nodes.sync(0)
    nodes.sync(1)
    nodes.require_shared()


def test_a_tombstone_of_before_harms_nobody(nodes: Nodes) -> None:
    """A hub may have one that an earlier build received."""
    nodes.hub.execute("delete from item where id = 2")
    nodes.merge.settle(1)
    nodes.hub.execute_as_agent("update MSmerge_stored_tombstone set rowguid = 'none', stamp = stamp + 1")
    nodes.sync(0)
    nodes.sync(1)
    nodes.require_shared()


def test_a_malformed_rowguid_is_not_requested_again(nodes: Nodes) -> None:
    nodes.device.execute_as_agent(
        "insert into MSmerge_retries (source, tablenick, rowguid, reason_code, reason_text) "
        "select s.replnickname, a.nickname, 'none', '1', 'x' from sysmerge_stored_subscriptions s, "
        "sysmerge_stored_articles a"
    )
    nodes.sync(0)
    nodes.require_shared()


def test_a_copy_names_the_hubs_row(nodes: Nodes, tmp_path: Path) -> None:
    nodes.hub.execute("insert into item (id, note, rowguid) values (3, 'c', 'none')")
    with open_file_member(tmp_path / "new.db") as new:
        with pytest.raises(RowguidMalformed, match="'none'"):
            nodes.merge.merge.add_subscription(PUBLICATION, new.url)
        nodes.hub.execute("delete from item where id = 3", "insert into item (id, note) values (3, 'c')")
        nodes.merge.merge.add_subscription(PUBLICATION, new.url)
        assert new.rows("item", "id, note") == nodes.hub.rows("item", "id, note")


@pytest.mark.parametrize("rowguid", MALFORMED)
def test_a_table_with_other_rowguids_is_not_published(tmp_path: Path, rowguid: str) -> None:
    with open_file_member(tmp_path / "hub.db") as hub:
        hub.execute("create table item (id integer primary key, rowguid text not null unique)")
        hub.execute(f"insert into item values (1, '{ONE}'), (2, {rowguid.format(ONE)})")
        merge = Merge(hub, [])
        merge.merge.add_publication(PUBLICATION)
        with pytest.raises(RowguidUnfit, match="no UUID in lower case"):
            merge.merge.add_article(PUBLICATION, "item")
        hub.execute("delete from item where id = 2")
        merge.merge.add_article(PUBLICATION, "item")


@pytest.mark.live
def test_a_servers_subscription_to_a_file_goes_on(server: EmbeddedServer, tmp_path: Path) -> None:
    """A server that holds rows of a file with rowguids of its own, in upper case, would take them for others."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_file_member(tmp_path / "hub.db"))
        database = opened.enter_context(fresh_database(server))
        hub.execute("create table item (id integer primary key, rowguid text not null unique)")
        hub.execute(f"insert into item values (1, '{ONE}')")
        merge = Merge(hub, [])
        merge.merge.add_publication(PUBLICATION)
        merge.merge.add_article(PUBLICATION, "item")
        merge.merge.add_subscription(PUBLICATION, database)
        hub.execute(f"insert into item values (2, upper('{ONE}'))")
        with pytest.raises(RowguidMalformed):
            merge.merge.sync(PUBLICATION, database)
