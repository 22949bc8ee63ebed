"""The lakes whose lease this process has, each with its number: commits to tables with a higher one are refused."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from rowtide.delta.errors import LakeFenced, LakeReadFailed
from rowtide.delta.snapshot import Location

FENCE = "rowtide.lease"
"""The application of Delta's `txn` actions that have a holder's number as their version."""

_numbers: dict[str, int] = {}
_unfenced: dict[str, frozenset[str]] = {}
_changing = threading.Lock()


def hold(lake: str, number: int, unfenced: Iterable[str] = ()) -> None:
    """Note that this process has taken the lease of a lake.

    It commits nothing to the tables with the paths `unfenced`, until it takes the lease again: a former holder may.
    """
    with _changing:
        _numbers[lake.rstrip("/")] = number
        _unfenced[lake.rstrip("/")] = frozenset(unfenced)


def require_fence(location: Location) -> None:
    """Raise `LakeReadFailed` if a table could not be fenced when this process took its lake, but can be read now."""
    if any(location.path in paths for paths in list(_unfenced.values())):
        raise LakeReadFailed(location.path, "it could not be read when the lake was taken, and is fenced first")


def require_unfenced(location: Location, cycles: Mapping[str, int]) -> None:
    """Raise `LakeFenced` if a table has a later holder's number among its versions of applications."""
    fence = cycles.get(FENCE)
    if fence is not None and _numbers:
        number = next((own for lake, own in _numbers.items() if location.path.startswith(f"{lake}/")), None)
        if number is not None and fence > number:
            raise LakeFenced(location.path)
