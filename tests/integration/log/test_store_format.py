"""Log stores of other formats: newer ones, older ones, and such of before formats had numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.log.log_stores import append_records, open_manifest, records, table_version
from rowtide.core.formats import FormatNewer, FormatOutdated, FormatUnnumbered, StoredFormat, StoreFormat
from rowtide.core.lsn import Position
from rowtide.core.records import RECORD
from rowtide.log.errors import LogStoreNewer, ManifestCorrupt, SegmentCorrupt
from rowtide.log.store import manifest as manifests, segments
from rowtide.log.store.entries import ReaderAdvanced, TableGiven
from rowtide.log.store.location import LocalStore
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment, write_segment

NEWER = StoredFormat(2, 2, 2)
READABLE = StoredFormat(2, 1, 2)
WRITABLE = StoredFormat(2, 1, 1)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def files_of(store: LocalStore) -> dict[str, bytes]:
    return {path: store.get(path) for path in store.list("")}


def rewrite(store: LocalStore, path: str, change: Callable[[dict[str, Any]], object]) -> None:
    found = json.loads(store.get(path))
    change(found)
    store.put_durable(path, json.dumps(found).encode())


def raised(store: LocalStore, recorded: StoredFormat) -> Manifest:
    """Return a manifest of this build that has not read yet that a newer one raised the format."""
    manifest, _ = open_manifest(store)
    Manifest.open(store).raise_format(recorded)
    return manifest


def append_of_later(store: LocalStore, **more: object) -> None:
    """Append an entry as a newer build may."""
    version = Manifest.open(store).state.version if not more.get("kind") else len(store.list("manifest/"))
    entry = {"kind": "reader_left", "reader": "r", **more}
    store.put_durable(f"manifest/{version + 1:020}.json", json.dumps(entry).encode())


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_a_store_of_a_newer_format_is_refused_unchanged(store: LocalStore, *, with_checkpoint: bool) -> None:
    running = raised(store, NEWER)
    append_of_later(store, kind="of_later")
    if with_checkpoint:
        state = json.dumps({"format": {"number": 2, "least_reader": 2, "least_writer": 2}, "all": "else"})
        store.put_durable(f"manifest/checkpoint-{9:020}.json", state.encode())
    before = files_of(store)
    for refused in (
        lambda: Manifest.open(store),
        lambda: Manifest.find(store),
        running.refresh,
        lambda: running.append(ReaderAdvanced("r", Position(100))),
        lambda: running.take_lease("log", "us"),
    ):
        with pytest.raises(FormatNewer, match=r"RT-1134: .* log store .* format 2, this version 1"):
            refused()
    assert files_of(store) == before


@pytest.mark.parametrize("kind", ["opened_v2", "header"])
def test_what_no_build_began_with_is_of_a_newer_one(store: LocalStore, kind: str) -> None:
    store.put_durable(f"manifest/{1:020}.json", json.dumps({"kind": kind, "epoch": 0}).encode())
    with pytest.raises(LogStoreNewer, match=f"RT-2216: .* an entry {kind}"):
        Manifest.open(store)


def test_a_first_entry_of_a_newer_format_is_refused(store: LocalStore) -> None:
    first = {"kind": "header", "format": {"number": 7, "least_reader": 7, "least_writer": 7, "written_by": "9.0"}}
    store.put_durable(f"manifest/{1:020}.json", json.dumps(first).encode())
    with pytest.raises(FormatNewer, match="format 7"):
        Manifest.open(store)


def test_a_newer_format_that_may_be_read_is_read_and_not_written(store: LocalStore) -> None:
    running = raised(store, READABLE)
    append_of_later(store, later="unknown")
    before = files_of(store)

    assert Manifest.open(store).state == running.refresh()
    for manifest in (running, Manifest.open(store)):
        with pytest.raises(FormatNewer, match="format 2"):
            manifest.append(ReaderAdvanced("r", Position(100)))
        with pytest.raises(FormatNewer, match="format 2"):
            manifest.take_lease("log", "us")
    assert files_of(store) == before


def test_a_newer_format_that_may_be_written_stays_newer(store: LocalStore) -> None:
    running = raised(store, WRITABLE)
    running.append(ReaderAdvanced("r", Position(100)))
    assert Manifest.open(store).state.format == WRITABLE


def test_an_unknown_field_of_our_own_format_is_damage(store: LocalStore) -> None:
    open_manifest(store)
    append_of_later(store, later="unknown")
    with pytest.raises(ManifestCorrupt, match="later is not a field"):
        Manifest.open(store)


def test_an_unknown_kind_of_our_own_format_is_damage(store: LocalStore) -> None:
    open_manifest(store)
    append_of_later(store, kind="of_later")
    with pytest.raises(ManifestCorrupt, match="kind is not one of"):
        Manifest.open(store)


@pytest.mark.parametrize(
    "recorded", [1, "1/1/1", {}, {"number": 1}, {"number": 1, "least_reader": 2, "least_writer": 2}]
)
def test_a_format_that_none_records_is_damage(store: LocalStore, recorded: object) -> None:
    open_manifest(store)
    rewrite(store, f"manifest/{1:020}.json", lambda found: found.update(format=recorded))
    with pytest.raises(ManifestCorrupt, match="format is not a format"):
        Manifest.open(store)


@pytest.mark.parametrize("checkpoints", [100, 2])
def test_a_store_without_a_number_is_refused_unchanged(store: LocalStore, checkpoints: int) -> None:
    open_manifest(store)
    writer = Manifest(store, entries_per_checkpoint=checkpoints)
    for _ in range(2):
        writer.append(ReaderAdvanced("r", Position(100)))
    for path in store.list("manifest/"):
        rewrite(store, path, lambda found: found.pop("format", None))
    before = files_of(store)
    with pytest.raises(FormatUnnumbered, match="RT-1136: .* before formats had numbers") as refused:
        Manifest.open(store)
    assert "restore" not in str(refused.value)
    assert files_of(store) == before


def test_an_older_store_is_to_be_migrated_first(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, _ = open_manifest(store)
    before = files_of(store)
    monkeypatch.setattr(manifests, "LOG_STORE", StoreFormat("log store", 2, 2, 2))

    with pytest.raises(FormatOutdated, match="RT-1135: .* has format 1; this version needs format 2"):
        Manifest.open(store)
    with pytest.raises(FormatOutdated):
        writer.append(ReaderAdvanced("r", Position(100)))
    assert files_of(store) == before

    writer.raise_format(NEWER)
    writer.raise_format(NEWER)
    version = writer.state.version
    assert Manifest.open(store).state.format == NEWER
    Manifest.open(store).append(TableGiven(2, table_version(3)))
    assert Manifest.open(store).state.version == version + 1


def write_as(store: LocalStore, path: str, recorded: str | None) -> None:
    """Write a segment with a format of its own."""
    table = records([(1, 100, 1)])
    kept = {"rowtide.format": recorded} if recorded is not None else {}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, RECORD.remove_metadata(), store_schema=False) as writer:
        writer.add_key_value_metadata(kept)
        writer.write_table(table)
    store.put_durable(path, sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("recorded", "error", "said"),
    [
        (None, FormatUnnumbered, "was written before formats had numbers"),
        ("2/2/2", FormatNewer, "a newer version of rowtide wrote"),
        ("2/1/2", None, ""),
        ("1/1/1", None, ""),
        ("one", SegmentCorrupt, "is damaged"),
    ],
)
def test_a_segment_says_its_format(
    store: LocalStore, recorded: str | None, error: type[Exception] | None, said: str
) -> None:
    write_as(store, "segments/s", recorded)
    if error is None:
        assert read_segment(store, "segments/s").num_rows == 1
        return
    with pytest.raises(error, match=said):
        read_segment(store, "segments/s", ("commit_lsn",))


def test_a_segment_has_the_number_of_this_build(store: LocalStore) -> None:
    written = write_segment(store, records([(1, 100, 1)]))
    with store.open(written.path) as file:
        recorded = pq.ParquetFile(file).metadata.metadata or {}
    assert recorded[b"rowtide.format"] == str(segments.SEGMENT.recorded).encode()


def test_segments_of_before_a_migration_are_read_after_it(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, _ = open_manifest(store)
    written = append_records(store, writer, [(1, 100, 1)])
    monkeypatch.setattr(segments, "SEGMENT", StoreFormat("segment", 2, 1, 2))
    assert read_segment(store, written.path).num_rows == 1
