"""Replication, merge and tracking as they are declared, on PostgreSQL."""

from __future__ import annotations

from builders.declared_states import actions_of, apply_text, export_text, plan_text
from builders.replication.replicated_databases import ReplicatedDatabase

TABLES = (
    "create table item (id int primary key, name text, price int)",
    "create table line (id int primary key, item int references item, amount int)",
    "create table device (id int primary key, owner text)",
    "create table part (id int primary key, device int)",
)


def declare(replicated: ReplicatedDatabase) -> str:
    folder = replicated.publisher.lake.parent
    return f'''
[replication]
lake = "{folder}/replicated"

[replication.publications.shop]
replicate_ddl = false
latency_threshold_s = 60

[replication.publications.shop.articles.item]
columns = ["id", "price"]
where = "price > 5"
update_command = "MCALL"

[replication.publications.shop.articles."public.line"]
delete_command = "NONE"
key_updates = "delete-insert"

[replication.publications.shop.subscriptions."sqlite:///{folder}/copy.db"]
streams = 1
commit_batch_size = 7
skip_errors = "2627"

[replication.publications.shop.subscriptions."{replicated.subscriber.url}"]
streams = 2

[merge.publications.devices]
retention_days = 3
conflict_retention_days = 9

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
    assert actions_of(plan_text(url, exported, prunes=True)) == {}
    assert actions_of(plan_text(url, declare(replicated), prunes=True)) == {}
