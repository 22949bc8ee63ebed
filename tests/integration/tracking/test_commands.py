"""`rowtide tracking` on a SQLite file."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide
from builders.tracking.tracked_databases import TrackedFile


@pytest.fixture
def url(sqlite_file: TrackedFile) -> str:
    return f"sqlite:///{sqlite_file.path}"


def test_changes_are_printed_with_the_next_anchor_last(sqlite_file: TrackedFile, url: str) -> None:
    sqlite_file.program.execute("create table odd (operation real primary key, bytes blob)")
    assert rowtide("tracking", "enable", "t", "--db", url).code == 0
    assert (
        rowtide("tracking", "enable", "odd", "--storage", "side", "--options", "insert,delete", "--db", url).code == 0
    )
    first = rowtide("tracking", "changes", "t", "--format", "jsonl", "--db", url)
    anchor = json.loads(first.output)["anchor"]
    sqlite_file.program.execute("insert into t (id, name) values (1, 'a')")
    sqlite_file.program.execute("insert into odd values (9e999, x'00ff')")

    command = ("tracking", "changes", "t,odd", "--since", anchor, "--db", url)
    lines = [json.loads(line) for line in rowtide(*command, "--format", "jsonl").output.splitlines()]
    assert lines[:-1] == [
        {"operation": "insert", "table": "t", "id": 1, "name": "a", "qty": None},
        {"operation": "insert", "table": "odd", "operation_": "Infinity", "bytes": "00ff"},
    ]
    assert list(lines[-1]) == ["anchor"]
    assert rowtide(*command).output.splitlines()[-1] == f"anchor {lines[-1]['anchor']}"


def test_dry_run_prints_equivalent_statements_and_runs_none(sqlite_file: TrackedFile, url: str) -> None:
    dry = rowtide("tracking", "enable", "t", "--dry-run", "--db", url)
    assert sqlite_file.program.execute("select count(*) from sqlite_schema").fetchone() == (1,)
    sqlite_file.program.executescript(dry.output)
    sqlite_file.program.execute("insert into t (id) values (1)")

    assert sqlite_file.changes() == [("insert", 1, None, None)]


def test_options_say_how_tables_are_tracked(sqlite_file: TrackedFile, url: str) -> None:
    rowtide("tracking", "enable", "t", "--options", "update", "--db", url)
    listed = rowtide("tracking", "options", "T", "--format", "jsonl", "--db", url)

    assert json.loads(listed.output) == {
        "table": "t",
        "key": "primary-key",
        "options": "update",
        "storage": "row",
        "index": "btree",
        "min_valid_csn": 1,
        "lost_time": None,
    }
    assert rowtide("tracking", "disable", "t", "--db", url).code == 0
    assert rowtide("tracking", "options", "--format", "jsonl", "--db", url).output == ""


def test_a_lost_table_is_resumed(sqlite_file: TrackedFile, url: str) -> None:
    rowtide("tracking", "enable", "t", "--db", url)
    sqlite_file.program.execute('drop trigger "__sysTracking_t_insert"')

    rowtide("tracking", "changes", "t", "--db", url).require_error(6106)
    assert rowtide("tracking", "resume", "t", "--db", url).code == 0
    assert rowtide("tracking", "changes", "t", "--db", url).code == 0


def test_tombstones_are_purged_by_one_measure(sqlite_file: TrackedFile, url: str) -> None:
    rowtide("tracking", "enable", "t", "--db", url)
    sqlite_file.program.execute("insert into t (id) values (1)")
    sqlite_file.program.execute("delete from t")

    assert rowtide("tracking", "purge", "tombstones", "--db", url).code == 2
    assert rowtide("tracking", "purge", "tombstones", "--days", "1", "--csn", "1", "--db", url).code == 2
    assert (
        rowtide("tracking", "purge", "tombstones", "t", "--days", "1", "--db", url).errors == "Removed: 0 tombstones.\n"
    )
    assert rowtide("tracking", "purge", "tombstones", "--csn", "9", "--db", url).errors == "Removed: 1 tombstones.\n"
    assert (
        rowtide("tracking", "purge", "transactions", "--days", "1", "--db", url).errors == "Removed: 0 transactions.\n"
    )


def test_what_the_user_got_wrong_is_said_in_one_line(sqlite_file: TrackedFile, url: str) -> None:
    rowtide("tracking", "changes", "t", "--db", url).require_error(22105)
    rowtide("tracking", "enable", "absent", "--db", url).require_error(6101)
    rowtide("tracking", "changes", "t", "--since", "yesterday", "--db", url).require_error(1006)
    rowtide("tracking", "options", "--db", "mysql://localhost/shop").require_error(1021)
    assert rowtide("tracking", "enable", "t", "--options", "merge", "--db", url).code == 2
