"""Captured and published names that belong to other tables by now, and rows that inherit: the check says so."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.checks import matching, only, printed_command, run_line, run_mend
from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.servers.ddl import forget_triggers
from rowtide.diagnosis.result import CheckResult, State
from rowtide.handle import connect
from rowtide.replication.subscription_settings import SyncType

BOTH_SERVERS = pytest.mark.parametrize("version", ["logged", "logged_16"])
SWAP = (
    "create table swap_new (like swap including all)",
    "alter table swap rename to swap_old",
    "alter table swap_new rename to swap",
)


def check(logged: LoggedDatabase) -> tuple[CheckResult, ...]:
    return connect(logged.url).check()


def health(logged: LoggedDatabase) -> set[tuple[str, str]]:
    return {(judgement.subject, judgement.state) for judgement in connect(logged.url).health()}


@BOTH_SERVERS
def test_a_table_that_was_swapped_in_is_named(request: pytest.FixtureRequest, version: str) -> None:
    logged: LoggedDatabase = request.getfixturevalue(version)
    logged.execute("create table swap (id int primary key)", "create table plain (id int primary key)")
    logged.enable("swap", "plain")
    logged.execute(*SWAP, "alter table plain rename to harmless")
    logged.read_log()
    finding = only(check(logged), "is another table now")
    assert (finding.state, finding.subject) == (State.WARNING, "instance public_swap")
    assert finding.message == (
        "public.swap is another table now, and is not captured: this reads on from the one that had the name before, "
        "now public.swap_old"
    )
    assert str(finding.remediation).startswith(
        """Read the table of that name too: `rowtide cdc enable-table '"public"."swap"' --capture-instance NAME`;"""
    )
    assert ("instance public_swap", "warning") in health(logged)
    run_line(printed_command(finding, NAME="swap_2"), logged.url)
    assert matching(check(logged), "is another table now") == []


@BOTH_SERVERS
def test_table_recreated_under_a_dropped_name_is_reported(request: pytest.FixtureRequest, version: str) -> None:
    logged: LoggedDatabase = request.getfixturevalue(version)
    logged.execute("create table item (id int primary key)", "create table gone (id int primary key)")
    logged.enable("item", "gone")
    logged.execute("drop table item, gone")
    assert matching(check(logged), "was dropped") == []
    logged.execute('create table item (id int primary key, "more" text)')
    finding = only(check(logged), "another table has this name now, and is not captured")
    assert (finding.state, finding.subject) == (State.WARNING, "instance public_item")
    assert ("instance public_item", "warning") in health(logged)
    run_mend(finding, logged.url)
    assert matching(check(logged), "was dropped") == []


def test_a_table_dropped_without_triggers_is_named_too(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    forget_triggers(logged)
    logged.execute("drop table item", "create table item (id int primary key)")
    assert len(matching(check(logged), "table public.item was dropped")) == 2


def test_inheritance_is_reported_on_enabling_and_by_the_check(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table parent (id int primary key, v text)",
        "create table child (extra text) inherits (parent)",
        "create table grandchild () inherits (child)",
        "create table part (id int) partition by range (id)",
        "create table low partition of part for values from (0) to (10)",
    )
    logged.enable()
    words = "rows of the tables that inherit from public.parent are not captured with it"
    before = only(connect(logged.url).check(["parent", "part"]), "inherit")
    assert (before.state, before.subject) == (State.HEALTHY, "table public.parent")
    enabled = rowtide("cdc", "enable-table", "public.parent", "--db", logged.url)
    assert (
        "Rows of the tables that inherit from public.parent are not captured with it: public.child, public.grandchild."
        in enabled.errors
    )
    assert "inherit" not in rowtide("cdc", "enable-table", "public.part", "--db", logged.url).errors
    assert only(check(logged), words).subject == "instance public_parent"


def test_columns_no_longer_generated_are_reported_if_unannounced(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, twice int generated always as (id * 2) stored)")
    logged.enable("item")
    logged.read_log()
    assert matching(check(logged), "generated") == []
    triggers = [name for (name,) in logged.execute("select evtname from pg_event_trigger")]
    logged.execute(*(f"alter event trigger {name} disable" for name in triggers))
    logged.execute("alter table item alter twice drop expression")
    logged.read_log()
    finding = only(check(logged), "columns that were generated are ordinary ones now")
    assert (finding.state, finding.subject) == (State.WARNING, "instance public_item")
    logged.execute(*(f"alter event trigger {name} enable always" for name in triggers))
    logged.execute("alter table item add column more int")
    logged.read_log()
    assert matching(check(logged), "ordinary ones now") == []


def test_published_generated_column_made_ordinary_is_reported(
    replicated: ReplicatedDatabase,
) -> None:
    publisher = replicated.publisher
    replicated.replication.add_publication("shop", lake=str(publisher.lake))
    publisher.execute("create table item (id int primary key, twice int generated always as (id * 2) stored)")
    replicated.replication.add_article("shop", "item")
    replicated.subscribe(SyncType.AUTOMATIC)
    publisher.read_log()
    assert matching(check(publisher), "is an ordinary column now") == []
    forget_triggers(publisher)
    publisher.execute("alter table item alter twice drop expression")
    publisher.read_log()
    assert only(check(publisher), "public.item.twice was generated").state is State.WARNING
    assert ("articles", "warning") in health(publisher)


def test_published_names_are_judged_as_captured_ones(replicated: ReplicatedDatabase) -> None:
    publisher = replicated.publisher
    replicated.replication.add_publication("shop", lake=str(publisher.lake))
    publisher.execute(
        "create table swap (id int primary key)",
        "create table parent (id int primary key)",
        "create table child () inherits (parent)",
    )
    replicated.replication.add_article("shop", "swap")
    added = rowtide("replication", "add-article", "shop", "parent", "--db", publisher.url)
    assert "inherit from parent are not published with it: public.child." in added.errors
    publisher.read_log()
    assert {subject for subject, _ in health(publisher) if subject.startswith("article")} == set()
    publisher.execute(*SWAP)
    finding = only(check(publisher), "public.swap is another table now, and is not published")
    assert (finding.state, finding.subject) == (State.WARNING, "article shop/swap")
    assert only(check(publisher), "inherit").subject == "article shop/parent"
    assert ("article shop/swap", "warning") in health(publisher)
    # Capture of the other table is no delivery of it.
    publisher.enable("swap")
    assert only(check(publisher), "is not published").subject == "article shop/swap"
    replicated.replication.add_publication("later")
    run_line(printed_command(finding, PUBLICATION="later"), publisher.url)
    assert matching(check(publisher), "is not published") == []
