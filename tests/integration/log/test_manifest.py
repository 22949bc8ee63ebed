from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest

from builders.faults.watched_stores import AgingStore, LosingStore, SleepingStore, WatchedStore
from builders.log.log_stores import NOW, append_records, open_manifest, opened, range_to, table_version
from rowtide.core.lsn import Position
from rowtide.log.errors import (
    IllegalEntry,
    LeaseLost,
    LogStoreNotWritable,
    LogStoreWriteFailed,
    ManifestConflict,
    ManifestCorrupt,
    ManifestMissing,
)
from rowtide.log.store.checkpoints import ENTRIES_KEPT_FOR, ENTRIES_PER_CHECKPOINT
from rowtide.log.store.entries import EntryExchange, EntryWritten, ReaderAdvanced, TableGiven
from rowtide.log.store.location import LocalStore, find_oldest_waiting
from rowtide.log.store.manifest import Manifest


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


@pytest.fixture
def aging(tmp_path: Path) -> AgingStore:
    return AgingStore(tmp_path / "aging")


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


def test_a_store_and_its_missing_parents_are_private(tmp_path: Path) -> None:
    LocalStore(str(tmp_path / "lake" / "log"))

    assert [(tmp_path / one).stat().st_mode & 0o077 for one in ("lake", "lake/log")] == [0, 0]


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


def test_an_append_is_one_request(store: LocalStore) -> None:
    watched = WatchedStore(store)
    writer, _ = open_manifest(watched)
    follower = Manifest.open(watched)
    watched.take_calls()
    advance(writer, 1)
    assert watched.take_calls() == ["put_if_absent"]
    follower.refresh()
    assert watched.take_calls() == ["get"] * 3, "the entry, and that there are not two others, at once"
    follower.refresh()
    assert watched.take_calls() == ["get"]


def test_what_another_thread_has_looked_for_is_not_read_again(aging: AgingStore) -> None:
    writer, _ = open_manifest(aging)
    of_capture = Manifest(aging, clock=aging.clock)
    watched = WatchedStore(aging)
    beside = Manifest(watched, clock=aging.clock)
    of_capture.load()
    beside.load()
    for entries in (1, 30):
        advance(writer, entries)
        of_capture.refresh()
        watched.take_calls()
        assert beside.follow(of_capture, 5) == writer.state
        assert watched.take_calls() == []
    advance(writer, 1)
    assert beside.follow(of_capture, 5) == of_capture.state != writer.state
    aging.pass_time(timedelta(seconds=6))
    assert beside.follow(of_capture, 5) == writer.state
    assert set(watched.take_calls()) == {"get"}
    assert beside.follow(of_capture, 5) == writer.state
    assert watched.take_calls() == []


def test_a_state_of_a_minute_ago_is_compared_with_checkpoints(aging: AgingStore) -> None:
    open_manifest(aging)
    watched = WatchedStore(aging)
    manifest = Manifest(watched, clock=aging.clock)
    manifest.load()
    watched.take_calls()
    aging.pass_time(timedelta(seconds=61))
    manifest.append(ReaderAdvanced("cdc", Position(100)))
    assert watched.take_calls() == ["put_if_absent", "list"]
    aging.pass_time(timedelta(seconds=59))
    manifest.append(ReaderAdvanced("cdc", Position(100)))
    assert watched.take_calls() == ["put_if_absent"]
    aging.pass_time(timedelta(seconds=61))
    manifest.refresh()
    assert watched.take_calls() == ["list", "get"]


def test_entries_are_deleted_an_hour_after_two_checkpoints(aging: AgingStore) -> None:
    writer, _ = open_manifest(aging)

    def go_on_to(version: int) -> list[str]:
        advance(writer, version - writer.state.version)
        assert Manifest.open(aging).state == writer.state
        return [Path(path).stem for path in aging.list("manifest/")]

    assert go_on_to(2 * ENTRIES_PER_CHECKPOINT + 50)[0] == f"{1:020}"
    aging.pass_time(ENTRIES_KEPT_FOR - timedelta(minutes=1))
    assert go_on_to(3 * ENTRIES_PER_CHECKPOINT)[0] == f"{1:020}", "they are younger"
    aging.pass_time(timedelta(minutes=2))
    names = go_on_to(4 * ENTRIES_PER_CHECKPOINT + 50)
    assert names[0] == f"{201:020}"
    assert names[-3:] == [f"checkpoint-{version:020}" for version in (200, 300, 400)]
    assert len(names) == 250 + 3
    aging.pass_time(2 * ENTRIES_KEPT_FOR)
    names = go_on_to(5 * ENTRIES_PER_CHECKPOINT)
    assert (names[0], names[-2:]) == (f"{401:020}", [f"checkpoint-{version:020}" for version in (400, 500)])


@pytest.mark.parametrize("beyond", [0, 7])
def test_a_state_is_read_from_a_checkpoint_and_what_follows(store: LocalStore, beyond: int) -> None:
    writer, _ = open_manifest(store)
    advance(writer, ENTRIES_PER_CHECKPOINT + beyond - writer.state.version)
    follower = Manifest.open(store)
    advance(writer, 1)

    files = follower.list_files()

    assert files.checkpoint_version == ENTRIES_PER_CHECKPOINT
    assert files.checkpoint in store.list("manifest/")
    assert [*files.entries] == [ENTRIES_PER_CHECKPOINT + number for number in range(1, beyond + 1)]
    assert {*files.entries.values()} < {*store.list("manifest/")}


def test_without_a_checkpoint_a_state_is_read_from_its_entries(store: LocalStore) -> None:
    writer, _ = open_manifest(store)

    files = writer.list_files()

    assert (files.checkpoint_version, files.checkpoint) == (None, None)
    assert [*files.entries] == [*range(1, writer.state.version + 1)]


def test_a_lease_can_be_the_entry_of_a_checkpoint(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    advance(writer, ENTRIES_PER_CHECKPOINT - 1 - writer.state.version)

    writer.take_lease("lake", "another host")

    assert writer.list_files().checkpoint_version == writer.state.version == ENTRIES_PER_CHECKPOINT


def test_entries_of_another_process_are_applied_in_order(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    follower = Manifest.open(store)
    sent: list[EntryWritten] = []
    writer.attach(EntryExchange(sent.append))
    received = EntryExchange(sent.append)
    follower.attach(received)
    advance(writer, 2)
    first, second = sent

    received.hear(second)
    assert not follower.apply_heard(), "an entry before it is missing"
    received.hear(first)
    received.hear(second)

    assert follower.apply_heard()
    assert follower.state == writer.state


def test_an_entry_behind_received_ones_is_written_at_once(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    watched = WatchedStore(store)
    other = Manifest.open(watched)
    received = EntryExchange(lambda _entry: None)
    other.attach(received)
    writer.attach(EntryExchange(received.hear))
    advance(writer, 2)
    watched.take_calls()

    other.append(ReaderAdvanced("cdc", Position(100)))
    assert watched.take_calls() == ["put_if_absent"]
    assert writer.refresh() == other.state


def test_many_entries_are_read_in_few_rounds(store: LocalStore) -> None:
    writer, _ = open_manifest(store)
    watched = WatchedStore(store)
    follower = Manifest.open(watched)
    advance(writer, 31)
    watched.take_calls()

    assert follower.refresh() == writer.state
    assert len(watched.take_calls()) == 31 + 16


def test_of_entries_that_a_crash_left_none_stays(aging: AgingStore) -> None:
    writer, _ = open_manifest(aging)
    for end, gone in ((2, (3, 99)), (3, (177,)), (4, (201, 298, 300))):
        advance(writer, end * ENTRIES_PER_CHECKPOINT - writer.state.version)
        for number in gone:
            aging.delete(f"manifest/{number:020}.json")
        aging.pass_time(2 * ENTRIES_KEPT_FOR)
    advance(writer, ENTRIES_PER_CHECKPOINT)

    assert Path(aging.list("manifest/")[0]).stem == f"{401:020}"


def test_a_follower_whose_next_entry_was_deleted_reloads(aging: AgingStore) -> None:
    writer, _ = open_manifest(aging)
    follower = Manifest(aging, clock=aging.clock)
    follower.load()
    delete_entries(aging, writer)
    with pytest.raises(KeyError):
        aging.get(f"manifest/{follower.state.version + 1:020}.json")

    assert follower.refresh() == writer.state


def delete_entries(store: AgingStore, writer: Manifest) -> None:
    """Let hours pass, and the entries before them be deleted."""
    advance(writer, 2 * ENTRIES_PER_CHECKPOINT)
    store.pass_time(2 * ENTRIES_KEPT_FOR)
    advance(writer, ENTRIES_PER_CHECKPOINT)


def test_late_writer_does_not_reuse_a_deleted_entry_number(aging: AgingStore) -> None:
    writer, _ = open_manifest(aging)
    store = SleepingStore(aging, lambda: delete_entries(aging, writer), behind=False)
    late = Manifest(store, clock=aging.clock)
    late.load()
    number = late.state.version + 1
    store.is_to_sleep = True

    assert late.append(ReaderAdvanced("late", Position(100))) == writer.refresh()
    assert f"manifest/{number:020}.json" not in aging.list("manifest/")
    assert "late" in writer.state.readers


@pytest.mark.parametrize("minutes", [2, 25])
def test_an_entry_whose_writer_slept_is_written_once(aging: AgingStore, minutes: int) -> None:
    writer, token = open_manifest(aging)

    def sleep() -> None:
        advance(writer, 3 * ENTRIES_PER_CHECKPOINT)
        aging.pass_time(timedelta(minutes=minutes))

    store = SleepingStore(aging, sleep, behind=True)
    late = Manifest(store, clock=aging.clock)
    late.load()
    number = late.state.version + 1
    store.is_to_sleep = True

    assert late.append(TableGiven(token, table_version(3))).version == number
    assert late.refresh() == writer.refresh()
    assert set(writer.state.tables) == {1, 2, 3}


def test_follower_ignores_an_entry_written_in_place_of_a_deleted(aging: AgingStore) -> None:
    writer, _ = open_manifest(aging)
    follower = Manifest(aging, clock=aging.clock)
    follower.load()
    number = follower.state.version + 1
    last = Manifest(aging, clock=aging.clock)
    advance(writer, 199 - writer.state.version)
    last.load()
    delete_entries(aging, writer)
    stray = b'{"kind":"reader_advanced","reader":"killed","position":"0/64"}'
    aging.put_if_absent(f"manifest/{number:020}.json", stray)
    aging.put_if_absent(f"manifest/{200:020}.json", stray)

    assert follower.refresh() == writer.state
    assert last.refresh() == writer.state
    assert Manifest.open(aging).state == writer.state


def test_an_append_whose_reply_was_lost_is_found_by_the_next(tmp_path: Path) -> None:
    store = LosingStore(str(tmp_path))
    writer, _ = open_manifest(store)
    entry = range_to(writer.state, 200)
    store.is_losing = True
    with pytest.raises(LogStoreWriteFailed, match="the reply was lost"):
        writer.append(entry)

    with pytest.raises(ManifestConflict):
        writer.append(entry)
    assert writer.state.position == Position(200)
    assert writer.state == Manifest.open(store).state
    store.is_losing = True
    with pytest.raises(LogStoreWriteFailed):
        writer.append(ReaderAdvanced("cdc", Position(150)))
    assert writer.append(ReaderAdvanced("cdc", Position(160))).readers["cdc"].position == Position(160)
    assert writer.state == Manifest.open(store).state


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


def test_of_entries_before_the_oldest_checkpoint_those_left_go(aging: AgingStore) -> None:
    """They are there where a crash came between a checkpoint and the first deletion, and those that follow stay."""
    writer, _ = open_manifest(aging)
    advance(writer, 2 * ENTRIES_PER_CHECKPOINT - writer.state.version)
    aging.pass_time(2 * ENTRIES_KEPT_FOR)
    advance(writer, ENTRIES_PER_CHECKPOINT + 50)
    names = [Path(path).stem for path in aging.list("manifest/")]
    assert names == [*(f"{number:020}" for number in range(201, 351)), f"checkpoint-{200:020}", f"checkpoint-{300:020}"]


def test_an_entry_is_appended_after_the_newest_version_alone(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    version = manifest.state.version
    entry = TableGiven(token=token, version=table_version(3))
    assert not manifest.append_after(version - 1, entry)
    assert not manifest.append_after(version + 1, entry)
    assert Manifest.open(store).state.version == version
    assert manifest.append_after(version, entry)
    assert Manifest.open(store).state.version == version + 1


def test_a_lease_is_given_up_by_its_holder_alone(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    manifest.give_up_lease("log", token - 1, "nobody")
    assert manifest.state.leases["log"].holder == "the reader"
    manifest.give_up_lease("log", token, "nobody")
    given_up = Manifest.open(store).state.leases["log"]
    assert (given_up.holder, given_up.token > token) == ("nobody", True)


def test_a_lease_is_taken_only_by_a_process_that_may(store: LocalStore) -> None:
    manifest, _ = open_manifest(store)
    version = manifest.state.version

    def refuse() -> None:
        raise LeaseLost("log", "the session that holds it")

    with pytest.raises(LeaseLost, match="the session that holds it"):
        manifest.take_lease("log", "another", verify=refuse)
    assert Manifest.open(store).state.version == version


def test_the_last_entry_shows_that_a_store_was_replaced(store: LocalStore) -> None:
    manifest, _ = open_manifest(store)
    last = f"manifest/{manifest.state.version:020}.json"

    assert manifest.read_last_entry() == store.get(last)
    store.delete(last)
    assert manifest.read_last_entry() is None


def test_the_oldest_change_that_waits_is_behind_a_position(store: LocalStore) -> None:
    manifest, _ = open_manifest(store)
    for changes in ([(1, 110, 1), (1, 120, 1)], [(1, 130, 1)]):
        append_records(store, manifest, changes)
    at = [find_oldest_waiting(store, manifest.state, Position(position)) for position in (100, 111, 120, 121, 131)]
    assert at == [*(NOW + timedelta(microseconds=lsn) for lsn in (110, 120, 120, 130)), None]


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogStoreNotWritable, match=str(tmp_path / "file")):
        LocalStore(str(tmp_path / "file"))


def test_a_lease_says_who_took_it_and_when(store: LocalStore) -> None:
    manifest, token = open_manifest(store)
    lease = manifest.state.leases["log"]

    assert (lease.holder, lease.token) == ("the reader", token)
    assert lease.taken_at.utcoffset() is not None
