"""A schema of all kinds of things is published whole, by one command."""

from __future__ import annotations

import pytest

from builders.commands.command_lines import rowtide
from builders.merge_machines.rentals import CHANGED, FILLED, SCHEMA, TABLES
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from rowtide.replication.errors.publishing import SchemaEmpty
from rowtide.replication.subscription_settings import SyncType

KINDS = """
select c.relname, replace(c.relkind::text, 'p', 'r'), a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'rental'::regnamespace and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
order by 1, a.attname
"""


def test_a_schema_is_published_whole(replicated: ReplicatedDatabase) -> None:
    publisher = replicated.publisher
    publisher.execute(*SCHEMA, *FILLED)
    publisher.enable()
    replicated.replication.add_publication(PUBLICATION)
    added = rowtide("replication", "add-schema", PUBLICATION, "rental", "--db", publisher.url, "--format", "csv")
    assert added.code == 0, added.output
    assert "skipped" not in added.output
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    replicated.require_equal(*TABLES, "only rental.person", "rental.sales", "rental.best")
    assert replicated.subscriber.execute(KINDS) == publisher.execute(KINDS)

    publisher.execute(*CHANGED)
    replicated.deliver()
    replicated.require_equal(*TABLES, "only rental.person")
    publisher.execute("call rental.refresh()")
    replicated.subscriber.execute("call rental.refresh()")
    replicated.require_equal("rental.sales", "rental.best")
    again = rowtide("replication", "add-schema", PUBLICATION, "rental", "--db", publisher.url, "--format", "csv")
    assert again.output.count("skipped") == added.output.count("added")


@pytest.mark.exhaustive
def test_what_cannot_be_published_is_named(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table orders (id int primary key)",
        "create table keyless (n int)",
        "create table scratch_1 (id int primary key)",
        "create view all_of_it as select * from orders, keyless",
        "create view large as select * from orders where id > 1000",
    )
    command = ("replication", "add-schema", PUBLICATION, "public", "--db", replicated.publisher.url)
    added = rowtide(*command, "--except", "scratch_*", "--format", "csv")
    assert added.code == 1
    assert "2 of 4 objects of schema public could not be published in shop" in added.errors
    assert {one.article for one in replicated.replication.list_articles(PUBLICATION)} >= {"orders"}
    with pytest.raises(SchemaEmpty):
        list(replicated.replication.add_schema(PUBLICATION, "nowhere"))
