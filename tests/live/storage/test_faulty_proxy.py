"""Each fault of the proxy does what it says, on the real server behind it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from builders.faults.faulty_proxy import Fault, FaultyProxy, Request
from builders.servers.object_servers import Bucket

if TYPE_CHECKING:
    from obstore.store import RetryConfig

NO_RETRIES: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=10)}


@pytest.fixture
def proxy(bucket: Bucket) -> Iterator[FaultyProxy]:
    with FaultyProxy(bucket.endpoint) as started:
        yield started


@pytest.fixture
def direct(bucket: Bucket) -> S3Store:
    return S3Store.from_url(bucket.url)


@pytest.fixture
def store(bucket: Bucket, proxy: FaultyProxy) -> S3Store:
    """A store behind the proxy whose client repeats nothing."""
    return store_behind(proxy, bucket, NO_RETRIES)


def store_behind(proxy: FaultyProxy, bucket: Bucket, retries: RetryConfig) -> S3Store:
    return S3Store.from_url(bucket.url, endpoint=proxy.endpoint, retry_config=retries)


def create(store: S3Store, name: str, content: bytes = b"x") -> None:
    obstore.put(store, name, content, mode="create", use_multipart=False)


def is_put(request: Request) -> bool:
    return request.method == "PUT"


def test_requests_pass_and_are_counted_by_kind(store: S3Store, proxy: FaultyProxy) -> None:
    content = bytes(range(256)) * 4096
    create(store, "a/b", content)
    assert bytes(obstore.get(store, "a/b").bytes()) == content
    assert bytes(obstore.get_range(store, "a/b", start=1, end=4)) == b"\x01\x02\x03"
    obstore.head(store, "a/b")
    assert [entry["path"] for page in obstore.list(store, "a") for entry in page] == ["a/b"]
    with pytest.raises(AlreadyExistsError):
        create(store, "a/b")
    assert proxy.by_kind() == {"PUT": 2, "GET": 2, "HEAD": 1, "LIST": 1}
    assert proxy.by_method() == {"PUT": 2, "GET": 3, "HEAD": 1}
    proxy.forget()
    assert proxy.by_kind() == {}


def test_large_bodies_pass_in_both_directions(store: S3Store) -> None:
    content = bytes(range(256)) * (32 << 10)
    obstore.put(store, "big", content, use_multipart=True, chunk_size=6 << 20)
    assert bytes(obstore.get(store, "big").bytes()) == content


def test_request_whose_reply_is_lost_is_carried_out(store: S3Store, direct: S3Store, proxy: FaultyProxy) -> None:
    proxy.inject_once(Fault.LOST_REPLY, is_put)
    with pytest.raises(BaseError):
        create(store, "a", b"mine")
    assert bytes(obstore.get(direct, "a").bytes()) == b"mine"
    create(store, "b")


@pytest.mark.parametrize(("fault", "said"), [(Fault.SLOW_DOWN, "SlowDown"), (Fault.INTERNAL_ERROR, "InternalError")])
def test_refused_request_does_not_reach_the_server(
    store: S3Store, direct: S3Store, proxy: FaultyProxy, fault: Fault, said: str
) -> None:
    proxy.inject_once(fault, is_put)
    with pytest.raises(BaseError, match=said):
        create(store, "a")
    with pytest.raises(FileNotFoundError, match="not found"):
        obstore.head(direct, "a")
    create(store, "a")


def test_one_in_n_is_hit_the_same_ones_for_a_seed(bucket: Bucket, direct: S3Store) -> None:
    hits = []
    for run in ("one", "two"):
        with FaultyProxy(bucket.endpoint, seed=7) as proxy:
            store = store_behind(proxy, bucket, NO_RETRIES)
            proxy.inject(Fault.SLOW_DOWN, one_in=10, where=is_put)
            for number in range(50):
                with suppress(BaseError):
                    create(store, f"{run}/{number}")
        there = {entry["path"].removeprefix(f"{run}/") for page in obstore.list(direct, run) for entry in page}
        hits.append({f"{number}" for number in range(50)} - there)
    assert hits[0] == hits[1]
    assert [len([hit for hit in hits[0] if int(hit) // 10 == ten]) for ten in range(5)] == [1] * 5


def test_healed_proxy_passes_everything(store: S3Store, proxy: FaultyProxy) -> None:
    proxy.inject(Fault.INTERNAL_ERROR, one_in=1)
    with pytest.raises(BaseError):
        create(store, "a")
    proxy.heal()
    create(store, "a")


def test_ignored_condition_overwrites(store: S3Store, direct: S3Store, proxy: FaultyProxy) -> None:
    create(store, "a", b"first")
    proxy.inject(Fault.IGNORED_CONDITION, one_in=1)
    create(store, "a", b"second")
    assert bytes(obstore.get(direct, "a").bytes()) == b"second"


def test_client_that_repeats_outlasts_a_cut_of_a_second(bucket: Bucket, proxy: FaultyProxy) -> None:
    # Nothing was sent over its connections yet: what a cut interrupts is not repeated, as it may be done.
    store = store_behind(proxy, bucket, {"max_retries": 60, "retry_timeout": timedelta(seconds=30)})
    with ThreadPoolExecutor() as threads:
        with proxy.cut():
            began = time.monotonic()
            during = threads.submit(create, store, "during")
            with pytest.raises(BaseError):
                create(store_behind(proxy, bucket, NO_RETRIES), "refused")
            threading.Event().wait(1 - (time.monotonic() - began))
            assert not during.done()
        during.result()
    assert bytes(obstore.get(store, "during").bytes()) == b"x"


def test_cut_resets_a_request_under_way(store: S3Store, direct: S3Store, proxy: FaultyProxy) -> None:
    held = proxy.pause(is_put)
    with ThreadPoolExecutor() as threads:
        creating = threads.submit(create, store, "a")
        assert held.arrived.wait(10)
        with proxy.cut(), pytest.raises(BaseError):
            creating.result()
    with pytest.raises(FileNotFoundError, match="not found"):
        obstore.head(direct, "a")
    create(store, "a")


def test_paused_creator_loses_to_one_who_came_later(store: S3Store, proxy: FaultyProxy) -> None:
    held = proxy.pause(lambda request: request.key == "a")
    with ThreadPoolExecutor() as threads:
        first = threads.submit(create, store, "a", b"first")
        assert held.arrived.wait(10)
        create(store, "a", b"second")
        held.release()
        with pytest.raises(AlreadyExistsError):
            first.result()
    assert bytes(obstore.get(store, "a").bytes()) == b"second"


def test_latency_is_added_to_each_of_32_requests_at_once(store: S3Store, proxy: FaultyProxy) -> None:
    create(store, "a")
    proxy.latency_s = 0.04
    began = time.monotonic()
    with ThreadPoolExecutor(32) as threads:
        list(threads.map(lambda _: obstore.head(store, "a"), range(320)))
    assert 0.4 <= time.monotonic() - began < 4
