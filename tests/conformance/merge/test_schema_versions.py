"""Columns that one node alone has, columns that both add, and schema versions of subscribers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from builders.commands.hints import run_printed
from builders.merge.merged_databases import PUBLICATION, Merge, ServerMember
from rowtide.core.options import WordUnknown
from rowtide.merge.catalogue import get_publication, list_articles, set_definition
from rowtide.merge.definitions import schema_changes
from rowtide.merge.errors.publishing import (
    ColumnNeeded,
    ColumnsCollide,
    DefinitionsDiffer,
    KeyChanged,
    MergedTableAltered,
    SchemaAhead,
    SchemaChangeUnknown,
    TableNotAltered,
)
from rowtide.merge.nodes.connecting import open_node

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item (id, name, qty) values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"


def begin(merged: Merge, **options: object) -> None:
    merged.begin(ITEM, ROWS, item=options)
    merged.settle(1)


def unsent(merged: Merge) -> list[tuple[str, bool]]:
    """Return the columns that a synchronisation names, and whether they are the publisher's."""
    return [(one.column, one.node == "the publisher") for one in merged.sync().unsent]


def test_columns_of_both_are_named_and_then_one(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    device.execute("alter table item add column extra varchar(10)", "update item set extra = 'D' where id < 3")
    assert unsent(merged) == [("extra", False)]
    (row,) = merged.merge.validate(PUBLICATION, device.url, checksum=True)
    assert row.is_equal
    assert len(row.unsent) == 1

    merged.hub.execute("alter table item add column extra varchar(10)", "update item set extra = 'H' where id > 1")
    assert unsent(merged) == []
    merged.settle(2)
    assert merged.hub.rows("item", "id, extra") == [(1, "D"), (2, "H"), (3, "H")]
    merged.require_equal("item", columns="id, name, qty, extra")
    assert all(summary.is_quiet for summary in merged.settle(1))


def test_a_column_of_another_type_stops_after_the_upload(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    device.execute("alter table item add column extra integer", "update item set extra = 7, qty = 9 where id = 1")
    merged.hub.execute("alter table item add column extra varchar(10)")
    for _ in range(2):
        with pytest.raises(ColumnsCollide, match="extra"):
            merged.sync()
    assert merged.hub.rows("item", "id, qty")[0] == (1, 9)
    device.execute("alter table item rename column extra to mine")
    assert unsent(merged) == [("mine", False)]
    assert device.rows("item", "id, qty, extra, mine")[0] == (1, 9, None, 7)


def test_without_replication_of_ddl_new_columns_are_named(merged: Merge) -> None:
    begin(merged)
    merged.merge.change_publication(PUBLICATION, replicate_ddl=False)
    merged.hub.execute("alter table item add column extra varchar(10)", "update item set extra = 'H', qty = 5")
    assert unsent(merged) == [("extra", True)]
    assert merged.subscribers[0].rows("item", "id, qty")[0] == (1, 5)
    (status, *_) = merged.merge.status()
    assert [name.rpartition(".")[2] for name in status.unsent_columns] == ["extra"]

    merged.merge.change_publication(PUBLICATION, replicate_ddl=True)
    assert unsent(merged) == []
    assert merged.subscribers[0].rows("item", "id, extra")[0] == (1, "H")


def test_a_change_is_listed_and_left_to_the_subscriber(merged: Merge) -> None:
    begin(merged)
    merged.merge.alter_article(PUBLICATION, "item", "add column extra varchar(10)")
    (change,) = merged.merge.list_schema_changes(PUBLICATION)
    assert (change.article_name, change.schematype, change.schemastatus) == ("item", "add column", "active")
    assert "add column extra" in change.schematext
    assert len(change.pending) == len(merged.subscribers)

    with pytest.raises(SchemaChangeUnknown):
        merged.merge.mark_schema_change(PUBLICATION, 99, "skipped")
    with pytest.raises(WordUnknown, match="Give active or skipped"):
        merged.merge.mark_schema_change(PUBLICATION, change.schemaversion, "skip")  # type: ignore[arg-type]
    merged.merge.mark_schema_change(PUBLICATION, change.schemaversion, "skipped")
    with pytest.raises(MergedTableAltered, match="extra is missing"):
        merged.sync()
    merged.subscribers[0].execute("alter table item add column extra varchar(10)")
    merged.hub.execute("update item set extra = 'H' where id = 1")
    merged.sync()
    assert merged.subscribers[0].rows("item", "id, extra")[0] == (1, "H")


def test_a_subscriber_ahead_of_the_publisher_is_refused(merged: Merge) -> None:
    begin(merged)
    merged.merge.alter_article(PUBLICATION, "item", "add column extra varchar(10)")
    merged.sync()
    with open_node(merged.hub.url) as hub, hub.transaction():
        hub.connection.execute(update(schema_changes).values(schemaguid="of another history"))
    with pytest.raises(SchemaAhead, match="reinitialize") as ahead:
        merged.sync()
    run_printed(ahead.value, merged.hub.url)
    merged.sync()
    columns = "id, name, qty, extra"
    assert merged.subscribers[0].rows("item", columns) == merged.hub.rows("item", columns)


def test_what_is_needed_may_not_go(merged: Merge) -> None:
    begin(merged, where="qty > 0", resolver="later-wins:name")
    with pytest.raises(TableNotAltered):
        merged.merge.alter_article(PUBLICATION, "item", "drop column nothing")
    with pytest.raises(ColumnNeeded, match="qty > 0"):
        merged.merge.alter_article(PUBLICATION, "item", "drop column qty")
    with pytest.raises(ColumnNeeded, match="resolver"):
        merged.merge.alter_article(PUBLICATION, "item", "drop column name")
    merged.merge.alter_article(PUBLICATION, "item", "rename column name to label")
    (article,) = merged.merge.list_articles(PUBLICATION)
    assert article.resolver == "later-wins:label"
    if isinstance(merged.hub, ServerMember):
        merged.hub.execute("alter table item drop constraint item_pkey, add primary key (id, qty)")
        with pytest.raises(KeyChanged):
            merged.sync()


def test_definitions_of_an_earlier_build_are_followed(merged: Merge) -> None:
    """They had no numbers of columns, and nothing of the table's parts."""
    begin(merged)
    for member in merged.members:
        with open_node(member.url) as node, node.transaction():
            publication = get_publication(node.connection, PUBLICATION)
            (article,) = list_articles(node.connection, publication.pubid)
            columns = tuple(replace(column, number=None, attnum=None) for column in article.columns)
            earlier = replace(article, columns=columns, fingerprint="", shape="", table_id="", last_number=0)
            set_definition(node.connection, publication.pubid, earlier)
    merged.subscribers[0].execute("update item set qty = 9 where id = 1")
    merged.settle(1)
    assert merged.merge.list_schema_changes(PUBLICATION) == []
    merged.hub.execute("alter table item rename column qty to amount")
    with pytest.raises(DefinitionsDiffer):
        merged.merge.validate(PUBLICATION, merged.subscribers[0].url)
    merged.settle(1)
    assert merged.subscribers[0].rows("item", "id, amount")[0] == (1, 9)
