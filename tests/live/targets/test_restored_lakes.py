"""A database that was restored with its log store and its lake, but without the targets, which are later."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builders.capture.applied_targets import AppliedTargets
from fixtures.captured import open_copied
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate

KINDS = ("current", "history")
INSTANCE = "public_item"


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
    places = ("server", "lake")
    with running(tmp_path) as applied:
        captured = applied.captured
        captured.execute("create table item (id int primary key, filler text)", "insert into item values (1)")
        captured.enable("item", snapshot=True)
        captured.copy_tables()
        for kind in KINDS:
            applied.add(kind, INSTANCE, kind=kind)
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
        lost = rows_of(applied, "current")
        assert len(lost) == 902
        # First an LSN that the tables have passed, then one beyond theirs.
        for inserted in ("values (2)", "select n, repeat('y', 20000) from generate_series(10, 90) n"):
            captured.execute("alter table item alter filler set storage external", f"insert into item {inserted}")
            captured.capture()
            applied.targets.apply()
            noted = {one.target: one.note or "" for one in applied.targets.list_targets()}
            assert {kind: note[:7] for kind, note in noted.items()} == dict.fromkeys(KINDS, "RT-1173")
            assert rows_of(applied, "current") == lost
        for kind in KINDS:
            shutil.rmtree(applied.folder / kind / INSTANCE)
        captured.execute("insert into item values (3)")
        applied.follow_directly()
        assert {kind: rows_of(applied, kind) for kind in KINDS} == {kind: [1, 2, 3, *range(10, 91)] for kind in KINDS}
