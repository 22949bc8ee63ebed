"""A log store of before formats had numbers: nothing uses it, and what it has on the server can be removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.core.formats import FormatUnnumbered

LEFT = (
    "select nspname from pg_namespace where nspname in ('cdc', 'rowtide')",
    "select pubname from pg_publication",
    "select slot_name from pg_replication_slots where database = current_database()",
    "select evtname from pg_event_trigger",
)


def forget_format(logged: LoggedDatabase) -> dict[Path, bytes]:
    """Make the log store one of before formats had numbers; return its files."""
    folder = Path(logged.cdc.get_source().log_store)
    for path in folder.glob("manifest/*.json"):
        found = json.loads(path.read_text())
        found.pop("format", None)
        path.write_text(json.dumps(found))
    return files_of(folder)


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def unnumbered(logged: LoggedDatabase) -> LoggedDatabase:
    logged.execute("create table item (id int primary key)", "create table other (id int primary key)")
    logged.enable("item")
    logged.read_log()
    return logged


@pytest.mark.parametrize(
    "words",
    [
        ("enable-db", "--lake", "LAKE"),
        ("run", "--once"),
        ("status",),
        ("reinitialize", "--yes"),
        ("skip-transaction", "0/1", "--yes"),
    ],
    ids=lambda words: words[0],
)
def test_commands_refuse_it_and_change_nothing(unnumbered: LoggedDatabase, words: tuple[str, ...]) -> None:
    before = forget_format(unnumbered)
    given = [str(unnumbered.lake) if word == "LAKE" else word for word in words]
    ended = rowtide("cdc", *given, "--db", unnumbered.url)
    assert ended.code == 1
    assert "RT-1136" in ended.errors + ended.output
    assert "reinitialize" not in ended.errors
    assert files_of(Path(unnumbered.cdc.get_source().log_store)) == before


def test_health_and_check_say_what_it_is(unnumbered: LoggedDatabase) -> None:
    forget_format(unnumbered)
    for command, code in (("health", 2), ("check", 1)):
        ended = rowtide(command, "--db", unnumbered.url)
        said = " ".join(ended.output.split())
        assert (ended.code, "was written before formats had numbers" in said) == (code, True), ended
        assert "reinitialize" not in said


def test_disabling_the_database_removes_what_the_server_has(unnumbered: LoggedDatabase) -> None:
    before = forget_format(unnumbered)
    folder = Path(unnumbered.cdc.get_source().log_store)
    ended = rowtide("cdc", "disable-db", "--yes", "--db", unnumbered.url)
    assert ended.code == 0, ended
    assert [unnumbered.execute(sql) for sql in LEFT] == [[], [], [], []]
    assert files_of(folder) == before


def test_disabling_a_table_needs_no_log_store(unnumbered: LoggedDatabase) -> None:
    before = forget_format(unnumbered)
    folder = Path(unnumbered.cdc.get_source().log_store)
    ended = rowtide("cdc", "disable-table", "item", "--db", unnumbered.url)
    assert ended.code == 0, ended
    assert unnumbered.execute("select 1 from rowtide.members where feature <> 'log'") == []
    assert files_of(folder) == before


def test_the_last_publication_is_dropped_with_the_slot(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute("create table item (id int primary key)")
    place = str(tmp_path / "lake")
    assert rowtide("replication", "add-publication", "shop", "--lake", place, "--db", logged.url).code == 0
    assert rowtide("replication", "add-article", "shop", "item", "--db", logged.url).code == 0
    logged.read_log()
    folder = Path(logged.store().url("").removeprefix("file://"))
    for path in folder.glob("manifest/*.json"):
        path.write_text(path.read_text().replace('"format":{"number":1,"least_reader":1,"least_writer":1},', ""))
    with pytest.raises(FormatUnnumbered):
        logged.manifest()
    ended = rowtide("replication", "drop-publication", "shop", "--yes", "--db", logged.url)
    assert ended.code == 0, ended
    assert [logged.execute(sql) for sql in LEFT] == [[], [], [], []]
