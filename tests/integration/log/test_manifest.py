from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from builders.log_stores import open_manifest, opened, range_to, table_version
from rowtide.core.lsn import Position
from rowtide.log.entries import ReaderAdvanced, TableGiven
from rowtide.log.errors import IllegalEntry, LeaseLost, ManifestConflict, ManifestCorrupt, ManifestMissing
from rowtide.log.manifest import ENTRIES_PER_CHECKPOINT, Manifest
from rowtide.log.store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def advance(manifest: Manifest, entries: int) -> None:
    """Append so many keepalives."""
    for _ in range(entries):
        manifest.append(range_to(manifest.state, manifest.state.position.log + 1))


def test_an_empty_store_has_no_manifest(store: LocalStore) -> None:
    manifest = Manifest(store)

    assert manifest.load() is None
    with pytest.raises(ManifestMissing, match="RT-2211"):
        manifest.refresh()
    with pytest.raises(ManifestMissing, match="RT-2211"):
        Manifest.open(store)
    assert Manifest.find(store) is None


def test_a_follower_sees_what_the_writer_appends(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    follower = Manifest.open(store)
    advance(writer, 3)

    assert follower.refresh() == writer.state


def test_two_racing_writers_lose_no_entry(store: LocalStore) -> None:
    open_manifest(store)
    barrier = Barrier(2)

    def write(reader: str) -> None:
        manifest = Manifest(store, entries_per_checkpoint=10)
        manifest.load()
        barrier.wait()
        for cycle in range(30):
            manifest.append(ReaderAdvanced(f"{reader}{cycle}", Position(100)))

    with ThreadPoolExecutor() as threads:
        for outcome in [threads.submit(write, "a"), threads.submit(write, "b")]:
            outcome.result()

    state = Manifest.open(store).state
    assert set(state.readers) == {f"{name}{cycle}" for name in "ab" for cycle in range(30)}


def test_of_two_log_readers_the_second_to_take_the_lease_goes_on(store: LocalStore) -> None:
    first, _ = open_manifest(store)
    second = Manifest.open(store)
    second.take_lease("log", "the second")
    advance(second, 1)

    with pytest.raises(LeaseLost, match="held by the second"):
        advance(first, 1)
    assert Manifest.open(store).state == second.state


def test_a_range_that_was_written_already_is_refused(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    entry = range_to(writer.state, 200)
    writer.append(entry)

    with pytest.raises(ManifestConflict, match="a range from 0/64 cannot follow the log store's position 0/C8"):
        writer.append(entry)


def test_an_entry_is_judged_by_what_others_wrote_meanwhile(store: LocalStore) -> None:
    writer, token = open_manifest(store)
    other = Manifest.open(store)
    advance(writer, 1)
    other.append(ReaderAdvanced("cdc", writer.state.position))
    with pytest.raises(IllegalEntry):
        writer.append(TableGiven(token, table_version(1)))

    assert other.state.readers["cdc"].position == Position(101)


def test_a_store_is_opened_once(store: LocalStore) -> None:
    open_manifest(store)

    with pytest.raises(IllegalEntry, match="the next epoch is 1"):
        Manifest(store).append(opened())


def test_entries_before_the_second_newest_checkpoint_are_deleted(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    advance(writer, 3 * ENTRIES_PER_CHECKPOINT + 50 - writer.state.version)
    names = [Path(path).stem for path in store.list("manifest/")]

    assert names[0] == "00000000000000000201"
    assert names[-2:] == ["checkpoint-00000000000000000200", "checkpoint-00000000000000000300"]
    assert len(names) == 152
    assert Manifest.open(store).state == writer.state


def test_a_follower_whose_next_entry_was_deleted_reloads(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    follower = Manifest.open(store)
    advance(writer, 2 * ENTRIES_PER_CHECKPOINT)
    with pytest.raises(KeyError):
        store.get(f"manifest/{follower.state.version + 1:020}.json")

    assert follower.refresh() == writer.state


def test_late_writer_does_not_reuse_a_deleted_entry_number(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    late = Manifest.open(store)
    entry, number = ReaderAdvanced("late", Position(100)), late.state.version + 1
    advance(writer, 2 * ENTRIES_PER_CHECKPOINT)

    # Its process was stopped between looking for new entries and writing: as `append` goes on from there.
    assert not late._write(number, entry)
    assert f"manifest/{number:020}.json" not in store.list("manifest/")
    assert late.append(entry) == writer.refresh()
    assert "late" in writer.state.readers


def test_follower_ignores_an_entry_written_in_place_of_a_deleted(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    follower = Manifest.open(store)
    number = follower.state.version + 1
    advance(writer, 2 * ENTRIES_PER_CHECKPOINT)
    stray = b'{"kind":"reader_advanced","reader":"killed","position":"0/64"}'
    store.put_if_absent(f"manifest/{number:020}.json", stray)

    assert follower.refresh() == writer.state
    assert Manifest.open(store).state == writer.state


@pytest.mark.parametrize("damage", [b"", b"{", b'{"kind":"lease_taken"}', b'{"kind":"reader_advanced","reader":1}'])
def test_a_damaged_entry_is_named(store: LocalStore, damage: bytes) -> None:
    open_manifest(store)
    store.put_durable("manifest/00000000000000000003.json", damage)

    with pytest.raises(ManifestCorrupt, match=r'RT-2212: the manifest file "manifest/0{19}3.json" is damaged'):
        Manifest.open(store)


def test_an_entry_that_contradicts_those_before_it_is_named(store: LocalStore) -> None:
    open_manifest(store)
    store.put_durable("manifest/00000000000000000003.json", store.get("manifest/00000000000000000004.json"))

    with pytest.raises(ManifestCorrupt, match="the next table_id is 1, not 2"):
        Manifest.open(store)


def test_a_missing_entry_is_named(store: LocalStore) -> None:
    open_manifest(store)
    store.delete("manifest/00000000000000000003.json")

    with pytest.raises(ManifestCorrupt, match=r"0003.json.*it is missing, later entries are there"):
        Manifest.open(store)


def test_a_damaged_checkpoint_is_named(store: LocalStore) -> None:
    writer = Manifest(store, entries_per_checkpoint=2)
    writer.append(opened())
    writer.take_lease("log", "us")
    store.put_durable("manifest/checkpoint-00000000000000000002.json", b"[]")

    with pytest.raises(ManifestCorrupt, match="checkpoint"):
        Manifest.open(store)


def test_a_lease_says_who_took_it_and_when(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    lease = manifest.state.leases["log"]

    assert (lease.holder, lease.token) == ("the reader", token)
    assert lease.taken_at.utcoffset() is not None
