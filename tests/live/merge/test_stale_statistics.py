"""What a server believes of its tables from when they had no rows does not make it read them over and over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest

from builders.merge.merged_databases import PUBLICATION, Member, Merge
from builders.servers.server_reads import count_read
from rowtide.merge.articles import Partition

pytestmark = [
    pytest.mark.live,
    pytest.mark.parametrize("merged", [("server", "file")], ids=["server hub"], indirect=True),
]

ROWS = 4000
MOST_READ = 60 * ROWS
"""From all tables and indexes in a synchronisation: each row once for each other one is over sixty times as much."""
TABLES = (
    "create table item (id integer primary key, region varchar(10), qty integer)",
    "create table line (id integer primary key, item_id integer references item (id), qty integer)",
    "create index line_item on line (item_id)",
)
NUMBERS = f"with recursive s (n) as (select 1 union all select n + 1 from s where n < {ROWS})"
INSERT = (
    f"{NUMBERS} insert into item (id, region, qty) select n, 'north', 0 from s",
    "insert into line (id, item_id, qty) select id, id, 0 from item",
)
DELETE = ("delete from line", "delete from item")
CHANGES: dict[str, Sequence[str]] = {"insert": INSERT, "update": ("update item set qty = qty + 1",), "delete": DELETE}
METADATA = [f'rowtide_merge."MSmerge_{name}"' for name in ("stored_contents", "stored_tombstone", "log")]


def begin(merged: Merge, filters: str) -> None:
    """Two tables: each whole, the items by region, or the lines too as they follow their items."""
    merged.hub.execute(*TABLES)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where=None if filters == "whole" else "region = host_name()")
    merged.merge.add_article(PUBLICATION, "line")
    if filters == "joined":
        merged.merge.add_filter(PUBLICATION, "line", "item", "line.item_id = item.id")
    partition = None if filters == "whole" else Partition("north")
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, partition=partition)


def look_at_emptied_tables(hub: Member) -> None:
    """Let the server look at all tables when they have pages and no rows, for the last time."""
    hub.execute(*(f"delete from {table}" for table in METADATA))
    for (table,) in hub.execute(
        "select format('%I.%I', schemaname, relname) from pg_stat_user_tables where schemaname !~ '^pg_'"
    ):
        hub.execute(
            f"alter table {table} set (autovacuum_enabled = false)", f"vacuum (analyze, truncate false) {table}"
        )


@contextmanager
def statistics_kept(hub: Member) -> Iterator[None]:
    """Nobody looks at the tables meanwhile."""
    with psycopg.connect(hub.url) as locking:
        locking.execute(f"lock table {', '.join(METADATA)} in share update exclusive mode".encode())
        yield


@pytest.mark.exhaustive
@pytest.mark.parametrize("filters", ["whole", "filtered", "joined"])
@pytest.mark.parametrize("is_at_hub", [True, False], ids=["at the hub", "at the subscriber"])
def test_a_synchronisation_reads_what_was_changed(merged: Merge, filters: str, *, is_at_hub: bool) -> None:
    begin(merged, filters)
    member = merged.hub if is_at_hub else merged.subscribers[0]
    for emptying in (INSERT, DELETE):
        member.execute(*emptying)
        merged.sync()
    look_at_emptied_tables(merged.hub)
    with statistics_kept(merged.hub):
        for operation, statements in CHANGES.items():
            before = count_read(merged.hub)
            member.execute(*statements)
            merged.sync()
            merged.require_equal("item", "line", columns="id, qty")
            tuples = count_read(merged.hub) - before
            assert tuples <= MOST_READ, operation
