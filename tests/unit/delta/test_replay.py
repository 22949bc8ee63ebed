"""A log's actions add up to a table's state."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowtide.delta.replay import (
    CheckpointUnknown,
    DamagedLog,
    LogFiles,
    LogIncomplete,
    Protocol,
    VersionState,
    checkpoint_path,
    commit_path,
)


def commit(*actions: dict[str, Any]) -> bytes:
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def add(path: str, **values: Any) -> dict[str, Any]:
    return {
        "add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True, **values}
    }


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 7, "dataChange": True}}


def replay(*commits: bytes) -> VersionState:
    state = VersionState()
    for content in commits:
        state.apply_commit(content)
    return state


def test_a_file_is_there_from_its_add_to_its_remove() -> None:
    state = replay(commit(add("a"), add("b")), commit(remove("a")), commit(add("c")))
    assert (list(state.files), list(state.removed)) == (["b", "c"], ["a"])


def test_a_file_that_comes_back_is_no_longer_removed() -> None:
    state = replay(commit(add("a")), commit(remove("a")), commit(add("a", size=9)))
    assert (state.files["a"].size, state.removed) == (9, {})


@pytest.mark.parametrize("actions", [(add("a", size=3), remove("a")), (remove("a"), add("a", size=3))])
def test_a_file_removed_and_added_by_one_commit_stays(actions: tuple[dict[str, Any], ...]) -> None:
    assert replay(commit(add("a")), commit(*actions)).files["a"].size == 3


def test_the_last_of_protocol_schema_and_transaction_counts() -> None:
    state = replay(
        commit(
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": "x", "schemaString": "{}", "configuration": {"a": "1"}}},
            {"txn": {"appId": "one", "version": 3}},
        ),
        commit(
            {"commitInfo": {"operation": "x"}},
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["f"], "writerFeatures": []}},
            {"metaData": {"id": "x", "schemaString": "{}", "configuration": {"a": "2"}}},
            {"txn": {"appId": "one", "version": 4}},
            {"txn": {"appId": "two", "version": 1}},
        ),
    )
    assert state.protocol == Protocol(3, 7, frozenset({"f"}))
    assert state.metadata is not None
    assert state.metadata.properties == {"a": "2"}
    assert {name: found.version for name, found in state.transactions.items()} == {"one": 4, "two": 1}


def test_metadata_of_a_domain_goes_when_it_is_removed() -> None:
    kept = {"domainMetadata": {"domain": "a", "configuration": "{}", "removed": False}}
    gone = {"domainMetadata": {"domain": "a", "configuration": "{}", "removed": True}}
    assert list(replay(commit(kept)).domains) == ["a"]
    assert replay(commit(kept), commit(gone)).domains == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "Expecting property name"),
        (b"[]", "'list' object"),
        (b'{"add": {"size": 1}}', "an action has no 'path'"),
        (b'{"add": 5}', "'int' object"),
        (b'{"add": {}, "remove": {}}', "too many values"),
    ],
)
def test_a_malformed_commit_is_damage(content: bytes, problem: str) -> None:
    with pytest.raises(DamagedLog, match=problem):
        replay(content)


def test_a_malformed_checkpoint_is_damage() -> None:
    with pytest.raises(DamagedLog):
        VersionState().apply_checkpoint(pa.BufferReader(b"no Parquet"))


def test_a_checkpoint_is_read_without_fields_that_are_not_used() -> None:
    strings = pa.map_(pa.string(), pa.string())
    added = pa.struct(
        [("path", pa.string()), ("partitionValues", strings), ("size", pa.int64()), ("modificationTime", pa.int64())]
    )
    rows = [
        {"add": {"path": "a", "partitionValues": {}, "size": 5, "modificationTime": 6}},
        {"txn": {"appId": "one", "version": 4, "lastUpdated": None}},
        {"remove": {"path": "b", "deletionTimestamp": 3}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]
    schema = pa.schema(
        {
            "add": added,
            "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
            "remove": pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())]),
            "domainMetadata": pa.struct(
                [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
            ),
            "unknown": pa.int32(),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    state = VersionState()
    state.apply_checkpoint(pa.BufferReader(sink.getvalue()))
    assert (state.files["a"].size, state.transactions["one"].version) == (5, 4)
    assert (state.removed["b"].deleted_at, list(state.domains)) == (3, ["d"])


LOG = "_delta_log/"


def commits(*versions: int) -> list[str]:
    return [commit_path(version) for version in versions]


def part(version: int, number: int, of: int) -> str:
    return f"{LOG}{version:020d}.checkpoint.{number:010d}.{of:010d}.parquet"


def test_without_checkpoint_all_commits_make_up_the_last_version() -> None:
    segment = LogFiles.of([*commits(0, 1, 2), f"{LOG}{1:020d}.crc", f"{LOG}_last_checkpoint"]).make_up()
    assert (segment.version, segment.checkpoint_version) == (2, None)
    assert [path for _, path in segment.commits] == commits(0, 1, 2)


def test_the_last_complete_checkpoint_and_what_follows_are_taken() -> None:
    files = LogFiles.of([*commits(0, 1, 2, 3, 4), checkpoint_path(1), part(3, 1, 2)])
    segment = files.make_up()
    assert (segment.checkpoint, segment.commits) == (
        (checkpoint_path(1),),
        ((2, commit_path(2)), (3, commit_path(3)), (4, commit_path(4))),
    )


def test_the_parts_of_a_checkpoint_are_taken_in_order() -> None:
    segment = LogFiles.of([part(3, 2, 2), part(3, 1, 2), *commits(4)]).make_up()
    assert segment.checkpoint == (part(3, 1, 2), part(3, 2, 2))


def test_a_checkpoint_alone_is_a_version() -> None:
    assert LogFiles.of([checkpoint_path(7)]).make_up().version == 7


def test_an_earlier_version_takes_an_earlier_checkpoint() -> None:
    segment = LogFiles.of([*commits(1, 2, 3, 4, 5), checkpoint_path(1), checkpoint_path(4)]).make_up(3)
    assert (segment.version, segment.checkpoint_version) == (3, 1)


@pytest.mark.parametrize(
    ("paths", "version", "missing"),
    [
        ([*commits(0, 1, 3)], None, 2),
        ([*commits(2, 3)], None, 0),
        ([checkpoint_path(4), *commits(6)], None, 5),
        ([*commits(0, 1)], 5, 2),
        ([checkpoint_path(4), *commits(3, 5)], 3, 0),
    ],
)
def test_a_log_with_a_hole_is_refused(paths: list[str], version: int | None, missing: int) -> None:
    with pytest.raises(LogIncomplete, match=f"version {missing} is missing"):
        LogFiles.of(paths).make_up(version)


def test_a_version_that_newer_checkpoints_have_is_told_apart() -> None:
    uuid = f"{LOG}{4:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    with pytest.raises(CheckpointUnknown):
        LogFiles.of([uuid, *commits(5)]).make_up()
    assert LogFiles.of([uuid, checkpoint_path(4), *commits(5)]).make_up().version == 5
