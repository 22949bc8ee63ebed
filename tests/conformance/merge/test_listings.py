"""What a node merges, by which rules and with whom, as commands, on both kinds of hub."""

from __future__ import annotations

import json

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import Merge
from rowtide.merge.nodes.connecting import address

PARENT = "create table parent (id integer primary key, owner text)"
CHILD = "create table child (id integer primary key, parent_id integer)"


def listed(merged: Merge, *words: str) -> list[dict[str, object]]:
    ended = rowtide("merge", *words, "--format", "jsonl", "--db", merged.hub.url)
    assert ended.code == 0, ended.errors
    return [json.loads(line) for line in ended.output.splitlines()]


def test_publications_articles_and_filters_are_listed(merged: Merge) -> None:
    merged.hub.execute(PARENT, CHILD)
    merged.merge.add_publication("shop", retention_days=7)
    merged.merge.add_article("shop", "parent", where="owner = host_name()", column_tracking=True)
    merged.merge.add_article("shop", "child")
    merged.merge.add_filter("shop", "child", "parent", "child.parent_id = parent.id", unique_key=True)

    (publication,) = listed(merged, "publications")
    assert publication == {
        "publication": "shop",
        "role": "publisher",
        "articles": 2,
        "subscriptions": 0,
        "retention_days": 7,
        "run_as": "owner",
    }
    articles = {str(row["article"]): row for row in listed(merged, "articles", "shop")}
    assert articles["parent"]["column_tracking"] is True
    assert articles["parent"]["subset_filter"] == "owner = host_name()"
    assert articles["child"]["resolver"] == "priority"
    filters = [tuple(row.values())[1:] for row in listed(merged, "filters")]
    assert sorted(filters, key=str) == [
        ("child", "parent", "child.parent_id = parent.id", True, 1),
        ("parent", None, "owner = host_name()", None, None),
    ]


def test_subscriptions_are_listed_where_there_are_some(merged: Merge) -> None:
    assert listed(merged, "subscriptions") == []
    assert listed(merged, "publications") == []
    rowtide("merge", "articles", "absent", "--db", merged.hub.url).require_error(8002)
    merged.begin(PARENT, parent={})

    subscriptions = listed(merged, "subscriptions", "shop")
    assert {row["subscriber"] for row in subscriptions} == {address(member.url) for member in merged.subscribers}
    header = rowtide("merge", "subscriptions", "--db", merged.hub.url).output.splitlines()[0]
    assert [cell.strip() for cell in header.split("|")][:3] == ["publication", "subscriber", "type"]
