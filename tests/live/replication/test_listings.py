"""What is published, to whom, and what is queued, as commands and in Python."""

from __future__ import annotations

import json

import pytest

from builders.commands.command_lines import rowtide
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.replication.errors.publishing import PublicationUnknown

ORDERS = "create table orders (id bigint primary key, note text, secret text)"
ITEMS = "create table items (id bigint primary key)"


def listed(replicated: ReplicatedDatabase, *words: str) -> list[dict[str, object]]:
    ended = rowtide("replication", *words, "--format", "jsonl", "--db", replicated.publisher.url)
    assert ended.code == 0, ended.errors
    return [json.loads(line) for line in ended.output.splitlines()]


def test_publications_and_articles_are_listed_with_their_options(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, ITEMS, orders={"columns": ["id", "note"], "where": "id < 100"}, items={})
    replicated.replication.add_publication("empty")

    publications = listed(replicated, "publications")
    assert [(row["publication"], row["articles"], row["subscriptions"]) for row in publications] == [
        ("shop", 2, 1),
        ("empty", 0, 0),
    ]
    items, orders = listed(replicated, "articles", "shop")
    assert (items["columns"], items["filter_clause"]) == (["id"], None)
    assert (orders["columns"], orders["key_columns"], orders["filter_clause"]) == (["id", "note"], ["id"], "id < 100")
    assert str(orders["upd_cmd"]).startswith("SCALL ")
    assert listed(replicated, "articles") == [items, orders]
    assert listed(replicated, "articles", "empty") == []


@pytest.mark.exhaustive
def test_what_is_queued_is_listed_until_it_is_delivered(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    (before,) = listed(replicated, "subscriptions", "shop")
    replicated.publisher.execute("insert into orders values (1), (2)", "delete from orders where id = 1")
    replicated.publisher.read_log()

    (queued,) = listed(replicated, "subscriptions", "shop")
    assert (before["queued_commands"], queued["queued_commands"]) == (0, 3)
    assert queued["queued_bytes"] != 0
    assert queued["oldest_queued"] is not None
    assert (queued["articles"], queued["state"]) == (["orders"], "active")
    assert queued["subscriber"] == replicated.subscriber.url
    assert queued["sync_type"] == "replication-support-only"

    replicated.deliver()
    (delivered,) = listed(replicated, "subscriptions")
    assert (delivered["queued_commands"], delivered["oldest_queued"]) == (0, None)
    table = rowtide("replication", "subscriptions", "--db", replicated.publisher.url).output
    assert table.splitlines()[0].split(" | ")[0] == "publication"


def test_listings_of_an_unknown_publication_are_refused(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()

    assert replicated.replication.list_publications() == ()
    assert replicated.replication.list_subscriptions() == ()
    for listing in (replicated.replication.list_articles, replicated.replication.list_subscriptions):
        with pytest.raises(PublicationUnknown):
            listing("absent")
