"""Which publications a reader is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from builders.capture.capture_instances import instance
from rowtide.cdc.published import (
    CLOCK_MARGIN,
    ENABLED,
    SKIPPED,
    SUSPENDED,
    MissingTransaction,
    RecordedInstance,
    apply_event,
    past,
)
from rowtide.core.lsn import CommitLsn

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("host", "age", "shown"),
    [
        ("ours", MICROSECOND, 1),
        ("ours", timedelta(0), 0),
        ("ours", -MICROSECOND, 0),
        ("another", CLOCK_MARGIN + MICROSECOND, 1),
        ("another", CLOCK_MARGIN, 0),
        ("another", MICROSECOND, 0),
    ],
)
def test_a_publication_is_past_by_the_clock_of_its_host(host: str, age: timedelta, shown: int) -> None:
    """On one host a strict comparison is enough; another's clock may be ahead of or behind ours."""
    times = pa.array([NOW - age], pa.timestamp("us", tz="UTC"))
    publications = pa.table({"host": [host], "published_at": times})
    assert past(publications, NOW, "ours").num_rows == shown


def test_skipped_transactions_are_listed_until_a_new_instance() -> None:
    first, again = instance("m1"), instance("m2")
    latest: dict[str, RecordedInstance] = {}
    apply_event(latest, first, ENABLED, CommitLsn(10), None)
    for lsn in (20, 30):
        apply_event(latest, first, SKIPPED, CommitLsn(lsn), "too large")
    missing = tuple(MissingTransaction(CommitLsn(lsn), "too large") for lsn in (20, 30))
    assert latest == {"public_t1": RecordedInstance(first, ENABLED, CommitLsn(10), None, missing, CommitLsn(10))}
    apply_event(latest, again, ENABLED, CommitLsn(40), None)
    assert latest["public_t1"].missing == ()


def test_cleanup_moves_the_low_endpoint_alone() -> None:
    made = instance("m1")
    latest: dict[str, RecordedInstance] = {}
    apply_event(latest, made, ENABLED, CommitLsn(10), None)
    apply_event(latest, made, SKIPPED, CommitLsn(20), "too large")
    apply_event(latest, made, ENABLED, CommitLsn(25), "cleaned up")
    missing = (MissingTransaction(CommitLsn(20), "too large"),)
    expected = RecordedInstance(made, ENABLED, CommitLsn(25), "cleaned up", missing, whole_from=CommitLsn(10))
    assert latest == {"public_t1": expected}


def test_changes_are_whole_again_after_a_gap() -> None:
    made = instance("m1")
    latest: dict[str, RecordedInstance] = {}
    apply_event(latest, made, ENABLED, CommitLsn(10), None)
    apply_event(latest, made, SKIPPED, CommitLsn(20), "too large")
    apply_event(latest, made, SUSPENDED, CommitLsn(30), "the slot was lost")
    apply_event(latest, made, ENABLED, CommitLsn(40), "the slot was lost")
    expected = RecordedInstance(made, ENABLED, CommitLsn(40), "the slot was lost", whole_from=CommitLsn(40))
    assert latest == {"public_t1": expected}
