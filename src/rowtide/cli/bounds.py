"""LSNs and times as users write them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from rowtide.cdc.errors.querying import InvalidBound
from rowtide.core.errors import InvalidLsn
from rowtide.core.lsn import CommitLsn


def parse_bound(text: str) -> CommitLsn | datetime:
    """Parse an LSN, else a time in ISO 8601. Raises `InvalidBound`."""
    try:
        return CommitLsn.parse(text)
    except InvalidLsn:
        time = _parse_iso(text)
        if time is None:
            raise InvalidBound(text, "an LSN or a time") from None
        return time


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601, in UTC if it has no zone. Raises `InvalidBound`."""
    time = _parse_iso(text)
    if time is None:
        raise InvalidBound(text, "a time")
    return time


def _parse_iso(text: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
