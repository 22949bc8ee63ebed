"""Buckets of object stores, and calls of their clients: which connections are shared, and what is tried again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from rowtide.core.errors import ExtraMissing
from rowtide.storage.errors import StoreForked
from rowtide.storage.object_urls import ObjectUrl, Provider, allows_http, choose_settings
from rowtide.storage.refusals import find_refusal

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_Result = TypeVar("_Result")

_TIMEOUT = timedelta(seconds=30)
_RETRIED_FOR = timedelta(seconds=8)
_PATIENCE_S = 150.0
_FIRST_PATIENCE_S = 5.0
"""A store that never answered may have the wrong URL."""
_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

_users: set[int] = set()
"""The processes that used an object store: this one, or the one that it was forked from."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, and how it is reached; buckets that are equal share connections, and each process has its own."""

    url: ObjectUrl
    settings: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, folder: ObjectUrl) -> Bucket:
        """Return the bucket of a folder, reached as the environment's variables say now."""
        url = ObjectUrl(folder.provider, folder.bucket, "", folder.account)
        return cls(url, tuple(sorted(choose_settings(folder, os.environ).items())))

    def __repr__(self) -> str:
        return str(self.url)

    def call(self, request: Callable[[Any], _Result]) -> _Result:
        """Make a request of the bucket's client; again if it failed for a reason that passes.

        The client repeats requests itself, but none that it cannot know to be harmless. Raises what the client raises,
        `StoreForked`, `ExtraMissing`.
        """
        from obstore.exceptions import GenericError

        client = _connect(self)
        begun = time.monotonic()
        pause = _PAUSE_S
        while True:
            try:
                found = request(client)
            except GenericError as error:
                refusal = find_refusal(str(error))
                if refusal is not None and not refusal.passes:
                    raise
                patience = _PATIENCE_S if self in _reached else _FIRST_PATIENCE_S
                if time.monotonic() - begun + pause > patience:
                    raise
            else:
                _reached.add(self)
                return found
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)


_reached: set[Bucket] = set()
"""The buckets that answered this process."""


def _connect(bucket: Bucket) -> ObjectStore:
    """Return the client of a bucket, which its folders share. Raises `StoreForked`, `ExtraMissing`."""
    if _users and os.getpid() not in _users:
        raise StoreForked(str(bucket.url))
    _users.add(os.getpid())
    return _make_client(bucket)


@lru_cache(maxsize=64)
def _make_client(bucket: Bucket) -> ObjectStore:
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError as error:
        raise ExtraMissing("obstore", "object-store") from error
    settings = dict(bucket.settings)
    given: Any = {name.lower(): value for name, value in settings.items()}
    options: Any = {
        "client_options": {"allow_http": allows_http(settings), "timeout": _TIMEOUT},
        "retry_config": {"retry_timeout": _RETRIED_FOR, "max_retries": 20},
    }
    match bucket.url.provider:
        case Provider.S3:
            # One request for each file: not every store has the request for many.
            given["aws_disable_bulk_delete"] = "true"
            return S3Store(bucket.url.bucket, config=given, **options)
        case Provider.GCS:
            return GCSStore(bucket.url.bucket, config=given, **options)
        case Provider.AZURE:
            if bucket.url.account is not None:
                given["azure_storage_account_name"] = bucket.url.account
            return AzureStore(bucket.url.bucket, config=given, **options)
