"""The functions of a table's triggers, and the number by which nodes of an earlier build get them."""

from __future__ import annotations

from hashlib import sha256

from rowtide.merge.articles import ADDITIVE, Article, ArticleColumn, UploadOptions
from rowtide.merge.nodes.postgres.metadata import node_form
from rowtide.merge.nodes.postgres.tables.triggers import function_statements

COLUMNS = (
    ArticleColumn("id", "integer", is_nullable=False, key_ordinal=1),
    ArticleColumn("qty", "integer", is_nullable=True, key_ordinal=None),
)
ARTICLES = (
    Article("item", "public", "item", 1, COLUMNS),
    Article("item", "public", "item", 1, COLUMNS, column_tracking=True, resolver=f"{ADDITIVE}:qty"),
    Article("item", "public", "item", 1, COLUMNS, identity_range=100),
    Article("item", "public", "item", 1, COLUMNS, subscriber_upload_options=UploadOptions.PROHIBITED),
)
RECORDED = {"functions of triggers 3": "9dae5944605eaf38"}


def test_functions_of_triggers_are_those_of_their_form() -> None:
    """Where they differ, raise the number of `FUNCTIONS_FORM`: nodes with another one get this build's functions."""
    written = [
        statement
        for article in ARTICLES
        for is_partitioned in (False, True)
        for statement in function_statements(article, is_partitioned=is_partitioned)
    ]

    assert {node_form.FUNCTIONS_FORM: sha256("\n".join(written).encode()).hexdigest()[:16]} == RECORDED
