"""How many round trips to the hub a synchronisation of a device takes; connecting is not counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.merged_databases import Merge, open_file_member, open_server_member
from builders.slow_network import SlowNetwork, slow_network
from rowtide.merge.api import MergeReplication

pytestmark = pytest.mark.live

ITEM = "create table item (id bigint primary key, name text check (name <> 'refused'), qty integer)"
LINE = "create table line (id bigint primary key, item_id bigint references item (id), note text)"
ROWS = 1000


@pytest.fixture
def network(database: str) -> Iterator[SlowNetwork]:
    with slow_network(database) as network:
        yield network


@pytest.fixture
def merged(network: SlowNetwork, tmp_path: Path) -> Iterator[Merge]:
    """A hub behind a network, and a device with two tables, synchronised."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(network.database_url))
        merged = Merge(hub, [opened.enter_context(open_file_member(tmp_path / "device.db"))])
        hub.execute(ITEM, LINE, "insert into item select n, 'item', 0 from generate_series(1, 500) n")
        merged.begin(item={}, line={})
        merged.merge = MergeReplication(network.url)
        merged.sync()
        yield merged


def count(network: SlowNetwork, merged: Merge) -> int:
    """Synchronise, and return how many round trips it took."""
    network.reset()
    merged.sync()
    assert network.connections == 1
    return network.trips


def test_an_empty_synchronisation_takes_few_round_trips(network: SlowNetwork, merged: Merge) -> None:
    assert [count(network, merged) for _ in range(2)] == [7, 7]
