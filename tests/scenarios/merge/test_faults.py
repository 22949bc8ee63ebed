"""Merging, killed at each of its commits: a repeat resumes, and all nodes become equal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from builders.faults.failpoints import MERGE_FAILPOINTS, MERGE_SCHEMA_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.merge.merged_databases import PUBLICATION, Merge
from fixtures.merged import KINDS, live_if_a_server

PROGRAM = """
import sys
from rowtide.merge.api import MergeReplication
merge = MergeReplication(sys.argv[1])
{statement}
"""
CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note text)"
COLUMNS = "id, name, qty"
MOST_HITS = 40


def run(merged: Merge, statement: str, failpoint: str) -> int:
    """Run a statement on the hub's merging in a process of its own, to be killed; return its exit code."""
    arguments = [merged.hub.url, *(subscriber.url for subscriber in merged.subscribers)]
    return run_program(PROGRAM.format(statement=statement), *arguments, failpoint=failpoint)


def passes(kinds: Sequence[str], failpoint: str) -> bool:
    """Tell whether the hub or the first subscriber is of the failpoint's kind."""
    return {"sqlite": "file", "postgres": "server"}[failpoint.split("_", maxsplit=1)[0]] in kinds[:2]


killed_at_each_failpoint = pytest.mark.parametrize(
    ("merged", "failpoint"),
    [
        pytest.param(kinds, failpoint, id=f"{name}-{failpoint}", marks=live_if_a_server(kinds))
        for name, kinds in KINDS.items()
        for failpoint in MERGE_FAILPOINTS
        if passes(kinds, failpoint)
    ],
    indirect=["merged"],
)


@killed_at_each_failpoint
def test_killed_syncs_lose_nothing_and_duplicate_nothing(merged: Merge, failpoint: str) -> None:
    merged.begin(CUSTOMER, ORDERS, "insert into customer values (1, 'first', 1)", orders={}, customer={})
    for hit in count(1):
        merged.hub.execute(
            f"insert into customer (id, name) values ({1000 + hit}, 'hub')",
            f"insert into orders (id, customer_id) values ({1000 + hit}, {1000 + hit})",
            f"update customer set qty = {hit} where id = 1",
        )
        merged.subscribers[0].execute(
            f"insert into customer (id, name) values ({2000 + hit}, 'sub')",
            f"update customer set name = 'by sub {hit}' where id = 1",
            "delete from orders where id % 2 = 0",
        )
        ended = run(merged, f"merge.sync({PUBLICATION!r}, sys.argv[2])", f"{failpoint}@{hit}")
        if ended == 0:
            break
        assert ended == KILLED
        assert hit < MOST_HITS
    merged.settle(3)

    assert hit > 4
    merged.require_equal("customer", columns=COLUMNS)
    merged.require_equal("orders", columns="id, customer_id")
    assert len(merged.hub.rows("customer")) == 1 + 2 * hit
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("merged", "failpoint"),
    [
        pytest.param(kinds, failpoint, id=f"{name}-{failpoint}", marks=live_if_a_server(kinds))
        for name, kinds in KINDS.items()
        for failpoint in (*MERGE_SCHEMA_FAILPOINTS, *(each for each in MERGE_FAILPOINTS if passes(kinds, each)))
    ],
    indirect=["merged"],
)
def test_killed_syncs_follow_a_schema_change_once(merged: Merge, failpoint: str) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'first', 1)", customer={"column_tracking": True})
    merged.hub.execute(ORDERS)
    merged.subscribers[0].execute(
        "insert into customer (id, name) values (2, 'sub')", "update customer set name = 'sub' where id = 1"
    )
    merged.hub.execute(
        "update customer set qty = 5 where id = 1",
        "alter table customer add column state varchar(10) not null default 'new'",
        "update customer set state = 'old' where id = 1",
        "alter table customer rename column qty to amount",
        "insert into orders (id, customer_id) values (1, 1)",
    )
    merged.merge.add_article(PUBLICATION, "orders")
    for hit in count(1):
        ended = run(merged, f"merge.sync({PUBLICATION!r}, sys.argv[2])", f"{failpoint}@{hit}")
        if ended == 0:
            break
        assert ended == KILLED
        assert hit < MOST_HITS
    merged.settle(2)

    expected = [(1, "sub", 5, "old"), (2, "sub", None, "new")]
    assert [member.rows("customer", "id, name, amount, state") for member in merged.members[:2]] == [expected] * 2
    merged.require_equal("orders", columns="id, customer_id")
    assert merged.merge.list_schema_changes(PUBLICATION) == []
    assert all(summary.is_quiet for summary in merged.settle(1))


@pytest.mark.exhaustive
@killed_at_each_failpoint
def test_killed_subscriptions_and_articles_can_be_repeated(merged: Merge, failpoint: str) -> None:
    merged.hub.execute(CUSTOMER, "insert into customer values (1, 'first', 1)")
    merged.merge.add_publication(PUBLICATION)
    killed = 0
    for statement in (
        f"merge.add_article({PUBLICATION!r}, 'customer')",
        f"merge.add_subscription({PUBLICATION!r}, sys.argv[2])",
        f"merge.reinitialize({PUBLICATION!r}, sys.argv[2])",
    ):
        for hit in range(1, MOST_HITS):
            ended = run(merged, statement, f"{failpoint}@{hit}")
            if ended != KILLED:
                break
            killed += 1
            # What was done up to its last commit is done, and a repeat of it says so.
            if is_done(merged, statement):
                break
        assert is_done(merged, statement) or ended == 0
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[1].url)
    merged.subscribers[0].execute("update customer set qty = 5")
    merged.settle()

    assert killed >= 2
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "first", 5)]


def is_done(merged: Merge, statement: str) -> bool:
    """Whether an article or a subscription is there, complete at both ends."""
    [status] = merged.merge.status(PUBLICATION)
    if "add_article" in statement:
        return status.articles == ("customer",)
    if "add_subscription" in statement:
        subscriber = type(merged.merge)(merged.subscribers[0].url).status()
        return status.subscriber is not None and bool(subscriber)
    return False
