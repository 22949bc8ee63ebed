"""The limits of a gateway for its devices. Pure: clocks are arguments.

Each gateway counts for itself: behind a proxy with two gateways a device may send twice as much.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address, ip_network
from threading import Lock
from typing import Annotated

from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.gateway.errors import GatewayBusy, TooManyRequests
from rowtide.listening import is_loopback
from rowtide.merge.errors.devices import CodeRefused, TokenRefused

_MINUTE_S = 60.0
_MOST_REMEMBERED = 100_000
BUSY_S = 2.0
"""Retry-After when no place is free, or a request takes too long; the device adds jitter of up to the same time."""


@frozen(kw_only=True)
class GatewayLimits:
    """The limits of a gateway for its devices."""

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
    device_requests: Annotated[
        int, Option("--max-device-requests", min=1, help="Of a device, at a time; waiting is one, too.")
    ] = 4
    refusals_per_minute: Annotated[
        int,
        Option(
            "--max-refusals-per-minute", min=1, help="Of tokens and codes that are not in force, of a client's address."
        ),
    ] = 60
    request_s: Annotated[
        float, Option("--max-request-seconds", metavar="SECONDS", min=1, help="Until a request is answered.")
    ] = 300.0
    body_s: Annotated[
        float, Option("--max-body-seconds", metavar="SECONDS", min=1, help="Until a request has come in.")
    ] = 300.0


DEFAULT_GATEWAY_LIMITS = GatewayLimits()


@dataclass(slots=True)
class RequestMeter:
    """Rate limit for each device or address: a token bucket that holds the requests of one minute."""

    per_minute: int
    what: str = "requests"
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def require(self, device: str, now_s: float) -> None:
        """Take a token for a request. Raises `TooManyRequests`."""
        with self._lock:
            left = self._fill(device, now_s)
            self._buckets[device] = (left - 1 if left >= 1 else left, now_s)
            if len(self._buckets) > _MOST_REMEMBERED:
                # Evict the bucket that was used least recently: it is full again, or will be soon.
                self._buckets.popitem(last=False)
        self._require(left)

    def require_left(self, device: str, now_s: float) -> None:
        """Raise `TooManyRequests` if a request would be refused, without counting one."""
        with self._lock:
            left = self._fill(device, now_s)
            if device in self._buckets:
                self._buckets[device] = left, now_s
        self._require(left)

    def _fill(self, device: str, now_s: float) -> float:
        left, at = self._buckets.get(device, (float(self.per_minute), now_s))
        if device in self._buckets:
            self._buckets.move_to_end(device)
        return min(float(self.per_minute), left + (now_s - at) * self.per_minute / _MINUTE_S)

    def _require(self, left: float) -> None:
        if left < 1:
            after_s = round((1 - left) * _MINUTE_S / self.per_minute, 1)
            raise TooManyRequests(f"{self.per_minute} {self.what} a minute", max(after_s, 0.1))


@dataclass(slots=True)
class DevicePlaces:
    """The numbers of requests in progress, by device."""

    most: int
    _taken: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def place(self, device: str) -> Iterator[None]:
        """Count a request of a device as in progress during the block. Raises `TooManyRequests`."""
        with self._lock:
            if self._taken[device] >= self.most:
                raise TooManyRequests(f"{self.most} requests at a time", BUSY_S)
            self._taken[device] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[device] -= 1
                if not self._taken[device]:
                    del self._taken[device]


@dataclass(slots=True)
class Refusals:
    """Counts refused tokens and codes by address, against guessing.

    A token that was valid lately is always looked up: many devices may share the address of an attacker.
    """

    meter: RequestMeter
    _known: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def counted(self, address: str, token: str, now_s: float) -> Iterator[None]:
        """Count a failure if the block refuses a token or a code. Raises `TooManyRequests`."""
        digest = _digest(token)
        if digest not in self._known:
            self.meter.require_left(address, now_s)
        try:
            yield
        except (TokenRefused, CodeRefused):
            with self._lock:
                self._known.pop(digest, None)
            self.meter.require(address, now_s)
            raise

    def is_known(self, token: str) -> bool:
        """Whether a token was in force when it was last used."""
        return _digest(token) in self._known

    def note_known(self, token: str) -> None:
        """Remember a token as valid."""
        digest = _digest(token)
        with self._lock:
            self._known[digest] = None
            self._known.move_to_end(digest)
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def address_of(peer: str, forwarded: str, *, is_proxied: bool) -> str:
    """Return the key by which requests are counted: the client's address, of IPv6 its /64 network.

    X-Forwarded-For is trusted from this machine, and with `is_proxied`; its last address is the one that the proxy saw.
    """
    last = forwarded.rpartition(",")[2].strip()
    chosen = last if last and (is_proxied or is_loopback(peer)) else peer
    try:
        found = ip_address(chosen)
    except ValueError:
        return peer
    return str(ip_network((found, 64), strict=False)) if found.version == 6 else str(found)


@dataclass(slots=True)
class Places:
    """A semaphore for requests that refuses instead of waiting."""

    most: int
    what: str
    _taken: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def taken(self) -> int:
        """The number of places in use."""
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
    """Return the pause before a device repeats a request:

    Retry-After, else an exponential backoff, plus jitter of up to the same time. `chance` (0 to 1) is the jitter:
    devices that were refused together do not come back together.
    """
    pause_s = min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S) if asked_s is None else min(asked_s, _LONGEST_PAUSE_S)
    return pause_s * (1 + chance)


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 60.0
