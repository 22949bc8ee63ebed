"""Partitions that bring rows to a published table or take them away: the log has none of these, so it is copied."""

from __future__ import annotations

import pytest

from builders.replication.replicated_databases import (
    PUBLICATION,
    ReplicatedDatabase,
    list_subscriptions,
    open_only_agent,
)
from builders.servers.ddl import forget_triggers
from rowtide.core.operations import Operation
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.articles.requests import MovedPartitions
from rowtide.replication.distribution.run_context import DroppedTable, Watchers

PARTS = (
    "create table parts (id int primary key, v int) partition by range (id)",
    "create table low partition of parts for values from (0) to (10)",
    "create table high partition of parts for values from (10) to (90) partition by range (id)",
    "create table high_1 partition of high for values from (10) to (20)",
    "create table part (id int not null primary key, v int)",
    "insert into part values (21, 21)",
)
ROWS = "insert into parts values (1, 1), (11, 11)"
LATER = ("create table last partition of high for values from (80) to (90)", "insert into parts values (81, 81)")
MOVES = {
    "attached": ("alter table high attach partition part for values from (20) to (30)",),
    "detached": ("alter table parts detach partition low",),
    "detached concurrently": ("alter table parts detach partition low concurrently",),
    "tree detached": ("alter table parts detach partition high",),
    "dropped": ("drop table low",),
    "tree dropped": ("drop table high",),
    "later one dropped": (*LATER, "drop table last"),
    "set unlogged": ("alter table low set unlogged",),
    "set logged": (
        "create unlogged table last partition of high for values from (80) to (90)",
        "insert into parts values (81, 81)",
        "alter table last set logged",
    ),
}
UNTOLD = {
    "attached": MOVES["attached"],
    "detached": MOVES["detached"],
    "tree detached": MOVES["tree detached"],
}
INSERTS_ALONE = {operation: Command(CallFormat.NONE) for operation in (Operation.UPDATE, Operation.DELETE)}


def begin(replicated: ReplicatedDatabase, **options: object) -> None:
    """Publish the tables' tree, to a subscriber that has an ordinary table."""
    replicated.publisher.execute(*PARTS, ROWS)
    replicated.subscriber.execute("create table parts (id int primary key, v int)", ROWS)
    replicated.begin(parts=options)


def list_told(replicated: ReplicatedDatabase) -> list[str]:
    """Deliver as far as the subscription goes without copies; return what it reports of tables."""
    told: list[DroppedTable] = []
    replicated.publisher.read_log(replicated.publisher.mark())
    main = next(one for one in list_subscriptions(replicated.publisher) if one.joins is None)
    with open_only_agent(replicated.publisher, main, watchers=Watchers(on_dropped=told.append)) as agent:
        while agent.step():
            pass
    return [str(one.error) for one in told]


@pytest.mark.parametrize("move", MOVES)
def test_moved_rows_are_copied_and_the_statement_named(replicated: ReplicatedDatabase, move: str) -> None:
    begin(replicated)
    replicated.publisher.execute(*MOVES[move])
    (told,) = list_told(replicated)
    assert told.startswith("RT-7202: published table public.parts is copied again")
    assert MOVES[move][-1] in told
    replicated.publisher.execute("update parts set v = v + 1")
    replicated.deliver()
    replicated.require_equal("parts")


@pytest.mark.parametrize("move", UNTOLD)
def test_moved_rows_are_seen_without_event_triggers(replicated: ReplicatedDatabase, move: str) -> None:
    begin(replicated)
    forget_triggers(replicated.publisher)
    replicated.publisher.execute(*LATER, *UNTOLD[move])
    # What the reader finds as it begins may be behind what it is to read.
    (told,) = [*list_told(replicated), *list_told(replicated)]
    assert "partitions with rows were attached or detached" in told
    replicated.deliver()
    replicated.require_equal("parts")


def test_partitions_without_rows_come_and_go(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.publisher.execute(
        *LATER,
        "create table other (v int, id int not null)",
        "alter table parts attach partition other for values from (90) to (99)",
        "alter table parts detach partition other",
        "drop table other",
    )
    assert list_told(replicated) == []
    replicated.require_equal("parts")


def test_rows_of_a_partition_that_is_created_are_delivered(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    with replicated.publisher.transaction() as connection:
        for statement in (*LATER, "alter table last set (fillfactor = 50)", "alter table parts add note text"):
            connection.execute(statement.encode())
    assert list_told(replicated) == []
    replicated.publisher.execute("update parts set note = 'more' where id = 81")
    replicated.deliver()
    replicated.require_equal("parts")


def test_a_partition_that_was_away_for_a_statement_brings_rows(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    away = ("alter table high detach partition last", "insert into last values (82, 82)")
    back = "alter table high attach partition last for values from (80) to (90)"
    with replicated.publisher.transaction() as connection:
        for statement in (*LATER, *away, back):
            connection.execute(statement.encode())
    (told,) = list_told(replicated)
    assert "RT-7202: published table public.parts is copied again" in told
    replicated.deliver()
    replicated.require_equal("parts")


def test_rows_that_go_stay_where_no_deletes_are_delivered(replicated: ReplicatedDatabase) -> None:
    begin(replicated, commands=INSERTS_ALONE)
    replicated.publisher.execute("drop table low", "alter table parts detach partition high")
    assert list_told(replicated) == []
    assert replicated.subscriber.execute("select id from parts order by id") == [(1,), (11,)]


def test_moved_partitions_are_ignored_on_request(replicated: ReplicatedDatabase) -> None:
    begin(replicated, moved_partitions=MovedPartitions.IGNORE)
    assert [one.moved_partitions for one in replicated.replication.list_articles()] == ["ignore"]
    replicated.publisher.execute("drop table low")
    assert list_told(replicated) == []
    assert replicated.subscriber.execute("select id from parts order by id") == [(1,), (11,)]
    replicated.replication.change_article(PUBLICATION, "parts", moved_partitions=MovedPartitions.COPY)
    replicated.publisher.execute(*MOVES["attached"])
    replicated.deliver()
    replicated.require_equal("parts")
