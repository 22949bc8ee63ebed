"""Health of SQLite files: what is tracked in them, and their disk."""

from __future__ import annotations

import json
from pathlib import Path

from builders.commands.checks import run_line
from builders.commands.command_lines import rowtide
from builders.tracking.tracked_databases import TrackedFile
from rowtide.diagnosis import CheckResult, State
from rowtide.diagnosis.result import ShellCommand
from rowtide.handle import connect


def health(file: TrackedFile) -> dict[str, CheckResult]:
    return {judgement.subject: judgement for judgement in connect(f"sqlite:///{file.path}").health()}


def test_a_tracked_file_is_well(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1)")
    tracked_file.program.execute("delete from t")
    judged = health(tracked_file)
    assert {subject: judgement.state for subject, judgement in judged.items()} == {
        "table t": State.HEALTHY,
        "disk": State.HEALTHY,
    }
    assert judged["table t"].message == "it is tracked; tombstones: 1"
    assert rowtide("health", "--db", f"sqlite:///{tracked_file.path}").code == 0


def test_tracking_that_is_lost_fails_until_its_mend_has_run(tracked_file: TrackedFile) -> None:
    (trigger, *_) = tracked_file.program.execute(
        "select name from sqlite_schema where type = 'trigger' and tbl_name = 't'"
    ).fetchone()
    tracked_file.program.execute(f'drop trigger "{trigger}"')
    lost = health(tracked_file)["table t"]
    assert lost.state is State.FAILING
    assert "its tracking is lost" in lost.message
    assert isinstance(lost.remediation, ShellCommand)
    run_line(lost.remediation, f"sqlite:///{tracked_file.path}")
    assert health(tracked_file)["table t"].state is State.HEALTHY


def test_a_file_in_which_nothing_is_enabled_is_warned_of(sqlite_file: TrackedFile) -> None:
    assert health(sqlite_file)["database"].state is State.WARNING
    ended = rowtide("health", "--format", "json", "--db", f"sqlite:///{sqlite_file.path}")
    assert (ended.code, json.loads(ended.output)["state"]) == (1, "warning")


def test_a_file_that_is_not_there_fails(tmp_path: Path) -> None:
    ended = rowtide("health", "--db", f"sqlite:///{tmp_path}/nowhere.db")
    assert (ended.code, ended.output.splitlines()[0]) == (2, "FAILING  database")
    assert not (tmp_path / "nowhere.db").exists()


def test_lines_fit_eighty_columns_and_commands_stay_whole(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("drop table t")
    lines = rowtide("health", "--db", f"sqlite:///{tracked_file.path}").output.splitlines()
    assert [line for line in lines if len(line) > 80 and str(tracked_file.path.parent) not in line] == []
    assert "    > rowtide tracking disable t" in lines
