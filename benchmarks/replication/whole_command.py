"""`rowtide replication run --once` as it is typed, beside PostgreSQL's own subscription: the same backlogs, in turn.

The seconds are those of the command: the process's start, reading the log, and delivery. Each way has one database,
which gets every backlog.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.children import environment
from benchmarks.cpu import tree_cpu_seconds
from benchmarks.goals import at_most
from benchmarks.replication import native, tpcb
from benchmarks.replication.native import NATIVE
from benchmarks.replication.publisher import NotReplicated, Publisher, await_fact, open_publisher
from benchmarks.table import Sizes, Table
from builders.faults.slow_network import SlowNetwork, slow_network

_OURS = "rowtide replication run --once"
_NATIVE_DATABASE, _OUR_DATABASE = "native", "ours"
_SCALE = 4
_DELAY_S = 0.0025
"""Half of a round trip of 5 ms."""
_ROWS = "create table public.narrow (id bigint primary key, bucket int, amount int, name text)"
_INSERT = """
insert into narrow select i, i % 1000, i * 7 % 100003, 'name ' || i from generate_series({first}, {last}) i
"""
_IN_TRANSACTIONS = """
do $$ begin for n in 0 .. {transactions} - 1 loop
    insert into narrow select i, i % 1000, i * 7 % 100003, 'name ' || i
    from generate_series({first} + n * {rows}, {first} + n * {rows} + {rows} - 1) i;
    commit;
end loop; end $$
"""
_SUMS = "select count(*), sum(id), sum(bucket), sum(amount), sum(length(name)) from narrow"


@dataclass(frozen=True, slots=True)
class Backlog:
    """A backlog: `write` writes so many of its units; the command may take `most` times PostgreSQL's own time."""

    name: str
    units: int
    most: float
    write: Callable[[Publisher, int], None]
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds by the clock, and of processors by all processes."""

    wall_s: float
    cpu_s: float


def measure_commands(sizes: Sizes) -> Iterator[Table]:
    """Deliver each backlog in both ways, round after round, each round a new backlog."""
    for backlog in BACKLOGS:
        units = min(sizes.rows or backlog.units, backlog.units)
        found: dict[str, list[Taken]] = {NATIVE: [], _OURS: []}
        with open_publisher() as publisher, ExitStack() as held:
            _begin(publisher, held, backlog.delay_s)
            for number in range(sizes.runs):
                backlog.write(publisher, units)
                last = tpcb.write_last(publisher)
                ways = [(NATIVE, _deliver_natively), (_OURS, _deliver)]
                for way, deliver in ways if number % 2 == 0 else reversed(ways):
                    found[way].append(deliver(publisher, last))
            for database in (_NATIVE_DATABASE, _OUR_DATABASE):
                tpcb.require_equal(publisher, database)
                if publisher.query(database, _SUMS) != publisher.query("postgres", _SUMS):
                    raise NotReplicated(f"{database} has other rows")
        yield _describe(backlog, units, found)


def _begin(publisher: Publisher, held: ExitStack, delay_s: float) -> None:
    publisher.query("postgres", _ROWS)
    tpcb.fill(publisher, _SCALE)
    for database in (_NATIVE_DATABASE, _OUR_DATABASE):
        publisher.create(database, "postgres")
    publisher.publish("narrow", *tpcb.TABLES)
    to_publisher = _slow(publisher, "postgres", held, delay_s)
    to_subscriber = _slow(publisher, _OUR_DATABASE, held, delay_s)
    native.subscribe(publisher, _NATIVE_DATABASE, port=to_publisher.port if to_publisher is not None else None)
    publisher.subscribe_at(to_subscriber.url if to_subscriber is not None else publisher.url_of(_OUR_DATABASE))
    _deliver(publisher, tpcb.write_last(publisher))


def _slow(publisher: Publisher, database: str, held: ExitStack, delay_s: float) -> SlowNetwork | None:
    """Return a network to a database, whose changes travel over it in either way; None without a delay."""
    return held.enter_context(slow_network(publisher.url_of(database), delay_s=delay_s)) if delay_s else None


def _deliver_natively(publisher: Publisher, last: int) -> Taken:
    cpu_s, began = _cpu_s(publisher), time.monotonic()
    native.enable(publisher, _NATIVE_DATABASE)
    await_fact(partial(tpcb.has, publisher, _NATIVE_DATABASE, last), "PostgreSQL's subscription has all")
    wall_s = time.monotonic() - began
    native.disable(publisher, _NATIVE_DATABASE)
    return Taken(wall_s, _cpu_s(publisher) - cpu_s)


def _deliver(publisher: Publisher, last: int) -> Taken:
    command = [sys.executable, "-m", "rowtide", "replication", "run", "--once", "--db", publisher.url]
    cpu_s, began = _cpu_s(publisher), time.monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environment())
    wall_s = time.monotonic() - began
    if not tpcb.has(publisher, _OUR_DATABASE, last):
        raise NotReplicated("the command has ended")
    return Taken(wall_s, _cpu_s(publisher) - cpu_s)


def _cpu_s(publisher: Publisher) -> float:
    """Return the CPU seconds of the server's processes and of the commands that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return tree_cpu_seconds(publisher.source.server.pid or 0) + ended.ru_utime + ended.ru_stime


def _describe(backlog: Backlog, units: int, found: dict[str, list[Taken]]) -> Table:
    ratios = [ours.wall_s / theirs.wall_s for ours, theirs in zip(found[_OURS], found[NATIVE], strict=True)]
    of_native = statistics.median(ratios)
    return Table(
        f"replication-command: {backlog.name.format(units=f'{units:,}')}",
        ("way", "s", "fastest", "slowest", "CPU s"),
        tuple(
            (
                way,
                f"{statistics.median(one.wall_s for one in taken):.2f}",
                f"{min(one.wall_s for one in taken):.2f}",
                f"{max(one.wall_s for one in taken):.2f}",
                f"{statistics.median(one.cpu_s for one in taken):.2f}",
            )
            for way, taken in found.items()
        ),
        (at_most(f"replication-command, {backlog.name.format(units=units)}: PostgreSQL's", backlog.most, of_native),),
        f"Medians of {len(ratios)}, in turn: the ratio is that of each pair "
        f"({', '.join(f'{ratio:.2f}' for ratio in ratios)}). Ours from the process's start to its end; CPU of all "
        "processes, the server's included.",
    )


def _write_rows(publisher: Publisher, rows: int) -> None:
    first = _first(publisher)
    publisher.query("postgres", _INSERT.format(first=first, last=first + rows - 1))


def _write_transactions(publisher: Publisher, transactions: int) -> None:
    statement = _IN_TRANSACTIONS.format(first=_first(publisher), transactions=transactions, rows=_ROWS_EACH)
    publisher.query("postgres", statement)


def _write_tpcb(publisher: Publisher, transactions: int) -> None:
    tpcb.write(publisher, transactions)


def _first(publisher: Publisher) -> int:
    return int(publisher.query("postgres", "select coalesce(max(id), 0) + 1 from narrow")[0])


_ROWS_EACH = 100
BACKLOGS = (
    Backlog("one transaction of {units} narrow rows", 1_000_000, 1.0, _write_rows),
    Backlog("{units} transactions of 100 narrow rows", 1_000, 1.2, _write_transactions),
    Backlog("{units} TPC-B transactions", 20_000, 2.0, _write_tpcb),
    Backlog("{units} TPC-B transactions over a network of 5 ms", 20_000, 1.5, _write_tpcb, _DELAY_S),
)
