"""Replication, merge and tracking as they are declared, on PostgreSQL."""

from __future__ import annotations

import re

import pytest

from builders.declared_states import actions_of, apply_text, export_text, plan_text
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.core.errors import RowtideError

TABLES = (
    "create table item (id int primary key, name text, price int)",
    "create table line (id int primary key, item int references item, amount int)",
    "create table device (id int primary key, owner text)",
    "create table part (id int primary key, device int)",
    "create function double(n int) returns int language sql immutable return n * 2",
    'create view "z view" as select id, double(price) as price from item',
    'create view a_view as select price from "z view"',
)


def declare(replicated: ReplicatedDatabase) -> str:
    folder = replicated.publisher.lake.parent
    return f'''
[replication]
lake = "{folder}/replicated"
max_retention_hours = 100

[replication.publications.shop]
replicate_ddl = false
latency_threshold_s = 60

[replication.publications.shop.articles.item]
columns = ["id", "price"]
where = "price > 5"
update_command = "MCALL"
script = "select 'after a change'"
script_name = "after.sql"

[replication.publications.shop.articles."public.line"]
delete_command = "NONE"
key_updates = "delete-insert"
script_python = "my.module:after"

[replication.publications.shop.schema_articles.a_view]

[replication.publications.shop.schema_articles."public.double(integer)"]

[replication.publications.shop.schema_articles."z view"]

[replication.publications.shop.subscriptions."sqlite:///{folder}/copy.db"]
streams = 1
commit_batch_size = 7
skip_errors = "2627"

[replication.publications.shop.subscriptions."{replicated.subscriber.url}"]
streams = 2

[merge.publications.devices]
retention_days = 3
conflict_retention_days = 9
partitions = ["login=bob&host_name=ann", "host_name=a%26b"]

[merge.publications.devices.articles.device]
where = "owner = host_name()"
resolver = "publisher-wins"
partition_options = 1
upload_options = 0

[merge.publications.devices.articles.part]
columns = ["device"]
column_tracking = true

[merge.publications.devices.articles.part.filters.device]
condition = "part.device = device.id"
unique_key = true

[merge.publications.devices.subscriptions."sqlite:///{folder}/phone.db"]
host_name = "ann"
subscriber_type = "server"
priority = 5

[tracking.tables.line]
options = "insert, delete"
storage = "side"
index = "btree"
'''


def test_what_is_declared_is_exported_again(replicated: ReplicatedDatabase) -> None:
    url = replicated.publisher.url
    replicated.publisher.execute(*TABLES)

    apply_text(url, declare(replicated))

    exported = export_text(url)
    assert 'partitions = ["host_name=a%26b", "host_name=ann&login=bob"]' in exported
    assert actions_of(plan_text(url, exported, prunes=True)) == {}
    assert actions_of(plan_text(url, declare(replicated), prunes=True)) == {}


def test_scripts_texts_and_partitions_are_changed_and_dropped(replicated: ReplicatedDatabase) -> None:
    url = replicated.publisher.url
    replicated.publisher.execute(*TABLES)
    first = declare(replicated)
    apply_text(url, first)

    later = (
        first.replace('script_python = "my.module:after"\n', "")
        .replace("after.sql", "later.sql")
        .replace("max_retention_hours = 100\n", "")
        .replace('"login=bob&host_name=ann", ', '"login=eve", ')
        .replace("[replication.publications.shop.schema_articles.a_view]\n", "")
    )
    assert actions_of(plan_text(url, later, prunes=True)) == {
        "distribution": "change",
        "article shop.public.item": "change",
        "article shop.public.line": "change",
        "schema article shop.public.a_view": "drop",
        "merge publication devices": "change",
    }
    apply_text(url, later, prunes=True)
    assert actions_of(plan_text(url, later, prunes=True)) == {}
    exported = export_text(url)
    assert 'partitions = ["host_name=a%26b", "login=eve"]' in exported
    assert "later.sql" in exported
    assert "my.module" not in exported
    assert "max_retention_hours" not in exported
    assert "a_view" not in exported


@pytest.mark.parametrize(
    ("section", "error"),
    [
        ("merge.publications.x]\npartitions = ['shop=1']", "which is not host_name=NAME"),
        ("merge.publications.x]\npartitions = ['ann']", "has no partition ann"),
        ("replication.publications.shop.schema_articles.nothing]", "does not have nothing"),
        (
            "replication.publications.shop.articles.item]\nscript = 'select 1'\nscript_python = 'a:b'",
            "has both script and script_python",
        ),
    ],
)
def test_what_cannot_be_declared_is_refused_before_anything(
    replicated: ReplicatedDatabase, section: str, error: str
) -> None:
    replicated.publisher.execute(*TABLES)
    with pytest.raises(RowtideError, match=re.escape(error)):
        plan_text(replicated.publisher.url, f"[replication.publications.shop]\n[{section}\n")
