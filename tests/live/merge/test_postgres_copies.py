"""A copied database of a merge is known by server and oid, before anything is exchanged with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.hints import run_printed
from builders.merge.merged_databases import PUBLICATION, Merge, ServerMember, open_server_member
from builders.servers.copied_databases import copied, restored
from fixtures.servers import drop_database, fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.api import MergeReplication
from rowtide.merge.errors.nodes import NodeCopied

pytestmark = pytest.mark.live

ROWS = "id, qty"


@pytest.fixture(params=["server", "server_16"])
def home(request: pytest.FixtureRequest) -> EmbeddedServer:
    """The server that hub and subscriber are on."""
    server: EmbeddedServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def merged(home: EmbeddedServer) -> Iterator[Merge]:
    """A hub and a subscriber that have synchronised."""
    with (
        fresh_database(home) as hub_url,
        fresh_database(home) as url,
        open_server_member(hub_url) as hub,
        open_server_member(url) as subscriber,
    ):
        merged = Merge(hub, [subscriber])
        merged.begin("create table orders (id int primary key, qty int)", orders={})
        hub.execute("insert into orders (id, qty) values (1, 1)")
        merged.settle()
        yield merged


@contextmanager
def copy_of(home: EmbeddedServer, member: ServerMember) -> Iterator[str]:
    """Yield the URL of a copy by template."""
    original = LoggedDatabase(member.url, Path("nowhere"), member.program)
    with copied(home, original) as url, closing(original.session):
        member.program = original.session
        yield url


def require_changes_still_merged(merged: Merge) -> None:
    merged.hub.execute("insert into orders (id, qty) values (2, 2)")
    merged.subscribers[0].execute("insert into orders (id, qty) values (3, 3)")
    merged.settle()
    merged.require_equal("orders", columns=ROWS)
    assert merged.hub.rows("orders", ROWS) == [(1, 1), (2, 2), (3, 3)]


def hub_of(merged: Merge) -> ServerMember:
    assert isinstance(merged.hub, ServerMember)
    return merged.hub


def test_a_copied_publisher_is_refused_before_the_original_meets(home: EmbeddedServer, merged: Merge) -> None:
    subscriber = merged.subscribers[0].url
    name = hub_of(merged).program.info.dbname
    with copy_of(home, hub_of(merged)) as copy:
        copied_hub = MergeReplication(copy)
        with psycopg.connect(copy, autocommit=True) as program:
            program.execute("update orders set qty = 99")
        with pytest.raises(NodeCopied, match=f'RT-8032: .*database "{name}" of this server'):
            copied_hub.sync(PUBLICATION, subscriber)
        for refused in (
            lambda: copied_hub.reinitialize(PUBLICATION, subscriber, upload_first=True),
            lambda: copied_hub.list_pending(PUBLICATION, subscriber),
        ):
            with pytest.raises(NodeCopied, match="RT-8032"):
                refused()
        with pytest.raises(NodeCopied, match="--ignore-subscriber") as copied:
            copied_hub.drop_subscription(PUBLICATION, subscriber)
        run_printed(copied.value, copy, PUBLICATION=PUBLICATION, URL=subscriber)
        copied_hub.drop_publication(PUBLICATION)
        require_changes_still_merged(merged)


def test_copied_subscriber_is_refused_before_the_original_syncs(home: EmbeddedServer, merged: Merge) -> None:
    subscriber = merged.subscribers[0]
    assert isinstance(subscriber, ServerMember)
    with copy_of(home, subscriber) as copy:
        with pytest.raises(NodeCopied):
            merged.merge.sync(PUBLICATION, copy)
        merged.merge.drop_subscription(PUBLICATION, copy)
        require_changes_still_merged(merged)


def test_a_copy_goes_on_where_the_original_is_gone(home: EmbeddedServer, merged: Merge) -> None:
    """Another database of its name, made since, is not the original."""
    hub = hub_of(merged)
    with copy_of(home, hub) as copy:
        name = hub.program.info.dbname
        hub.program.close()
        with psycopg.connect(home.url(), autocommit=True) as connection:
            drop_database(connection, name)
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        moved = MergeReplication(copy)
        moved.sync(PUBLICATION, merged.subscribers[0].url)
        moved.drop_subscription(PUBLICATION, merged.subscribers[0].url)


def test_a_copy_on_another_server_ends_nothing_before_it_has_met(
    server: EmbeddedServer, server_16: EmbeddedServer, home: EmbeddedServer, merged: Merge
) -> None:
    if home is not server_16:
        pytest.skip("what is dumped by an older server is restored in a later one")
    subscriber = merged.subscribers[0].url
    with restored(server, home, hub_of(merged).program.info.dbname) as copy:
        copied_hub = MergeReplication(copy)
        with pytest.raises(NodeCopied, match="of another server"):
            copied_hub.drop_subscription(PUBLICATION, subscriber)
        require_changes_still_merged(merged)
