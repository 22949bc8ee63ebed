"""Columns with any name: in the lake under names that need no column mapping, to every reader under the source's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rowtide
from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide as run_rowtide
from rowtide.cdc.enabling import instances
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.lake.stores import locate

NAMES = ["id", "a, b", "A, B", "100%25", "x=(y);{z}"]
SHOWN = ["id", "a, b", "A, B_2", "100%25", "x=(y);{z}"]
ROWS = [(1, "one", "ONE", "percent", "more")]


def write_odd_names(captured: CapturedDatabase) -> None:
    columns = ", ".join(f'"{name}" text' for name in NAMES[1:])
    captured.execute(f"create table odd (id int primary key, {columns})")
    captured.enable("odd")
    captured.execute("insert into odd values (1, 'one', 'ONE', 'percent', 'more')")
    captured.capture()


def open_table(captured: CapturedDatabase) -> Snapshot:
    snapshot = open_snapshot(locate(str(Path(captured.lake, "cdc", "public_odd_CT"))))
    assert snapshot is not None
    return snapshot


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_earlier", [False, True], ids=["new", "of an earlier version"])
def test_every_reader_shows_the_names_of_the_source(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, *, is_earlier: bool
) -> None:
    with monkeypatch.context() as earlier:
        if is_earlier:
            earlier.setattr(instances, "name_in_lake", lambda name: name)
        write_odd_names(captured)
    snapshot = open_table(captured)
    assert snapshot.metadata.is_mapped is is_earlier
    captured.execute("update odd set \"a, b\" = 'uno'")
    captured.capture()
    after = [(1, "uno", *ROWS[0][2:])]

    assert captured.values("public_odd", *SHOWN) == [(2, *ROWS[0]), (3, *ROWS[0]), (4, *after[0])]
    net = captured.cdc.get_net_changes("public_odd", spark=captured.spark)
    assert [tuple(row) for row in net.select(*(f"`{name}`" for name in SHOWN)).collect()] == after
    rowtide.register(captured.spark, str(captured.lake))
    valid = rowtide.open_lake(str(captured.lake)).get_validity_interval("public_odd")
    for function in ("all", "net"):
        call = f"fn_cdc_get_{function}_changes_public_odd"
        rows = captured.spark.sql(f"select * from {call}({valid.low.value}, {valid.high.value}, 'all')")
        assert after[0] in [tuple(row) for row in rows.select(*(f"`{name}`" for name in SHOWN)).collect()]
    lake = rowtide.open_lake(str(captured.lake))
    for changes in (lake.get_all_changes("public_odd"), lake.get_net_changes("public_odd")):
        found = changes.to_arrow().read_all().select(SHOWN).to_pylist()
        assert tuple(found[-1].values()) == after[0]
    printed = run_rowtide("cdc", "changes", "public_odd", "--format", "jsonl", "--db", captured.url)
    *_, last = (json.loads(line) for line in printed.output.splitlines())
    assert [last[name] for name in NAMES] == list(after[0])


def test_a_second_instance_is_united_under_the_source_names(captured: CapturedDatabase) -> None:
    write_odd_names(captured)
    captured.execute('alter table odd add column "new one" text')
    captured.cdc.enable_table("odd", capture_instance="odd_2")
    captured.execute("insert into odd values (2, 'a', 'b', 'c', 'd', 'e')")
    captured.capture()
    rows = captured.cdc.get_table_changes("odd", spark=captured.spark)
    shown = ["a, b", "A, B_2", "new one"]
    found = [tuple(row) for row in rows.select(*(f"`{name}`" for name in shown)).collect()]
    assert found == [("one", "ONE", None), ("a", "b", "e")]
