"""What nodes keep has a format: this build uses its own, reads a newer one where it may, and removes what has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.faults.killed_programs import run_program
from builders.formats import NEWER, NEWER_READABLE, forgetting, recording
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge, ServerMember
from rowtide.core.errors import RowtideError
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.handle import connect
from rowtide.merge.errors.nodes import UnsentByOtherBuild

UPGRADE_TO_FORMAT_2 = """
import sys
sys.path.insert(0, sys.argv[1])
from builders.upgrading.next_formats import be_of_format_2
from rowtide.cli.main import run_command

be_of_format_2()
sys.exit(run_command(("upgrade", "--db", sys.argv[2])))
"""
TESTS = str(Path(__file__).parents[2])
ITEM = "create table item (id integer primary key, name text)"


def format_view(member: Member) -> str:
    return "rowtide_merge.rowtide_format" if isinstance(member, ServerMember) else "MSmerge_format"


def unnumber(merge: Merge) -> None:
    """Let the metadata be as if they were made before formats had numbers."""
    for member in merge.members:
        member.execute(forgetting(format_view(member)))


def test_a_newer_node_is_read_where_it_may_be_not_written(merged: Merge) -> None:
    merged.begin(ITEM, item={})
    merged.settle()
    merged.hub.execute("insert into item (id, name) values (1, 'a')")
    for member in (merged.hub, merged.subscribers[0]):
        member.execute(*recording(format_view(member), NEWER_READABLE))
        with pytest.raises(FormatNewer, match="format 2"):
            merged.sync()
        assert merged.subscribers[0].rows("item") == []
        assert [one.publication for one in connect(member.url).merge.list_publications()] == [PUBLICATION]
        member.execute(*recording(format_view(member), NEWER))
        with pytest.raises(FormatNewer):
            connect(member.url).merge.list_publications()
        with pytest.raises(FormatNewer):
            connect(member.url).merge.drop_publication(PUBLICATION)
        member.execute(*recording(format_view(member), (1, 1, 1)))
    assert merged.sync().download.total.inserts == 1


def test_nodes_without_a_format_are_refused_until_dropped(merged: Merge) -> None:
    merged.begin(ITEM, item={})
    merged.settle()
    unnumber(merged)
    for use in (
        merged.sync,
        merged.merge.list_publications,
        lambda: merged.merge.add_publication("another"),
        lambda: merged.merge.drop_subscription(PUBLICATION, merged.subscribers[0].url, upload_first=True),
    ):
        with pytest.raises(FormatUnnumbered):
            use()
    for subscriber in merged.subscribers:
        merged.merge.drop_subscription(PUBLICATION, subscriber.url)
    merged.merge.drop_publication(PUBLICATION)
    for member in merged.members:
        assert not connect(member.url).merge.list_publications()
    for subscriber in merged.subscribers:
        subscriber.execute("drop table item")
    merged.begin(item={})
    merged.hub.execute("insert into item (id, name) values (1, 'a')")
    assert merged.sync().download.total.inserts == 1


@pytest.mark.parametrize(
    "write", ["insert into item (id) values (7)", "delete from item", "update item set name = 'b'"]
)
@pytest.mark.parametrize("is_enumerated", [False, True], ids=["logged", "enumerated"])
def test_a_device_with_unsent_changes_is_sent_back(merged: Merge, write: str, *, is_enumerated: bool) -> None:
    merged.begin(ITEM, item={})
    merged.hub.execute("insert into item (id, name) values (1, 'a')")
    merged.settle()
    device = merged.subscribers[0]
    device.execute(write)
    if is_enumerated:
        merged.merge.list_unsent(PUBLICATION, device.url)
    unnumber(merged)
    expected: type[RowtideError] = UnsentByOtherBuild if isinstance(device, FileMember) else FormatUnnumbered
    with pytest.raises(expected) as refused:
        connect(device.url).merge.list_publications()
    assert "reinitialize" not in str(refused.value)
    merged.merge.drop_subscription(PUBLICATION, device.url)


def test_a_device_that_sent_all_is_not_said_to_have_more(merged: Merge) -> None:
    merged.begin(ITEM, item={})
    merged.subscribers[0].execute("insert into item (id, name) values (1, 'a')")
    merged.hub.execute("insert into item (id, name) values (2, 'b')")
    merged.settle(3)
    unnumber(merged)
    with pytest.raises(FormatUnnumbered):
        connect(merged.subscribers[0].url).merge.list_publications()


@pytest.mark.parametrize("is_hub", [True, False], ids=["hub", "subscriber"])
def test_a_synchronisation_ends_once_a_node_is_migrated(merged: Merge, *, is_hub: bool) -> None:
    merged.begin(ITEM, item={})
    merged.settle()
    merged.hub.execute("insert into item (id, name) values (1, 'of the hub')")
    merged.subscribers[0].execute("insert into item (id, name) values (2, 'of the subscriber')")
    node = merged.hub if is_hub else merged.subscribers[0]

    def upgrade() -> None:
        assert run_program(UPGRADE_TO_FORMAT_2, TESTS, node.url, failpoint="none") == 0

    # The first commits begin the session; nothing is exchanged yet.
    with pytest.raises(FormatNewer, match="format 2, this version 1"):
        merged.sync_beside(0, 2, upgrade)
    with pytest.raises(FormatNewer, match="format 2, this version 1"):
        merged.sync()
    assert merged.hub.rows("item", "name") == [("of the hub",)]
    node.execute(*recording(format_view(node), (1, 1, 1)))
    merged.settle()
    merged.require_equal("item", columns="id, name")
