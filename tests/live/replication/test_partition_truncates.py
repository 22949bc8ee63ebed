"""Truncates of partitions of a published table: PostgreSQL logs those of the whole table alone."""

from __future__ import annotations

import pytest
from psycopg.errors import FeatureNotSupported

from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.core.operations import Operation
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
