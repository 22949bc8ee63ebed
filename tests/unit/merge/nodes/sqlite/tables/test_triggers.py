"""The triggers of a file's table, and the number by which files of an earlier build get them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import sha256

from rowtide.databases.sqlite.catalogue import find_table
from rowtide.merge.articles import ADDITIVE, Article, ArticleColumn, UploadOptions
from rowtide.merge.nodes.sqlite.metadata import node_form
from rowtide.merge.nodes.sqlite.tables.triggers import trigger_statements

TABLE = "create table item (id integer primary key, qty integer unique, rowguid text not null unique)"
COLUMNS = (
    ArticleColumn("id", "integer", is_nullable=False, key_ordinal=1),
    ArticleColumn("qty", "integer", is_nullable=True, key_ordinal=None),
)
ARTICLES = (
    Article("item", "", "item", 1, COLUMNS),
    Article("item", "", "item", 1, COLUMNS, column_tracking=True, resolver=f"{ADDITIVE}:qty"),
    Article("item", "", "item", 1, COLUMNS, identity_range=100),
    Article("item", "", "item", 1, COLUMNS, subscriber_upload_options=UploadOptions.PROHIBITED),
)
RECORDED = {"triggers of tables 2": "91183c8d9382a50a"}


def test_triggers_are_those_of_their_form() -> None:
    """Where they differ, raise the number of `TRIGGERS_FORM`: files with another one get this build's triggers."""
    with closing(sqlite3.connect(":memory:")) as file:
        file.execute(TABLE)
        table = find_table(file, "item")
        assert table is not None
        written = [statement for article in ARTICLES for statement in trigger_statements(article, table, ()).values()]

    assert {node_form.TRIGGERS_FORM: sha256("\n".join(written).encode()).hexdigest()[:16]} == RECORDED
