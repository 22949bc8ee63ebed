"""A version of a table that others change meanwhile, that is damaged, or that is not ours to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders.lakes.delta_tables import SCHEMA, make_table, metadata, write_commit, write_ids
from rowtide.delta.data_files import Between
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed, TableUnreadable
from rowtide.delta.replay import commit_path
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.storage.local import LocalFolder
from rowtide.storage.store import Missing, StoreErrors


class VanishingFolder(LocalFolder):
    """Lists files that are removed before they are read."""

    def __init__(self, path: Path, vanishing: Sequence[str], looks: int) -> None:
        super().__init__(str(path), StoreErrors(LakeReadFailed, LakeWriteFailed))
        self._vanishing, self._looks = vanishing, looks

    def get(self, path: str) -> bytes:
        if path in self._vanishing and self._looks:
            self._looks -= 1
            raise Missing(path)
        return super().get(path)


def locate(path: Path, vanishing: Sequence[str] = (), looks: int = 0) -> Location:
    return Location(str(path), VanishingFolder(path, vanishing, looks))


def own(path: Path, version: int | None = None) -> Snapshot:
    snapshot = open_snapshot(locate(path), version)
    assert snapshot is not None
    return snapshot


def ids(snapshot: Snapshot, *ranges: Between) -> list[Any]:
    return sorted(snapshot.read(["id"], ranges)["id"].to_pylist())


def test_a_version_is_as_it_was_then(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=4)
    assert [ids(own(path, version)) for version in (0, 2, 4)] == [[], [1, 2], [1, 2, 3, 4]]
    assert ids(own(path), Between("id", low=3)) == [3, 4]
    with pytest.raises(LakeReadFailed, match="RT-3104: .*version 5 is missing"):
        own(path, 5)


def test_no_folder_and_an_empty_one_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert open_snapshot(locate(tmp_path / "empty")) is None
    assert open_snapshot(locate(tmp_path / "none")) is None
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_table_is_read_by_who_may_not_write(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=1)
    before = sorted(tmp_path.rglob("*"))
    assert ids(own(path)) == [1]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_log_file_that_vanishes_is_looked_for_again(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=2)
    found = open_snapshot(locate(path, [commit_path(1)], looks=2))
    assert found is not None
    assert found.version == 2
    with pytest.raises(LakeReadFailed, match=r"RT-3104: .*00001.json is gone"):
        open_snapshot(locate(path, [commit_path(1)], looks=100))


def test_a_data_file_that_vanishes_is_an_error(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=2)
    found = own(path)
    (path / "1.parquet").unlink()
    with pytest.raises(LakeReadFailed, match=r"RT-3104: .*1.parquet was removed, by a vacuum after version 2"):
        found.read()
    assert ids(found, Between("id", low=2)) == [2]


@pytest.mark.parametrize("content", [b"{", b"", b'{"add": {}}'])
def test_a_damaged_log_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    path = make_table(tmp_path)
    (path / commit_path(0)).write_bytes(content)
    with pytest.raises(LakeReadFailed, match=r"RT-3104: .*(00000.json is damaged|no protocol)"):
        own(path)


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=1)
    (path / "_delta_log" / f"{1:020d}.checkpoint.parquet").write_bytes(b"nothing")
    with pytest.raises(LakeReadFailed, match=r"RT-3104: .*checkpoint.parquet is damaged"):
        own(path)


def test_a_damaged_data_file_is_an_error(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=1)
    (path / "1.parquet").write_bytes(b"nothing")
    with pytest.raises(LakeReadFailed, match=r"RT-3104: .*1.parquet"):
        own(path).read()


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ({"minReaderVersion": 4, "minWriterVersion": 7}, "reader version 4"),
        ({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"]}, "feature new"),
    ],
)
def test_an_unknown_feature_is_refused_when_rows_are_read(tmp_path: Path, protocol: dict[str, Any], said: str) -> None:
    path = make_table(tmp_path, commits=1)
    write_commit(path, 2, {"protocol": protocol})
    assert own(path).properties == {}
    with pytest.raises(TableUnreadable, match=f"RT-3106: .* has {said}"):
        own(path).read()


def test_a_newer_form_of_checkpoint_is_refused(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=2)
    (path / commit_path(0)).unlink()
    (path / "_delta_log" / f"{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet").write_bytes(b"x")
    with pytest.raises(TableUnreadable, match="RT-3106: .* has V2 checkpoints"):
        own(path)


def test_a_type_that_is_unknown_is_refused(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    odd = {
        **metadata()["metaData"],
        "schemaString": json.dumps(SCHEMA).replace("long", "variant"),
    }
    write_commit(path, 1, {"metaData": odd})
    with pytest.raises(TableUnreadable, match="RT-3106: .* has a column of type variant"):
        own(path).read()


def test_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    added = {"path": f"file://{path}/1.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    write_commit(path, 1, {"add": {**added, "dataChange": True}})
    with pytest.raises(TableUnreadable, match="RT-3106: .*outside its folder"):
        own(path).read()


def test_a_column_that_no_file_has_is_null(tmp_path: Path) -> None:
    path = make_table(tmp_path, commits=2)
    wider = {"type": "struct", "fields": [*SCHEMA["fields"], {**SCHEMA["fields"][0], "name": "new"}]}
    write_commit(path, 3, {"metaData": {**metadata()["metaData"], "schemaString": json.dumps(wider)}})
    rows = own(path).read(["new"])
    assert rows.to_pydict() == {"new": [None, None]}
    assert rows.schema == pa.schema({"new": pa.int64()})


def test_a_stream_holds_one_batch_at_a_time(tmp_path: Path) -> None:
    path = make_table(tmp_path)
    rows = 3_000_000
    write_ids(path, 1, *range(rows))
    before = pa.total_allocated_bytes()
    peaks = [pa.total_allocated_bytes() - before for _ in own(path).stream(batch_rows=10_000)]
    assert len(peaks) == rows / 10_000
    assert max(peaks) < rows * 8 / 4
