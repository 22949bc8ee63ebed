"""Rows are edited once, whatever is committed meanwhile, and files without them stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from builders.lakes.delta_tables import append, create, locate, own
from rowtide.delta.data_files import Between
from rowtide.delta.errors import EditOutdated
from rowtide.delta.replay import AddFile
from rowtide.delta.writing.commits import Committer
from rowtide.delta.writing.compaction import compact
from rowtide.delta.writing.row_edits import MOST_SMALL, Indexes, Stamp, edit_rows, replace_rows


@dataclass(frozen=True, slots=True)
class Doubled:
    """An edit that doubles an id, or deletes its row."""

    wanted: int
    deletes: bool = False
    column: str = "id"

    @property
    def columns(self) -> Sequence[str]:
        return ("id",)

    def may_be_in(self, file: AddFile) -> bool:
        return Between(self.column, self.wanted, self.wanted).may_be_in(file)

    def find(self, rows: pa.Table) -> Indexes:
        return np.where(rows["id"].to_numpy() == self.wanted, 0, -1).astype(np.int32)

    def apply(self, rows: pa.RecordBatch, places: Indexes) -> pa.RecordBatch:
        if self.deletes:
            return rows.filter(pa.array(places < 0))
        ids: Any = np.where(places < 0, 1, 2) * rows["id"].to_numpy()
        return pa.RecordBatch.from_arrays([pa.array(ids)], schema=rows.schema)


def fill(path: Path, *ids: int) -> None:
    for number in ids:
        append(Committer(), locate(path), number)


def rows(*ids: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: iter([pa.record_batch({"id": pa.array(ids, pa.int64())})])


def read(path: Path) -> list[Any]:
    return sorted(own(path).read()["id"].to_pylist())


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_rows_are_edited_and_added_in_one_commit(tmp_path: Path, mode: str) -> None:
    path = create(tmp_path / "table", **{"delta.columnMapping.mode": mode})
    fill(path, 1, 2, 3)
    [column] = [field.physical_name for field in own(path).columns.fields]
    before = own(path)
    assert edit_rows(locate(path), Doubled(2, column=column), rows(9), Stamp("target", 5))
    after = own(path)
    assert (after.version, after.get_transaction("target")) == (before.version + 1, 5)
    assert read(path) == [1, 3, 4, 9]
    assert len(before.files.keys() & after.files.keys()) == 2


def test_an_edit_counts_once(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, 1, 2)
    assert edit_rows(locate(path), Doubled(1), rows(9), Stamp("target", 5))
    for version in (4, 5):
        assert not edit_rows(locate(path), Doubled(1), rows(9), Stamp("target", version))
        assert not replace_rows(locate(path), rows(8), Stamp("target", version))
    assert read(path) == [2, 2, 9]


@pytest.mark.parametrize("deletes", [False, True])
def test_an_edit_that_another_process_commits_first_is_left(tmp_path: Path, *, deletes: bool) -> None:
    path = create(tmp_path / "table")
    fill(path, 1, 2)
    attempts: list[int] = []

    def added() -> Iterator[pa.RecordBatch]:
        attempts.append(1)
        if len(attempts) == 1:
            # The other one deletes only: it adds no file that would have to be seen.
            assert edit_rows(locate(path), Doubled(2, deletes=True), lambda: iter(()), Stamp("target", 5))
        return rows(9)()

    assert not edit_rows(locate(path), Doubled(1, deletes=deletes), added, Stamp("target", 5))
    assert (read(path), len(attempts)) == ([1], 1)


def test_rows_that_are_added_meanwhile_are_edited_too(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, 1)
    left = [2]

    def added() -> Iterator[pa.RecordBatch]:
        if left:
            fill(path, left.pop())
        return iter(())

    assert edit_rows(locate(path), Doubled(2), lambda: [*added(), *rows(9)()], Stamp("target", 5))
    assert read(path) == [1, 4, 9]


def test_too_many_small_files_are_merged(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    ids = range(1, MOST_SMALL + 2)
    fill(path, *ids)
    assert edit_rows(locate(path), Doubled(1, deletes=True), rows(100), Stamp("target", 5))
    assert read(path) == [*ids[1:], 100]
    assert len(own(path).files) == 1


def test_an_edit_of_no_row_leaves_its_stamp(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, 1)
    assert edit_rows(locate(path), Doubled(7), lambda: iter(()), Stamp("target", 5))
    assert (own(path).get_transaction("target"), read(path)) == (5, [1])


def test_an_edit_of_another_version_is_refused(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, 1, 2)

    def added() -> Iterator[pa.RecordBatch]:
        # Its files are others.
        edit_rows(locate(path), Doubled(2, deletes=True), lambda: iter(()), Stamp("target", 5))
        return rows(9)()

    for _ in range(2):
        with pytest.raises(EditOutdated):
            edit_rows(locate(path), Doubled(1), added, Stamp("target", 6))
    assert edit_rows(locate(path), Doubled(1), rows(9), Stamp("target", 6, 5))
    assert read(path) == [2, 9]


def test_all_rows_are_replaced(tmp_path: Path) -> None:
    path = create(tmp_path / "table")
    fill(path, 1, 2)
    compact(locate(path), "id")
    assert replace_rows(locate(path), rows(7, 8), Stamp("target", 5))
    assert read(path) == [7, 8]
    assert replace_rows(locate(path), lambda: iter(()), Stamp("target", 6, 5))
    assert (read(path), own(path).get_transaction("target")) == ([], 6)
