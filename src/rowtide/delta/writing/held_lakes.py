"""The lakes whose lease this process has, with its tokens: commits to their tables are refused behind a higher one."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from rowtide.delta.errors import LakeFenced
from rowtide.delta.snapshot import Location

FENCE = "rowtide.lease"
"""The application of Delta's `txn` actions that have a token as their version."""

_tokens: dict[str, int] = {}
_changing = threading.Lock()


def hold(lake: str, token: int) -> None:
    """Note that this process has taken the lease of a lake."""
    with _changing:
        _tokens[lake.rstrip("/")] = token


def require_unfenced(location: Location, cycles: Mapping[str, int]) -> None:
    """Raise `LakeFenced` if a table has a later holder's token among its versions of applications."""
    fence = cycles.get(FENCE)
    if fence is not None and _tokens:
        token = next((own for lake, own in _tokens.items() if location.path.startswith(f"{lake}/")), None)
        if token is not None and fence > token:
            raise LakeFenced(location.path)
