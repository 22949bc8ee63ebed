"""How long cleanup waits for a consumer that acknowledges nothing."""

from __future__ import annotations

LIMIT_HOURS = 168
AT_RISK = 4
"""A consumer with less than this part of its limit left is at risk."""
