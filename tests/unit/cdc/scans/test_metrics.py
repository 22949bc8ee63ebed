"""The metrics of scans: sessions, empty ones in a row, errors, and their sum."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rowtide.cdc.scans.metrics import KEPT_SESSIONS, Engine, ScanFigures, ScanMetrics, ScanPhase
from rowtide.core.lsn import CommitLsn, Position
from rowtide.delta.errors import LakeWriteFailed

FIGURES = ScanFigures(
    from_position=Position(10),
    to_position=Position(21),
    tran_count=2,
    command_count=5,
    log_record_count=7,
    schema_change_count=1,
    first_lsn=CommitLsn(12),
    last_lsn=CommitLsn(20),
    last_commit_time=datetime(2026, 3, 1, 12, tzinfo=UTC),
    engine=Engine.PROCESS,
)


def after(seconds: float) -> datetime:
    return datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=seconds)


def test_a_scan_is_a_session_with_its_latency() -> None:
    metrics = ScanMetrics()
    metrics.scanned(FIGURES, after(3), 1.5)
    (session,) = metrics.sessions
    assert (session.start_time, session.end_time, session.duration) == (after(1.5), after(3), 1.5)
    assert (session.latency, session.scan_phase, session.engine) == (3.0, "Done", "process")
    assert (session.start_lsn, session.current_lsn, session.end_lsn) == (CommitLsn(10), CommitLsn(21), CommitLsn(21))
    assert (session.tran_count, session.command_count, session.log_record_count) == (2, 5, 7)
    assert (session.first_begin_cdc_lsn, session.last_commit_cdc_lsn) == (CommitLsn(12), CommitLsn(20))


def test_a_scan_without_transactions_has_no_latency() -> None:
    metrics = ScanMetrics()
    metrics.scanned(replace(FIGURES, tran_count=0, first_lsn=None, last_lsn=None, last_commit_time=None), after(3), 1)
    assert metrics.sessions[0].latency is None


def test_empty_scans_in_a_row_are_one_session() -> None:
    metrics = ScanMetrics()
    for second in (1, 2, 3):
        metrics.scanned_nothing(after(second))
    metrics.scanned(FIGURES, after(4), 1)
    metrics.scanned_nothing(after(5))
    assert [(session.session_id, session.empty_scan_count) for session in metrics.sessions] == [(1, 3), (2, 0), (3, 1)]
    assert (metrics.sessions[0].start_time, metrics.sessions[0].end_time) == (after(1), after(3))


def test_empty_scans_are_no_news_and_extend_the_written_session() -> None:
    metrics = ScanMetrics()
    metrics.scanned_nothing(after(1))
    assert not metrics.has_news
    metrics.written()
    metrics.scanned_nothing(after(2))
    assert [(session.session_id, session.empty_scan_count) for session in metrics.sessions] == [(1, 2)]
    assert metrics.total is not None
    assert metrics.total.empty_scan_count == 1


def test_an_error_is_a_session_that_failed_in_its_phase() -> None:
    metrics = ScanMetrics()
    metrics.scanned(FIGURES, after(1), 1)
    metrics.failed(LakeWriteFailed("/lake", "it is full"), ScanPhase.SECOND_SCAN, after(2), Position(21))
    failed = metrics.sessions[1]
    assert (failed.scan_phase, failed.error_count, failed.failed_sessions_count) == ("Second scan", 1, 1)
    (error,) = metrics.errors
    assert (error.session_id, error.phase_number, error.error_number) == (2, 3, 3103)
    assert error.start_lsn == CommitLsn(21)
    assert error.error_message.startswith("RT-3103: ")
    assert metrics.has_news


def test_counts_add_up_and_of_the_rest_the_latest_counts() -> None:
    metrics = ScanMetrics()
    metrics.scanned(FIGURES, after(1), 1)
    metrics.scanned(replace(FIGURES, to_position=Position(40), last_lsn=CommitLsn(39)), after(4), 2)
    metrics.failed(LakeWriteFailed("/lake", "it is full"), ScanPhase.SECOND_SCAN, after(5), Position(40))
    total = metrics.total
    assert total is not None
    assert (total.session_id, total.scan_phase) == (0, "Aggregate")
    assert (total.tran_count, total.command_count, total.duration, total.failed_sessions_count) == (4, 10, 3.0, 1)
    assert (total.start_time, total.end_time) == (after(0), after(5))
    assert (total.last_commit_cdc_lsn, total.latency) == (CommitLsn(39), 4.0)


def test_what_was_written_is_forgotten_and_numbers_go_on() -> None:
    metrics = ScanMetrics()
    metrics.scanned(FIGURES, after(1), 1)
    metrics.failed(LakeWriteFailed("/lake", "it is full"), ScanPhase.LAST_SCAN, after(2), None)
    metrics.written()
    assert (metrics.sessions, metrics.errors, metrics.total, metrics.has_news) == ((), (), None, False)
    metrics.scanned(FIGURES, after(3), 1)
    assert [session.session_id for session in metrics.sessions] == [3]


def test_unwritten_sessions_are_bounded_but_all_are_in_the_total() -> None:
    metrics = ScanMetrics()
    for second in range(KEPT_SESSIONS + 5):
        metrics.scanned(FIGURES, after(second), 1)
    assert len(metrics.sessions) == KEPT_SESSIONS
    assert metrics.total is not None
    assert metrics.total.tran_count == 2 * (KEPT_SESSIONS + 5)
