"""Named consumers: made, changed and acknowledged in the source database, by any role; without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.consumers import consumers
from rowtide.cdc.errors.enabling import NotOwner
from rowtide.cdc.errors.jobs import ConsumerExists, ConsumerInvalid, ConsumerUnknown
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """Tables item and other are captured."""
    logged.execute("create table item (id int primary key)", "create table other (id int primary key)")
    logged.enable("item", "other")
    return logged


def as_role(url: str, role: str) -> str:
    return url.replace("postgres@", f"{role.replace(' ', '%20')}@")


def names(logged: LoggedDatabase) -> dict[str, tuple[str, ...]]:
    return {listed.consumer: listed.instances for listed in logged.cdc.list_consumers()}


def test_a_consumer_is_made_changed_and_dropped(enabled: LoggedDatabase) -> None:
    enabled.cdc.add_consumer("warehouse", ["public_other", "public_item"])
    enabled.cdc.add_consumer("search", ["public_item"], limit_hours=2)
    assert names(enabled) == {"search": ("public_item",), "warehouse": ("public_item", "public_other")}
    enabled.cdc.change_consumer("warehouse", instances=["public_other"], limit_hours=5)
    enabled.cdc.drop_consumer("search")
    (listed,) = enabled.cdc.list_consumers()
    assert (listed.consumer, listed.instances, listed.limit_hours) == ("warehouse", ("public_other",), 5)
    assert (listed.acknowledged_lsn, listed.lag_seconds, listed.is_at_risk) == (None, 0, False)


def test_consumers_with_the_same_and_with_other_instances(enabled: LoggedDatabase) -> None:
    both = ["public_item", "public_other"]
    given = {"a": ["public_other"], "b": both, "c": ["public_item"], "d": both, "e": ["public_other"], "f": both[:1]}
    for name, instances in given.items():
        enabled.cdc.add_consumer(name, instances)
    assert names(enabled) == {name: tuple(instances) for name, instances in given.items()}

    # One that was given an instance of the same name before it was disabled has another one.
    enabled.cdc.disable_table("item")
    enabled.enable("item")
    enabled.cdc.add_consumer("g", ["public_item"])
    with open_engine(enabled.url).connect() as connection:
        found = {one.name: one.instances for one in consumers.list_consumers(connection)}
    assert [found[name][0].is_enabled for name in ("b", "c", "d", "f", "g")] == [False, False, False, False, True]
    assert found["c"] == found["f"] != found["g"]


def test_a_consumer_that_cannot_be_leaves_nothing(enabled: LoggedDatabase) -> None:
    cdc = enabled.cdc
    with pytest.raises(InstanceUnknown, match="public_nothing"):
        cdc.add_consumer("warehouse", ["public_item", "public_nothing"])
    with pytest.raises(ConsumerInvalid, match="no instances"):
        cdc.add_consumer("warehouse", [])
    with pytest.raises(ConsumerInvalid, match="no name"):
        cdc.add_consumer(" ", ["public_item"])
    with pytest.raises(ConsumerInvalid, match="0 hours"):
        cdc.add_consumer("warehouse", ["public_item"], limit_hours=0)
    for unknown in (cdc.drop_consumer, cdc.change_consumer):
        with pytest.raises(ConsumerUnknown):
            unknown("warehouse")
    assert names(enabled) == {}
    cdc.add_consumer("warehouse", ["public_item"])
    with pytest.raises(ConsumerExists):
        cdc.add_consumer("warehouse", ["public_item"])


def test_an_instance_that_is_enabled_again_is_not_the_consumer_s(enabled: LoggedDatabase) -> None:
    enabled.cdc.add_consumer("warehouse", ["public_item"])
    enabled.cdc.disable_table("item")
    enabled.cdc.enable_table("item")
    with open_engine(enabled.url).connect() as connection:
        (instance,) = consumers.find_consumer(connection, "warehouse").instances
    assert (instance.name, instance.is_enabled) == ("public_item", False)


def test_acknowledgement_counts_only_from_the_known_position(enabled: LoggedDatabase) -> None:
    enabled.cdc.add_consumer("warehouse", ["public_item"])
    with open_engine(enabled.url).begin() as connection:
        first = consumers.find_consumer(connection, "warehouse")
        assert consumers.acknowledge(connection, first, CommitLsn(7), NOW)
        assert not consumers.acknowledge(connection, first, CommitLsn(9), NOW)
        second = consumers.find_consumer(connection, "warehouse")
        assert (second.acknowledged_lsn, second.acknowledged_time) == (CommitLsn(7), NOW)
        assert consumers.acknowledge(connection, second, CommitLsn(9), NOW)


def test_only_owner_makes_consumers_and_only_role_acknowledges(
    make_role: Callable[[str], str], enabled: LoggedDatabase
) -> None:
    gate, reader, stranger = make_role("nologin"), make_role("login"), make_role("login")
    enabled.execute(f'grant "{gate}" to "{reader}"')
    enabled.cdc.add_consumer("warehouse", ["public_item"], role_name=gate)
    with pytest.raises(NotOwner):
        connect(as_role(enabled.url, reader)).cdc.drop_consumer("warehouse")
    moved = {}
    for role in (stranger, reader):
        with open_engine(as_role(enabled.url, role)).begin() as connection:
            known = consumers.find_consumer(connection, "warehouse")
            moved[role] = consumers.acknowledge(connection, known, CommitLsn(7), NOW)
    assert moved == {stranger: False, reader: True}


def test_consumers_are_managed_on_the_command_line(enabled: LoggedDatabase) -> None:
    def run(*arguments: str) -> str:
        done = rowtide("cdc", *arguments, "--db", enabled.url)
        assert done.code == 0, done.errors
        return done.output

    run("add-consumer", "warehouse", "--instances", "public_item,public_other")
    run("change-consumer", "warehouse", "--limit-hours", "72")
    (listed,) = map(json.loads, run("consumers", "--format", "jsonl").splitlines())
    assert (listed["consumer"], listed["instances"]) == ("warehouse", ["public_item", "public_other"])
    assert (listed["limit_hours"], listed["hours_left"], listed["acknowledged_lsn"]) == (72, 72.0, None)
    assert "warehouse: 0 s behind" in run("status", "--format", "jsonl")
    run("drop-consumer", "warehouse")
    assert run("consumers", "--format", "jsonl") == ""
