"""A database that was restored with its log store and its lake, but without the targets, which are later."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.capture.applied_targets import AppliedTargets
from fixtures.captured import open_copied
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate
from rowtide.targets.custom import CustomWindow
from rowtide.targets.options import ApplyEngine, TargetFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("current", "history")
CLASS = "of_class"
INSTANCE = "public_item"


class Ids:
    """A target that keeps the numbers of rows in a file, with its position."""

    def __init__(self, _name: str, properties: Mapping[str, str]) -> None:
        self._file = Path(properties["file"])

    def find_lsn(self, _target_id: str) -> int | None:
        lsn: int | None = json.loads(self._file.read_text())["lsn"] if self._file.exists() else None
        return lsn

    def apply(self, window: CustomWindow) -> None:
        known = json.loads(self._file.read_text())["ids"] if self._file.exists() else []
        changed = [row["id"] for row in window.stream_net_changes(INSTANCE).to_arrow().read_all().to_pylist()]
        self._file.write_text(json.dumps({"lsn": window.to.value, "ids": sorted({*known, *changed})}))


def copy_tree(folder: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", str(folder), str(to)], check=True)


def rows_of(applied: AppliedTargets, kind: str) -> list[int]:
    found = open_snapshot(locate(str(applied.folder / kind / INSTANCE)))
    assert found is not None
    return sorted(row["id"] for row in found.read(["id"]).to_pylist())


@contextmanager
def running(folder: Path) -> Iterator[AppliedTargets]:
    """Run the server on its data, until the block ends: then its files, log store and lake are one state."""
    with (
        EmbeddedServer.start(folder / "server", settings=SETTINGS) as server,
        open_copied(server.url(), folder / "lake") as captured,
    ):
        yield AppliedTargets(captured)


def test_a_target_that_is_later_than_its_lake_stops(tmp_path: Path) -> None:
    places, ids = ("server", "lake"), tmp_path / "ids.json"
    with running(tmp_path) as applied:
        captured = applied.captured
        captured.execute("create table item (id int primary key, filler text)", "insert into item values (1)")
        captured.enable("item", snapshot=True)
        captured.copy_tables()
        for kind in KINDS:
            applied.add(kind, INSTANCE, kind=kind)
        of_class = f"python:{Ids.__module__}.{Ids.__qualname__}"
        applied.targets.add(CLASS, [INSTANCE], kind=of_class, table_properties={"file": str(ids)})
        applied.follow_directly()
    for place in places:
        copy_tree(tmp_path / place, tmp_path / f"{place}.kept")
    with running(tmp_path) as applied:
        applied.captured.execute("insert into item select n, repeat('x', 1000) from generate_series(100, 1000) n")
        applied.follow_directly()
    for place in places:
        copy_tree(tmp_path / f"{place}.kept", tmp_path / place)

    with running(tmp_path) as applied:
        captured = applied.captured
        lost, lost_ids = rows_of(applied, "current"), ids.read_text()
        assert len(lost) == 902
        # First an LSN that the tables have passed, then one beyond theirs.
        for inserted in ("values (2)", "select n, repeat('y', 20000) from generate_series(10, 90) n"):
            captured.execute("alter table item alter filler set storage external", f"insert into item {inserted}")
            captured.capture()
            applied.targets.apply()
            noted = {one.target: one.note or "" for one in applied.targets.list_targets()}
            assert {kind: note[:7] for kind, note in noted.items()} == dict.fromkeys((*KINDS, CLASS), "RT-1173")
            assert (rows_of(applied, "current"), ids.read_text()) == (lost, lost_ids)
        for kind in KINDS:
            shutil.rmtree(applied.folder / kind / INSTANCE)
        ids.unlink()
        captured.execute("insert into item values (3)")
        applied.follow_directly()
        # The class gets changes alone, and the first row was copied.
        assert json.loads(ids.read_text())["ids"] == [2, 3, *range(10, 91)]
        assert {kind: rows_of(applied, kind) for kind in KINDS} == {kind: [1, 2, 3, *range(10, 91)] for kind in KINDS}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("table_format", "engine"), [(TargetFormat.DELTA, ApplyEngine.SPARK), (TargetFormat.ICEBERG, ApplyEngine.AUTO)]
)
def test_a_table_that_spark_writes_stops_too(
    spark: SparkSession, tmp_path: Path, table_format: TargetFormat, engine: ApplyEngine
) -> None:
    def follow(applied: AppliedTargets) -> dict[str, str | None]:
        applied.captured.capture()
        applied.targets.apply(spark=spark)
        return applied.notes()

    places = ("server", "lake")
    with running(tmp_path) as applied:
        applied.captured.execute("create table item (id int primary key)", "insert into item values (1)")
        applied.captured.enable("item", snapshot=True)
        applied.captured.copy_tables()
        applied.add("shop", INSTANCE, format=table_format, engine=engine)
        assert follow(applied) == {INSTANCE: None}
    for place in places:
        copy_tree(tmp_path / place, tmp_path / f"{place}.kept")
    with running(tmp_path) as applied:
        applied.captured.execute("insert into item select generate_series(100, 200)")
        assert follow(applied) == {INSTANCE: None}
    for place in places:
        copy_tree(tmp_path / f"{place}.kept", tmp_path / place)
    with running(tmp_path) as applied:
        applied.captured.execute("insert into item values (2)")
        assert "RT-1173" in str(follow(applied)[INSTANCE])
