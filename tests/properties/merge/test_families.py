"""Whatever keys three devices give to orders and their lines, each line is with its own order, or in the inbox."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack, suppress
from sqlite3 import IntegrityError
from typing import Any

import psycopg
import pytest

from builders.merge.merged_databases import Member, Merge, ServerMember
from builders.merge_machines.merge_machine_base import Opening, open_files, open_mixed
from rowtide.databases.postgres.embedded import EmbeddedServer

ORDERS = "create table orders (id {key}, tag text, above integer references orders (id))"
LINE = "create table line (id {key}, order_id integer references orders (id), tag text, of_order text)"
COLUMNS = {"orders": "id, tag, above", "line": "id, order_id, tag, of_order"}
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 30))]
OPTIONS: dict[str, dict[str, Any]] = {
    "priority": {},
    "subscriber wins": {"resolver": "subscriber-wins"},
    "columns": {"column_tracking": True},
}
KEYS = range(1, 5)
REFUSALS = (IntegrityError, psycopg.IntegrityError)
"""A key that the device has itself."""


def insert_order(rand: random.Random, member: Member, tag: str) -> str | None:
    above = rand.choice([None, *(key for (key,) in member.execute("select id from orders"))])
    with suppress(*REFUSALS):
        member.execute(f"insert into orders (id, tag, above) values ({rand.choice(KEYS)}, '{tag}', {above or 'null'})")
        return tag
    return None


def insert_line(rand: random.Random, member: Member, tag: str) -> str | None:
    orders = member.execute("select id, tag from orders")
    if not orders:
        return None
    key, of_order = rand.choice(orders)
    with suppress(*REFUSALS):
        member.execute(
            f"insert into line values ({rand.choice(KEYS)}, {key}, '{tag}', '{of_order}')".replace(
                "line values", "line (id, order_id, tag, of_order) values"
            )
        )
        return tag
    return None


def work(rand: random.Random, merged: Merge, steps: int) -> set[str]:
    """Do random things at all nodes; return what was inserted."""
    made: set[str | None] = set()
    for step in range(steps):
        member = rand.choice(merged.members)
        if rand.random() < 0.2:
            merged.sync(rand.randrange(len(merged.subscribers)))
        elif rand.random() < 0.4:
            made.add(insert_order(rand, member, f"o{step}"))
        else:
            made.add(insert_line(rand, member, f"l{step}"))
    return {tag for tag in made if tag is not None}


def require_families(merged: Merge, made: set[str]) -> None:
    """All nodes have the same rows, each line with its own order; what they lack is in the inbox."""
    # A row whose new key another row of its device has, whose new key a third one has, comes a round later.
    merged.settle(4)
    assert all(summary.is_quiet and not summary.refused for summary in merged.settle())
    for table, columns in COLUMNS.items():
        merged.require_equal(table, columns=columns)
    pairs = merged.hub.rows("line l join orders o on o.id = l.order_id", "l.of_order, o.tag")
    assert [own for own, tag in pairs if own != tag] == []
    assert len(pairs) == len(merged.hub.rows("line"))
    present = {tag for table in COLUMNS for (tag,) in merged.hub.rows(table, "tag")}
    kept = {json.loads(each.losing_row)["tag"] for each in merged.merge.list_conflicts() if each.losing_row}
    assert made - present - kept == set()


def run(opening: Opening, seed: int, options: dict[str, Any]) -> None:
    with ExitStack() as opened:
        hub, *subscribers = opening(opened)
        merged = Merge(hub, subscribers)
        key = "serial primary key" if isinstance(hub, ServerMember) else "integer primary key"
        merged.begin(ORDERS.format(key=key), LINE.format(key=key), orders=options, line=options)
        rand = random.Random(seed)
        for _ in range(2):
            require_families(merged, work(rand, merged, 30))


@pytest.mark.parametrize(
    "options", ["priority", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in list(OPTIONS)[1:])]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_lines_stay_with_their_orders_in_files(seed: int, options: str) -> None:
    run(open_files, seed, OPTIONS[options])


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", SEEDS)
def test_lines_follow_renumbered_orders_in_files(seed: int) -> None:
    run(open_files, seed, {"renumber": True})


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("options", [*OPTIONS.values(), {"renumber": True}], ids=str)
@pytest.mark.parametrize("places", [(0, 2), (1, 3)], ids=str)
def test_lines_stay_with_their_orders_anywhere(
    places: tuple[int, ...], options: dict[str, Any], server: EmbeddedServer
) -> None:
    run(lambda opened: open_mixed(opened, server, places), 1, options)
