"""Buckets of object stores: requests with a deadline, and their repetition.

The timeout limits silence, not a request as a whole. While a client reads, each byte ends the silence; while it sends,
nothing arrives before the reply. So a request without a reply is repeated with the time that it needs on the slowest
network, if the bucket replies to a short request meanwhile: otherwise the bucket itself is silent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from rowtide.core.errors import ExtraMissing
from rowtide.core.values import frozen
from rowtide.events.catalogue import StoreSlow
from rowtide.events.event import emit
from rowtide.storage.errors import StoreForked
from rowtide.storage.places import ObjectUrl, Provider, allows_http, choose_settings
from rowtide.storage.refusals import find_refusal

if TYPE_CHECKING:
    from obstore.store import ObjectStore


_Result = TypeVar("_Result")

# The client's own timeout covers a whole request, and would end one that is merely slow: silence is limited here.
_NO_DEADLINE = timedelta(days=365)
_RETRIED_FOR = timedelta(seconds=8)
_PATIENCE_S = 150.0
_FIRST_PATIENCE_S = 5.0
"""The timeout before a store's first reply is short, since its URL may be wrong."""
_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

LEAST_PART_BYTES = 5 * 1024 * 1024
"""The smallest part of a multipart upload that S3 accepts, and so the most that is sent at a time on a slow network."""
_LOOK = "rowtide-look"
"""The name of an object that does not exist, requested to test whether the store replies."""
_TIMED_OUT = "kind: Timeout"

_users: set[int] = set()
"""The processes that used an object store: this one, or the one that it was forked from."""


@frozen
class Patience:
    """How long a bucket may be silent, and the rate of the slowest supported network."""

    silence_s: float = 30.0
    slowest_bytes_s: int = 8_000

    @property
    def short_bytes(self) -> int:
        """What arrives within the time of silence on every network."""
        return int(self.silence_s * self.slowest_bytes_s)

    def wait_s(self, *, is_slow: bool) -> float:
        """Return how long the bucket may be silent, including the time that sending a part takes on a slow network."""
        return self.silence_s + (LEAST_PART_BYTES / self.slowest_bytes_s if is_slow else 0.0)


@frozen
class Bucket:
    """A bucket, and how it is reached; buckets that are equal share connections, and each process has its own."""

    url: ObjectUrl
    settings: tuple[tuple[str, str], ...]
    patience: Patience = Patience()

    @classmethod
    def of(cls, folder: ObjectUrl, patience: Patience) -> Bucket:
        """Return the bucket of a folder, reached as the environment's variables say now."""
        url = ObjectUrl(folder.provider, folder.bucket, "", folder.account)
        return cls(url, tuple(sorted(choose_settings(folder, os.environ).items())), patience)

    def __repr__(self) -> str:
        return str(self.url)

    @property
    def is_slow(self) -> bool:
        """Whether a recent upload took longer than the bucket may be silent: then parts are sent one at a time."""
        return self in _slow

    def call(self, request: Callable[[Any], _Result], *, sends: int = 0) -> _Result:
        """Call the bucket's client, and repeat the call if it failed for a transient reason.

        The call may send this many bytes before a reply. The client itself only repeats requests that it knows to be
        idempotent. Raises what the client raises, `StoreForked`, `ExtraMissing`.
        """
        from obstore.exceptions import GenericError

        is_long = sends > self.patience.short_bytes
        begun = time.monotonic()
        pause = _PAUSE_S
        while True:
            waits_long = is_long and self.is_slow
            client = _connect(self, is_slow=waits_long)
            started = time.monotonic()
            try:
                found = request(client)
            except GenericError as error:
                refusal = find_refusal(str(error))
                if refusal is not None and not refusal.passes:
                    raise
                is_unheard = is_long and not waits_long and _TIMED_OUT in str(error)
                if is_unheard and (self.is_slow or self._answers()):
                    emit(StoreSlow(str(self)))
                    _slow.add(self)
                    _reached.add(self)
                    begun = time.monotonic()
                    continue
                patience = _PATIENCE_S if self in _reached else _FIRST_PATIENCE_S
                if time.monotonic() - begun + pause > patience:
                    raise
            else:
                _reached.add(self)
                if is_long and sends / (time.monotonic() - started) > LEAST_PART_BYTES / self.patience.silence_s:
                    _slow.discard(self)
                return found
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _answers(self) -> bool:
        """Return whether the bucket answers a short request."""
        from obstore.exceptions import BaseError, GenericError

        try:
            _connect(self, is_slow=False).head(_LOOK)
        except GenericError as error:
            return find_refusal(str(error)) is not None
        except (BaseError, FileNotFoundError):
            return True
        return True


_slow: set[Bucket] = set()
"""The buckets that answered a short request while a long one was not answered in time."""
_reached: set[Bucket] = set()
"""The buckets that answered this process."""


def _connect(bucket: Bucket, *, is_slow: bool) -> ObjectStore:
    """Return a client of a bucket, which its folders share. Raises `StoreForked`, `ExtraMissing`."""
    if _users and os.getpid() not in _users:
        raise StoreForked(str(bucket.url))
    _users.add(os.getpid())
    return _make_client(bucket, is_slow=is_slow)


@lru_cache(maxsize=128)
def _make_client(bucket: Bucket, *, is_slow: bool) -> ObjectStore:
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise ExtraMissing("obstore", "object-store") from error
    settings = dict(bucket.settings)
    given: Any = {name.lower(): value for name, value in settings.items()}
    options: Any = {
        "client_options": {
            "allow_http": allows_http(settings),
            "timeout": _NO_DEADLINE,
            "read_timeout": timedelta(seconds=bucket.patience.wait_s(is_slow=is_slow)),
        },
        "retry_config": {"retry_timeout": _RETRIED_FOR, "max_retries": 20},
    }
    match bucket.url.provider:
        case Provider.S3:
            # One request for each file, since not every store supports deleting several.
            given["aws_disable_bulk_delete"] = "true"
            return S3Store(bucket.url.bucket, config=given, **options)
        case Provider.GCS:
            return GCSStore(bucket.url.bucket, config=given, **options)
        case Provider.AZURE:
            if bucket.url.account is not None:
                given["azure_storage_account_name"] = bucket.url.account
            return AzureStore(bucket.url.bucket, config=given, **options)
