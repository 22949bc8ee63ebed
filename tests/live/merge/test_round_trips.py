"""How many round trips to the hub a synchronisation of a device takes; connecting is not counted.

The network is a thread of this process: a synchronisation that held the interpreter's lock while it waits would stop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.faults.slow_network import Conversation, SlowNetwork
from builders.merge.merged_databases import PUBLICATION, Merge, open_file_member, open_server_member
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import FilterType, Partition
from rowtide.merge.session.history import Summary

pytestmark = pytest.mark.live

ITEM = "create table item (id bigint primary key, name text, qty integer)"
LINE = "create table line (id bigint primary key, item_id bigint references item (id), note text)"
REFUSING = """
create function refuse() returns trigger language plpgsql as $$begin raise check_violation; end$$
"""
LIMIT = (
    "create trigger small before insert or update on item for each row when (new.qty >= 100) execute function refuse()"
)
NUMBERS = "with recursive s (n) as (select 1 union all select n + 1 from s where n < {rows})"
EMPTY = 7
ROWS = 1000


@pytest.fixture
def merged(network: SlowNetwork, tmp_path: Path) -> Iterator[Merge]:
    """A hub behind a network, and a device with two tables, synchronised."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(network.database_url))
        merged = Merge(hub, [opened.enter_context(open_file_member(tmp_path / "device.db"))])
        hub.execute(ITEM, LINE, f"insert into item select n, 'item', 0 from generate_series(1, {ROWS}) n")
        merged.begin(item={}, line={})
        merged.merge = MergeReplication(network.url)
        merged.sync()
        yield merged


def insert(first: int, rows: int, name: str) -> str:
    return f"insert into item (id, name, qty) {NUMBERS.format(rows=rows)} select {first} + n, '{name}', n from s"


def count(network: SlowNetwork, merged: Merge) -> tuple[int, Summary]:
    """Synchronise, and return how many round trips it took, and its summary."""
    network.reset()
    summary = merged.sync()
    assert network.connections == 1
    return network.trips, summary


def test_a_flush_after_the_answer_is_no_round_trip() -> None:
    """libpq sends one after each Sync; on a slow machine the answer is there before."""
    network = SlowNetwork("")
    conversation = Conversation(network, is_open=True)
    for _ in range(2):
        conversation.ask(b"S\0\0\0\4")
        conversation.answer(b"Z\0\0\0\5I")
        conversation.ask(b"H\0\0\0\4")
    conversation.ask(b"X\0\0\0\4")
    assert network.trips == 2


def test_an_empty_synchronisation_takes_seven_round_trips(network: SlowNetwork, merged: Merge) -> None:
    assert [count(network, merged)[0] for _ in range(2)] == [EMPTY, EMPTY]


def test_a_thousand_rows_each_way_take_a_few_more(network: SlowNetwork, merged: Merge) -> None:
    for member, first in ((merged.hub, 10_000), (merged.subscribers[0], 20_000)):
        member.execute(insert(first, ROWS, "new"))
    inserted, summary = count(network, merged)
    merged.require_equal("item", columns="id, name, qty")
    for member, name in ((merged.hub, "hub"), (merged.subscribers[0], "device")):
        condition = "id > 10000 and id <= 20000" if name == "hub" else "id > 20000"
        member.execute(f"update item set name = '{name}' where {condition}")
    updated, _ = count(network, merged)

    merged.require_equal("item", columns="id, name, qty")
    assert (summary.upload.total.inserts, summary.download.total.inserts) == (ROWS, ROWS)
    assert max(inserted, updated) <= EMPTY + 8


def test_each_batch_of_an_upload_takes_two_round_trips(network: SlowNetwork, merged: Merge) -> None:
    merged.subscribers[0].execute(insert(20_000, 2000, "device"))
    once, _ = count(network, merged)
    merged.subscribers[0].execute(insert(30_000, 6000, "device"))
    thrice, summary = count(network, merged)

    assert summary.upload.total.inserts == 6000
    assert thrice - once == 2 * 2


def test_conflicts_are_decided_together(network: SlowNetwork, merged: Merge) -> None:
    for member, name in ((merged.hub, "hub"), (merged.subscribers[0], "device")):
        member.execute(f"update item set name = '{name}' where id <= 200")
    trips, summary = count(network, merged)

    assert summary.upload.total.conflicts == 200
    assert trips <= EMPTY + 6
    merged.require_equal("item", columns="id, name, qty")


def test_duplicate_keys_are_settled_together(network: SlowNetwork, merged: Merge) -> None:
    for member, name in ((merged.hub, "hub"), (merged.subscribers[0], "device")):
        member.execute(insert(10_000, 20, name))
    trips, summary = count(network, merged)

    assert summary.upload.total.conflicts == 20
    assert trips <= EMPTY + 11
    merged.require_equal("item", columns="id, name, qty")


@pytest.mark.parametrize("rows", [1, 100, 200, 1000])
def test_refused_rows_take_three_round_trips(network: SlowNetwork, merged: Merge, rows: int) -> None:
    """New ones, repeated ones, and both with rows that are taken: in each case three, however many they are."""
    device = merged.subscribers[0]
    merged.hub.execute(REFUSING, LIMIT)
    device.execute(insert(10_000, 99 + rows, "device"))
    first, summary = count(network, merged)
    again, repeated = count(network, merged)
    device.execute(insert(20_000, 99 + rows, "device"))
    mixed, both = count(network, merged)

    assert (len(summary.upload.refused), summary.upload.total.inserts) == (rows, 99)
    assert (len(repeated.upload.refused), repeated.upload.total.retried) == (rows, rows)
    assert (len(both.upload.refused), both.upload.total.inserts) == (2 * rows, 99)
    assert both.upload.total.retried == 2 * rows
    assert max(first, again, mixed) - EMPTY <= 3
    assert merged.hub.execute("select count(*) from item where id > 10000") == [(2 * 99,)]


REFUSALS = {
    "a unique index": (
        ["create unique index on item (name) where name like 'h%'", "update item set name = 'h' || id"],
        ["insert into item (id, name) {numbers} select 10000 + n, 'h' || n from s"],
    ),
    "a foreign key": (
        [
            "create table shelf (id integer primary key)",
            "insert into shelf values (0), (1)",
            "alter table item add foreign key (qty) references shelf",
        ],
        ["insert into item (id, qty) {numbers} select 10000 + n, 99 from s"],
    ),
    "a check": (
        ["alter table item add check (qty < 99 and pg_backend_pid() > 0)"],
        ["insert into item (id, qty) {numbers} select 10000 + n, 99 from s"],
    ),
    "a type": (
        ["alter table item alter name type varchar(6)"],
        ["insert into item (id, name) {numbers} select 10000 + n, 'much too long' from s"],
    ),
    "bytes that are not UTF-8": (
        ["select 1"],
        ["insert into item (id, name) {numbers} select 10000 + n, cast(x'ff41' as text) from s"],
    ),
    "removals beside others": (
        ["create table shelf (item integer references item)", "insert into shelf select id from item", REFUSING, LIMIT],
        [
            "delete from item where id <= {rows}",
            "insert into item (id, qty) {numbers} select 10000 + n, 100 from s",
        ],
    ),
}
"""What the hub refuses rows by, beside triggers: what happens there, and at the device."""


@pytest.mark.parametrize(("late", "bad"), REFUSALS.values(), ids=REFUSALS.keys())
def test_whatever_refuses_rows_takes_few_round_trips(
    network: SlowNetwork, merged: Merge, late: list[str], bad: list[str]
) -> None:
    rows, device = 100, merged.subscribers[0]
    merged.hub.execute(*late)
    merged.settle(1)
    device.execute(*(each.format(numbers=NUMBERS.format(rows=rows), rows=rows) for each in bad))
    device.execute(insert(20_000, 1, "good"))
    first, summary = count(network, merged)
    again, repeated = count(network, merged)

    assert (len(summary.upload.refused), summary.upload.total.inserts) == (rows, 1)
    assert len(repeated.upload.refused) == rows
    assert again - EMPTY <= 3
    assert first - EMPTY <= (8 if len(bad) > 1 else 5)


def looked(merged: Merge) -> int:
    return int(merged.hub.execute("select last_value from looked")[0][0])


def test_an_unchanged_refused_row_is_retried_once(network: SlowNetwork, merged: Merge) -> None:
    """A sequence is not rolled back: it counts how often the hub has looked at the row."""
    merged.hub.execute(
        "create sequence looked",
        "create function refuse() returns trigger language plpgsql as "
        "'begin if new.qty >= 100 then perform nextval(''looked''); raise exception ''too many''; end if; "
        "return new; end'",
        "create trigger refuse before insert on item for each row execute function refuse()",
    )
    merged.subscribers[0].execute(insert(10_000, 100, "device"))
    _, summary = count(network, merged)
    before = looked(merged)
    count(network, merged)

    assert len(summary.upload.refused) == 1
    assert looked(merged) - before == 1


def test_a_locked_row_delays_only_itself(network: SlowNetwork, merged: Merge) -> None:
    merged.subscribers[0].execute("update item set name = 'device' where id <= 3")
    with psycopg.connect(network.database_url) as other:
        other.execute("select * from item where id = 2 for update")
        _, summary = count(network, merged)
    assert [refused.error.code for refused in summary.upload.refused] == ["55P03"]
    assert merged.hub.execute("select id from item where name = 'device' order by id") == [(1,), (3,)]
    assert merged.conflicts() == []
    _, repeated = count(network, merged)

    assert repeated.upload.refused == []
    merged.require_equal("item", columns="id, name, qty")


@pytest.mark.exhaustive
def test_children_of_a_locked_row_follow_it(network: SlowNetwork, merged: Merge) -> None:
    merged.subscribers[0].execute(
        "update item set name = 'device' where id = 2",
        "insert into line (id, item_id, note) values (1, 2, 'of the locked one'), (2, 3, 'of another')",
    )
    with psycopg.connect(network.database_url) as other:
        other.execute("delete from item where id = 2")
        count(network, merged)
        other.rollback()
    assert merged.hub.execute("select id from line") == [(2,)]
    merged.settle(1)

    merged.require_equal("item", "line", columns="id")
    assert merged.conflicts() == []


MANY_GENERATIONS = """
insert into rowtide_merge."MSmerge_stored_genhistory" (nickname, generation, guidsrc, genstatus, snapshot)
select g.nickname, g.generation + n, gen_random_uuid()::text, 1, pg_current_snapshot()::text
from (select nickname, max(generation) as generation from rowtide_merge."MSmerge_stored_genhistory"
      where snapshot is not null group by 1) g, generate_series(1, 5000) n
"""


def test_only_new_generations_are_read(network: SlowNetwork, merged: Merge) -> None:
    """Rows of a generation long ago are compared as before; that costs a round trip."""
    hub, device = merged.hub, merged.subscribers[0]
    hub.execute("update item set name = 'hub' where id <= 20")
    merged.settle(2)
    count(network, merged)
    few = network.received
    hub.execute(MANY_GENERATIONS)
    merged.settle(1)
    empty, _ = count(network, merged)
    many = network.received
    hub.execute("update item set name = 'hub again' where id <= 5")
    device.execute("update item set name = 'device' where id <= 10")
    trips, summary = count(network, merged)

    assert (empty, few <= many <= few + 500) == (EMPTY, True)
    assert (summary.upload.total.conflicts, summary.upload.total.updates) == (5, 5)
    assert trips <= EMPTY + 6
    merged.require_equal("item", columns="id, name, qty")


@pytest.mark.parametrize("tables", [2, 8])
def test_a_schema_change_is_followed_in_a_few_trips(network: SlowNetwork, tmp_path: Path, tables: int) -> None:
    """As many with many tables: the first to follow takes the change into the publication, too."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(network.database_url))
        device = opened.enter_context(open_file_member(tmp_path / "schema.db"))
        merged = Merge(hub, [device])
        names = [f"t{number}" for number in range(tables)]
        hub.execute(*(f"create table {name} (id bigint primary key)" for name in names))
        merged.merge.add_publication(PUBLICATION)
        for name in names:
            merged.merge.add_article(PUBLICATION, name)
        merged.merge.add_subscription(PUBLICATION, device.url)
        merged.merge = MergeReplication(network.url)
        merged.sync()
        hub.execute("alter table t1 add extra integer default 3")
        network.reset()
        merged.sync()

        assert network.trips <= 90
        assert device.execute("select count(*) from pragma_table_info('t1') where name = 'extra'") == [(1,)]
        assert count(network, merged)[0] == EMPTY


def test_other_threads_run_while_a_synchronisation_waits(network: SlowNetwork, merged: Merge) -> None:
    merged.hub.execute(insert(10_000, ROWS, "hub"))
    network.delay_s = 0.02
    ran = threading.Event()
    waiting = threading.Timer(0.05, ran.set)
    waiting.start()
    merged.sync()

    assert ran.is_set()


@pytest.mark.exhaustive
def test_logical_records_take_a_few_more(network: SlowNetwork, tmp_path: Path) -> None:
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(network.database_url))
        device = opened.enter_context(open_file_member(tmp_path / "records.db"))
        merged = Merge(hub, [device])
        hub.execute(ITEM, LINE, f"insert into item select n, 'item', n % 200 from generate_series(1, {ROWS}) n")
        hub.execute(f"insert into line select n, n, 'line' from generate_series(1, {ROWS}) n")
        merged.merge.add_publication(PUBLICATION)
        for table in ("item", "line"):
            merged.merge.add_article(PUBLICATION, table)
        merged.merge.add_filter(PUBLICATION, "line", "item", "line.item_id = item.id", filter_type=FilterType.RECORD)
        merged.merge.add_subscription(PUBLICATION, device.url)
        merged.merge = MergeReplication(network.url)
        merged.sync()
        device.execute("update line set note = 'device'", "update item set name = 'device' where id <= 200")
        trips, summary = count(network, merged)
        hub.execute(REFUSING, LIMIT)
        device.execute("update item set name = 'refused' where id < 200")
        refused, _ = count(network, merged)
        again, repeated = count(network, merged)

        assert summary.upload.total.updates == ROWS + 200
        assert trips <= EMPTY + 10
        assert len(repeated.upload.refused) == 100
        assert max(refused, again) <= EMPTY + 14


@pytest.mark.parametrize("options", [{}, {"partition_options": 2}], ids=["refused by a trigger", "outside"])
def test_refused_rows_of_partitions_take_no_more(network: SlowNetwork, tmp_path: Path, options: dict[str, Any]) -> None:
    """Rows that a trigger refuses, and rows that a subscriber may not have: the numbers from 100 on."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(network.database_url))
        device = opened.enter_context(open_file_member(tmp_path / "partition.db"))
        merged = Merge(hub, [device])
        hub.execute(ITEM)
        merged.merge.add_publication(PUBLICATION)
        condition = "name = host_name()" + (" and qty < 100" if options else "")
        merged.merge.add_article(PUBLICATION, "item", where=condition, **options)
        merged.merge.add_subscription(PUBLICATION, device.url, partition=Partition("tablet"))
        merged.merge = MergeReplication(network.url)
        merged.sync()
        if not options:
            hub.execute(REFUSING, LIMIT)
        device.execute(insert(10_000, 199, "tablet"))
        first, summary = count(network, merged)
        again, repeated = count(network, merged)

        assert hub.execute("select count(*) from item") == [(99,)]
        assert (len(summary.upload.refused), len(repeated.upload.refused)) == (100, 100)
        assert repeated.upload.total.retried == 100
        assert first - EMPTY <= 5  # with rows that are taken, which are noted as the partition's
        assert again - EMPTY <= 4
