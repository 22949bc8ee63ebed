"""Targets on the command line, and applied by the agent."""

from __future__ import annotations

import json
import threading
from functools import partial

import pytest

from builders.applied_targets import AppliedTargets
from builders.captured_databases import CapturedDatabase, wait_until
from builders.command_lines import rowtide
from rowtide.handle import connect
from rowtide.targets.running import TargetsAgent, targets_beside


def test_three_commands_make_a_current_table(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, email text)")
    captured.enable("item")
    captured.execute("insert into item values (1, 'a@x'), (2, 'b@y')")
    captured.capture()
    folder, db = captured.lake.parent / "tables", ("--db", captured.url)
    column = ("--column", "email=sha2(email, 256)")
    added = rowtide("cdc", "add-target", "shop", "public_item", "--path", str(folder), *column, *db)
    assert added.code == 0, added
    (listed,) = rowtide("cdc", "targets", "--format", "jsonl", *db).output.splitlines()
    assert json.loads(listed)["state"] == "new"
    applied = rowtide("cdc", "apply", "--once", *db)
    assert (applied.code, applied.output) == (0, "")
    assert "target shop: 1 table at LSN" in applied.errors
    (line,) = rowtide("cdc", "targets", "--format", "jsonl", *db).output.splitlines()
    found = json.loads(line)
    assert (found["state"], found["lag_seconds"], found["location"]) == ("member", 0, f"{folder}/public_item")
    rows = captured.spark.read.format("delta").load(str(folder / "public_item")).collect()
    assert sorted((row["id"], len(row["email"])) for row in rows) == [(1, 64), (2, 64)]
    assert rowtide("cdc", "add-target", "shop", "public_item", "--path", "x", *db).require_error(9001)
    assert rowtide("cdc", "add-target", "odd", "public_item", "--column", "x", "--path", "x", *db).code == 2
    judged = {judgement.subject: judgement.state.value for judgement in connect(captured.url).health()}
    assert judged["targets"] == "well"
    assert rowtide("cdc", "drop-target", "shop", *db).code == 0
    assert rowtide("cdc", "apply", "shop", "--once", *db).require_error(9000)


@pytest.mark.exhaustive
def test_the_agent_applies_what_is_published(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    applied = AppliedTargets(captured)
    applied.add("now", "public_item")
    applied.add("nightly", "public_item", schedule="0 0 1 1 *")
    events: list[str] = []
    agent = TargetsAgent(applied.targets, None, lambda: captured.spark, events.append)
    # Nothing is published yet: it waits.
    assert not agent.step()
    captured.execute("insert into item values (1, 'a')")
    captured.capture()
    with targets_beside(agent, threading.Event()):
        wait_until(lambda: len(events) >= 1, what="an apply")
        captured.execute("insert into item values (2, 'b')")
        captured.capture()
        wait_until(lambda: len(events) >= 2, what="another apply")
    assert applied.rows("now", "public_item") == [(1, "a"), (2, "b")]
    assert {listed.target: listed.state for listed in applied.targets.list_targets()} == {
        "nightly": "new",
        "now": "member",
    }


@pytest.mark.exhaustive  # the agent's loop is the same
def test_it_applies_until_it_is_stopped(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    applied, stop, events = AppliedTargets(captured), threading.Event(), list[str]()
    applied.add("now", "public_item")
    run = partial(connect(captured.url).run_targets, "now", spark=captured.spark, stop=stop, on_event=events.append)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        captured.execute("insert into item values (1, 'a')")
        captured.capture()
        wait_until(lambda: len(events) > 0, what="an apply")
    finally:
        stop.set()
        thread.join()
    assert applied.rows("now", "public_item") == [(1, "a")]
