"""The metrics of scans in the database, as `cdc sessions` and `cdc errors` show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.scans.metrics import KEPT_SESSIONS, Engine, ScanFigures, ScanMetrics, ScanPhase, ScanWriter
from rowtide.core.lsn import CommitLsn, Position
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.errors import LakeWriteFailed

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LSN = CommitLsn.parse("1/A0")
FIGURES = ScanFigures(Position(10), Position(LSN.value + 1), 2, 5, 7, 0, LSN, LSN, NOW, Engine.SPARK)


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """A database that is enabled."""
    logged.enable()
    return logged


class Run:
    """One run's metrics; each write is a connection of its own."""

    def __init__(self, logged: LoggedDatabase) -> None:
        self.metrics = ScanMetrics()
        self._writer = ScanWriter(self.metrics)
        self._engine = open_engine(logged.url)

    def write(self) -> None:
        with self._engine.begin() as connection:
            self._writer.write(connection)


def ids(logged: LoggedDatabase) -> list[int]:
    return [session.session_id for session in logged.cdc.list_scan_sessions()]


def test_sessions_are_listed_after_their_sum_the_newest_first(enabled: LoggedDatabase) -> None:
    run = Run(enabled)
    run.metrics.scanned(FIGURES, NOW, 1.0)
    run.write()
    run.metrics.scanned(FIGURES, NOW, 2.0)
    run.metrics.scanned_nothing(NOW)
    run.write()
    run.metrics.scanned_nothing(NOW)
    run.write()
    total, empty, second, first = enabled.cdc.list_scan_sessions()
    assert (total.tran_count, total.duration, total.empty_scan_count, total.last_commit_cdc_lsn) == (4, 3.0, 2, LSN)
    assert (empty.session_id, empty.empty_scan_count) == (3, 2)
    assert (second.duration, first.duration) == (2.0, 1.0)


def test_next_run_continues_session_ids_and_only_last_are_kept(enabled: LoggedDatabase) -> None:
    first, second = Run(enabled), Run(enabled)
    first.metrics.failed(LakeWriteFailed("/lake", "it is full"), ScanPhase.SECOND_SCAN, NOW, Position(9))
    first.write()
    second.metrics.scanned(FIGURES, NOW, 1.0)
    second.write()
    assert ids(enabled) == [0, 2, 1]
    assert [error.session_id for error in enabled.cdc.list_scan_errors()] == [1]
    for _ in range(KEPT_SESSIONS):
        second.metrics.scanned(FIGURES, NOW, 1.0)
    second.write()
    assert ids(enabled) == [0, *range(KEPT_SESSIONS + 2, 2, -1)]
    assert enabled.cdc.list_scan_errors() == ()
    assert enabled.cdc.list_scan_sessions()[0].failed_sessions_count == 1


def test_commands_print_lsns_as_text(enabled: LoggedDatabase) -> None:
    run = Run(enabled)
    run.metrics.scanned(FIGURES, NOW, 1.0)
    run.metrics.failed(LakeWriteFailed("/lake", "it is full"), ScanPhase.SECOND_SCAN, NOW, Position(LSN.value))
    run.write()
    options = ("--format", "jsonl", "--db", enabled.url)
    sessions = [json.loads(line) for line in rowtide("cdc", "sessions", *options).output.splitlines()]
    assert [session["scan_phase"] for session in sessions] == ["Aggregate", "Second scan", "Done"]
    assert (sessions[2]["last_commit_cdc_lsn"], sessions[2]["latency"]) == ("1/A0", 0.0)
    (error,) = [json.loads(line) for line in rowtide("cdc", "errors", *options).output.splitlines()]
    assert (error["error_number"], error["start_lsn"]) == (3103, "1/A0")


def test_the_tables_are_not_logged(enabled: LoggedDatabase) -> None:
    tables = "('cdc.log_scan_sessions'::regclass, 'cdc.log_scan_errors'::regclass)"
    assert enabled.execute(f"select distinct relpersistence from pg_class where oid in {tables}") == [("u",)]
