"""A copied member of a merge is recognised by the marks of the last synchronisation; ending affects only the copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge, ServerMember, open_file_member
from builders.servers.copied_databases import copied_member
from rowtide.merge.api import MergeReplication
from rowtide.merge.errors.nodes import NodeCopied, NodeRestored

REFUSED = (NodeCopied, NodeRestored)
"""A copy on the original's server is recognised at once, others by the marks."""
ORDERS = "create table orders (id int primary key, qty int)"


def begin(merged: Merge) -> None:
    """Merge a table with a row."""
    merged.begin(ORDERS, orders={})
    merged.hub.execute("insert into orders (id, qty) values (1, 1)")
    merged.settle()


def require_changes_still_merged(merged: Merge) -> None:
    """The original's members continue: what one writes comes to all."""
    merged.hub.execute("insert into orders (id, qty) values (2, 2)")
    merged.subscribers[0].execute("insert into orders (id, qty) values (3, 3)")
    merged.settle()
    merged.require_equal("orders", columns="id, qty")
    assert len(merged.hub.rows("orders", "id")) == 3


def test_a_copied_publisher_is_refused_by_who_met_the_original(request: pytest.FixtureRequest, merged: Merge) -> None:
    begin(merged)
    subscriber = merged.subscribers[0].url
    with copied_member(request, merged.hub) as copy:
        merged.settle(1)
        copied_hub = MergeReplication(copy.url)
        with pytest.raises(REFUSED, match="drop-subscription .* --ignore-subscriber"):
            copied_hub.sync(PUBLICATION, subscriber)
        with pytest.raises(REFUSED):
            copied_hub.drop_subscription(PUBLICATION, subscriber)
        for one in merged.subscribers:
            copied_hub.drop_subscription(PUBLICATION, one.url, ignore_subscriber=True)
        copied_hub.drop_publication(PUBLICATION)
        require_changes_still_merged(merged)
        assert copy.rows("orders", "id") == [(1,)]


def test_a_copied_subscriber_is_refused_once_the_original_met(request: pytest.FixtureRequest, merged: Merge) -> None:
    begin(merged)
    with copied_member(request, merged.subscribers[0]) as copy:
        merged.settle(1)
        with pytest.raises(REFUSED):
            merged.merge.sync(PUBLICATION, copy.url)
        merged.merge.drop_subscription(PUBLICATION, copy.url)
        require_changes_still_merged(merged)
        assert copy.rows("orders", "id") == [(1,)]


def test_of_a_copy_and_its_original_one_goes_on(request: pytest.FixtureRequest, merged: Merge) -> None:
    """A moved file cannot be distinguished from a copy: the one that synchronises first is the subscriber."""
    if isinstance(merged.subscribers[0], ServerMember):
        pytest.skip("of databases on one server the copy is told: tests/live/merge/test_postgres_copies.py")
    begin(merged)
    with copied_member(request, merged.subscribers[0]) as copy:
        merged.subscribers[0].execute("insert into orders (id, qty) values (2, 2)")
        copy.execute("insert into orders (id, qty) values (3, 3)")
        merged.merge.sync(PUBLICATION, copy.url)
        with pytest.raises(NodeRestored):
            merged.sync()
        assert merged.subscribers[0].rows("orders", "id") == [(1,), (2,)]
        assert merged.hub.rows("orders", "id") == [(1,), (3,)]


def test_a_copy_in_the_place_of_a_file_that_went_on_is_refused(tmp_path: Path) -> None:
    hub, device = tmp_path / "hub.db", tmp_path / "device.db"
    with open_file_member(hub) as publisher, open_file_member(device, journal="delete") as subscriber:
        merged = Merge(publisher, [subscriber])
        begin(merged)
        shutil.copy(device, tmp_path / "copy.db")
        merged.settle()
        assert isinstance(subscriber, FileMember)
        subscriber.program.close()
        shutil.copy(tmp_path / "copy.db", device)
        with pytest.raises(NodeRestored):
            merged.sync()
