"""Captured tables idle, others busy: position, time and slot move on; on an idle server nothing is written."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from fixtures.servers import fresh_database
from rowtide.agents.loop import Agent
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log import reader
from rowtide.log.membership import Heartbeat
from rowtide.log.opening import open_log_reader

BEATS_S = 0.1


@pytest.fixture(autouse=True)
def frequent_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_HEARTBEAT_INTERVAL_S", BEATS_S)
    monkeypatch.setattr(reader, "_KEEPALIVE_INTERVAL_S", BEATS_S)


@pytest.fixture
def idle(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with a captured table that nobody writes, and another table."""
    logged.execute("create table item (id int)", "create table other (id int, filler text)")
    logged.enable("item")
    return logged


@pytest.fixture
def elsewhere(server: EmbeddedServer) -> Iterator[str]:
    """The URL of another database of the same server."""
    with fresh_database(server) as url:
        yield url


def keep_busy(url: str, transactions: int = 20) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("create table if not exists other (id int, filler text)")
        for number in range(transactions):
            session.execute("insert into other select %s, repeat('x', 1000) from generate_series(1, 100)", [number])


def heartbeats(logged: LoggedDatabase) -> list[Heartbeat]:
    return [event for event in logged.manifest().state.events if isinstance(event, Heartbeat)]


def log_end(logged: LoggedDatabase) -> int:
    return int(logged.execute("select (pg_current_wal_flush_lsn() - '0/0')::bigint")[0][0])


def slot_positions(logged: LoggedDatabase) -> tuple[int, int]:
    """Return where the slot is confirmed, and from where on the server keeps its log for it."""
    positions = "(confirmed_flush_lsn - '0/0')::bigint, (restart_lsn - '0/0')::bigint"
    return logged.execute(f"select {positions} from pg_replication_slots where database = current_database()")[0]


@pytest.mark.parametrize("where", ["another table", "another database"])
def test_the_server_lets_go_of_its_log_while_only_others_write(
    idle: LoggedDatabase, elsewhere: str, where: str
) -> None:
    segments = idle.read_log().segments
    with open_log_reader(idle.url) as log_reader:
        before = log_end(idle)

        def is_released() -> bool:
            keep_busy(idle.url if where == "another table" else elsewhere)
            # What the server does by itself now and then; without it the oldest log that it keeps stands still.
            idle.execute("checkpoint")
            log_reader.step()
            return min(slot_positions(idle)) > before and bool(heartbeats(idle))

        wait_until(is_released, what="a heartbeat, and the slot past what others wrote")
        assert idle.manifest().state.segments == segments


def test_nothing_is_released_while_nothing_runs(idle: LoggedDatabase) -> None:
    idle.read_log()
    before = slot_positions(idle)
    keep_busy(idle.url)
    idle.execute("checkpoint")
    assert slot_positions(idle) == before


def test_position_carries_the_time_up_to_which_it_is_complete(idle: LoggedDatabase) -> None:
    idle.execute("insert into item values (1)")
    before = now(idle)
    state = idle.read_log()
    assert state.as_of is not None
    assert before < state.as_of < now(idle)


def test_the_time_moves_on_by_keepalives_alone(idle: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_HEARTBEAT_INTERVAL_S", 1e6)
    idle.read_log()
    manifest = idle.manifest()
    with open_log_reader(idle.url) as log_reader:
        written = now(idle)
        keep_busy(idle.url)

        def is_later() -> bool:
            log_reader.step()
            as_of = manifest.refresh().as_of
            return as_of is not None and as_of >= written

        wait_until(is_later, what="a time behind what others wrote")
    assert not heartbeats(idle)


def now(logged: LoggedDatabase) -> datetime:
    found = logged.execute("select clock_timestamp()")[0][0]
    assert isinstance(found, datetime)
    return found


def test_log_readers_of_an_idle_server_do_not_answer_each_other(
    idle: LoggedDatabase, elsewhere: str, server: EmbeddedServer
) -> None:
    """Heartbeats are all that a log reader writes: without them an idle server's log stands still."""
    with ExitStack() as stack:
        session = stack.enter_context(psycopg.connect(elsewhere, autocommit=True))
        second = LoggedDatabase(elsewhere, idle.lake.with_name("second"), session)
        second.cdc.enable_db(str(second.lake))
        both = (idle, second)
        readers = [stack.enter_context(open_log_reader(logged.url)) for logged in both]
        with fresh_database(server) as third:
            keep_busy(third)
        wait_until(lambda: step_all(readers) and all(map(heartbeats, both)), what="both noticed")
        quiet_since, written = time.monotonic(), 0

        def is_quiet() -> bool:
            nonlocal quiet_since, written
            step_all(readers)
            found = sum(len(heartbeats(logged)) for logged in both)
            if found > written:
                quiet_since, written = time.monotonic(), found
            return time.monotonic() > quiet_since + 10 * BEATS_S

        wait_until(is_quiet, what="ten intervals without a heartbeat")


def step_all(readers: Sequence[Agent]) -> bool:
    for each in readers:
        each.step()
    return True


def test_refused_heartbeats_are_logged_once_and_reading_goes_on(
    idle: LoggedDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    role = "without_control"
    idle.execute(
        f"create role {role} login replication",
        f"grant usage on schema rowtide to {role}",
        f"grant select on all tables in schema rowtide to {role}",
    )
    try:
        read_with_refused_heartbeats(idle, idle.url.replace("postgres@", f"{role}@"))
    finally:
        idle.execute(f"drop owned by {role}", f"drop role {role}")
    refusals = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(refusals) == 1
    assert "heartbeat_not_written " in refusals[0]
    assert 'number=2123 error="RT-2123: the server refuses heartbeats: ' in refusals[0]


def read_with_refused_heartbeats(idle: LoggedDatabase, url: str) -> None:
    manifest = idle.manifest()
    with open_log_reader(url) as log_reader:
        for number in range(3):
            keep_busy(idle.url)
            idle.execute(f"insert into item values ({number})")
            end = log_end(idle)

            def is_read(end: int = end) -> bool:
                log_reader.step()
                return manifest.refresh().position.log >= end

            wait_until(is_read, what=f"row {number} is read")
            time.sleep(BEATS_S)
    assert idle.inserted() == ["0", "1", "2"]
