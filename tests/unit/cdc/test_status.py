"""Capture's lag: behind what was read there is only what it has not published yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from builders.log.log_stores import NOW, open_state, range_to, segment
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest
from rowtide.cdc.status import CatalogueStatus, Status, _describe_snapshots, describe
from rowtide.core.lsn import Position
from rowtide.log.postgres.backlog import Backlog
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.log.store.replay import apply
from rowtide.log.store.state import ManifestState

SOURCE = SourceDefinition("id", "7001", "rowtide_5", 9, "rowtide_5", "/lake/log", "/lake")


def read_to(end: int, *, seconds_ago: int) -> ManifestState:
    """Return a log store with one segment of ten rows, and a position with its time."""
    state = open_state()
    entry = replace(range_to(state, end, [segment(150)]), as_of=NOW - timedelta(seconds=seconds_ago))
    return apply(state, state.version + 1, entry)


def published_to(state: ManifestState, position: int, *, seconds_ago: int) -> ManifestState:
    as_of = NOW - timedelta(seconds=seconds_ago)
    return apply(state, state.version + 1, ReaderAdvanced("cdc", Position(position), 4, as_of))


def status_of(state: ManifestState, log_end: int = 900) -> Status:
    backlog = Backlog(NOW, log_end, 900, 900, "reserved", None, None, None)
    catalogue = CatalogueStatus(log_reader=None, capture=None, instances=1, consumers=())
    return describe("shop", SOURCE, state, backlog, catalogue)


def test_no_lag_at_the_log_end_however_old_it_is() -> None:
    state = published_to(read_to(900, seconds_ago=500), 900, seconds_ago=500)
    status = status_of(state)
    assert (status.lag_bytes, status.lag_seconds, status.capture_lag_seconds) == (0, 0, 0)


def test_behind_the_log_s_end_the_lag_is_the_age_of_the_position() -> None:
    status = status_of(read_to(800, seconds_ago=7))
    assert (status.lag_bytes, status.lag_seconds) == (100, 7)


def test_capture_lag_with_unread_rows_is_since_the_last_publish() -> None:
    status = status_of(published_to(read_to(900, seconds_ago=5), 120, seconds_ago=60))
    assert (status.unread_rows, status.lag_seconds, status.capture_lag_seconds) == (10, 0, 60)


def test_capture_lag_without_unread_rows_equals_reading_lag() -> None:
    status = status_of(published_to(read_to(800, seconds_ago=5), 200, seconds_ago=60))
    assert (status.unread_rows, status.lag_seconds, status.capture_lag_seconds) == (0, 5, 5)


def test_lag_in_seconds_is_none_before_the_first_known_time() -> None:
    status = status_of(open_state())
    assert (status.lag_bytes, status.lag_seconds, status.capture_lag_seconds) == (800, None, None)


def test_many_copies_are_counted() -> None:
    copies = [request(place, RequestState.COPYING if place == 9 else RequestState.REQUESTED) for place in range(300)]

    first, *_, last = _describe_snapshots(copies)

    assert first.startswith("public_t9: copying")
    assert last == "295 more (295 requested): `rowtide cdc snapshots` lists them"


def request(place: int, state: RequestState) -> SnapshotRequest:
    return SnapshotRequest(
        request_id=place,
        capture_instance=f"public_t{place}",
        member_id=str(place),
        condition=None,
        state=state,
        is_paused=False,
        is_cancelled=False,
        rows_per_second=None,
        snapshot=None,
        chunks=0,
        of_chunks=None,
        copied_rows=0,
        estimated_rows=None,
        copied_bytes=0,
        estimated_bytes=None,
        rows_a_second=None,
        requested_at=NOW,
        began_at=None,
        finished_at=None,
        outcome=None,
    )
