"""A device whose network is gone, which nobody tells the server: its session stops neither programs nor other devices.

The time of silence is short here, by the setting that users have.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.faults.slow_network import SlowNetwork, slow_network
from builders.merge.merged_databases import Merge, open_file_member, open_server_member
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import ServerSilent
from rowtide.merge.api import MergeReplication
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.session.history import Summary

pytestmark = pytest.mark.live

SILENCE_S = 2
ROWS = 100
ITEM = "create table item (id bigint primary key, name text, qty integer)"
PARTS = 12


@pytest.fixture
def merged(network: SlowNetwork, tmp_path: Path) -> Iterator[Merge]:
    """A hub behind a network, and two devices, synchronised."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(network.database_url))
        files = [opened.enter_context(open_file_member(tmp_path / f"device{number}.db")) for number in (1, 2)]
        merged = Merge(hub, files)
        hub.execute(ITEM, f"insert into item select n, 'item', 0 from generate_series(1, {ROWS}) n")
        merged.begin(item={})
        merged.sync()
        yield merged


def change(merged: Merge, number: int) -> None:
    """Change rows at both ends."""
    merged.subscribers[0].execute(f"update item set name = 'device {number}' where id <= 50")
    merged.hub.execute(f"update item set qty = {number} where id > 60")


def synchronise(network: SlowNetwork, merged: Merge, place: int = 0, silence_s: int = SILENCE_S) -> Summary:
    """Synchronise a device over the network."""
    return MergeReplication(network.within(silence_s)).sync("shop", merged.subscribers[place].url)


@contextmanager
def takes_at_most(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def change_before_silence(network: SlowNetwork, merged: Merge, part: int) -> None:
    """Change rows, and let the network be silent after a part of the bytes that their synchronisation takes."""
    change(merged, 1)
    network.reset()
    synchronise(network, merged)
    whole = network.sent + network.received
    change(merged, 2)
    network.reset()
    network.silent_after = whole * part // PARTS + part * 7


@pytest.mark.parametrize("part", range(PARTS))
def test_a_vanished_device_stops_nobody(network: SlowNetwork, merged: Merge, part: int) -> None:
    change_before_silence(network, merged, part)
    with takes_at_most(20), pytest.raises(RowtideError):
        synchronise(network, merged)
    # Another session of the same role looks; the network to it is another one.
    with takes_at_most(12), slow_network(network.database_url) as other:
        synchronise(other, merged, 1)
        with psycopg.connect(network.database_url, autocommit=True) as program:
            program.execute("set lock_timeout = '5s'")
            program.execute("alter table item add column note text")
    network.silent_after = None
    with slow_network(network.database_url) as other:
        for place in (0, 1, 0):
            synchronise(other, merged, place)
    merged.require_equal("item", columns="id, name, qty")


LONG = 1_500_000
SLOW_BYTES_S = 150_000


@pytest.fixture
def slow(merged: Merge) -> Iterator[SlowNetwork]:
    """A network on which a long value takes many times as long as a session may be silent."""
    with slow_network(merged.hub.url, bytes_per_s=SLOW_BYTES_S) as network:
        yield network


def own_text(letter: str, length: int = LONG) -> str:
    return f"update item set name = replace(hex(zeroblob({length // 2})), '0', '{letter}') where id = 1"


def hubs_text(letter: str) -> str:
    return f"update item set name = repeat('{letter}', {LONG}) where id = 1"


def synchronise_slowly(
    slow: SlowNetwork, merged: Merge, *, silence_s: int = SILENCE_S, pause_s: float = 0.3, locked_s: float = 1.5
) -> Summary:
    """Synchronise one device slowly, while another one does again and again, and a program alters the table."""
    done: list[Summary] = []
    syncing = threading.Thread(target=lambda: done.append(synchronise(slow, merged, 0, silence_s)))
    syncing.start()
    with slow_network(merged.hub.url) as other, psycopg.connect(merged.hub.url, autocommit=True) as program:
        program.execute(f"set lock_timeout = '{locked_s * 1000:.0f}ms'")
        while syncing.is_alive():
            program.execute("alter table item alter column qty set default 1")
            synchronise(other, merged, 1, silence_s)
            syncing.join(pause_s)
    return done[0]


def test_a_long_value_arrives_slowly_and_stops_nobody(slow: SlowNetwork, merged: Merge) -> None:
    merged.subscribers[0].execute(own_text("d"))
    synchronise_slowly(slow, merged)
    assert merged.hub.execute(f"select name = repeat('d', {LONG}) from item where id = 1") == [(True,)]
    merged.hub.execute(hubs_text("h"))
    synchronise_slowly(slow, merged)
    assert merged.subscribers[0].execute("select substr(name, 1, 3), length(name) from item where id = 1") == [
        ("hhh", LONG)
    ]


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_20_megabytes_arrive_at_128_kbit_s(merged: Merge) -> None:
    length = 20_000_000
    merged.subscribers[0].execute(own_text("d", length))
    with slow_network(merged.hub.url, bytes_per_s=16_000) as slow:
        # Up to 256 KiB are sent while tables are locked.
        synchronise_slowly(slow, merged, silence_s=60, pause_s=15, locked_s=20)
    assert merged.hub.execute(f"select name = repeat('d', {length}) from item where id = 1") == [(True,)]


@pytest.mark.exhaustive
def test_a_long_value_that_loses_is_in_the_conflict(slow: SlowNetwork, merged: Merge) -> None:
    merged.hub.execute("update item set name = 'hub' where id = 1")
    merged.subscribers[0].execute(own_text("d"))
    synchronise_slowly(slow, merged)
    (conflict,) = merged.merge.list_conflicts()
    assert "d" * LONG in str(conflict)
    merged.sync()
    merged.require_equal("item", columns="id, name, qty")


@pytest.mark.exhaustive
def test_no_other_session_is_needed_from_17_on(network: SlowNetwork, merged: Merge) -> None:
    change_before_silence(network, merged, 7)
    with pytest.raises(RowtideError):
        MergeReplication(network.within(1)).sync("shop", merged.subscribers[0].url)
    with psycopg.connect(merged.hub.url, autocommit=True) as program:
        program.execute("set lock_timeout = '15s'")
        program.execute("alter table item add column note text")


def test_a_program_that_is_silent_is_named(network: SlowNetwork, merged: Merge) -> None:
    change(merged, 1)
    with psycopg.connect(merged.hub.url) as program:
        program.execute("lock table item in access exclusive mode")
        with takes_at_most(10), pytest.raises(ServerSilent, match=f"pid {program.info.backend_pid}"):
            synchronise(network, merged)
    for place in (0, 1):
        synchronise(network, merged, place)
    merged.require_equal("item", columns="id, name, qty")


def test_who_keeps_a_change_of_schema_from_its_lock_is_named(merged: Merge) -> None:
    merged.hub.execute("alter table item add column note text")
    with psycopg.connect(merged.hub.url, application_name="a report") as program:
        program.execute("update item set qty = 7 where id <= 50")
        with pytest.raises(NodeBusy, match=rf"pid {program.info.backend_pid} \(postgres, a report, since 20"):
            merged.sync()
    for number in range(len(merged.subscribers)):
        merged.sync(number)
    merged.require_equal("item", columns="id, name, qty, note")
