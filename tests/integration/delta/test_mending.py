"""Type widening is taken out of tables again: no row changes, nobody's append is lost, a kill costs one step."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from builders.faults.failpoints import CHANGE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.lakes.delta_tables import SCHEMA, append, locate, own
from builders.threads import in_thread
from rowtide.delta.features import WIDENINGS, without_features
from rowtide.delta.replay import AddFile, Protocol, commit_path, read_commit
from rowtide.delta.writing import widening_removal
from rowtide.delta.writing.alteration import rewrite, widen_columns
from rowtide.delta.writing.appends import write_rows
from rowtide.delta.writing.commits import Committer, PriorVersion, create_table
from rowtide.delta.writing.widening_removal import Mended, is_marked, mend, plan_mending

TYPES: dict[str, pa.DataType] = {
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "decimal(20,0)": pa.decimal128(20, 0),
}
BARE, NTZ = Protocol(1, 2), "timestampNtz"


def make_narrow(path: Path, **properties: str) -> Path:
    create_table(locate(path), json.dumps(SCHEMA).replace("long", "short"), properties)
    return path


def add(path: Path, cycle: int, type_name: str, committer: Committer | None = None) -> None:
    """Append a cycle whose number is its id, in the type that the column has now."""
    rows = pa.table({"id": pa.array([cycle], TYPES[type_name])})
    append(committer or Committer(), locate(path), cycle, rows)


def ids(path: Path) -> list[int]:
    values: list[Any] = own(path).read()["id"].to_pylist()
    return sorted(map(int, values))


def actions(path: Path, kind: str) -> list[Any]:
    """Return the actions of a kind of the last commit."""
    content = locate(path).store.get(commit_path(own(path).version))
    return [values for name, values in read_commit(content) if name == kind]


def make_marked(path: Path, **properties: str) -> Path:
    """Make a table of two narrow files and a wide one."""
    make_narrow(path, **properties)
    add(path, 1, "short")
    add(path, 2, "short")
    widen_columns(locate(path), {"id": "long"})
    add(path, 3, "long")
    return path


@pytest.mark.parametrize("mode", ["none", "name"])
def test_narrow_files_are_written_again_and_the_feature_goes(tmp_path: Path, mode: str) -> None:
    path = make_marked(tmp_path / "table", **{"delta.columnMapping.mode": mode})
    marked = own(path)
    wide = [name for name, file in marked.files.items() if file.statistics["minValues"] == {physical(path): 3}]
    planned = plan_mending(marked)
    done = mend(locate(path))

    found = own(path)
    [column] = found.columns.fields
    assert (is_marked(marked), is_marked(found), ids(path)) == (True, False, [1, 2, 3])
    assert found.protocol == (BARE if mode == "none" else replace(found.protocol, min_reader=3, min_writer=7))
    assert "delta.enableTypeWidening" not in found.properties
    assert "delta.typeChanges" not in column.metadata
    assert set(wide) < set(found.files)
    assert (planned.files, planned.written_bytes) == (2, None)
    assert (done.was_marked, done.files, done.read_bytes) == (True, 2, planned.read_bytes)
    assert done.written_bytes == sum(file.size for name, file in found.files.items() if name not in wide)
    assert not any(found.has_other_types(file, ["id"]) for file in found.files.values())


def physical(path: Path) -> str:
    return own(path).columns.fields[0].physical_name


def test_what_mending_commits_changes_no_data(tmp_path: Path) -> None:
    path = make_marked(tmp_path / "table")
    seen: list[tuple[Sequence[Any], Sequence[Any]]] = []
    mend(locate(path), on_progress=lambda _done: seen.append((actions(path, "add"), actions(path, "remove"))))
    assert [(len(added), len(removed)) for added, removed in seen] == [(2, 2), (0, 0)]
    assert not any(one["dataChange"] for added, removed in seen for one in (*added, *removed))
    assert mend(locate(path)) == Mended(was_marked=False, written_bytes=0)
    assert own(path).version == 6


def test_tags_of_files_are_kept(tmp_path: Path) -> None:
    path = make_narrow(tmp_path / "table")
    location = locate(path)

    def write(state: PriorVersion) -> list[AddFile]:
        rows = pa.table({"id": pa.array([1], pa.int16())})
        return [replace(write_rows(location, state.columns, state.metadata, rows, "1.parquet"), tags={"of": "7"})]

    Committer().commit_once(location, identity="one", cycle=1, write=write)
    widen_columns(location, {"id": "integer"})
    mend(location)
    assert [file.tags for file in own(path).files.values()] == [{"of": "7"}]
    text = json.dumps(SCHEMA)
    rewrite(location, text, lambda rows: rows.cast(pa.schema({"id": pa.int64()})), changes_rows=False)
    assert [file.tags for file in own(path).files.values()] == [{"of": "7"}]
    assert not any(one["dataChange"] for kind in ("add", "remove") for one in actions(path, kind))


def test_rewritten_types_need_no_widening_any_more(tmp_path: Path) -> None:
    path = make_marked(tmp_path / "table")
    texts = pa.schema({"id": pa.string()})
    rewrite(locate(path), json.dumps(SCHEMA).replace("long", "string"), lambda rows: rows.cast(texts))
    assert (own(path).protocol, ids(path)) == (BARE, [1, 2, 3])
    assert "delta.enableTypeWidening" not in own(path).properties


@pytest.mark.parametrize("step", [1, 2])
def test_appends_and_widenings_in_between_are_kept(tmp_path: Path, step: int) -> None:
    path, committer = make_marked(tmp_path / "table"), Committer()
    add(path, 4, "long", committer)
    steps = [0]

    def interfere() -> None:
        steps[0] += 1
        if steps[0] == step:
            add(path, 5, "long", committer)
            widen_columns(locate(path), {"id": "decimal(20,0)"})
            add(path, 6, "decimal(20,0)", committer)

    mend(locate(path), before_commit=interfere)
    found = own(path)
    assert (found.protocol, ids(path)) == (BARE, [1, 2, 3, 4, 5, 6])
    assert not any(found.has_other_types(file, ["id"]) for file in found.files.values())


def test_large_files_are_committed_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_marked(tmp_path / "table")
    monkeypatch.setattr(widening_removal, "fill_groups", lambda files, _size: [[file] for file in files])
    done: list[int] = []
    mend(locate(path), on_progress=lambda mended: done.append(mended.files))
    assert (done, own(path).version) == ([1, 2, 2], 7)


def test_one_that_may_not_commit_changes_nothing(tmp_path: Path) -> None:
    path = make_marked(tmp_path / "table")

    def refuse() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        mend(locate(path), before_commit=refuse)
    assert (own(path).version, is_marked(own(path))) == (4, True)


MENDS = """
import sys
from pathlib import Path
from builders.lakes.delta_tables import locate
from rowtide.delta.writing.widening_removal import mend
mend(locate(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("failpoint", CHANGE_FAILPOINTS)
def test_a_kill_leaves_all_rows_and_a_repeat_completes_it(tmp_path: Path, failpoint: str) -> None:
    path = make_marked(tmp_path / "table", **{"delta.checkpointInterval": "5"})
    assert run_program(MENDS, str(path), failpoint=failpoint) == KILLED
    assert ids(path) == [1, 2, 3]
    add(path, 4, "long")
    assert run_program(MENDS, str(path), failpoint="none") == 0
    assert (own(path).protocol, ids(path)) == (BARE, [1, 2, 3, 4])


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cycles", [30, pytest.param(3_000, marks=pytest.mark.soak)])
def test_an_append_beside_marking_and_mending_is_there_once(tmp_path: Path, cycles: int) -> None:
    path, committer = make_narrow(tmp_path / "table"), Committer()
    kinds: Sequence[tuple[str, Callable[[], object]]] = [
        ("integer", lambda: widen_columns(locate(path), {"id": "integer"})),
        ("long", lambda: widen_columns(locate(path), {"id": "long"})),
        ("decimal(20,0)", lambda: widen_columns(locate(path), {"id": "decimal(20,0)"})),
    ]

    def mend_all(is_over: threading.Event) -> None:
        while not is_over.is_set():
            mend(locate(path))

    with in_thread(mend_all):
        for cycle in range(1, cycles + 1):
            if cycle % (cycles // 3) == 1 and cycle > 1:
                kinds[cycle // (cycles // 3) - 1][1]()
            name = own(path).columns.fields[0].type
            rows = pa.table({"id": pa.array([cycle], name.arrow)})
            append(committer, locate(path), cycle, rows)
    mend(locate(path))
    assert (ids(path), own(path).protocol) == (list(range(1, cycles + 1)), BARE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Protocol(3, 7, frozenset({"typeWidening"}), frozenset({"appendOnly", "invariants", "typeWidening"})), BARE),
        (
            Protocol(3, 7, frozenset({"typeWidening"}), frozenset({"invariants", "typeWidening"})),
            Protocol(1, 7, frozenset(), frozenset({"invariants"})),
        ),
        (
            Protocol(
                3,
                7,
                frozenset({"typeWidening-preview", "timestampNtz"}),
                frozenset({"typeWidening-preview", "timestampNtz"}),
            ),
            Protocol(3, 7, frozenset({NTZ}), frozenset({NTZ})),
        ),
        (
            Protocol(3, 7, frozenset({"typeWidening", "columnMapping"}), frozenset({"typeWidening", "columnMapping"})),
            Protocol(3, 7, frozenset({"columnMapping"}), frozenset({"columnMapping"})),
        ),
        (BARE, BARE),
    ],
)
def test_a_protocol_loses_features_and_what_only_these_needed(before: Protocol, after: Protocol) -> None:
    assert without_features(before, WIDENINGS) == after
