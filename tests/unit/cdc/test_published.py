"""Which publications a reader is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from rowtide.cdc.published import CLOCK_MARGIN, past

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
