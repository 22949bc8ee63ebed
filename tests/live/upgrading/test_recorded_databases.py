"""Databases that builds of each format enabled: restored on another server, they are read as they were."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.recordings import Recording, read_change_rows, read_server_tables
from builders.replication.replicated_databases import list_subscriptions, open_only_agent
from rowtide.cdc.capture.capture import Capture
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.anchors import Anchor, UnknownAnchor
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.log.errors import DatabaseCopied
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.store.location import open_store
from rowtide.tracking import ChangeTracking
from rowtide.tracking.errors import TrackingLost

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live
NAMES = ("captured", "interrupted", "merge_hub", "publisher", "subscriber", "tracked")


@pytest.fixture(params=["server_16", "server"])
def either(request: pytest.FixtureRequest) -> EmbeddedServer:
    """A PostgreSQL 16, then an 18."""
    server: EmbeddedServer = request.getfixturevalue(request.param)
    return server


@pytest.mark.parametrize("name", NAMES)
def test_a_database_has_the_rows_recorded(either: EmbeddedServer, shared_recording: Recording, name: str) -> None:
    with shared_recording.restore(either, name) as url:
        assert read_server_tables(url) == shared_recording.contents[name]


def test_an_adopted_database_lists_instances_jobs_and_consumers(either: EmbeddedServer, recording: Recording) -> None:
    with recording.restore(either, "captured") as url:
        cdc = connect(url).cdc
        with pytest.raises(DatabaseCopied):
            cdc.list_instances()
        connect(url).adopt()
        columns = {one.capture_instance: one.captured_column_list for one in cdc.list_instances()}
        assert columns == {
            "odd": "[id], [a, b], [per cent %], [größe=]",
            "orders_part": "[id], [qty]",
            "public_again": "[id], [name], [added]",
            "public_bare": "[id], [name]",
            "public_moments": "[id], [at], [seen], [born], [during]",
            "public_notes": "[id], [title], [body]",
            # Renamed since: what is announced again has the columns of today.
            "public_orders": "[id], [article], [qty]",
            "public_readings": "[id], [n], [price], [day]",
            "public_ticks": "[id]",
        }
        assert [(job.maxtrans, job.pollinginterval, job.threshold) for job in cdc.list_jobs()] == [
            (700, 2, None),
            (None, None, 1000),
        ]
        assert cdc.read_retention() == timedelta(days=7)
        (consumer,) = cdc.list_consumers()
        assert (consumer.consumer, consumer.instances) == ("warehouse", ("orders_part", "public_orders"))
        acknowledged = recording.contents["lake"]["public_orders"]["rows"][-2][0]
        assert consumer.acknowledged_lsn is not None
        assert consumer.acknowledged_lsn.value >= acknowledged


def test_subscribers_of_either_kind_get_what_was_read(either: EmbeddedServer, recording: Recording) -> None:
    with recording.restore(either, "subscriber") as subscriber, recording.restore(either, "publisher") as url:
        with psycopg.connect(url, autocommit=True) as session:
            publisher = LoggedDatabase(url, recording.folder / "publisher", session)
            recording.claim("publisher", session)
            for subscription in list_subscriptions(publisher):
                with open_only_agent(publisher, subscription) as agent:
                    while agent.step():
                        pass
        expected = [(2, "ink", None), (3, "cap", 1), (4, "on its way", 1)]
        query = "select id, item, qty from orders order by 1"
        with psycopg.connect(subscriber) as session:
            assert session.execute(query.encode()).fetchall() == expected
    with closing(sqlite3.connect(recording.folder / "subscriber.db")) as program:
        assert program.execute(query).fetchall() == expected


def test_tracking_is_lost_by_a_restore_and_resumed(either: EmbeddedServer, shared_recording: Recording) -> None:
    tables = ["public.in_row", "public.in_side"]
    anchor = Anchor.parse(shared_recording.contents["tracked anchor"])
    with shared_recording.restore(either, "tracked") as url, psycopg.connect(url, autocommit=True) as session:
        tracking = ChangeTracking(session)
        assert [str(table.storage) for table in tracking.list_tracked()] == ["row", "side"]
        with pytest.raises(UnknownAnchor), tracking.changes(tables, anchor):
            pass
        with pytest.raises(TrackingLost), tracking.changes(tables):
            pass
        for table in tables:
            tracking.resume_tracking(table)
        with tracking.changes(tables) as changes:
            found = sorted((change.table, *change.row) for change in changes)
    assert found == [
        ("public.in_row", 1, "one", 10),
        ("public.in_row", 4, "four", 4),
        ("public.in_side", 1, "one", 10),
        ("public.in_side", 3, "three", 3),
        ("public.in_side", 4, "four", 4),
    ]


def test_a_hub_synchronises_with_its_device(either: EmbeddedServer, recording: Recording) -> None:
    device = recording.folder / "merge_field.db"
    query = "select id, item, qty from orders order by 1"
    with recording.restore(either, "merge_hub") as url, psycopg.connect(url) as session:
        connect(url).merge.sync("shop", f"sqlite:///{device}")
        with closing(sqlite3.connect(device)) as program:
            assert program.execute(query).fetchall() == [(1, "hub", 30), (2, "ink", 5)]
        assert session.execute(query.encode()).fetchall() == [(1, "hub", 30), (2, "ink", 5)]


def test_an_open_cycle_is_finished(spark: SparkSession, recording: Recording, database: str) -> None:
    lake = recording.folder / "interrupted"
    store = open_store(str(lake / "log"))
    # The source is gone: who captures needs no more of it than a place for its lease.
    with AdvisoryLease.take(open_engine(database), "lake") as lease:
        held = LakeLease.take(store, lease)
        capture = Capture(SystemTables(str(lake), recording.source_id("interrupted"), lambda: spark), store, held)
        while capture.step():
            pass
    found = read_change_rows(spark, str(lake), "public_item")
    assert [(row[2], *row[4:6]) for row in found["rows"]] == [
        (2, 1, "published"),
        (2, 2, "open"),
        (3, 1, "published"),
        (4, 1, "open too"),
    ]
