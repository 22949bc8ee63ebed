"""The lakes whose lease this process has, each with its number: commits to tables with a higher one are refused."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from rowtide.delta.errors import LakeFenced
from rowtide.delta.snapshot import Location

FENCE = "rowtide.lease"
"""The application of Delta's `txn` actions that have a holder's number as their version."""

_numbers: dict[str, int] = {}
_changing = threading.Lock()


def hold(lake: str, number: int) -> None:
    """Note that this process has taken the lease of a lake."""
    with _changing:
        _numbers[lake.rstrip("/")] = number


def require_unfenced(location: Location, cycles: Mapping[str, int]) -> None:
    """Raise `LakeFenced` if a table has a later holder's number among its versions of applications."""
    fence = cycles.get(FENCE)
    if fence is not None and _numbers:
        number = next((own for lake, own in _numbers.items() if location.path.startswith(f"{lake}/")), None)
        if number is not None and fence > number:
            raise LakeFenced(location.path)
