"""`cdc status`: what a DBA asks when the server's log grows, or the change tables stand still."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.backlog import MISSING
from rowtide.log.postgres.lease import describe_holder


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with the captured table `item`."""
    logged.execute("create table item (id int)")
    logged.enable("item")
    return logged


def write(logged: LoggedDatabase, rows: int = 1000) -> None:
    logged.execute(f"insert into item select generate_series(1, {rows})")


def test_where_nobody_reads_it_says_so_and_how_much_log_waits(enabled: LoggedDatabase) -> None:
    enabled.read_log()
    before = enabled.cdc.status()
    # More than enabling has written behind the slot's beginning, which moves in its own time.
    write(enabled, rows=20_000)
    status = enabled.cdc.status()
    assert (status.log_reader, status.capture) == (None, None)
    assert status.lag_bytes > before.lag_bytes + 50_000
    assert status.lag_seconds is not None
    assert status.lag_seconds > 0
    assert status.kept_wal_bytes is not None
    assert status.kept_wal_bytes >= status.lag_bytes
    assert status.wal_kept_by == "the log reader, which is not running"
    assert (status.wal_status, status.safe_wal_size) == ("reserved", None)


def test_a_log_reader_at_the_log_s_end_has_no_lag(enabled: LoggedDatabase) -> None:
    write(enabled)
    with open_log_reader(enabled.url) as log_reader:

        def is_at_the_end() -> bool:
            log_reader.step()
            return enabled.cdc.status().lag_bytes == 0

        wait_until(is_at_the_end, what="no lag")
        status = enabled.cdc.status()
        assert (status.lag_bytes, status.lag_seconds) == (0, 0.0)
        assert status.position == status.log_end
        assert status.log_reader is not None
        assert describe_holder() in status.log_reader


def test_what_is_read_and_not_captured_is_counted(enabled: LoggedDatabase) -> None:
    write(enabled, rows=5)
    state = enabled.read_log()
    status = enabled.cdc.status()
    # Beside the rows: the announcement of enable-table. The mark at which reading ends leaves no record.
    assert status.unread_rows == 5 + 1
    assert 0 < status.unread_bytes == status.log_store_bytes == sum(segment.bytes for segment in state.segments)
    assert status.instances == 1
    assert (status.published_position, status.published_cycle) == (state.low, 0)
    assert status.gaps == ()


def test_a_gap_is_named(enabled: LoggedDatabase) -> None:
    enabled.read_log()
    after = enabled.manifest().state.position
    enabled.cdc.reinitialize("restored from backup")
    status = enabled.cdc.status()
    assert [gap.partition(" up to ")[0] for gap in status.gaps] == [f"from {after}"]
    assert status.gaps[0].endswith("restored from backup")
    assert status.log_end.epoch == 1


def test_a_slot_that_is_gone_is_missing_and_the_rest_is_reported(enabled: LoggedDatabase) -> None:
    enabled.read_log()
    enabled.drop_slot()
    status = enabled.cdc.status()
    assert (status.wal_status, status.kept_wal_bytes, status.wal_kept_by) == (MISSING, None, None)
    assert status.position == enabled.manifest().state.position


def test_a_forgotten_prepared_transaction_is_what_holds_the_log(
    scarce: LoggedDatabase, scarce_server: EmbeddedServer
) -> None:
    scarce.execute("create table item (id int)", "create table other (id int)")
    scarce.enable("item")
    with prepared(scarce, "forgotten"), open_transaction(scarce) as pid, open_log_reader(scarce.url) as log_reader:

        def is_held() -> bool:
            # Little, however often it takes: a slot that keeps more than the server may is invalidated.
            write(scarce, rows=100)
            scarce.execute("checkpoint")
            log_reader.step()
            return "forgotten" in (scarce.cdc.status().wal_kept_by or "")

        wait_until(is_held, what="the prepared transaction is named")
        status = scarce.cdc.status()
    assert status.wal_kept_by == status.oldest_prepared
    assert status.oldest_prepared is not None
    assert status.oldest_prepared.startswith("prepared transaction 'forgotten' of postgres in database test_")
    assert status.oldest_transaction is not None
    assert status.oldest_transaction.startswith(f"transaction of pid {pid} (postgres, psql)")
    assert status.safe_wal_size is not None
    assert 0 < status.safe_wal_size < 96 * 1024 * 1024


@contextmanager
def prepared(logged: LoggedDatabase, name: str) -> Iterator[None]:
    logged.execute("begin", "insert into other values (1)", f"prepare transaction '{name}'")
    yield
    logged.execute(f"rollback prepared '{name}'")


@contextmanager
def open_transaction(logged: LoggedDatabase) -> Iterator[int]:
    with psycopg.connect(logged.url, application_name="psql") as session:
        session.execute("insert into other values (2)")
        yield session.info.backend_pid


def test_the_command_prints_a_line_per_fact_or_one_object(enabled: LoggedDatabase) -> None:
    enabled.read_log()
    enabled.cdc.reinitialize("restored")
    database = ("--db", enabled.url)
    table = rowtide("cdc", "status", *database)
    assert table.code == 0, table.errors
    lines = [[cell.strip() for cell in line.split(" |", 1)] for line in table.output.splitlines()]
    values = {cells[0]: cells[1] for cells in lines}
    assert values["capture"] == ""
    assert values["position"].startswith("1:")
    found = json.loads(rowtide("cdc", "status", *database, "--format", "jsonl").output)
    assert set(found) == set(values)
    assert found["position"] == values["position"]
    assert found["gaps"] == list(enabled.cdc.status().gaps)
    (row,) = csv.DictReader(rowtide("cdc", "status", *database, "--format", "csv").output.splitlines())
    assert row["gaps"] == found["gaps"][0]
    assert row["as_of"] == (found["as_of"] or "")


def test_a_database_that_is_not_enabled_has_no_status(logged: LoggedDatabase) -> None:
    rowtide("cdc", "status", "--db", logged.url).require_error(22901)
