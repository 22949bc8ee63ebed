"""A log that was tampered with is refused with a number, never read on in silence; reinitialising resumes after it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from builders.capture.captured_databases import DEADLINE_S, CapturedDatabase, LoggedDatabase
from rowtide.agents.loop import Agent
from rowtide.cdc.errors.querying import LsnOutOfRange
from rowtide.core.errors import RowtideError
from rowtide.log.errors import PublicationAltered, SlotAdvanced, SlotMissing, StreamEnded
from rowtide.log.opening import open_log_reader

Tampering = Callable[[LoggedDatabase], None]


def drop_slot(database: LoggedDatabase) -> None:
    database.execute(f"select pg_drop_replication_slot('{database.cdc.get_source().slot}')")


def renew_slot(database: LoggedDatabase) -> None:
    drop_slot(database)
    database.execute(f"select pg_create_logical_replication_slot('{database.cdc.get_source().slot}', 'pgoutput')")


def advance_slot(database: LoggedDatabase) -> None:
    database.execute(f"select pg_replication_slot_advance('{database.cdc.get_source().slot}', pg_current_wal_lsn())")


def alter_publication(action: str) -> Tampering:
    def alter(database: LoggedDatabase) -> None:
        database.execute(f"alter publication {database.cdc.get_source().publication} {action}")

    return alter


def leave_out_for_a_while(database: LoggedDatabase) -> None:
    alter_publication("set (publish = 'insert')")(database)
    database.execute("delete from item")
    alter_publication("set (publish = 'insert, update, delete, truncate')")(database)


def rename_there_and_back(database: LoggedDatabase) -> None:
    name = database.cdc.get_source().publication
    database.execute(f"alter publication {name} rename to meanwhile", f"alter publication meanwhile rename to {name}")


def drop_publication(database: LoggedDatabase) -> None:
    database.execute(f"drop publication {database.cdc.get_source().publication}")


def renew_publication(database: LoggedDatabase) -> None:
    drop_publication(database)
    database.execute(f"create publication {database.cdc.get_source().publication} for table item")


def renew_publication_for_all(database: LoggedDatabase) -> None:
    drop_publication(database)
    database.execute(f"create publication {database.cdc.get_source().publication} for all tables")


SLOTS: dict[str, tuple[Tampering, type[RowtideError]]] = {
    "slot dropped": (drop_slot, SlotMissing),
    "slot dropped and made again": (renew_slot, SlotAdvanced),
    "slot advanced": (advance_slot, SlotAdvanced),
}
PUBLICATIONS: dict[str, tuple[Tampering, type[RowtideError]]] = {
    "publication dropped": (drop_publication, PublicationAltered),
    "publication dropped and made again": (renew_publication, PublicationAltered),
    "publication made again for all tables": (renew_publication_for_all, PublicationAltered),
    "table dropped from publication": (alter_publication("drop table item"), PublicationAltered),
    "rows filtered": (alter_publication("set table item where (id > 100)"), PublicationAltered),
    "columns omitted": (alter_publication("set table item (id)"), PublicationAltered),
    "operations omitted": (alter_publication("set (publish = 'insert')"), PublicationAltered),
    "operations omitted for a while": (leave_out_for_a_while, PublicationAltered),
    "renamed for a while": (rename_there_and_back, PublicationAltered),
    "partitions as themselves": (alter_publication("set (publish_via_partition_root = false)"), PublicationAltered),
}
ALL = {**SLOTS, **PUBLICATIONS}


@pytest.mark.parametrize("case", ALL)
def test_tampering_is_refused_until_reinitialize_reads_on(logged: LoggedDatabase, case: str) -> None:
    tamper, error = ALL[case]
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute("insert into item values (1)")
    logged.read_log()
    logged.execute("insert into item values (2)")
    tamper(logged)
    logged.execute("insert into item values (3)")
    with pytest.raises(error, match=f"RT-{error.number}: ") as refused:
        logged.read_log()
    assert "rowtide cdc reinitialize" in str(refused.value)
    assert logged.inserted() == ["1"]
    logged.cdc.reinitialize("a test")
    logged.execute("insert into item values (4)")
    assert logged.read_log().epoch == 1
    assert logged.inserted() == ["1", "4"]


@pytest.mark.parametrize("case", PUBLICATIONS)
def test_running_log_reader_stops_at_a_tampered_publication(logged: LoggedDatabase, case: str) -> None:
    tamper, error = PUBLICATIONS[case]
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    with pytest.raises(error, match=f"RT-{error.number}: "), open_log_reader(logged.url) as reader:
        read_over(logged, reader, tamper)
    assert logged.inserted() == ["1"]


def test_another_owner_of_the_publication_loses_nothing(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute("create role another superuser")
    try:
        alter_publication("owner to another")(logged)
        logged.execute("insert into item values (1)")
        logged.read_log()
    finally:
        logged.execute("reassign owned by another to current_user", "drop role another")

    assert logged.inserted() == ["1"]


def test_stream_ended_for_its_publication_is_not_reopened(logged_16: LoggedDatabase) -> None:
    """On PostgreSQL 16 a publication that is gone is an error of the stream."""
    logged_16.execute("create table item (id int primary key)")
    logged_16.enable("item")
    with pytest.raises(StreamEnded, match=r"publication .* does not exist"), open_log_reader(logged_16.url) as reader:
        read_over(logged_16, reader, drop_publication)
    with pytest.raises(PublicationAltered, match="RT-2106: .*it was dropped"):
        logged_16.read_log()
    assert logged_16.inserted() == ["1"]


def read_over(logged: LoggedDatabase, reader: Agent, tamper: Tampering) -> None:
    """Read a row, then one that was written behind the log reader's back."""
    deadline = time.monotonic() + DEADLINE_S
    logged.execute("insert into item values (1)")
    while logged.inserted() != ["1"]:
        assert time.monotonic() < deadline
        reader.step()
    tamper(logged)
    logged.execute("insert into item values (2)")
    while time.monotonic() < deadline:
        reader.step()


def test_next_epoch_continues_and_ranges_over_gap_are_refused(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key)", "create table gone (id int primary key)")
    captured.enable("item", "gone")
    captured.execute("insert into item values (1)")
    captured.capture()
    before = captured.cdc.get_validity_interval("public_item")
    drop_slot(captured)
    captured.execute("insert into item values (2)", "drop table gone")
    with pytest.raises(SlotMissing):
        captured.cdc.run(once=True, spark=captured.spark)
    assert "public_item" in str(captured.cdc.find_loss())
    captured.cdc.reinitialize("the slot was dropped")
    captured.execute("insert into item values (3)")
    captured.capture()
    assert captured.values("public_item", "id") == [(2, 3)]
    low = captured.cdc.get_min_lsn("public_item")
    assert str(low).startswith("1:")
    assert [row.instance.capture_instance for row in captured.cdc.list_recorded_instances()] == ["public_item"]
    for from_lsn, to_lsn in ((before.low, before.high), (before.low, None), (before.high, None)):
        with pytest.raises(LsnOutOfRange, match="RT-313: .*nothing was captured from .* the slot was dropped"):
            captured.changes("public_item", "all", from_lsn, to_lsn)
