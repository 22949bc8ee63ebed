"""What methods add or set is in a file, or it is known why not: a new method or option is noticed here."""

from __future__ import annotations

from dataclasses import fields
from inspect import getmembers, isfunction

import pytest

from rowtide.cdc.api import ChangeDataCapture
from rowtide.declared.kinds import BY_NAME, KINDS, Kind
from rowtide.merge.api import MergeReplication
from rowtide.replication.api import TransactionalReplication
from rowtide.targets.api import Targets
from rowtide.tracking.api import ChangeTracking

SETTING = ("add", "change_", "enable_", "limit_", "move_", "pause", "register_", "skip_", "subscribe_")
DECLARED: dict[type, dict[str, str]] = {
    ChangeDataCapture: {
        "add_consumer": "consumer",
        "add_job": "job",
        "change_consumer": "consumer",
        "change_job": "job",
        "enable_db": "capture",
        "enable_table": "instance",
        "enable_tables": "rule",
    },
    TransactionalReplication: {
        "add_article": "article",
        "add_publication": "publication",
        "add_schema_article": "schema article",
        "add_subscription": "subscription",
        "change_article": "article",
        "change_distribution": "distribution",
        "change_publication": "publication",
        "change_subscription": "subscription",
        "move_distribution": "distribution",
        "register_custom_scripting": "article",
    },
    MergeReplication: {
        "add_article": "merge article",
        "add_filter": "merge filter",
        "add_partition": "merge publication",
        "add_publication": "merge publication",
        "add_subscription": "merge subscription",
        "change_article": "merge article",
        "change_publication": "merge publication",
        "change_subscription": "merge subscription",
        "subscribe_existing": "merge subscription",
    },
    ChangeTracking: {"enable_tracking": "tracked table"},
    Targets: {"add": "target"},
}
NOT_DECLARED = {
    "add_device": "its code is a secret, and is given once",
    "add_schema": "it adds articles",
    "limit_snapshot": "a copy is work, not a definition",
    "pause": "whether work rests is no definition",
    "pause_snapshot": "whether work rests is no definition",
    "skip_transaction": "an LSN of this log alone",
}


@pytest.mark.parametrize("feature", DECLARED)
def test_what_a_method_sets_is_declared(feature: type) -> None:
    setting = {name for name, _ in getmembers(feature, isfunction) if name.startswith(SETTING)}
    assert setting - NOT_DECLARED.keys() == DECLARED[feature].keys()


def test_each_kind_is_declared_by_a_method() -> None:
    assert {kind for methods in DECLARED.values() for kind in methods.values()} == BY_NAME.keys()


OF_CALLS = {"on_existing", "on_omission", "on_progress", "on_wait", "settings"}
"""Fields of requests that no file has: functions that report, and what other fields are made into."""
MADE_AGAIN = {
    "instance": {
        *("before_images", "columns", "index_name", "refuses_truncate", "role_name", "supports_net_changes"),
        *("table", "widened"),
    },
    "consumer": {"role_name"},
    "target": {
        *("apply_as_deletes", "catalog", "catalog_options", "cluster_by", "column_list", "columns", "engine"),
        *("except_column_list", "follow_columns", "format", "instances", "kind", "limit_hours", "partition_by", "path"),
        *("rename", "schedule", "soft_delete", "table_properties", "track_history_column_list"),
        *("track_history_except_column_list", "truncate"),
    },
    "publication": {"replicate_ddl"},
    "article": {"before_images"},
    "subscription": {"constraints", "forward"},
    "merge publication": {"allow_partition_realignment", "conflict_retention_days"},
    "merge article": {
        *("columns", "identity_range", "partition_options", "publisher_identity_range", "record_conflict_detection"),
        *("record_conflict_resolution", "renumber", "threshold"),
    },
    "merge filter": {"filter_type", "unique_key"},
    "merge subscription": {"priority", "subscriber_type"},
    "tracked table": {"index", "key_type", "options", "storage"},
}
"""Options without a way to change them: a file that changes one makes the object again."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_option_is_a_key_or_known_not_to_be(kind: Kind) -> None:
    options = {one.name for request in kind.options for one in fields(request)} if kind.only is None else set(kind.only)
    assert options - kind.keys.keys() - set(kind.named_by) - kind.left_out <= OF_CALLS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_option_can_be_changed_or_known_not_to(kind: Kind) -> None:
    assert kind.keys.keys() - kind.changeable - kind.once - kind.fixed.keys() == MADE_AGAIN.get(kind.name, set())
