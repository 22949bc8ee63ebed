"""A manifest that is read again and again is what is there, whatever has become of the log store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.log.log_stores import open_manifest, range_to
from rowtide.diagnosis.postgres.capture_facts import KeptManifest
from rowtide.log.errors import ManifestCorrupt, ManifestMissing
from rowtide.log.store.location import LocalStore
from rowtide.log.store.manifest import Manifest


def test_what_was_written_since_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, _ = open_manifest(LocalStore(str(tmp_path)))
    kept = KeptManifest()
    assert kept.read(str(tmp_path)) == writer.state
    monkeypatch.delattr(Manifest, "load")
    for _ in range(3):
        writer.append(range_to(writer.state, writer.state.position.log + 1))
        assert kept.read(str(tmp_path)) == writer.state


def test_a_store_that_was_replaced_is_read_as_a_whole(tmp_path: Path) -> None:
    """By an older copy of it, and by another one whose entries have the same numbers."""
    store, copy = tmp_path / "store", tmp_path / "copy"
    writer, _ = open_manifest(LocalStore(str(store)))
    shutil.copytree(store, copy)
    writer.append(range_to(writer.state, writer.state.position.log + 1))
    kept = KeptManifest()
    assert kept.read(str(store)) == writer.state
    for replacement in (copy, tmp_path / "other"):
        if not replacement.exists():
            other, _ = open_manifest(LocalStore(str(replacement)), tables=1)
            assert other.state.version < writer.state.version
            other.append(range_to(other.state, other.state.position.log + 7))
        shutil.rmtree(store)
        shutil.copytree(replacement, store)
        assert kept.read(str(store)) == Manifest.open(LocalStore(str(store))).state


def test_a_store_that_is_gone_is_not_what_it_was(tmp_path: Path) -> None:
    store = tmp_path / "store"
    writer, _ = open_manifest(LocalStore(str(store)))
    kept = KeptManifest()
    assert kept.read(str(store)) is not None
    store.rename(tmp_path / "away")
    assert kept.read(str(store)) is None
    store.mkdir()
    with pytest.raises(ManifestMissing):
        kept.read(str(store))
    shutil.rmtree(store)
    (tmp_path / "away").rename(store)
    assert kept.read(str(store)) == writer.state


def test_an_entry_that_is_damaged_is_reported_until_it_is_mended(tmp_path: Path) -> None:
    writer, _ = open_manifest(LocalStore(str(tmp_path)))
    kept = KeptManifest()
    kept.read(str(tmp_path))
    writer.append(range_to(writer.state, writer.state.position.log + 1))
    (last,) = tmp_path.glob(f"manifest/*{writer.state.version}.json")
    content = last.read_bytes()
    last.write_bytes(b"{")
    for _ in range(2):
        with pytest.raises(ManifestCorrupt):
            kept.read(str(tmp_path))
    last.write_bytes(content)
    assert kept.read(str(tmp_path)) == writer.state
