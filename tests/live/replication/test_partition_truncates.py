"""Truncates of partitions of a published table: PostgreSQL logs those of the whole table alone."""

from __future__ import annotations

import pytest
from psycopg.errors import FeatureNotSupported

from builders.commands.checks import matching, only
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.servers.ddl import forget_triggers
from rowtide.core.operations import Operation
from rowtide.diagnosis.result import State
from rowtide.handle import connect
from rowtide.replication.articles.call_formats import CallFormat, Command

PARTS = (
    "create table parts (id int primary key) partition by range (id)",
    'create table "Low" partition of parts for values from (0) to (10)',
    "create table high partition of parts for values from (10) to (20)",
    "insert into parts values (1), (11)",
)
INSERTS_ALONE = {operation: Command(CallFormat.NONE) for operation in (Operation.UPDATE, Operation.DELETE)}
TRIGGERS = "select tgname from pg_trigger where not tgisinternal"


def test_a_partition_is_truncated_only_with_its_table(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(*PARTS)
    replicated.subscriber.execute("create table parts (id int primary key)", "insert into parts values (1), (11)")
    replicated.begin(parts={})
    with pytest.raises(
        FeatureNotSupported, match=r"RT-4711: partition public\.\"Low\".*\n.*drop article public\.parts"
    ):
        replicated.publisher.execute('truncate "Low"')
    replicated.publisher.execute("truncate parts", "insert into parts values (2)")
    replicated.deliver()
    replicated.require_equal("parts")


def test_later_partitions_are_truncated_only_with_it_too(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(PARTS[0])
    replicated.subscriber.execute("create table parts (id int primary key)")
    replicated.begin(parts={})
    replicated.publisher.execute(
        *PARTS[1:],
        "create table tree (id int not null) partition by list (id)",
        'create table "a\'s leaf" partition of tree for values in (21)',
        "alter table parts attach partition tree for values from (20) to (30)",
        "insert into parts values (21)",
    )
    for leaf in ("high", '"a\'s leaf"'):
        with pytest.raises(FeatureNotSupported, match=r"RT-4711: .*\n.*drop article public\.parts of publication shop"):
            replicated.publisher.execute(f"truncate {leaf}")
    replicated.publisher.execute("alter table parts detach partition tree", 'truncate "a\'s leaf"', "truncate parts")
    replicated.publisher.execute("insert into parts values (2)")
    replicated.deliver()
    replicated.require_equal("parts")
    replicated.replication.drop_article(PUBLICATION, "parts")
    assert replicated.publisher.execute(TRIGGERS) == []


def test_without_event_triggers_partitions_are_taken_in(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(*PARTS)
    replicated.publish(parts={})
    forget_triggers(replicated.publisher)
    replicated.publisher.execute("create table later partition of parts for values from (20) to (30)", "truncate later")
    warned = only(connect(replicated.publisher.url).check(), "a truncate of it would go unseen")
    assert (warned.subject, warned.state) == ("partition public.later", State.WARNING)
    replicated.publisher.read_log()
    assert matching(connect(replicated.publisher.url).check(), "would go unseen") == []
    with pytest.raises(FeatureNotSupported, match=r"RT-4711: partition public\.later"):
        replicated.publisher.execute("truncate later")


def test_a_dropped_article_lets_its_partitions_go(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(*PARTS)
    replicated.publish(parts={})
    replicated.replication.drop_article(PUBLICATION, "parts")
    replicated.publisher.execute('truncate "Low"')
    assert replicated.publisher.execute(TRIGGERS) == []


def test_partitions_go_where_no_deletes_are_delivered(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.execute(*PARTS)
    replicated.publish(parts={"commands": INSERTS_ALONE})
    replicated.publisher.execute('truncate "Low"')
    replicated.replication.drop_article(PUBLICATION, "parts")
    replicated.replication.add_article(PUBLICATION, "parts")
    replicated.replication.change_article(PUBLICATION, "parts", commands=INSERTS_ALONE)
    replicated.publisher.execute("truncate high")
    assert replicated.publisher.execute(TRIGGERS) == []
