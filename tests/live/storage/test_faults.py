"""What a store promises holds where requests and replies are lost, refused and cut off."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from builders.faults.faulty_proxy import Fault, FaultyProxy
from builders.servers.object_servers import Bucket
from rowtide.core.errors import Remedy
from rowtide.log.errors import LogStoreReadFailed, LogStoreWriteFailed
from rowtide.log.store.location import open_store, probe_store
from rowtide.storage import buckets
from rowtide.storage.buckets import Patience
from rowtide.storage.errors import PutIfAbsentIgnored
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.store import Store, StoreErrors

MOVED = 11_000_000
LIMITS = [
    pytest.param(Patience(0.3, 4_000_000), 8_000_000, MOVED, id="short"),
    pytest.param(Patience(), 16_000, 20_000_000, id="real", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
]
"""For how long a bucket may be silent, the bytes that pass in a second, and the bytes of a file."""
REPEATED = (Fault.LOST_REPLY, Fault.SLOW_DOWN, Fault.INTERNAL_ERROR)
NAMES = [f"manifest/{number:020}" for number in range(12)]


@pytest.fixture
def proxy(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """A proxy through which the test's stores are reached."""
    with FaultyProxy(bucket.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        yield proxy


@pytest.fixture
def store(bucket: Bucket, proxy: FaultyProxy) -> Store:
    return open_store(f"{bucket.url}/log")


@pytest.mark.parametrize("fault", REPEATED)
def test_what_fails_once_is_done_once(store: Store, proxy: FaultyProxy, fault: Fault) -> None:
    proxy.inject_once(fault)
    assert store.put_if_absent("a", b"1")
    assert not store.put_if_absent("a", b"1")
    proxy.inject_once(fault)
    store.put_durable("b", b"2")
    proxy.inject_once(fault)
    assert store.get("b") == b"2"
    proxy.inject_once(fault)
    with store.open("b") as file:
        assert file.read() == b"2"
    proxy.inject_once(fault)
    assert store.list("") == ["a", "b"]
    proxy.inject_once(fault)
    store.delete("b")
    assert store.list("") == ["a"]


def test_a_lost_reply_to_who_came_second_is_no_win(bucket: Bucket, store: Store, proxy: FaultyProxy) -> None:
    assert store.put_if_absent("a", b"equal")
    proxy.inject_once(Fault.LOST_REPLY)

    assert not store.put_if_absent("a", b"equal")


def test_who_came_second_may_find_the_name_free_again(bucket: Bucket, store: Store, proxy: FaultyProxy) -> None:
    """The first one's file was deleted between the refusal and the look at whose it is."""
    assert store.put_if_absent("a", b"1")
    look = proxy.pause(lambda request: request.method == "GET" and request.key == "log/a")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(store.put_if_absent, "a", b"2")
        assert look.arrived.wait(10)
        store.delete("a")
        look.release()
        assert not second.result()


def test_each_name_has_one_winner_while_requests_fail(bucket: Bucket, proxy: FaultyProxy) -> None:
    def claim(_thread: int) -> list[str]:
        own = open_store(f"{bucket.url}/log")
        return [name for name in NAMES if own.put_if_absent(name, b"equal for all")]

    for fault in REPEATED:
        proxy.inject(fault, one_in=10)
    with ThreadPoolExecutor(4) as pool:
        won = [name for found in pool.map(claim, range(4)) for name in found]

    assert sorted(won) == NAMES


def test_a_store_that_knows_no_condition_is_refused(bucket: Bucket, proxy: FaultyProxy) -> None:
    proxy.inject(Fault.IGNORED_CONDITION, one_in=1)

    with pytest.raises(PutIfAbsentIgnored, match="RT-2207: .* it replaced a file"):
        probe_store(f"{bucket.url}/log")


def test_a_large_file_arrives_whole(store: Store, proxy: FaultyProxy) -> None:
    content = bytes(range(256)) * (24 * 2**20 // 256)
    for fault in REPEATED:
        proxy.inject(fault, one_in=6)

    assert store.write_durable("segments/a", lambda file: file.write(content)) == len(content)
    proxy.heal()
    assert store.get("segments/a") == content


def test_a_cut_network_is_waited_for(store: Store, proxy: FaultyProxy) -> None:
    store.put_durable("a", b"1")
    done: list[bool] = []
    with proxy.cut():
        waiting = threading.Thread(target=lambda: done.append(store.put_if_absent("b", b"2")))
        waiting.start()
        time.sleep(1)
        assert done == []
    waiting.join()

    assert done == [True]


def test_patience_ends_with_an_error_to_be_retried(
    bucket: Bucket, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "_RETRIED_FOR", timedelta(seconds=0.2))
    monkeypatch.setattr(buckets, "_PATIENCE_S", 0.5)
    monkeypatch.setenv("AWS_REGION", "other")  # a client of its own
    store = open_store(f"{bucket.url}/log")
    store.put_durable("a", b"1")
    with proxy.cut():
        with pytest.raises(LogStoreWriteFailed, match=f"RT-2203: .*{bucket.url}/log/b") as writing:
            store.put_if_absent("b", b"2")
        with pytest.raises(LogStoreReadFailed, match="RT-2204") as reading:
            store.get("a")
    assert {writing.value.remedy, reading.value.remedy} == {Remedy.RETRY}


def folder(bucket: Bucket, patience: Patience) -> ObjectFolder:
    return ObjectFolder(f"{bucket.url}/log", StoreErrors(LogStoreReadFailed, LogStoreWriteFailed), patience)


@pytest.mark.parametrize(("patience", "bytes_per_s", "size"), LIMITS)
def test_a_long_file_is_put_slowly(
    bucket: Bucket,
    proxy: FaultyProxy,
    monkeypatch: pytest.MonkeyPatch,
    patience: Patience,
    bytes_per_s: int,
    size: int,
) -> None:
    monkeypatch.setattr(buckets, "_RETRIED_FOR", timedelta(seconds=0.2))
    content = os.urandom(size)
    slow = folder(bucket, patience)
    proxy.pace.bytes_per_s = bytes_per_s
    slow.put_durable("a", content)
    assert slow.put_if_absent("b", content[: size // 10])
    proxy.pace.bytes_per_s = None
    assert slow.get("a") == content
    assert slow.get("b") == content[: size // 10]
    slow.put_durable("a", b"short")
    slow.put_durable("a", content[:-1])
    assert slow.get("a") == content[:-1]


@pytest.mark.parametrize(("patience", "bytes_per_s", "size"), LIMITS)
def test_a_long_file_is_got_slowly(
    bucket: Bucket, proxy: FaultyProxy, patience: Patience, bytes_per_s: int, size: int
) -> None:
    content = os.urandom(size)
    slow = folder(bucket, patience)
    slow.put_durable("a", content)
    proxy.pace.bytes_per_s = bytes_per_s
    assert slow.get("a") == content


@pytest.mark.parametrize("passing", [0, 500, MOVED // 3])
@pytest.mark.parametrize("act", ["put", "put_stream", "put_if_absent", "get", "list"])
def test_a_silent_bucket_ends_with_an_error(
    bucket: Bucket, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, act: str, passing: int
) -> None:
    monkeypatch.setattr(buckets, "_RETRIED_FOR", timedelta(seconds=0.2))
    monkeypatch.setattr(buckets, "_PATIENCE_S", 1.0)
    content = bytes(MOVED)
    silent = folder(bucket, Patience(0.3, 4_000_000))
    silent.put_durable("a", content)
    acts: dict[str, Callable[[], object]] = {
        "put": lambda: silent.put_durable("b", content),
        "put_stream": lambda: silent.put_stream("b", lambda: iter([content])),
        "put_if_absent": lambda: silent.put_if_absent("b", content),
        "get": lambda: silent.get("a"),
        "list": lambda: silent.list(""),
    }
    if act == "list":
        passing = min(passing, 100)
    proxy.pace.silent_after = proxy.pace.passed + passing
    began = time.monotonic()
    with pytest.raises((LogStoreReadFailed, LogStoreWriteFailed), match="RT-220[34]"):
        acts[act]()
    assert time.monotonic() - began < 15
    proxy.pace.silent_after = None
    assert silent.get("a") == content


def test_keys_are_in_no_error(bucket: Bucket, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-hidden")
    monkeypatch.setattr(buckets, "_FIRST_PATIENCE_S", 0.0)
    proxy.inject(Fault.INTERNAL_ERROR, one_in=1)
    monkeypatch.setattr(buckets, "_RETRIED_FOR", timedelta(seconds=0.2))
    with pytest.raises(LogStoreWriteFailed) as raised:
        probe_store(f"{bucket.url}/log")

    assert "very-hidden" not in f"{raised.value} {raised.value.__cause__!r} {open_store(f'{bucket.url}/log')!r}"
