"""A promoted copy of the publisher's server subscribes from where its history left: each change arrives once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber, publish_alone
from builders.replication.replicated_files import ReplicatedFile
from builders.servers.copied_databases import METADATA
from builders.servers.standbys import KEEPS_SLOTS, Standby, standby_of
from fixtures.servers import SETTINGS
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.replication.errors.subscribing import LsnNotKept, NotAPromotedCopy, SubscriberIsPublisher
from rowtide.replication.subscription_settings import SyncType

ORDERS = "create table orders (id int generated always as identity primary key, qty int)"
LINES = "create table lines (id int primary key, of int references orders)"
NOTES = "create table notes (id int primary key, body text)"
OWN = 'select count(*) from rowtide_subscriber."MSreplication_subscriptions"'


@contextmanager
def replicating(
    place: Path, *, version: ServerVersion = 18
) -> Iterator[tuple[LoggedDatabase, EmbeddedServer, Standby]]:
    """Yield a database with publications `shop` and `more`, its server, and a standby."""
    with (
        EmbeddedServer.start(place / "primary", version=version, settings=SETTINGS) as primary,
        psycopg.connect(primary.url(), autocommit=True) as session,
    ):
        logged = LoggedDatabase(primary.url(), place / "lake", session)
        publish_alone(logged, "shop", ORDERS, LINES)
        publish_alone(logged, "more", NOTES)
        logged.execute("insert into orders (qty) select i from generate_series(1, 100) i")
        settings = KEEPS_SLOTS if version >= 17 else {}
        with standby_of(primary, place / "standby", settings, version=version) as standby:
            yield logged, primary, standby


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [16, 18])
def test_a_standby_goes_on_as_a_subscriber(tmp_path: Path, version: ServerVersion) -> None:
    with replicating(tmp_path, version=version) as (logged, primary, standby):
        if version >= 17:
            standby.keep_slot(logged)
        logged.read_log()
        logged.execute("insert into lines values (1, 1)", "update orders set qty = 0 where id = 1")
        url = standby.server.url()
        replication = ReplicatedDatabase(logged, Subscriber(url, logged.session)).replication
        with pytest.raises(NotAPromotedCopy, match="it is still a standby"):
            replication.add_subscription("shop", url, sync_type=SyncType.FROM_COPY)
        standby.wait_for(primary)
        standby.promote()
        logged.execute(
            "insert into lines values (2, 2)", "delete from orders where id = 100", "insert into notes values (1)"
        )
        with pytest.raises(SubscriberIsPublisher, match="from-copy"):
            replication.add_subscription("shop", url)
        replication.add_subscription("shop", url, sync_type=SyncType.FROM_COPY)
        replication.add_subscription("more", url, sync_type=SyncType.FROM_COPY)
        logged.execute("insert into orders (qty) values (7)", "insert into lines values (3, 101)")
        with psycopg.connect(url, autocommit=True) as session:
            replicated = ReplicatedDatabase(logged, Subscriber(url, session))
            replicated.deliver()
            replicated.require_equal("orders", "lines", "notes")
            assert replicated.subscriber.execute(OWN) == [(2,)]
            assert [session.execute(query.encode()).fetchall() for query in METADATA] == [[], [], [], []]
            identities = "select relname::text from pg_class where relreplident = 'f'"
            assert session.execute(identities).fetchall() == []


@pytest.mark.exhaustive
def test_what_is_no_promoted_copy_is_refused(replicated_file: ReplicatedFile, server: EmbeddedServer) -> None:
    replicated_file.publish(NOTES, notes={})
    publisher = replicated_file.publisher.url
    for url, reason in (
        (replicated_file.subscriber.url, "it is a file"),
        (publisher, "its timeline 1 did not leave the publisher's, 1"),
        (server.url(), "it has another database of that server"),
    ):
        with pytest.raises(NotAPromotedCopy, match=reason):
            replicated_file.replication.add_subscription("shop", url, sync_type=SyncType.FROM_COPY)


@pytest.mark.exhaustive
def test_a_dump_of_an_exported_snapshot_is_a_start(replicated: ReplicatedDatabase, server: EmbeddedServer) -> None:
    """The snapshot of a slot has what committed below its consistent point, and nothing from there on."""
    replicated.publish_alone(ORDERS, LINES)
    replicated.publisher.read_log()
    replicated.publisher.execute("insert into orders (qty) select i from generate_series(1, 100) i")
    url, copy = replicated.publisher.url, replicated.subscriber.url
    with closing(psycopg.connect(url, replication="database", autocommit=True)) as walsender:
        slot = "CREATE_REPLICATION_SLOT copying TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')"
        _, consistent, snapshot, _ = walsender.execute(slot.encode()).fetchall()[0]
        replicated.publisher.execute("insert into orders (qty) values (0)", "delete from orders where id = 1")
        dumping = [str(server.binary("pg_dump")), f"--snapshot={snapshot}", "--schema=public", url]
        dumped = subprocess.run(
            dumping, env={**os.environ, **server.environment()}, capture_output=True, check=True
        ).stdout
    restoring = [str(server.binary("psql")), "--quiet", copy]
    subprocess.run(restoring, env={**os.environ, **server.environment()}, input=dumped, check=True, capture_output=True)
    with pytest.raises(LsnNotKept):
        replicated.subscribe(SyncType.FROM_LSN, lsn=CommitLsn.parse("7FFF/0"))
    replicated.subscribe(SyncType.FROM_LSN, lsn=CommitLsn.parse(consistent))
    replicated.publisher.execute("insert into lines values (1, 101)")
    replicated.deliver()

    replicated.require_equal("orders", "lines")
