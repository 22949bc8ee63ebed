"""What every store promises; a new one is added to `STORES`."""

from __future__ import annotations

import multiprocessing
import os
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from builders.log_stores import claim_in_child
from rowtide.core.errors import Remedy
from rowtide.log.errors import LogStoreNotWritable, LogStoreReadFailed, LogStoreWriteFailed
from rowtide.log.store import LocalStore, open_store
from rowtide.storage.errors import StorageSchemeUnsupported
from rowtide.storage.store import Missing, Store

STORES: dict[str, Callable[[Path], Store]] = {"local": lambda directory: LocalStore(str(directory))}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path / "log")


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


def test_of_several_processes_one_puts_if_absent(tmp_path: Path) -> None:
    names = ["0", "1", "2"]
    (tmp_path / "winners").mkdir()
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(names))
    arguments = [(str(tmp_path / "log"), name, barrier, str(tmp_path / "winners")) for name in names]
    children = [spawn.Process(target=claim_in_child, args=given) for given in arguments]
    for child in children:
        child.start()
    for child in children:
        child.join()

    [winner] = (tmp_path / "winners").iterdir()
    assert LocalStore(str(tmp_path / "log")).get("manifest/claimed") == winner.name.encode()


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

    with pytest.raises(LogStoreNotWritable):
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
