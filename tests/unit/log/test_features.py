"""The tables that the log knows of the features that read it."""

from __future__ import annotations

from rowtide.cdc.definitions import FEATURE, change_tables
from rowtide.log.features import CAPTURE, CHANGE_TABLES, ORIGINS, PUBLICATIONS
from rowtide.replication.distributor.definitions import publications
from rowtide.replication.targets.postgres.delivery_marks import OBJECTS


def test_the_log_knows_the_features_tables_by_name() -> None:
    assert (change_tables.schema, change_tables.name) == (CHANGE_TABLES.schema, CHANGE_TABLES.name)
    assert (publications.schema, publications.name) == (PUBLICATIONS.schema, PUBLICATIONS.name)
    assert "index_name" in change_tables.columns
    assert FEATURE == CAPTURE


def test_the_log_knows_where_subscriptions_secrets_are() -> None:
    assert any(ORIGINS.path in one for one in OBJECTS)
