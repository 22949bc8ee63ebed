"""Tables that are not on a local disk are reached through Spark's file systems: here, local files by their URL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from builders.delta_tables import append
from rowtide.delta.commits import Committer
from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.snapshot import Location, open_snapshot
from rowtide.lake import stores, tables
from rowtide.lake.hadoop import HadoopFolder
from rowtide.lake.session import running_session
from rowtide.storage.store import Missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_folder_keeps_what_stores_promise(spark: SparkSession, tmp_path: Path) -> None:
    store = HadoopFolder(spark, f"file:{tmp_path}/a %20 folder")
    assert store.list("") == []
    store.put_durable("a/b", b"1\xff")
    store.put_durable("a/b", b"2\xff")
    assert (store.get("a/b"), store.open("a/b").read()) == (b"2\xff", b"2\xff")
    assert store.put_if_absent("a/c", b"{}\n{1}\n")
    assert not store.put_if_absent("a/c", b"{2}\n")
    assert store.get("a/c") == b"{}\n{1}\n"
    assert (store.list("a/"), store.list("", after="a/b"), store.list("x/")) == (["a/b", "a/c"], ["a/c"], [])
    now = datetime.now(UTC)
    assert (store.list_older(now - timedelta(hours=1)), store.list_older(now + timedelta(hours=1))) == (
        [],
        ["a/b", "a/c"],
    )
    store.sweep(now)
    store.delete("a/b")
    store.delete("a/b")
    for read in (store.get, store.open):
        with pytest.raises(Missing):
            read("a/b")
    with pytest.raises(LakeReadFailed, match="RT-3104"):
        store.get("a")


def test_a_table_there_is_read_and_appended_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"file:{tmp_path}/table"
    location = Location(path, HadoopFolder(running_session(), path))
    monkeypatch.setattr(tables, "locate", lambda _path: location)
    tables.ensure_table(path, [("id", "bigint")], identity="one")
    for cycle in (1, 2):
        assert append(Committer(), location, cycle)
    assert not append(Committer(), location, 2)
    snapshot = open_snapshot(location)
    assert snapshot is not None
    assert set(snapshot.read()["id"].to_pylist()) == {1, 2}
    assert tables.read_table(spark, path).count() == 2


def test_what_is_not_local_is_reached_through_spark(spark: SparkSession) -> None:
    assert isinstance(stores.locate("s3a://bucket/lake").store, HadoopFolder)
