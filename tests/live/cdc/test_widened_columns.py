"""Columns that get wider types: tables are rewritten or marked as the settings say, and what is marked is mended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import rowtide as rowtide_module
from builders.capture.applied_targets import AppliedTargets
from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.cuts import Cut
from builders.faults.failpoints import CHANGE_FAILPOINTS, MENDING_FAILPOINTS
from builders.faults.killed_programs import KILLED
from builders.lakes.delta_tables import locate, own
from builders.servers.object_servers import Bucket
from rowtide.cdc.ddl import retyping
from rowtide.core.tables import Widened
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import open_snapshot
from rowtide.delta.writing import widening_removal
from rowtide.delta.writing.alteration import set_properties, widen_columns
from rowtide.delta.writing.widening_removal import is_marked
from rowtide.lake import stores as lake_stores
from rowtide.targets.options import TargetFormat

ITEM = "public_item"


def run(logged: LoggedDatabase, *options: str) -> str:
    """Capture all that is committed by the command; return what it printed."""
    ended = rowtide("cdc", "run", "--once", *options, "--db", logged.url)
    assert ended.code == 0, ended.errors
    return " ".join(ended.errors.split())


def marked(logged: LoggedDatabase, *instances: str) -> list[bool]:
    return [is_marked(own(logged.lake / "cdc" / f"{instance}_CT")) for instance in instances]


def rows(logged: LoggedDatabase, instance: str = ITEM) -> list[tuple[Any, ...]]:
    """Return operation, id and number of all change rows."""
    found = rowtide_module.open_lake(str(logged.lake)).get_all_changes(instance, row_filter_option="all update old")
    return [(row["__$operation"], row["id"], int(row["n"])) for row in found.to_arrow().read_all().to_pylist()]


def present(logged: LoggedDatabase, instance: str = ITEM) -> list[tuple[Any, ...]]:
    """Return id and number of the rows of the table now."""
    found = rowtide_module.open_lake(str(logged.lake)).get_table_as_of(instance).to_arrow().read_all()
    return sorted((row["id"], int(row["n"])) for row in found.to_pylist())


def test_real_numbers_are_cast_as_the_server_casts_them(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, n real)", "insert into item values (1, 0.1), (2, 0.1)")
    logged.enable("public.item", snapshot=True)
    run(logged)
    with logged.transaction() as connection:
        for statement in (
            "insert into item values (3, 0.1)",
            "update item set n = 1.1 where id = 2",
            "alter table item alter n type double precision",
            "insert into item values (4, 0.1)",
        ):
            connection.execute(statement)
    run(logged)

    found = rowtide_module.open_lake(str(logged.lake)).get_table_as_of(ITEM).to_arrow().read_all().to_pylist()
    assert sorted((row["id"], row["n"]) for row in found) == logged.execute("select id, n from item order by id")


def make_marked(logged: LoggedDatabase) -> None:
    """Let an instance have a base and a change table that are marked, each with files of both types."""
    logged.execute("create table item (id int primary key, n int)", "insert into item values (1, 1)")
    logged.cdc.enable_db(str(logged.lake), widened=Widened.MARK)
    logged.cdc.enable_table("item", snapshot=True)
    logged.cdc.run(once=True)
    logged.execute("insert into item values (2, 2)")
    logged.cdc.run(once=True)
    logged.execute("alter table item alter n type bigint", "insert into item values (3, 5000000000)")
    logged.cdc.run(once=True)
    assert [is_marked(own(path)) for path in tables(logged)] == [True, True]


def tables(logged: LoggedDatabase) -> list[Path]:
    return [logged.lake / "cdc" / f"{ITEM}{suffix}" for suffix in ("_CT", "_base")]


CHANGED = [(2, 2, 2), (2, 3, 5_000_000_000)]
PRESENT = [(1, 1), (2, 2), (3, 5_000_000_000)]


def test_settings_say_which_tables_are_marked(logged: LoggedDatabase) -> None:
    logged.execute(*(f"create table {name} (id int primary key, n int)" for name in ("usual", "own", "kept")))
    enabling = ("cdc", "enable-db", "--lake", str(logged.lake), "--db", logged.url)
    assert rowtide(*enabling).code == 0
    for name, *options in (("usual",), ("own", "--widened", "rewrite"), ("kept", "--widened", "mark")):
        assert rowtide("cdc", "enable-table", name, "--no-snapshot", *options, "--db", logged.url).code == 0
    names = ("public_usual", "public_own", "public_kept")
    logged.execute(*(f"insert into {name} values (1, 1)" for name in ("usual", "own", "kept")))
    run(logged)

    logged.execute(*(f"alter table {name} alter n type bigint" for name in ("usual", "own", "kept")))
    logged.execute(*(f"insert into {name} values (2, 5000000000)" for name in ("usual", "own", "kept")))
    said = run(logged)
    assert marked(logged, *names) == [False, False, True]
    assert "public_usual_CT: n becomes bigint; its files of" in said
    assert "`rowtide lake mend public_kept` takes that away" in said

    changed = rowtide(*enabling, "--widened", "mark")
    assert "Of tables whose columns get wider types: mark." in " ".join(changed.errors.split())
    assert "Nothing was changed" in " ".join(rowtide(*enabling).errors.split())
    logged.execute(*(f"alter table {name} alter n type numeric(20)" for name in ("usual", "own", "kept")))
    logged.execute(*(f"insert into {name} values (4, 4)" for name in ("usual", "own", "kept")))
    run(logged)
    assert marked(logged, *names) == [True, False, True]
    assert [rows(logged, name) for name in names] == [[(2, 1, 1), (2, 2, 5_000_000_000), (2, 4, 4)]] * 3


@pytest.mark.exhaustive
def test_an_instance_keeps_its_setting_over_a_gap(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, n int)")
    logged.enable()
    logged.cdc.enable_table("item", snapshot=False, widened=Widened.MARK)
    logged.cdc.run(once=True)
    logged.cdc.reinitialize("a gap")
    logged.execute("alter table item alter n type bigint", "insert into item values (1, 1)")
    logged.cdc.run(once=True)
    logged.execute("alter table item alter n type numeric(20)", "insert into item values (2, 2)")
    logged.cdc.run(once=True)
    assert marked(logged, ITEM) == [True]


@pytest.mark.exhaustive
@pytest.mark.parametrize("cut_at", ["", "between"])
def test_a_base_is_widened_and_mended_at_once(
    logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    logged.execute("create table item (id int primary key, n int)", "insert into item values (1, 1)")
    logged.enable("item", snapshot=True)
    logged.cdc.run(once=True)
    logged.execute("alter table item alter n type bigint", "insert into item values (2, 5000000000)")
    if cut_at:
        with monkeypatch.context() as patched:
            patched.setattr(retyping, "mend", cut)
            with pytest.raises(Cut):
                logged.cdc.run(once=True)
        assert [is_marked(own(path)) for path in tables(logged)] == [False, True]
    logged.cdc.run(once=True)
    assert [is_marked(own(path)) for path in tables(logged)] == [False, False]
    assert (rows(logged), present(logged)) == ([(2, 2, 5_000_000_000)], [(1, 1), (2, 5_000_000_000)])


def cut(*_arguments: object, **_options: object) -> None:
    raise Cut


def test_a_run_that_rewrites_takes_the_feature_away(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retyping, "REWRITTEN_BYTES", 0)
    logged.execute("create table item (id int primary key, n int)", "insert into item values (1, 1)")
    logged.enable("item", snapshot=True)
    run(logged)
    logged.execute("insert into item values (2, 2)")
    run(logged)
    logged.execute("alter table item alter n type bigint", "insert into item values (3, 5000000000)")
    run(logged)
    assert [is_marked(own(path)) for path in tables(logged)] == [True, True]
    said = run(logged, "--rewrite-widened")
    assert [is_marked(own(path)) for path in tables(logged)] == [False, False]
    assert "public_item_base: 1 files with narrower types written again" in said
    assert (rows(logged), present(logged)) == (CHANGED, PRESENT)


def test_tables_are_mended_beside_capture_and_without_it(logged: LoggedDatabase, tmp_path: Path) -> None:
    make_marked(logged)
    planned = rowtide("lake", "mend", "public.item", "--dry-run", "--db", logged.url)
    assert "public_item_CT: 1 files," in planned.errors
    logged.cdc.add_consumer("loader", [ITEM])
    with CaptureProcess(logged.url, tmp_path) as process:
        process.wait_published(logged)
        mended = rowtide("lake", "mend", "public.item", "--db", logged.url)
        assert mended.code == 0, mended.errors
        logged.execute("insert into item values (4, 4)")
        process.wait_published(logged)
        assert process.terminate() == 0
    assert [is_marked(own(path)) for path in tables(logged)] == [False, False]
    assert "bytes read" in mended.errors or "KiB read" in mended.errors
    assert (rows(logged), present(logged)) == ([*CHANGED, (2, 4, 4)], [*PRESENT, (4, 4)])

    again = rowtide("lake", "mend", ITEM, "--db", logged.url)
    assert (again.code, again.errors.count("has no type widening")) == (0, 2)
    logged.execute("alter table item alter n type numeric(20)", "insert into item values (5, 5)")
    run(logged)
    assert [is_marked(own(path)) for path in tables(logged)] == [True, True]
    assert rowtide("lake", "mend", ITEM, "--db", logged.url).code == 0
    assert [is_marked(own(path)) for path in tables(logged)] == [False, False]
    assert (rows(logged), present(logged)) == ([*CHANGED, (2, 4, 4), (2, 5, 5)], [*PRESENT, (4, 4), (5, 5)])
    rowtide("lake", "mend", "nobody", "--db", logged.url).require_error(22960)


def make_marked_targets(copied: CapturedDatabase, **options: Any) -> AppliedTargets:
    """Let targets have tables that are marked, as Spark marks large ones, with files of both types."""
    copied.execute("create table item (id int primary key, n int)", "insert into item select 1, 1")
    copied.enable("item", snapshot=True)
    copied.copy_tables()
    applied = AppliedTargets(copied)
    for kind in ("current", "history"):
        applied.add(kind, ITEM, kind=kind, **options)
    applied.follow_directly()
    copied.execute("alter table item alter n type bigint", "insert into item values (2, 5000000000)")
    for path in tables_of(applied):
        assert widen_columns(locate(path), {"n": "long"})
    applied.follow_directly()
    assert [is_marked(own(path)) for path in tables_of(applied)] == [True, True]
    return applied


def tables_of(applied: AppliedTargets) -> list[Path]:
    return [applied.folder / kind / ITEM for kind in ("current", "history")]


def require_followed(applied: AppliedTargets) -> None:
    """The tables are not marked, and have the source's rows."""
    applied.follow_directly()
    source = applied.captured.execute("select id, n from item order by id")
    for path in tables_of(applied):
        found = own(path).read().to_pylist()
        assert sorted((row["id"], row["n"]) for row in found if row.get("is_current", True)) == source
        assert not is_marked(own(path))
        assert DeltaTable(str(path)).to_pyarrow_table().num_rows == len(found)


def test_targets_are_mended_with_their_table(copied: CapturedDatabase) -> None:
    applied = make_marked_targets(copied)
    applied.targets.add("berg", [ITEM], path=str(applied.folder / "berg"), format=TargetFormat.ICEBERG)
    mending = ("lake", "mend", "public.item", "--db", copied.url)
    planned = rowtide(*mending, "--dry-run")
    assert (planned.code, planned.errors.count(f", {ITEM}: 1 files, ")) == (0, 2), planned.errors
    before = [own(path).version for path in tables_of(applied)]
    mended = rowtide(*mending)
    assert (mended.code, mended.errors.count(" written.")) == (0, 2), mended.errors
    assert f"berg, {ITEM}: is an Iceberg table, in which nothing is to be mended" in mended.errors
    for path, version in zip(tables_of(applied), before, strict=True):
        for number in range(version + 1, own(path).version + 1):
            commit = (path / "_delta_log" / f"{number:020d}.json").read_text()
            assert '"dataChange":true' not in commit
    copied.execute("update item set n = n + 1", "insert into item values (3, 3)")
    applied.targets.drop("berg")
    require_followed(applied)
    assert rowtide(*mending).errors.count("has no type widening") == 4


@pytest.mark.exhaustive
def test_a_target_that_spark_alone_writes_is_not_mended(copied: CapturedDatabase) -> None:
    applied = make_marked_targets(copied)
    set_properties(locate(tables_of(applied)[0]), {"delta.enableDeletionVectors": "true"})
    refused = rowtide("lake", "mend", ITEM, "--db", copied.url)
    assert (refused.code, "RT-8175: the table of public_item in target current stays" in refused.errors) == (1, True)
    assert [is_marked(own(path)) for path in tables_of(applied)] == [True, False]


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", [*CHANGE_FAILPOINTS[:4]])
def test_mending_of_targets_that_is_killed_goes_on(copied: CapturedDatabase, failpoint: str) -> None:
    applied = make_marked_targets(copied, partition_by=["id"])
    mending = ("lake", "mend", ITEM, "--db", copied.url)
    assert rowtide_process(*mending, environment={"ROWTIDE_FAILPOINT": failpoint}).code == KILLED
    copied.execute("update item set n = n + 1", "insert into item values (3, 3)")
    applied.follow_directly()
    assert rowtide(*mending).code == 0
    require_followed(applied)


@pytest.mark.exhaustive
def test_targets_are_mended_beside_a_running_apply(copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a commit of its own, and changes are applied before every one of them."""
    applied = make_marked_targets(copied)

    def apply_between(files: Sequence[AddFile], _size: object) -> list[list[AddFile]]:
        copied.execute("update item set n = n + 1", "insert into item select max(id) + 1, 7 from item")
        applied.follow_directly()
        return [[file] for file in files]

    monkeypatch.setattr(widening_removal, "fill_groups", apply_between)
    mended = applied.targets.mend("item")
    assert [one.table.was_marked for one in mended] == [True, True]
    require_followed(applied)


@pytest.mark.exhaustive
def test_columns_are_widened_and_mended_in_a_bucket(copied: CapturedDatabase, bucket: Bucket) -> None:
    """Marked, mended after a kill in front of each commit, and rewritten, with a target in the bucket."""
    lake, folder = f"{bucket.url}/lake", f"{bucket.url}/targets"
    targets, mending = AppliedTargets(copied).targets, ("lake", "mend", ITEM, "--db", copied.url)
    copied.execute("create table item (id int primary key, n int)", "insert into item values (1, 1)")
    copied.cdc.enable_db(lake, widened=Widened.MARK)
    copied.cdc.enable_table("item", snapshot=True)
    copied.cdc.run(once=True)
    targets.add("now", [ITEM], path=folder)
    targets.apply()
    paths = [f"{lake}/cdc/{ITEM}_CT", f"{lake}/cdc/{ITEM}_base", f"{folder}/{ITEM}"]

    def are_marked() -> list[bool]:
        found = [open_snapshot(lake_stores.locate(path)) for path in paths]
        return [snapshot is not None and is_marked(snapshot) for snapshot in found]

    def require_rows() -> None:
        source = copied.execute("select id, n from item order by id")
        as_of = rowtide_module.open_lake(lake).get_table_as_of(ITEM).to_arrow().read_all().to_pylist()
        target = open_snapshot(lake_stores.locate(paths[2]))
        assert target is not None
        for found in (as_of, target.read().to_pylist()):
            assert sorted((row["id"], row["n"]) for row in found) == source

    copied.execute("insert into item values (2, 2)")
    copied.cdc.run(once=True)
    targets.apply()
    copied.execute("alter table item alter n type bigint", "insert into item values (3, 5000000000)")
    copied.cdc.run(once=True)
    widen_columns(lake_stores.locate(paths[2]), {"n": "long"})
    targets.apply()
    assert are_marked() == [True] * 3
    require_rows()
    for failpoint in (*MENDING_FAILPOINTS, *CHANGE_FAILPOINTS[:4]):
        assert rowtide_process(*mending, environment={"ROWTIDE_FAILPOINT": failpoint}).code == KILLED
        require_rows()
    assert rowtide(*mending).code == 0
    assert are_marked() == [False] * 3
    copied.cdc.enable_db(lake, widened=Widened.REWRITE)
    copied.execute("alter table item alter n type numeric(20)", "insert into item values (4, 4)")
    copied.cdc.run(once=True)
    assert are_marked()[:2] == [False] * 2
    as_of = rowtide_module.open_lake(lake).get_table_as_of(ITEM).to_arrow().read_all().to_pylist()
    assert sorted((row["id"], row["n"]) for row in as_of) == copied.execute("select id, n from item order by id")


@pytest.mark.parametrize("failpoint", [*MENDING_FAILPOINTS, *CHANGE_FAILPOINTS[:4]])
def test_mending_that_is_killed_goes_on(logged: LoggedDatabase, failpoint: str) -> None:
    make_marked(logged)
    mending = ("lake", "mend", ITEM, "--db", logged.url)
    assert rowtide_process(*mending, environment={"ROWTIDE_FAILPOINT": failpoint}).code == KILLED
    assert (rows(logged), present(logged)) == (CHANGED, PRESENT)
    logged.execute("insert into item values (4, 4)")
    run(logged)
    assert rowtide(*mending).code == 0
    assert [is_marked(own(path)) for path in tables(logged)] == [False, False]
    assert (rows(logged), present(logged)) == ([*CHANGED, (2, 4, 4)], [*PRESENT, (4, 4)])
