"""What methods add or set is in a file, or it is known why not: a new method is noticed here."""

from __future__ import annotations

from inspect import getmembers, isfunction

import pytest

from rowtide.cdc.api import ChangeDataCapture
from rowtide.declared.kinds import BY_NAME
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
