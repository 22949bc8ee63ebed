"""A lake goes from a disk to a bucket, on to another folder of it, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowtide
from builders.object_servers import Bucket
from builders.relocated_lakes import FilledLake, describe, read_ids
from rowtide.core.errors import RowtideError
from rowtide.lake.stores import open_folder
from rowtide.relocation import transfer
from rowtide.storage.local import LocalFolder


@pytest.fixture
def filled(tmp_path: Path) -> FilledLake:
    return FilledLake(tmp_path / "lake").fill(3)


def test_a_lake_goes_to_a_bucket_and_back(filled: FilledLake, tmp_path: Path, bucket: Bucket) -> None:
    first, second, back = f"{bucket.url}/lakes/a b", f"{bucket.url}/lakes/b", str(tmp_path / "back")
    for source, target in ((filled.path, first), (first, second), (second, back)):
        copied = rowtide.copy_lake(source, target)
        assert copied.copied_files == copied.files
        assert describe(target) == describe(filled.path)
        assert read_ids(target) == [1, 2, 3]
    filled.fill(2)
    assert 0 < rowtide.copy_lake(filled.path, first).copied_files < copied.files
    assert describe(first) == describe(filled.path)


def test_large_files_are_streamed(
    filled: FilledLake, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_WHOLE_BYTES", 500)
    for source, target in ((filled.path, f"{bucket.url}/a"), (f"{bucket.url}/a", str(tmp_path / "back"))):
        rowtide.copy_lake(source, target)
        assert describe(target) == describe(filled.path)


def test_an_upload_whose_source_fails_leaves_no_file(bucket: Bucket) -> None:
    class Unreadable(RowtideError):
        pass

    def read() -> list[bytes]:
        raise Unreadable

    folder = open_folder(f"{bucket.url}/a")
    with pytest.raises(Unreadable):
        folder.put_stream("b", lambda: (piece for _ in range(1) for piece in read()))
    assert folder.list("") == []


def test_lakes_lie_side_by_side_in_a_bucket(tmp_path: Path, bucket: Bucket) -> None:
    """A folder whose name begins with another's is not in it."""
    for number, name in enumerate(("shop", "shop2", "other/archive"), 1):
        rowtide.copy_lake(FilledLake(tmp_path / f"lake {number}").fill(number).path, f"{bucket.url}/{name}")
    for number, name in enumerate(("shop", "shop2", "other/archive"), 1):
        assert read_ids(f"{bucket.url}/{name}") == list(range(1, number + 1))


def test_sizes_and_folders_are_those_of_a_local_disk(filled: FilledLake, bucket: Bucket) -> None:
    rowtide.copy_lake(filled.path, f"{bucket.url}/a")
    there, here = open_folder(f"{bucket.url}/a"), open_folder(filled.path)
    assert isinstance(here, LocalFolder)
    for prefix in ("cdc/", "log/", "log/manifest/", "none/"):
        assert there.list_folders(prefix) == here.list_folders(prefix)
        assert there.list_sizes(prefix) == here.list_sizes(prefix)
