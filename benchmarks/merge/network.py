"""How long a device's synchronisations take over a network of 50 ms and 300 kB/s, and in how many round trips."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg

from benchmarks.goals import at_most
from benchmarks.source import open_source
from benchmarks.table import Sizes, Table
from builders.faults.slow_network import SlowNetwork, slow_network
from rowtide.merge.api import MergeReplication

ROWS = 1000
_CONFLICTS, _KEYS, _REFUSED = 200, 20, 100
_ROUND_TRIP_S, _BYTES_PER_S = 0.05, 300_000
_GOALS_S = {"empty": 0.8, "1,000 rows each way": 3.0, "200 conflicts": 4.0, "20 duplicate keys": 3.0}
_SHAPE = "id bigint primary key, name text, note text"
_NOTE = "substr(hex(randomblob(90)), 1, 170)"
_REFUSING = """
create function refuse() returns trigger language plpgsql as $$begin raise check_violation; end$$;
create trigger shorter before insert or update on item for each row when (length(new.note) > 170)
    execute function refuse()
"""
_NUMBERS = "with recursive s (n) as (select 1 union all select n + 1 from s where n < {rows})"


def measure_network(sizes: Sizes) -> Iterator[Table]:
    """Synchronise nothing, rows, conflicts, duplicate keys and refused rows."""
    rows = sizes.rows or ROWS
    with (
        tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder,
        open_source(Path(folder)) as source,
        slow_network(source.server.url("postgres")) as network,
        psycopg.connect(source.server.url("postgres"), autocommit=True) as hub,
        closing(sqlite3.connect(Path(folder) / "device.db", isolation_level=None)) as device,
    ):
        device.execute("pragma journal_mode = wal")
        yield _measure(network, hub, device, f"sqlite:///{folder}/device.db", rows)


def _measure(network: SlowNetwork, hub: psycopg.Connection, device: sqlite3.Connection, url: str, rows: int) -> Table:
    merge = MergeReplication(network.url)
    hub.execute(f"create table item ({_SHAPE})".encode())
    hub.execute(_insertion_at_hub(0, rows, "first"))
    merge.add_publication("shop")
    merge.add_article("shop", "item")
    merge.add_subscription("shop", url)
    merge.sync("shop", url)
    found: dict[str, tuple[float, int]] = {}

    def measure(what: str) -> None:
        network.reset()
        network.delay_s, network.bytes_per_s = _ROUND_TRIP_S / 2, _BYTES_PER_S
        begin = time.perf_counter()
        merge.sync("shop", url)
        found[what] = (time.perf_counter() - begin, network.trips)
        network.delay_s, network.bytes_per_s = 0.0, None
        merge.sync("shop", url)

    measure("empty")
    hub.execute(_insertion_at_hub(100_000, rows, "hub"))
    device.execute(_insertion_at_device(200_000, rows, "device"))
    measure("1,000 rows each way")
    hub.execute(f"update item set name = 'hub' where id <= {_CONFLICTS}".encode())
    device.execute(f"update item set name = 'device' where id <= {_CONFLICTS}")
    measure("200 conflicts")
    hub.execute(_insertion_at_hub(300_000, _KEYS, "hub"))
    device.execute(_insertion_at_device(300_000, _KEYS, "device"))
    measure("20 duplicate keys")
    hub.execute(_REFUSING)
    device.execute(_insertion_at_device(400_000, _REFUSED, "device"))
    device.execute("update item set note = note || 'too long' where id > 400000")
    measure("100 refused rows")
    device.execute("update item set name = 'again' where id > 400000")
    measure("100 rows refused again")
    name = f"network of 50 ms and 300 kB/s, {rows:,} rows"
    described = tuple((what, f"{seconds:.2f}", str(trips)) for what, (seconds, trips) in found.items())
    goals = tuple(at_most(f"{name}, {what}: s", goal, found[what][0]) for what, goal in _GOALS_S.items())
    remark = "By the clock, connecting included; round trips without connecting. Rows have 200 bytes."
    return Table(name, ("what", "s", "round trips"), described, goals, remark)


def _insertion_at_hub(first: int, rows: int, name: str) -> bytes:
    note = "substr(md5(n::text) || md5(name) || repeat('x', 120), 1, 170)"
    numbers = f"(select n, '{name}'::text as name from generate_series(1, {rows}) n) s"
    return f"insert into item select {first} + n, name, {note} from {numbers}".encode()


def _insertion_at_device(first: int, rows: int, name: str) -> str:
    return (
        f"insert into item (id, name, note) {_NUMBERS.format(rows=rows)} select {first} + n, '{name}', {_NOTE} from s"
    )
