"""A table that has stopped, or cannot be made yet: what is told, how often, and what a command's exit code says."""

from __future__ import annotations

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide
from rowtide.handle import connect
from rowtide.targets.api import TargetsAgent


def test_what_has_stopped_is_told_once(captured: CapturedDatabase) -> None:
    captured.execute("create table item (id int primary key, name text)", "create table other (id int primary key)")
    captured.enable("item", "other")
    db, applied, events = ("--db", captured.url), AppliedTargets(captured), list[str]()
    applied.add("now", "public_item", "public_other")
    waiting = rowtide("cdc", "apply", "--once", *db)
    assert waiting.code == 0
    assert "public_item has no table yet: `rowtide cdc run` copies and publishes its rows" in waiting.errors
    # One instance ends; another is enabled, and not published.
    captured.capture()
    connect(captured.url).cdc.disable_table("public.other")
    captured.execute("create table late (id int primary key)")
    captured.enable("late")
    applied.add("later", "public_item", "public_late")
    ended = rowtide("cdc", "apply", "--once", *db)
    assert ended.code == 1
    assert "target now: 1 table at LSN" in ended.errors
    assert "public_other has stopped: RT-9" in ended.errors
    assert "target later: public_late has no table yet" in ended.errors
    versions = {name: applied.targets.read_position(name).number for name in ("now", "later")}
    again = rowtide("cdc", "apply", "now", "--once", *db)
    assert again.code == 1
    assert "target now: public_other has stopped: RT-9" in again.errors
    agent = TargetsAgent(applied.targets, None, lambda: captured.spark, events.append)
    assert not agent.step()
    assert versions == {name: applied.targets.read_position(name).number for name in ("now", "later")}
    assert events == []
