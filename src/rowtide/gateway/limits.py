"""What a gateway takes of devices at most. Pure: clocks are arguments.

Each gateway counts for itself: behind a proxy with two of them a device may send twice as much.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated

from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.gateway.errors import GatewayBusy, TooManyRequests

_MINUTE_S = 60.0
_MOST_REMEMBERED = 100_000
BUSY_S = 2.0
"""What a device is told to wait for when all sessions are taken; it adds up to as much again by chance."""


@frozen(kw_only=True)
class GatewayLimits:
    """What a gateway takes of its devices at most."""

    body_bytes: Annotated[int, Option("--max-body-bytes", min=10_000, help="Of a request, as it is sent.")] = (
        64 * 1024 * 1024
    )
    unpacked_bytes: Annotated[int, Option("--max-unpacked-bytes", min=10_000, help="Of a request, unpacked.")] = (
        256 * 1024 * 1024
    )
    rows: Annotated[int, Option("--max-rows", min=1, help="In a request.")] = 100_000
    sessions: Annotated[int, Option("--max-sessions", min=1, help="Requests that use a database, at a time.")] = 16
    waiting: Annotated[int, Option("--max-waiting", min=1, help="Devices that wait for changes.")] = 2000
    requests_per_minute: Annotated[
        int, Option("--max-requests-per-minute", min=1, help="Of a device, on average over a minute.")
    ] = 120
    body_s: Annotated[
        float, Option("--max-body-seconds", metavar="SECONDS", min=1, help="Until a request has come in.")
    ] = 300.0


DEFAULT_GATEWAY_LIMITS = GatewayLimits()


@dataclass(slots=True)
class RequestMeter:
    """Counts the requests of each device: a bucket that holds a minute's, and fills evenly."""

    per_minute: int
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def require(self, device: str, now_s: float) -> None:
        """Count a request. Raises `TooManyRequests`."""
        with self._lock:
            left, at = self._buckets.pop(device, (float(self.per_minute), now_s))
            left = min(float(self.per_minute), left + (now_s - at) * self.per_minute / _MINUTE_S)
            self._buckets[device] = (left - 1 if left >= 1 else left, now_s)
            if len(self._buckets) > _MOST_REMEMBERED:
                # The one that was silent longest is full again, or will be soon.
                self._buckets.popitem(last=False)
        if left < 1:
            after_s = round((1 - left) * _MINUTE_S / self.per_minute, 1)
            raise TooManyRequests(f"{self.per_minute} requests a minute", max(after_s, 0.1))


@dataclass(slots=True)
class Places:
    """A number of places for requests; none waits for one."""

    most: int
    what: str
    _taken: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def taken(self) -> int:
        """The number of those that are taken."""
        return self._taken

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place during the block. Raises `GatewayBusy`."""
        with self._lock:
            if self._taken >= self.most:
                raise GatewayBusy(f"{self.what} take all of its {self.most} places", BUSY_S)
            self._taken += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken -= 1


def retry_pause_s(asked_s: float | None, attempt: int, chance: float) -> float:
    """Return how long a device waits before it repeats a request: what it was told, and up to as much again by chance.

    Without being told, that doubles with each attempt. `chance` is from 0 to 1: devices that were refused together do
    not come back together.
    """
    pause_s = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S) if asked_s is None else min(asked_s, _LONGEST_PAUSE_S)
    return pause_s * (1 + chance)


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
