"""The folder of a log store: private, writable, and its owner's."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from builders.commands.check_facts import SOURCE
from builders.log.log_stores import open_manifest
from rowtide.log.errors import LogStoreMoved, LogStoreNotWritable, ManifestMissing
from rowtide.log.store.location import LocalStore, open_made_store, open_own_manifest


def test_a_new_folder_is_private_with_its_parents(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        LocalStore(str(tmp_path / "shop" / "log"))
    finally:
        os.umask(before)
    for folder in (tmp_path / "shop", tmp_path / "shop" / "log"):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_in_which_no_file_can_be_made_is_refused(tmp_path: Path) -> None:
    LocalStore(str(tmp_path))
    (temporaries,) = tmp_path.iterdir()
    temporaries.rmdir()
    temporaries.write_text("in the way")

    with pytest.raises(LogStoreNotWritable, match=f"{tmp_path}.* cannot be written: (Not a directory|File exists)"):
        LocalStore(str(tmp_path))


def test_the_manifest_of_another_source_is_not_opened(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    manifest, _ = open_manifest(store)
    recorded = manifest.state.source
    own = replace(SOURCE, system_identifier=recorded.system_identifier, slot=recorded.slot)

    assert open_own_manifest(own, store).state.source == recorded
    with pytest.raises(LogStoreMoved, match=f"slot {recorded.slot} of system {recorded.system_identifier}"):
        open_own_manifest(replace(own, slot="rowtide_6"), store)


def test_a_store_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    source = replace(SOURCE, log_store=str(tmp_path / "log"))
    with pytest.raises(ManifestMissing, match=source.log_store):
        open_made_store(source)
    assert not (tmp_path / "log").exists()
    LocalStore(source.log_store)

    open_made_store(source).put_durable("manifest/a", b"1")
    assert (tmp_path / "log" / "manifest" / "a").read_bytes() == b"1"
