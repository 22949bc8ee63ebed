"""What every store promises: a folder of a local disk, one of a bucket, and that whose URL `ROWTIDE_TEST_STORE` has."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import resource
import socket
import stat
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders.log.log_stores import claim_in_child
from builders.servers.object_servers import Bucket
from rowtide.core.errors import Remedy
from rowtide.log.errors import LogStoreNotWritable, LogStoreReadFailed, LogStoreWriteFailed
from rowtide.log.store.location import LocalStore, open_store, probe_store
from rowtide.storage import buckets, objects
from rowtide.storage.errors import StorageSchemeUnsupported, StoreForked
from rowtide.storage.local import LocalFolder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.store import Missing, Store

OTHER = os.environ.get("ROWTIDE_TEST_STORE")
ODD_NAMES = ("a%2Cb", "a b", "ä#?&+=;:@", "[q]*", "~^`|{}'\"", "日本", "a=1", "%", ".hidden")


@pytest.fixture(params=["local", pytest.param("objects", marks=pytest.mark.live), *([OTHER] if OTHER else [])])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The path or URL of a folder that has no file yet."""
    if request.param == "local":
        return str(tmp_path / "log")
    if request.param == OTHER:
        return f"{OTHER}/{uuid.uuid4().hex}"
    bucket: Bucket = request.getfixturevalue("bucket")
    return f"{bucket.url}/a b/lög%20"


@pytest.fixture
def store(place: str) -> Store:
    probe_store(place)
    return open_store(place)


def test_what_was_put_is_got(store: Store) -> None:
    store.put_durable("segments/a", b"1")

    assert store.get("segments/a") == b"1"


def test_put_replaces(store: Store) -> None:
    store.put_durable("manifest/a", b"1")
    store.put_durable("manifest/a", b"2")

    assert store.get("manifest/a") == b"2"


def test_put_if_absent_never_replaces(store: Store) -> None:
    assert store.put_if_absent("manifest/a", b"1")
    assert not store.put_if_absent("manifest/a", b"2")
    assert store.get("manifest/a") == b"1"


def test_what_is_absent_is_missing(store: Store) -> None:
    with pytest.raises(Missing):
        store.get("segments/a")


def test_delete_forgets_and_may_be_repeated(store: Store) -> None:
    store.put_durable("segments/a", b"1")
    store.delete("segments/a")
    store.delete("segments/a")

    assert store.list("") == []


def test_list_returns_the_paths_with_the_prefix_in_order(store: Store) -> None:
    for path in ("manifest/2", "manifest/1", "manifest/checkpoint-1", "segments/1", "m/a/b"):
        store.put_durable(path, b"")

    assert store.list("manifest/") == ["manifest/1", "manifest/2", "manifest/checkpoint-1"]
    assert store.list("manifest/c") == ["manifest/checkpoint-1"]
    assert store.list("absent/") == []
    assert store.list("m/") == ["m/a/b"]
    assert len(store.list("")) == 5


def test_list_goes_on_after_a_path(store: Store) -> None:
    for number in range(5):
        store.put_durable(f"log/{number:03}", b"")

    assert store.list("log/", after="log/002") == ["log/003", "log/004"]
    assert store.list("log/0", after="log/0029") == ["log/003", "log/004"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_taken_literally(store: Store, name: str) -> None:
    paths = [f"folder/{name}", f"folder/of {name}/{name}"]
    for path in paths:
        assert store.put_if_absent(path, b"1\xff")
        assert store.get(path) == b"1\xff"

    assert store.list("folder/") == sorted(paths)


def test_files_are_found_by_their_age(store: Store) -> None:
    store.put_durable("a/1", b"")
    now = datetime.now(UTC)

    assert isinstance(store, LocalFolder | ObjectFolder)
    assert store.list("", before=now - timedelta(hours=1)) == []
    assert store.list("", before=now + timedelta(hours=1)) == ["a/1"]
    store.sweep(now)
    assert store.get("a/1") == b""


@pytest.mark.parametrize("size", [0, 1000, 20 * 2**20])
def test_a_file_is_written_and_read_in_pieces(store: Store, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(size)

    assert store.write_durable("a/b", lambda file: file.write(content)) == size
    # As of a file too large to be read whole.
    monkeypatch.setattr(objects, "_WHOLE_BYTES", -1)
    for whole in (True, False):
        with store.open("a/b") as file:
            assert file.size() == size
            file.seek(max(0, size - 10))
            assert file.read() == content[-10:]
            file.seek(0)
            assert file.read(size) == content
        if whole:
            monkeypatch.undo()
    with pytest.raises(Missing, match="a/none"):
        store.open("a/none")


def test_of_several_threads_one_puts_each_name(place: str) -> None:
    def claim(_thread: int) -> list[str]:
        own = open_store(place)
        return [name for name in names if own.put_if_absent(f"claims/{name}", b"equal for all")]

    names = [f"{number:02}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        won = [name for found in pool.map(claim, range(8)) for name in found]

    assert sorted(won) == names


def test_a_store_is_handed_to_another_process(store: Store) -> None:
    store.put_durable("a", b"1")

    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"


def test_of_several_processes_one_puts_if_absent(place: str, tmp_path: Path) -> None:
    names = ["0", "1", "2"]
    (tmp_path / "winners").mkdir()
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(names))
    arguments = [(place, name, barrier, str(tmp_path / "winners")) for name in names]
    children = [spawn.Process(target=claim_in_child, args=given) for given in arguments]
    for child in children:
        child.start()
    for child in children:
        child.join()

    [winner] = (tmp_path / "winners").iterdir()
    assert open_store(place).get("manifest/claimed") == winner.name.encode()


def test_local_temporaries_are_neither_listed_nor_left(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put_durable("segments/a", b"1")
    store.put_if_absent("segments/a", b"1")

    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


def test_local_file_and_its_names_are_synced_before_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The process that made it may have been killed before it was synced.
    (tmp_path / "log/found").mkdir(parents=True)
    names_in = {
        "put_durable": ("new/folder/file", "found/file", "file"),
        "put_if_absent": ("a/b/one", "found/one", "one"),
    }
    puts = {tmp_path / "log" / name: put for put, found in names_in.items() for name in found}
    contents: dict[int, int] = {}
    names: set[tuple[int, str]] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            names.update((status.st_ino, name) for name in os.listdir(descriptor))
        elif status.st_ino not in {path.stat().st_ino for path in puts if path.exists()}:
            contents[status.st_ino] = status.st_size

    monkeypatch.setattr(os, "fsync", note)
    store = LocalStore(str(tmp_path / "log"))
    for path, put in puts.items():
        getattr(store, put)(str(path.relative_to(tmp_path / "log")), b"content")
        parents = [one for one in path.parents if one.is_relative_to(tmp_path / "log")][:-1]
        assert contents[path.stat().st_ino] == len(b"content")
        assert {(one.parent.stat().st_ino, one.name) for one in (path, *parents)} <= names


def test_abandoned_temporary_files_are_deleted_at_next_opening(tmp_path: Path) -> None:
    LocalStore(str(tmp_path))
    old, young = tmp_path / ".tmp/old", tmp_path / ".tmp/young"
    for path in (old, young):
        path.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    LocalStore(str(tmp_path))

    assert (old.exists(), young.exists()) == (False, True)


def test_failed_local_write_leaves_no_file_and_is_retryable(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(LogStoreWriteFailed, match='segments/a": File too large') as raised:
            store.put_durable("segments/a", b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert raised.value.remedy is Remedy.RETRY
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_local_file_that_cannot_be_read_is_not_missing(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put_durable("segments/a", b"")

    with pytest.raises(LogStoreReadFailed):
        store.get("segments")


@pytest.mark.parametrize("root", ["file", "file/below", "/proc/rowtide"])
def test_a_root_that_cannot_be_written_is_refused(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(LogStoreNotWritable, match=re.escape(f'the log store "{tmp_path / root}" cannot be written')):
        LocalStore(str(tmp_path / root))


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost", "FILE://"])
def test_a_store_is_opened_by_path_or_file_url(tmp_path: Path, prefix: str) -> None:
    store = open_store(f"{prefix}{tmp_path}/a log%20")
    store.put_durable("segments/a", b"1")

    assert (tmp_path / "a log%20/segments/a").read_bytes() == b"1"
    assert store.url("segments/a") == f"file://{tmp_path}/a log%20/segments/a"


@pytest.mark.parametrize("url", ["hdfs:/log", "hdfs://name/log", "https://host/log", "s3:/bucket/log"])
def test_a_store_elsewhere_is_refused(url: str) -> None:
    with pytest.raises(StorageSchemeUnsupported, match="RT-2202"):
        open_store(url)


def test_a_lost_reply_to_a_link_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server that makes the link and loses its reply is asked again, and finds the name taken."""
    link = Path.hardlink_to

    def link_and_lose(self: Path, target: Path) -> None:
        link(self, target)
        raise next(replies)

    replies = iter([FileExistsError(17, "File exists"), TimeoutError(110, "Connection timed out")])
    monkeypatch.setattr(Path, "hardlink_to", link_and_lose)
    store = LocalStore(str(tmp_path))

    assert store.put_if_absent("manifest/1", b"1")
    assert store.put_if_absent("manifest/2", b"1")
    monkeypatch.undo()
    assert not store.put_if_absent("manifest/1", b"1")


def test_a_bucket_that_is_not_there_is_refused(bucket: Bucket) -> None:
    with pytest.raises(LogStoreWriteFailed, match="RT-2203: .*there is no bucket s3://none-such"):
        probe_store("s3://none-such/log")


def test_a_server_that_is_not_there_is_refused_soon(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_RETRIED_FOR", timedelta(seconds=1))
    monkeypatch.setattr(buckets, "_FIRST_PATIENCE_S", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(LogStoreWriteFailed, match="error sending request"):
            probe_store(f"{bucket.url}/log")


def test_a_forked_process_is_told_so(bucket: Bucket) -> None:
    """It would wait for threads that are not there."""
    store = open_store(f"{bucket.url}/log")
    store.put_durable("a", b"1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.get("a")
        except StoreForked as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1000).decode().startswith("RT-2208: the object store at s3://")
    for end in (read, write):
        os.close(end)
