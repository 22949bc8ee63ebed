"""Changes of a table keep what others add meanwhile, and are complete wherever their writer is killed."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders.faults.failpoints import CHANGE_FAILPOINTS, VACUUM_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.lakes.delta_tables import ERRORS, SCHEMA, append, create, locate, metadata, own, write_commit
from rowtide.delta import checkpoints
from rowtide.delta.checkpoints import forget_checksums, write_checkpoint
from rowtide.delta.errors import LakeWriteFailed, TableUnreadable, TableUnwritable
from rowtide.delta.features import with_features
from rowtide.delta.replay import Protocol, commit_path
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing import compaction
from rowtide.delta.writing.alteration import (
    empty_table,
    name_mapping,
    renew_table,
    retire_table,
    rewrite,
    set_properties,
    widen_columns,
)
from rowtide.delta.writing.changes import Below, CommitChange, commit_change, delete_below, vacuum
from rowtide.delta.writing.commits import Committer, create_table
from rowtide.delta.writing.compaction import compact
from rowtide.storage import freshness
from rowtide.storage.local import LocalFolder

DAY_S = 24 * 3600
EXHAUSTIVE = pytest.mark.exhaustive


def ids(path: Path) -> list[Any]:
    """Return the ids in the order in which they are read."""
    return list(own(path).read()["id"].to_pylist())


def fill(path: Path, cycles: Sequence[int], identity: str = "one") -> None:
    committer, location = Committer(), locate(path)
    for cycle in cycles:
        assert append(committer, location, cycle, identity=identity)


def between(path: Path, interfere: Callable[[], object]) -> Callable[[], None]:
    """Return what interferes once, after the files of a change are written and before its commit."""
    left = [interfere]

    def act() -> None:
        if left:
            left.pop()()

    return act


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_small_files_become_one_in_the_order_of_a_column(tmp_path: Path, mode: str) -> None:
    path = create(tmp_path / "table", **{"delta.columnMapping.mode": mode})
    fill(path, [1, 2])
    append(Committer(), locate(path), 3, pa.table({"id": pa.array([0, None], pa.int64())}))
    assert compact(locate(path), "id") == 3
    [merged] = own(path).files.values()
    assert ids(path) == [0, None, 1, 2]
    [name] = merged.statistics["minValues"]
    assert merged.statistics == {
        "numRecords": 4,
        "minValues": {name: 0},
        "maxValues": {name: 2},
        "nullCount": {name: 1},
    }
    assert compact(locate(path), "id") == 0
    assert own(path).version == 4
    actions = [json.loads(line) for line in (path / commit_path(4)).read_text().splitlines()]
    assert {action["remove"]["dataChange"] for action in actions if "remove" in action} == {False}


def test_merged_files_are_no_larger_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = create(tmp_path / "table")
    fill(path, range(1, 8))
    [size] = {file.size for file in own(path).files.values()}
    monkeypatch.setattr(compaction, "MERGED_BYTES", 3 * size)
    monkeypatch.setattr(compaction, "SMALL_BYTES", size + 1)
    assert compact(locate(path), "id") == 6
    groups = [file.statistics["numRecords"] for file in own(path).files.values()]
    assert sorted(groups) == [1, 3, 3]
    assert sorted(ids(path)) == list(range(1, 8))


def test_what_is_appended_during_a_compaction_stays(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, [1, 2, 3])
    interfere = between(path, lambda: fill(path, [4, 5]))
    assert compact(locate(path), "id", before_commit=interfere) == 3
    assert (sorted(ids(path)), len(own(path).files)) == ([1, 2, 3, 4, 5], 3)


def test_a_compaction_begins_again_where_its_files_went(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, [1, 2, 3, 4])
    interfere = between(path, lambda: delete_below(locate(path), Below("id", 2)))
    assert compact(locate(path), "id", before_commit=interfere) == 3
    assert (ids(path), len(own(path).files)) == ([2, 3, 4], 1)


def test_a_compaction_that_may_not_commit_changes_nothing(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def refuse() -> None:
        raise Stop

    path = create(tmp_path / "table")
    fill(path, [1, 2])
    with pytest.raises(Stop):
        compact(locate(path), "id", before_commit=refuse)
    assert own(path).version == 2


def test_files_below_a_bound_go_others_are_rewritten(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    committer, location = Committer(), locate(path)
    for cycle in (1, 2, 3):
        append(committer, location, cycle, pa.table({"id": pa.array(range(10 * cycle, 10 * cycle + 10), pa.int64())}))
    first, second, third = own(path).files
    assert delete_below(location, Below("id", 25)) == 15
    left = own(path).files
    assert third in left
    assert not {first, second} & set(left)
    assert sorted(ids(path)) == list(range(25, 40))
    assert delete_below(location, Below("id", 25)) == 0
    assert own(path).version == 4


@pytest.mark.parametrize("statistics", [None, {}, {"numRecords": 2}, {"numRecords": 2, "maxValues": {"id": 1}}])
def test_files_without_full_statistics_are_looked_into(tmp_path: Path, statistics: dict[str, Any] | None) -> None:
    path = create(tmp_path / "table")
    append(Committer(), locate(path), 1, pa.table({"id": pa.array([1, None], pa.int64())}))
    [file] = own(path).files.values()
    added = {**file.values(changes_data=True), "stats": json.dumps(statistics) if statistics is not None else None}
    write_commit(path, 2, {"add": added})
    assert delete_below(locate(path), Below("id", 5)) == 1
    assert ids(path) == [None]


def two_columns(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    column: dict[str, Any] = {"type": "long", "nullable": True, "metadata": {}}
    fields = [{"name": name, **column} for name in ("lsn", "cycle")]
    create_table(locate(path), json.dumps({"type": "struct", "fields": fields}), {})
    return path


def test_of_rows_without_value_another_column_decides(tmp_path: Path) -> None:
    path = two_columns(tmp_path)
    committer = Committer()
    rows = [(1, 9), (7, 1), (None, 2), (None, 3)]
    files = [[row] for row in rows] + [rows]
    for cycle, values in enumerate(files, 1):
        columns = [pa.array(column, pa.int64()) for column in zip(*values, strict=True)]
        append(committer, locate(path), cycle, pa.table(columns, names=["lsn", "cycle"]))
    assert delete_below(locate(path), Below("lsn", 5, if_null=Below("cycle", 3))) == 4
    left = [tuple(row.values()) for row in own(path).read().to_pylist()]
    assert sorted(map(str, left)) == sorted(map(str, [(7, 1), (None, 3)] * 2))


def test_deletion_begins_again_where_its_files_were_merged(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, range(1, 6))
    interfere = between(path, lambda: compact(locate(path), "id"))
    assert delete_below(locate(path), Below("id", 4), before_commit=interfere) == 3
    assert ids(path) == [4, 5]


def test_an_emptied_table_has_no_file_that_came_meanwhile(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, [1])
    plans: list[int] = []

    def plan(snapshot: Snapshot) -> CommitChange:
        plans.append(snapshot.version)
        if len(plans) == 1:
            fill(path, [2])
        return CommitChange("DELETE", removed=list(snapshot.files.values()), sees_all_files=True)

    assert commit_change(locate(path), plan)
    assert (plans, ids(path)) == ([1, 2], [])
    assert not empty_table(locate(path))


def test_a_retired_table_has_neither_its_property_nor_rows(tmp_path: Path) -> None:
    path = create(tmp_path / "table", who="a")
    fill(path, [1])
    retire_table(locate(path), "who", "b", "")
    assert (own(path).properties["who"], ids(path)) == ("a", [1])
    for _ in range(2):
        retire_table(locate(path), "who", "a", "")
        assert (own(path).version, own(path).properties["who"], ids(path)) == (2, "", [])
    fill(path, [2])
    retire_table(locate(path), "who", "a", "")
    assert ids(path) == []


def test_a_renewed_table_has_new_columns_names_and_ids(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, [1])
    old = own(path).metadata.found
    text = json.dumps(SCHEMA).replace('"id"', '"a, b"')
    for number in (1, 2):
        renew_table(locate(path), text, {"delta.columnMapping.mode": "name", "who": str(number)})
        found = own(path)
        [column] = found.columns.fields
        assert (column.name, column.field_id) == ("a, b", number)
        assert column.physical_name.startswith("col-")
        assert (found.properties["who"], found.files) == (str(number), {})
        assert (found.metadata.found["id"], found.get_transaction("one")) == (old["id"], 1)
        assert (found.protocol.min_reader, found.protocol.min_writer) == (3, 7)
        assert found.properties["delta.columnMapping.maxColumnId"] == str(number)
        append(Committer(), locate(path), number, pa.table({"a, b": pa.array([5], pa.int64())}), identity="two")
        assert found.version == 2 * number
        assert own(path).read().to_pylist() == [{"a, b": 5}]


def test_widened_columns_keep_files_and_remember_types(tmp_path: Path) -> None:
    path = tmp_path / "table"
    create_table(locate(path), json.dumps(SCHEMA).replace("long", "short"), {})
    append(Committer(), locate(path), 1, pa.table({"id": pa.array([1], pa.int16())}))
    for wider in ("integer", "long"):
        assert widen_columns(locate(path), {"id": wider})
        assert not widen_columns(locate(path), {"id": wider})
    [column] = own(path).columns.fields
    assert column.metadata["delta.typeChanges"] == [
        {"toType": "integer", "fromType": "short"},
        {"toType": "long", "fromType": "integer"},
    ]
    append(Committer(), locate(path), 2, pa.table({"id": pa.array([1 << 40], pa.int64())}))
    assert sorted(ids(path)) == [1, 1 << 40]
    assert compact(locate(path), "id") == 2
    assert ids(path) == [1, 1 << 40]


def test_an_append_that_met_a_wider_column_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "table"
    create_table(locate(path), json.dumps(SCHEMA).replace("long", "integer"), {})
    committer = Committer()
    append(committer, locate(path), 1, pa.table({"id": pa.array([1], pa.int32())}))
    widen_columns(locate(path), {"id": "long"})
    assert append(committer, locate(path), 2, pa.table({"id": pa.array([2], pa.int64())}))
    assert sorted(ids(path)) == [1, 2]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_rewritten_rows_replace_the_old_ones_at_once(tmp_path: Path, mode: str) -> None:
    path = create(tmp_path / "table", **{"delta.columnMapping.mode": mode})
    fill(path, [1, 2])
    text, before = json.dumps(SCHEMA).replace("long", "string"), own(path).columns.fields[0]

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        if own(path).version == 2:
            fill(path, [3])
        return pa.RecordBatch.from_arrays([batch["id"].cast(pa.string())], names=["id"])

    rewrite(locate(path), text, convert)
    assert (own(path).version, sorted(ids(path))) == (4, ["1", "2", "3"])
    rewrite(locate(path), text, lambda _batch: pytest.fail("the rows have these types"))
    assert own(path).version == 4
    after = own(path).columns.fields[0]
    assert (after.physical_name, after.field_id) == (before.physical_name, before.field_id)


def test_a_checkpoint_that_comes_late_is_not_named(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, [1, 2])
    early, late = own(path, 1), own(path, 2)
    for snapshot in (late, early):
        write_checkpoint(snapshot, datetime.now(UTC))
    assert own(path).checkpoint_version == 2


def test_properties_are_set_once(tmp_path: Path) -> None:
    path = create(tmp_path / "table", a="1")
    assert set_properties(locate(path), {"b": "2"})
    assert not set_properties(locate(path), {"b": "2"})
    assert own(path).properties == {"a": "1", "b": "2"}


def test_a_change_is_known_by_its_id_where_the_reply_was_lost(tmp_path: Path) -> None:
    class LosingFolder(LocalFolder):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            super().put_if_absent(path, data)
            return False

    path = create(tmp_path / "table")
    fill(path, [1, 2])
    losing = Location(str(path), LosingFolder(str(path), ERRORS))
    assert compact(losing, "id") == 2
    assert (own(path).version, ids(path)) == (3, [1, 2])


@pytest.mark.parametrize("small", [1, 2_000, compaction.SMALL_BYTES])
def test_files_read_at_once_stay_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    path = create(tmp_path / "table")
    fill(path, range(1, 41))
    monkeypatch.setattr(compaction, "_MOST_READ_BYTES", small)
    assert compact(locate(path), "id") == 40
    assert own(path).read()["id"].to_pylist() == list(range(1, 41))


def test_a_change_in_a_hole_of_the_log_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "FRESH_FOR_S", -1.0)
    path = create(tmp_path / "table")
    fill(path, [1, 2])

    def hide() -> None:
        fill(path, range(3, 7))
        write_checkpoint(own(path), datetime.now(UTC))
        for version in range(7):
            (path / commit_path(version)).unlink()

    assert compact(locate(path), "id", before_commit=between(path, hide)) == 6
    assert (own(path).version, ids(path)) == (7, list(range(1, 7)))


def test_a_change_in_a_checkpoint_of_others_is_made_once(tmp_path: Path) -> None:
    """Others commit after it, and write a checkpoint, before it looks at the checkpoints."""
    path = create(tmp_path / "table")
    fill(path, [1, 2])

    class BusyFolder(LocalFolder):
        def put_if_absent(self, name: str, data: bytes) -> bool:
            is_won = super().put_if_absent(name, data)
            Committer().commit_once(locate(path), identity="one", cycle=own(path).version + 1, write=lambda _state: [])
            write_checkpoint(own(path), datetime.now(UTC))
            return is_won

    busy = Location(str(path), BusyFolder(str(path), ERRORS))
    changes: list[Callable[[], object]] = [
        lambda: set_properties(busy, {"a": "b"}),
        lambda: compact(busy, "id"),
        lambda: delete_below(busy, Below("id", 2)),
        lambda: rewrite(busy, json.dumps(SCHEMA).replace("long", "string"), as_texts),
    ]
    for change in changes:
        before = own(path).version
        change()
        assert own(path).version == before + 2
        if change is changes[-2]:
            assert 1 not in ids(path)


def as_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch["id"].cast(pa.string())], names=["id"])


def test_what_a_change_would_not_honour_is_refused(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.appendOnly": "true"})
    fill(path, [1, 2])
    with pytest.raises(TableUnwritable, match="RT-3107: .*only lets rows be added"):
        delete_below(locate(path), Below("id", 2))
    assert compact(locate(path), "id") == 2
    write_commit(path, 4, metadata(**{"delta.enableChangeDataFeed": "true"}))
    with pytest.raises(TableUnwritable, match="a change data feed"):
        compact(locate(path), "id")
    with pytest.raises(LakeWriteFailed, match="no table"):
        compact(locate(tmp_path / "none"), "id")


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (Protocol(1, 2), set(), Protocol(1, 2)),
        (
            Protocol(1, 2),
            {"columnMapping"},
            Protocol(3, 7, frozenset({"columnMapping"}), frozenset({"appendOnly", "invariants", "columnMapping"})),
        ),
        (
            Protocol(2, 7, frozenset(), frozenset({"columnMapping"})),
            {"columnMapping"},
            Protocol(3, 7, frozenset({"columnMapping"}), frozenset({"columnMapping"})),
        ),
        (Protocol(2, 5), set(), Protocol(2, 5)),
        (
            Protocol(2, 5),
            {"typeWidening"},
            Protocol(
                3,
                7,
                frozenset({"columnMapping", "typeWidening"}),
                frozenset(
                    {
                        "appendOnly",
                        "invariants",
                        "checkConstraints",
                        "changeDataFeed",
                        "generatedColumns",
                        "columnMapping",
                        "typeWidening",
                    }
                ),
            ),
        ),
        (
            Protocol(3, 7, frozenset({"a"}), frozenset({"a", "b"})),
            {"columnMapping"},
            Protocol(3, 7, frozenset({"a", "columnMapping"}), frozenset({"a", "b", "columnMapping"})),
        ),
    ],
)
def test_a_protocol_gets_features_and_keeps_those_implied(before: Protocol, wanted: set[str], after: Protocol) -> None:
    assert with_features(before, wanted) == after


def test_a_change_names_the_mapping_of_an_earlier_table(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.columnMapping.mode": "name"})
    earlier = {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping"]}
    changes: list[tuple[Callable[[], object], list[int]]] = [
        (lambda: compact(locate(path), "id"), [1, 2]),
        (lambda: name_mapping(locate(path)), [3, 4]),
    ]
    for change, cycles in changes:
        write_commit(path, own(path).version + 1, {"protocol": earlier})
        fill(path, cycles)
        assert change()
        assert own(path).protocol == Protocol(3, 7, frozenset({"columnMapping"}), frozenset({"columnMapping"}))
        assert not name_mapping(locate(path))


def test_mapping_is_named_beside_features_of_files_alone(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.columnMapping.mode": "name"})
    for feature in ("clustering", "inCommitTimestamp"):
        protocol = {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping", feature]}
        write_commit(path, own(path).version + 1, {"protocol": protocol})
        if feature == "clustering":
            assert name_mapping(locate(path))
        else:
            with pytest.raises(TableUnwritable, match=feature):
                name_mapping(locate(path))


def age(folder: Path, seconds: float) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        os.utime(path, times=(time.time() - seconds,) * 2)


def clean(path: Path, now: datetime | None = None) -> int:
    folder = LocalFolder(str(path), ERRORS)
    return vacuum(Location(str(path), folder), folder, now)


def test_vacuum_deletes_old_leftovers_and_what_nobody_needs(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.deletedFileRetentionDuration": "interval 1 days"})
    location = locate(path)
    fill(path, [1, 2])
    compact(location, "id")
    needed = {file.name for file in path.glob("*.parquet")}
    for name in ("0000000007-abandoned/part.parquet", "_kept/file", "a/.hidden", ".tmp/killed", "_delta_log/odd"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(b"half")
    (path / "old" / "empty").mkdir(parents=True)
    assert clean(path) == 0
    log = sorted((path / "_delta_log").iterdir())
    age(path, 2 * DAY_S)
    (path / "young").mkdir()
    (path / "young.parquet").write_bytes(b"being written")
    assert clean(path) == 1
    assert {file.name for file in path.glob("*.parquet")} == needed | {"young.parquet"}
    assert sorted((path / "_delta_log").iterdir()) == log
    left = {str(found.relative_to(path)) for found in path.rglob("*") if found.parent != path / "_delta_log"}
    assert left - needed - {"young.parquet"} == {
        *("0000000007-abandoned", "_kept", "_kept/file", "a", "a/.hidden", ".tmp", "young", "_delta_log"),
    }
    later = datetime.now(UTC) + timedelta(days=2)
    assert clean(path, later) == 3
    assert not (path / "0000000007-abandoned").exists()
    assert len(list(path.glob("*.parquet"))) == 1
    assert ids(path) == [1, 2]


def test_vacuum_knows_names_that_logs_write_otherwise(tmp_path: Path) -> None:
    path = create(tmp_path / "table", **{"delta.deletedFileRetentionDuration": "interval 0 days"})
    location = locate(path)
    append(Committer(), location, 1, identity="ä b%")
    age(path, DAY_S)
    assert clean(path) == 0
    assert ids(path) == [1]
    outside = {"path": "file:/elsewhere/a", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    write_commit(path, 2, {"add": outside})
    with pytest.raises(TableUnreadable, match="outside"):
        clean(path)
    assert vacuum(locate(tmp_path / "none"), LocalFolder(str(tmp_path / "none"), ERRORS)) == 0


def test_checksums_of_early_versions_go(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    for version in range(0, 150, 10):
        (path / "_delta_log" / f"{version:020d}.crc").write_bytes(b"{}")
    forget_checksums(locate(path))
    assert sorted(int(file.stem) for file in path.glob("_delta_log/*.crc")) == list(range(40, 150, 10))


CHANGES = """
import sys
from pathlib import Path
import pyarrow as pa
from builders.lakes.delta_tables import ERRORS, SCHEMA, append, create, locate
from rowtide.delta.writing.alteration import renew_table, retire_table, rewrite, widen_columns
from rowtide.delta.writing.commits import Committer
from rowtide.delta.writing.compaction import compact
from rowtide.delta.writing.changes import Below, delete_below
import json
path = Path(sys.argv[1])
location = locate(path)
def as_text(batch):
    return pa.RecordBatch.from_arrays([batch["id"].cast(pa.string())], names=["id"])
changes = {
    "compact": lambda: compact(location, "id"),
    "delete": lambda: delete_below(location, Below("id", 2)),
    "rewrite": lambda: rewrite(location, json.dumps(SCHEMA).replace("long", "string"), as_text),
    "renew": lambda: renew_table(location, json.dumps(SCHEMA), {"who": "two"}),
    "retire": lambda: retire_table(location, "who", "one", ""),
    "widen": lambda: widen_columns(location, {"id": "decimal(20,0)"}),
}
changes[sys.argv[2]]()
"""


@pytest.mark.parametrize("failpoint", CHANGE_FAILPOINTS)
@pytest.mark.parametrize(
    "change",
    ["compact", *(pytest.param(name, marks=EXHAUSTIVE) for name in ("delete", "rewrite", "renew", "retire", "widen"))],
)
def test_a_change_that_is_killed_is_whole_or_not_there(tmp_path: Path, change: str, failpoint: str) -> None:
    path = create(tmp_path / "table", who="one", **{"delta.checkpointInterval": "4"})
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    append(Committer(), locate(path), 1, rows)
    fill(path, [2, 3])
    before, after = [1, 2, 2, 3], {"delete": [2, 2, 3], "renew": [], "retire": []}
    killed = run_program(CHANGES, str(path), change, failpoint=failpoint)
    writes = change in ("compact", "delete", "rewrite") or not failpoint.startswith("delta_file")
    assert killed == (KILLED if writes else 0)
    wanted = after.get(change, before)
    assert sorted(int(value) for value in ids(path)) in (before, wanted)
    assert run_program(CHANGES, str(path), change, failpoint="none") == 0
    assert sorted(int(value) for value in ids(path)) == wanted
    fill(path, [4]) if change in ("compact", "delete") else None
    assert own(path).version >= 4


@pytest.mark.parametrize("failpoint", VACUUM_FAILPOINTS)
def test_a_vacuum_that_is_killed_is_completed_by_the_next(tmp_path: Path, failpoint: str) -> None:
    path = create(tmp_path / "table", **{"delta.deletedFileRetentionDuration": "interval 0 days"})
    fill(path, [1, 2, 3])
    compact(locate(path), "id")
    age(path, DAY_S)
    program = """
import sys
from pathlib import Path
from builders.lakes.delta_tables import locate
from rowtide.delta.writing.changes import vacuum
location = locate(Path(sys.argv[1]))
vacuum(location, location.store)
"""
    assert run_program(program, str(path), failpoint=failpoint) == KILLED
    assert ids(path) == [1, 2, 3]
    assert run_program(program, str(path), failpoint="none") == 0
    assert (ids(path), len(list(path.glob("*.parquet")))) == ([1, 2, 3], 1)


@pytest.mark.timeout(5400)
@pytest.mark.parametrize("cycles", [80, pytest.param(5_000, marks=pytest.mark.soak)])
def test_appends_race_other_changes_and_none_vanishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cycles: int
) -> None:
    """Two threads append, one compacts, one deletes all but the last rows, and the log is cut all the time."""
    monkeypatch.setattr(freshness, "FRESH_FOR_S", 0.1)
    monkeypatch.setattr(checkpoints, "KEPT_FOR", timedelta(seconds=1))
    short = {
        "delta.logRetentionDuration": "interval 1 second",
        "delta.deletedFileRetentionDuration": "interval 1 minute",
    }
    path = create(tmp_path / "table", **short)
    done, bounds = threading.Event(), [0]

    def append_all(identity: str, first: int) -> None:
        committer = Committer()
        for number in range(cycles):
            rows = pa.table({"id": pa.array([first + 2 * number], pa.int64())})
            assert append(committer, locate(path), number + 1, rows, identity)

    def repeat(step: Callable[[], object]) -> int:
        turns = 0
        while not done.is_set():
            step()
            turns += 1
        return turns

    def delete() -> None:
        known = min(own(path).get_transaction(name) or 0 for name in ("one", "two"))
        bound = max(2 * (known - 40), 0)
        delete_below(locate(path), Below("id", bound))
        bounds[0] = max(bounds[0], bound)

    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(repeat, step) for step in (partial(compact, locate(path), "id"), delete)]
        appending = [pool.submit(append_all, name, first) for name, first in (("one", 0), ("two", 1))]
        try:
            for one in appending:
                one.result()
        finally:
            done.set()
        assert all(one.result() > 1 for one in others)
    found = own(path)
    assert sorted(ids(path)) == list(range(bounds[0], 2 * cycles))
    assert [found.get_transaction(name) for name in ("one", "two")] == [cycles, cycles]
    assert found.version > 2 * cycles
    assert bounds[0] > 0
