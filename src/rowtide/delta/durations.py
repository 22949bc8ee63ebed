"""Durations in table properties, as `interval 1 days`."""

from __future__ import annotations

import re
from datetime import timedelta

_PART = re.compile(r"(\d+)\s+(week|day|hour|minute|second|millisecond|microsecond)s?", re.IGNORECASE)
_INTERVAL = re.compile(rf"\s*(?:interval\s+)?(?:{_PART.pattern}\s*)+", re.IGNORECASE)


def parse_duration(text: str) -> timedelta | None:
    """Return a duration; None for a text that is none."""
    if _INTERVAL.fullmatch(text) is None:
        return None
    parts = ((int(found[1]), found[2].lower()) for found in _PART.finditer(text))
    return sum((timedelta(**{f"{unit}s": number}) for number, unit in parts), timedelta())
