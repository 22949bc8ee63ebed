"""Columns that get wider types: tables are rewritten or marked as the settings say, and what is marked is mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rowtide as rowtide_module
from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.failpoints import CHANGE_FAILPOINTS, MENDING_FAILPOINTS
from builders.faults.killed_programs import KILLED
from builders.lakes.delta_tables import own
from rowtide.cdc.ddl import retyping
from rowtide.core.tables import Widened
from rowtide.delta.writing.mending import is_marked

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
            with pytest.raises(NotImplementedError):
                logged.cdc.run(once=True)
        assert [is_marked(own(path)) for path in tables(logged)] == [False, True]
    logged.cdc.run(once=True)
    assert [is_marked(own(path)) for path in tables(logged)] == [False, False]
    assert (rows(logged), present(logged)) == ([(2, 2, 5_000_000_000)], [(1, 1), (2, 5_000_000_000)])


def cut(*_arguments: object, **_options: object) -> None:
    raise NotImplementedError


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
