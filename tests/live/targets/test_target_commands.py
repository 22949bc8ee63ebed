"""Targets on the command line, and applied by the agent."""

from __future__ import annotations

import json
import threading
from functools import partial

import pytest

from builders.capture.agents import running_agent
from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.commands.command_lines import rowtide
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from builders.threads import in_thread
from rowtide.handle import connect
from rowtide.log.errors import LeaseHeld
from rowtide.targets.api import TargetsAgent, targets_beside
from rowtide.targets.definitions import TableState


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
    assert judged["targets"] == "healthy"
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
    applied, events = AppliedTargets(captured), list[str]()
    applied.add("now", "public_item")
    run = partial(connect(captured.url).run_targets, "now", spark=captured.spark, on_event=events.append)
    with in_thread(lambda is_over: run(stop=is_over)):
        captured.execute("insert into item values (1, 'a')")
        captured.capture()
        wait_until(lambda: len(events) > 0, what="an apply")
    assert applied.rows("now", "public_item") == [(1, "a")]


@pytest.mark.exhaustive
def test_an_apply_by_hand_beside_the_agent_counts_once(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    applied = AppliedTargets(captured)
    for name, kind in (("now", "current"), ("past", "history")):
        applied.add(name, "public_item", kind=kind)
    with running_agent(captured) as agent:
        for turn in range(1, 7):
            captured.execute(
                f"insert into item select n, 'new' from generate_series({turn}0, {turn}4) n",
                f"update item set name = name || {turn} where id % 2 = {turn % 2}",
                f"delete from item where id = {turn}3",
            )
            agent.wait_published()
            ended = rowtide("cdc", "apply", "--once", "--db", captured.url)
            assert ended.code == 0 or ended.require_error(LeaseHeld.number)
        rows = sorted(captured.execute("select id, name from item"))

        def are_equal() -> bool:
            return {listed.state for listed in applied.targets.list_targets()} == {TableState.MEMBER} and all(
                sorted(applied.rows(name, "public_item", "id", "name", where=where)) == rows
                for name, where in (("now", "true"), ("past", "is_current"))
            )

        wait_until(are_equal, what="both targets have all rows")
    states = states_by_change(captured, "public_item", ("id",), ("id", "name"))
    slices = applied.targets.read("past", "public_item", spark=captured.spark).collect()
    assert found_slices((row.asDict() for row in slices), ("id",), ("id", "name")) == slices_of(states)
    assert len(slices) == len(slices_of(states))
