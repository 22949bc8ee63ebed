"""A log store that is lost: its folder is empty, and the database still counts on it."""

from __future__ import annotations

import shutil

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.cdc.definitions import READER
from rowtide.log.errors import ManifestMissing
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest

ORDERS = "create table orders (id int primary key, qty int)"


def lose(publisher: LoggedDatabase) -> None:
    shutil.rmtree(publisher.lake / "log")


def test_a_lost_log_store_is_not_made_again_in_silence(replicated: ReplicatedDatabase) -> None:
    """Its members would be announced to nobody, and their changes pass unread."""
    replicated.publish_alone(ORDERS)
    lose(replicated.publisher)
    with pytest.raises(ManifestMissing, match="RT-2211: .*rowtide replication restart-log"):
        replicated.replication.add_publication("other")


def test_replication_continues_with_another_log_store(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.replication.add_subscription(PUBLICATION, replicated.subscriber.url)
    replicated.replication.run(once=True)
    for number in (2, 3):
        lose(replicated.publisher)
        replicated.publisher.execute(f"insert into orders values ({number}, 1)")
        ended = rowtide("replication", "restart-log", "--yes", "--db", replicated.publisher.url)
        assert ended.code == 0
        assert "the log store is lost" in ended.errors
        replicated.replication.reinitialize(PUBLICATION)
        replicated.replication.run(once=True)
        replicated.publisher.execute(f"update orders set qty = {number}")
        replicated.replication.run(once=True)
        replicated.require_equal("orders")


def test_capture_continues_with_another_log_store(logged: LoggedDatabase) -> None:
    logged.execute(ORDERS)
    logged.enable("orders")
    lose(logged)
    with pytest.raises(ManifestMissing):
        logged.cdc.enable_db(str(logged.lake))

    assert "the log store is lost" in str(logged.cdc.reinitialize("lost"))
    logged.execute("insert into orders values (1, 1)")
    logged.read_log()
    assert [row["after"] for row in logged.records()] == [["1", "1"]]
    state = Manifest.open(open_store(str(logged.lake / "log"))).state
    assert state.epoch == 1
    assert READER in state.readers
