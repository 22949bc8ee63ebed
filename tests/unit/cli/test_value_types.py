from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowtide.cdc.errors.querying import InvalidBound
from rowtide.cli.value_types import parse_bound, parse_time
from rowtide.core.lsn import CommitLsn

EIGHT = datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0/1F", "31", " 0:0/1F"])
def test_what_can_be_an_lsn_is_one(text: str) -> None:
    assert parse_bound(text) == CommitLsn(31)


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:00:00Z", "2026-01-31 08:00", "2026-01-31T09:00:00+01:00", "2026-01-31T08:00:00.000000"]
)
def test_a_time_without_zone_is_in_utc(text: str) -> None:
    assert parse_bound(text) == EIGHT
    assert parse_time(text) == EIGHT


def test_a_zone_is_kept() -> None:
    assert parse_time("2026-01-31T09:00:00+01:00").tzinfo == timezone(timedelta(hours=1))


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(InvalidBound, match='"yesterday" is not an LSN or a time'):
        parse_bound("yesterday")
    with pytest.raises(InvalidBound, match='"0/1" is not a time'):
        parse_time("0/1")
