"""`rowtide export` and `rowtide apply` on SQLite files: a hub of merge, and tracked tables."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from builders.commands.command_lines import rowtide
from builders.declared_states import actions_of, apply_text, export_text, plan_text
from builders.faults.failpoints import DECLARED_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from rowtide.declared import applying, sqlite
from rowtide.declared.errors import ApplyRunning, DeclarationImpossible
from rowtide.declared.file import parse_file

TABLES = """
create table device (id integer primary key, owner text);
create table part (id integer primary key, device integer, note text);
create table "Odd.""Name" (id integer primary key);
create table plain (id integer primary key);
"""
STATE = """
[merge.publications.devices]
retention_days = 3

[merge.publications.devices.articles.device]
where = "owner = host_name()"

[merge.publications.devices.articles.part]
columns = ["device"]

[merge.publications.devices.articles.part.filters.device]
condition = "part.device = device.id"

[merge.publications.devices.subscriptions."sqlite:///FOLDER/phone.db"]
existing = "overwrite"
host_name = "ann"

[tracking.tables."Odd.\\"Name"]
options = "insert, delete"

[tracking.tables.plain]
storage = "side"
"""
APPLY = """
import sys
from builders.declared_states import apply_text
apply_text(sys.argv[1], sys.argv[2], prunes=True)
"""


def make_file(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "hub.db")) as program:
        program.executescript(TABLES)
    return f"sqlite:///{folder}/hub.db"


@pytest.fixture
def hub(tmp_path: Path) -> str:
    """The URL of a file with tables."""
    return make_file(tmp_path)


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A declared state of it, with a subscriber beside it."""
    return STATE.replace("FOLDER", str(tmp_path))


def test_what_is_declared_is_exported_again(hub: str, state: str) -> None:
    apply_text(hub, state)

    exported = export_text(hub)

    assert plan_text(hub, exported, prunes=True).is_empty
    assert plan_text(hub, state, prunes=True).is_empty


def test_a_command_prints_the_plan_and_carries_it_out(hub: str, state: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(state)

    dry = rowtide("apply", str(file), "--dry-run", "--format", "jsonl", "--db", hub)
    assert (dry.code, rowtide("export", "--db", hub).output.count("[")) == (0, 0)
    first = json.loads(dry.output.splitlines()[0])
    assert (first["action"], first["kind"], first["name"]) == ("add", "merge publication", "devices")

    assert rowtide("apply", str(file), "--db", hub).code == 0
    again = rowtide("apply", str(file), "--prune", "--db", hub)
    assert (again.code, again.errors) == (0, "There is nothing to do.\n")
    exported = rowtide("export", "--db", hub)
    file.write_text(exported.output)
    assert rowtide("apply", str(file), "--prune", "--db", hub).errors == "There is nothing to do.\n"


def test_nothing_is_made_again_without_a_yes(hub: str, state: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    apply_text(hub, state)
    file.write_text(state.replace('storage = "side"', 'storage = "row"'))

    refused = subprocess.run(
        [sys.executable, "-m", "rowtide", "apply", str(file), "--db", hub],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "Lost: tracked table plain: its anchors and tombstones" in refused.stderr
    assert "RT-1016" in refused.stderr
    assert plan_text(hub, state).is_empty

    assert rowtide("apply", str(file), "--yes", "--db", hub).code == 0
    assert plan_text(hub, file.read_text()).is_empty


def test_what_is_not_declared_is_dropped_only_when_pruned(hub: str, state: str) -> None:
    apply_text(hub, state)
    less = state[: state.index("[tracking.tables.plain]")]

    assert plan_text(hub, less).is_empty
    assert actions_of(apply_text(hub, less, prunes=True)) == {"tracked table plain": "drop"}
    apply_text(hub, "", prunes=True)
    assert applying.read_state(hub) == {}


def test_an_article_that_is_made_again_takes_its_subscriptions(hub: str, state: str) -> None:
    apply_text(hub, state)
    after = state.replace('host_name()"', 'host_name()"\npartition_options = 1')

    planned = apply_text(hub, after)

    assert set(actions_of(planned).values()) == {"recreate"}
    assert {step.kind for step in planned.steps if step.action == "recreate"} == {
        "merge article",
        "merge filter",
        "merge subscription",
    }
    assert plan_text(hub, after, prunes=True).is_empty


def test_rows_of_a_subscriber_are_decided_first(hub: str, state: str) -> None:
    apply_text(hub, state)
    after = state.replace('existing = "overwrite"\n', "").replace(
        'host_name = "ann"', 'host_name = "ann"\npriority = 3'
    )

    with pytest.raises(DeclarationImpossible, match='declare existing = "keep" or "overwrite"'):
        plan_text(hub, after)


def test_a_filter_is_changed_in_place(hub: str, state: str) -> None:
    apply_text(hub, state)
    after = state.replace("part.device = device.id", "device.id = part.device")

    assert actions_of(apply_text(hub, after)) == {"merge filter devices.part.device": "change"}
    assert plan_text(hub, after).is_empty


def test_a_file_has_no_capture(hub: str) -> None:
    with pytest.raises(DeclarationImpossible, match="databases of the kind sqlite have no cdc"):
        plan_text(hub, '[cdc]\nlake = "/lake"\n')


def test_files_of_one_folder_are_not_applied_at_once(hub: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_PATIENCE_S", 0.0)
    planned = applying.plan(hub, parse_file(state, "shop.toml"))

    with sqlite.applying_alone(hub), pytest.raises(ApplyRunning):
        applying.apply(hub, planned)
    applying.apply(hub, planned)


KILLED_STATE = """
[merge.publications.devices]

[merge.publications.devices.articles.device]

[merge.publications.devices.subscriptions."sqlite:///FOLDER/phone.db"]
existing = "overwrite"

[tracking.tables.plain]
"""


@pytest.mark.parametrize("failpoint", DECLARED_FAILPOINTS)
def test_an_interrupted_apply_is_completed_by_a_repeat(tmp_path: Path, failpoint: str) -> None:
    """From one state to another with each action, killed at each step."""
    steps = 0
    for hit in range(1, 30):
        folder = tmp_path / str(hit)
        folder.mkdir()
        url, before = make_file(folder), KILLED_STATE.replace("FOLDER", str(folder))
        apply_text(url, before)
        after = before.replace("articles.device]", "articles.device]\npartition_options = 1")
        after = after.replace("devices]", "devices]\nretention_days = 4", 1).replace("tables.plain", "tables.part")

        killed = run_program(APPLY, url, after, failpoint=f"{failpoint}@{hit}")

        apply_text(url, after, prunes=True)
        assert plan_text(url, after, prunes=True).is_empty
        if killed != KILLED:
            break
        steps += 1
    assert steps == {"declared_removal": 3, "declared_addition": 4}[failpoint.partition(".")[0]]
