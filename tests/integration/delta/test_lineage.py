"""What a version of a table has of an application: others' changes, and versions that they restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders.lakes.delta_tables import make_table, own, write_commit
from rowtide.targets.formats.delta import Foreign, VersionLineage, find_lineage

OURS = {"txn": {"appId": "ours", "version": 7}}


def info(operation: str, **parameters: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "operationParameters": parameters}}


def added(**more: Any) -> dict[str, Any]:
    return {"add": {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, **more}}


MERGE, DELETE = (OURS, info("MERGE"), added(dataChange=True)), (info("DELETE"), added(dataChange=True))


@pytest.mark.parametrize(
    ("commits", "lineage"),
    [
        ([], VersionLineage()),
        ([MERGE, MERGE], VersionLineage()),
        ([(info("OPTIMIZE"), added(dataChange=False))], VersionLineage()),
        ([(info("SET TBLPROPERTIES"),)], VersionLineage()),
        ([DELETE], VersionLineage(foreign=Foreign(2, "DELETE"))),
        ([(added(),)], VersionLineage(foreign=Foreign(2, "a commit"))),
        ([DELETE, MERGE], VersionLineage(foreign=Foreign(2, "DELETE"))),
        ([DELETE, (info("RESTORE", version="1"), added(dataChange=True))], VersionLineage()),
        ([(info("RESTORE", version=0), added(dataChange=True))], VersionLineage(restored=0)),
        ([(info("RESTORE", version="0"), added()), MERGE], VersionLineage()),
        ([MERGE, (info("RESTORE", version="0"), added()), DELETE], VersionLineage(0, Foreign(4, "DELETE"))),
        ([(info("RESTORE", version=None, timestamp="x"), added())], VersionLineage(foreign=Foreign(2, "RESTORE"))),
    ],
)
def test_commits_since_a_known_one_are_told_apart(
    commits: list[tuple[dict[str, Any], ...]], lineage: VersionLineage, tmp_path: Path
) -> None:
    path = make_table(tmp_path / "table", commits=1)
    for version, actions in enumerate(commits, 2):
        write_commit(path, version, *actions)
    assert find_lineage(own(path), "ours", 1) == lineage


def test_what_the_log_no_longer_has_is_our_own(tmp_path: Path) -> None:
    path = make_table(tmp_path / "table", commits=2)
    found = own(path)
    (path / "_delta_log" / f"{1:020d}.json").unlink()
    assert find_lineage(found, "ours", 0).restored is None
