"""Consuming: windows that chain, acknowledgements, and what cleanup leaves to those who have not acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.hints import run_printed
from rowtide.cdc.cleanup import cleanup as cleanup_module
from rowtide.cdc.cleanup.cleanup import Cleanup
from rowtide.cdc.consumers.consumers import list_consumers
from rowtide.cdc.consumers.consuming import Window
from rowtide.cdc.errors.jobs import (
    AcknowledgementRefused,
    ConsumedInstanceEnded,
    ConsumerContended,
    ConsumerPassed,
    ConsumersBehind,
)
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.postgres.lease import AdvisoryLease

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

EVERYTHING_OLD = CleanupOrder(retention=timedelta(0))


class Failed(Exception):
    """What the program did with a window failed."""


@pytest.fixture(scope="module")
def written(shared: CapturedDatabase) -> CapturedDatabase:
    """Tables item and other are captured, and item has a row."""
    shared.execute("create table item (id int primary key)", "create table other (id int primary key)")
    shared.enable("item", "other")
    shared.execute("insert into item values (0)")
    shared.capture()
    return shared


@pytest.fixture
def consume(written: CapturedDatabase) -> Callable[[], AbstractContextManager[Window]]:
    """Open windows of a consumer of both tables, which has acknowledged all that was there."""
    for listed in written.cdc.list_consumers():
        written.cdc.drop_consumer(listed.consumer)
    written.cdc.add_consumer("warehouse", ["public_item", "public_other"])
    written.cdc.acknowledge("warehouse", last(written))
    return lambda: written.cdc.consume("warehouse", spark=written.spark)


def last(written: CapturedDatabase) -> CommitLsn:
    lsn = written.cdc.get_max_lsn()
    assert lsn is not None
    return lsn


def write(written: CapturedDatabase, *ids: int) -> None:
    """Write ids to both tables, a transaction each, and capture them."""
    for number in ids:
        written.execute(f"insert into item (id) values ({number}); insert into other values ({-number})")
    written.capture()


def ids(window: Window, instance: str = "public_item") -> list[int]:
    """Return the ids of a window's changes, the same with and without Spark."""
    found = [row["id"] for row in window.all_changes(instance).collect()]
    assert window.stream_changes(instance).to_arrow().read_all()["id"].to_pylist() == found
    return found


def low(written: CapturedDatabase) -> CommitLsn:
    return written.cdc.get_min_lsn("public_item")


def test_window_repeats_until_acknowledged_then_the_next_begins(
    written: CapturedDatabase, consume: Callable[[], AbstractContextManager[Window]]
) -> None:
    write(written, 1, 2)

    def fail() -> None:
        with consume() as window:
            assert (ids(window), window.instances) == ([1, 2], ("public_item", "public_other"))
            raise Failed

    with pytest.raises(Failed):
        fail()
    write(written, 3)
    with consume() as window:
        assert (ids(window), ids(window, "public_other")) == ([1, 2, 3], [-1, -2, -3])
        assert window.net_changes("public_item").count() == 3
        assert window.stream_changes("public_item", net=True).to_arrow().read_all().num_rows == 3
        write(written, 4)
        assert ids(window) == [1, 2, 3]
    with consume() as following:
        assert (following.after, ids(following)) == (window.to, [4])
    with consume() as empty:
        assert (empty.is_empty, ids(empty), empty.to) == (True, [], following.to)
        write(written, 5)
        assert ids(empty) == []
    (listed,) = written.cdc.list_consumers()
    assert listed.acknowledged_lsn == following.to
    assert listed.lag_seconds < 60


@pytest.mark.exhaustive
def test_manual_acknowledgement_is_bounded_and_only_advances(
    written: CapturedDatabase, consume: Callable[[], AbstractContextManager[Window]]
) -> None:
    write(written, 11)
    end = last(written)
    with pytest.raises(AcknowledgementRefused, match="nothing is published above"):
        written.cdc.acknowledge("warehouse", end.increment())
    written.cdc.acknowledge("warehouse", end)
    with pytest.raises(AcknowledgementRefused, match="it has acknowledged up to"):
        written.cdc.acknowledge("warehouse", end.decrement())
    with consume() as window:
        assert window.is_empty


@pytest.mark.exhaustive
def test_two_processes_of_one_consumer_raise_a_contention_error(
    written: CapturedDatabase, consume: Callable[[], AbstractContextManager[Window]]
) -> None:
    write(written, 21)

    def consume_twice() -> None:
        with consume() as first, consume() as second:
            assert ids(first) == ids(second) == [21]

    with pytest.raises(ConsumerContended):
        consume_twice()


@pytest.mark.exhaustive
def test_cleanup_waits_for_what_is_not_acknowledged(
    written: CapturedDatabase,
    consume: Callable[[], AbstractContextManager[Window]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup_module, "READER_GRACE_S", 0.0)
    monkeypatch.setattr(cleanup_module, "vacuum", lambda _spark, _path: None)
    told: list[str] = []

    def clean_up(order: CleanupOrder) -> None:
        written.cdc.cleanup(order, on_note=told.append)

    write(written, 31)
    with consume():
        pass
    acknowledged = last(written)
    write(written, 32, 33)
    clean_up(EVERYTHING_OLD)
    assert low(written) == acknowledged
    assert told == [f"consumer warehouse holds the low-water mark at {acknowledged}"]
    with pytest.raises(ConsumersBehind, match=f"consumer warehouse holds it at {acknowledged}"):
        clean_up(CleanupOrder(low_water_mark=last(written)))
    with consume() as window:
        assert ids(window) == [32, 33]
    clean_up(EVERYTHING_OLD)
    assert low(written) == last(written)


@pytest.mark.exhaustive
def test_consumer_passed_by_cleanup_raises_and_can_resume(
    written: CapturedDatabase,
    consume: Callable[[], AbstractContextManager[Window]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleanup_module, "READER_GRACE_S", 0.0)
    write(written, 41, 42)
    source = written.cdc.get_source()
    with AdvisoryLease.take(open_engine(written.url), "lake") as lease:
        over = [replace(known, limit=timedelta(0)) for known in list_consumers(lease.connection)]
        system_tables = SystemTables(source.lake, source.source_id, lambda: written.spark)
        Cleanup(system_tables, LakeLease.take(written.store(), lease), lambda: over).begin(EVERYTHING_OLD)
    assert low(written) == last(written)
    with pytest.raises(ConsumerPassed, match="removed by the cleanup") as passed, consume():
        pass
    run_printed(passed.value, written.url)
    with consume() as window:
        assert ids(window) == [42]


@pytest.mark.exhaustive
def test_window_crosses_from_one_instance_of_a_table_to_the_next(
    written: CapturedDatabase, consume: Callable[[], AbstractContextManager[Window]]
) -> None:
    write(written, 51)
    written.execute("alter table item add column note text")
    written.cdc.enable_table("item", capture_instance="item_2")
    written.execute("insert into item values (52, 'new')")
    written.capture()
    written.cdc.change_consumer("warehouse", instances=["public_item", "item_2"])
    with consume() as window:
        rows = window.table_changes("public_item", "item_2").collect()
        assert [(row["id"], row["note"]) for row in rows] == [(51, None), (52, "new")]
    with consume() as empty:
        assert empty.table_changes("public_item", "item_2").collect() == []
    written.cdc.disable_table("item", capture_instance="item_2")


@pytest.mark.exhaustive
def test_disabled_instance_ends_windows_until_consumer_changes(
    written: CapturedDatabase, consume: Callable[[], AbstractContextManager[Window]]
) -> None:
    write(written, 61)
    written.cdc.disable_table("other")
    written.capture()
    with pytest.raises(ConsumedInstanceEnded, match="public_other") as ended, consume():
        pass
    run_printed(ended.value, written.url, INSTANCES="public_item")
    with consume() as window:
        assert (window.instances, ids(window)) == (("public_item",), [61])
    written.cdc.enable_table("other")
