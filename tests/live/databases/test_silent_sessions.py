"""Deliveries and copies over a network that is silent from some byte on end.

A slow network, or a pause of either end, does not end them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing

import psycopg
import pytest

from builders.faults.slow_network import SlowNetwork, slow_network
from fixtures.servers import fresh_database
from rowtide.databases.postgres import silent_sessions
from rowtide.databases.postgres.copying import begin_copy_in, copy_out, end_copy_in, put_copy_data
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import ConnectionFailed, translated
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.delivery.pipeline import Pipeline

SILENCE_S = 1
BLOCK = b"some text\n" * 10_000
BLOCKS = 20
ROWS = 10_000 * BLOCKS
Act = Callable[[psycopg.Connection, float], object]


@pytest.fixture
def network(each_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNetwork]:
    monkeypatch.setattr(silent_sessions, "SLOWEST_BYTES_S", 500_000)
    with fresh_database(each_server) as url, slow_network(url) as network:
        with psycopg.connect(url, autocommit=True) as program:
            program.execute("create table item (name text)")
            program.execute(f"create table full_item as select 'some text' as name from generate_series(1, {ROWS})")
        yield network


def copy_in(connection: psycopg.Connection, pause_s: float) -> None:
    with translated():
        assert begin_copy_in(connection, "copy public.item from stdin") is None
        for number in range(BLOCKS):
            put_copy_data(connection, BLOCK)
            time.sleep(pause_s if number % 10 == 5 else 0)
        assert end_copy_in(connection) is None


def copy(connection: psycopg.Connection, pause_s: float) -> None:
    rows = 0
    with translated():
        for number, block in enumerate(copy_out(connection, "copy public.full_item to stdout")):
            rows += block.count(b"\n")
            time.sleep(pause_s if number == 3 else 0)
    assert rows == ROWS


def deliver(connection: psycopg.Connection, pause_s: float) -> None:
    pipeline = Pipeline(connection)
    pipeline.execute("begin")
    for number in range(BLOCKS):
        pipeline.execute("insert into public.item select unnest(string_to_array($1, E'\\n'))", [BLOCK[:-1]])
        if number % 10 == 5:
            pipeline.execute(f"select pg_sleep({pause_s})")
            pipeline.push()
            time.sleep(pause_s)
    pipeline.execute("commit")
    assert pipeline.synchronize() is None


ACTS = [copy_in, copy, deliver]


@pytest.mark.parametrize("part", [0, 3, 5])
@pytest.mark.parametrize("act", ACTS)
def test_a_silent_network_ends_it(network: SlowNetwork, act: Act, part: int) -> None:
    with closing(connect(network.within(SILENCE_S), application_name="a test")) as connection:
        network.silent_after = network.sent + network.received + part * len(BLOCK) * BLOCKS // 6 + 100
        began = time.monotonic()
        with pytest.raises(ConnectionFailed, match="has not answered|no connection to the database"):
            act(connection, 0)
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("act", ACTS)
def test_pauses_of_either_end_do_not(network: SlowNetwork, act: Act) -> None:
    with closing(connect(network.within(SILENCE_S), application_name="a test")) as connection:
        act(connection, 2.5 * SILENCE_S)


@pytest.mark.parametrize("act", ACTS)
def test_a_slow_network_does_not(network: SlowNetwork, act: Act) -> None:
    """What was sent is on its way for many times as long as a session may be silent."""
    with closing(connect(network.within(SILENCE_S), application_name="a test")) as connection:
        network.bytes_per_s = len(BLOCK) * BLOCKS / 3
        act(connection, 0)


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_copy_is_ended_only_once_it_is_silent(network: SlowNetwork, *, is_silent: bool) -> None:
    """Its program is stopped, or slow; an agent of the same role waits for it."""
    with (
        closing(connect(network.database_url, application_name="rowtide snapshot on here, process 1")) as copying,
        closing(connect(network.within(SILENCE_S), application_name="rowtide distribution on there")) as waiting,
        ThreadPoolExecutor(1) as threads,
    ):
        copying.execute("begin")
        assert begin_copy_in(copying, "copy public.item from stdin") is None
        put_copy_data(copying, BLOCK)
        locking = threads.submit(waiting.execute, "truncate public.item")
        if is_silent:
            locking.result(15)
            return
        for _ in range(20):
            put_copy_data(copying, BLOCK)
            assert not wait([locking], SILENCE_S / 5).done
        assert end_copy_in(copying) is None
        copying.execute("commit")
        locking.result(15)
