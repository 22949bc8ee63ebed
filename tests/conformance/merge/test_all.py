"""All subscribers of a hub synchronised by one call, and by one command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from rowtide.merge.articles import Partition
from rowtide.merge.nodes.connecting import address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item (id, name) values (1, 'a'), (2, 'b')"
COLUMNS = "id, name, qty"


def test_all_subscribers_are_synchronised_at_once(merged: Merge) -> None:
    merged.begin(ITEM, ROWS, item={})
    merged.hub.execute("update item set qty = 1 where id = 1")
    merged.subscribers[0].execute("update item set qty = 2 where id = 2")
    seen: list[tuple[int, int]] = []
    outcomes = merged.merge.sync_all(workers=2, on_progress=lambda _outcome, done, total: seen.append((done, total)))

    assert [outcome.subscriber for outcome in outcomes] == sorted(address(each.url) for each in merged.subscribers)
    assert sum(outcome.uploaded for outcome in outcomes) == 1
    assert seen == [(1, 2), (2, 2)]
    merged.merge.sync_all(PUBLICATION)
    merged.require_equal("item", columns=COLUMNS)
    assert not any(outcome.uploaded or outcome.downloaded for outcome in merged.merge.sync_all())


def test_each_subscriber_has_its_own_filter_values(merged: Merge) -> None:
    filters = {"where": "name = host_name()"}
    options = [{"partition": Partition(name)} for name in ("a", "b")]
    merged.begin(ITEM, ROWS, item=filters, subscriber_options=options)
    merged.hub.execute("update item set qty = id", "insert into item (id, name) values (3, 'a'), (4, 'b')")
    merged.merge.sync_all()

    assert merged.subscribers[0].rows("item", COLUMNS) == [(1, "a", 1), (3, "a", None)]
    assert merged.subscribers[1].rows("item", COLUMNS) == [(2, "b", 2), (4, "b", None)]


def test_a_failure_stops_no_other_subscriber(merged: Merge) -> None:
    merged.begin(ITEM, ROWS, item={})
    merged.subscribers[0].execute("alter table item rename to other")
    merged.hub.execute("update item set qty = 3")
    command = ("merge", "sync", PUBLICATION, "--all", "--format", "jsonl", "--db", merged.hub.url)
    done = rowtide(*command)

    lines = {line["subscriber"]: line for line in map(json.loads, done.output.splitlines())}
    failed, well = (lines[address(subscriber.url)] for subscriber in merged.subscribers)
    assert (done.code, well["downloaded"], well["error"]) == (1, 2, None)
    assert failed["error"].startswith("RT-")
    assert failed["error"] in done.errors
    assert "Synchronised 1 of 2 subscriptions." in done.errors


def test_refused_rows_of_one_subscriber_are_exit_code_2(merged: Merge) -> None:
    merged.begin(f"{ITEM[:-1]}, check (qty < 10))", ROWS, item={})
    device = merged.subscribers[1]
    if isinstance(device, FileMember):
        device.execute("pragma ignore_check_constraints = on")
    else:
        device.execute("alter table item drop constraint item_qty_check")
    device.execute("update item set qty = 10")
    done = rowtide("merge", "sync", "--all", "--db", merged.hub.url)

    assert done.code == 2
    assert "rows refused" in done.output
    assert done.output.count("succeeded") == 1


@pytest.mark.parametrize(
    "words",
    [("--all", "--subscriber", "sqlite:///a.db"), (PUBLICATION,), ("--subscriber", "sqlite:///a.db")],
    ids=["both", "neither", "no publication"],
)
def test_sync_is_of_one_subscriber_or_of_all(words: tuple[str, ...]) -> None:
    assert rowtide("merge", "sync", *words, "--db", "sqlite:///hub.db").code == 2


@pytest.mark.exhaustive
def test_servers_are_synchronised_by_tasks_of_spark(merged: Merge, spark: SparkSession) -> None:
    merged.begin(ITEM, ROWS, item={})
    merged.hub.execute("update item set qty = 4")
    outcomes = merged.merge.sync_all(spark=spark)

    assert [(outcome.downloaded, outcome.error) for outcome in outcomes] == [(2, None), (2, None)]
    merged.require_equal("item", columns=COLUMNS)
