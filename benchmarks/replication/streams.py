"""TPC-B over a network of 5 ms to the subscriber, in one and in four streams, beside PostgreSQL's own subscription.

As `whole_command`: the seconds are those of `rowtide replication run --once` as it is typed. Each way has a database,
and backlogs of its own, which the others get afterwards, so that each command reads its backlog from the log.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks.children import environment
from benchmarks.goals import at_most
from benchmarks.replication import native, tpcb
from benchmarks.replication.native import NATIVE
from benchmarks.replication.publisher import PUBLICATION, Publisher, await_fact, open_publisher
from benchmarks.table import Sizes, Table
from builders.faults.slow_network import slow_network

_SCALE = 4
_TRANSACTIONS = 20_000
_DELAY_S = 0.0025
"""Half of a round trip of 5 ms."""
_NATIVE_DATABASE = "native"
_GOALS = {1: 1.5, 4: 0.7}
"""Of PostgreSQL's time, by streams."""


@dataclass(frozen=True, slots=True)
class _Way:
    name: str
    database: str
    deliver: Callable[[int], None]


def measure_streams(sizes: Sizes) -> Iterator[Table]:
    """Deliver a backlog of each way's own, round after round."""
    transactions = min(sizes.rows or _TRANSACTIONS, _TRANSACTIONS)
    with open_publisher() as publisher, ExitStack() as held:
        ways = list(_begin(publisher, held))
        found: dict[str, list[float]] = {way.name: [] for way in ways}
        for number in range(sizes.runs):
            for way in ways if number % 2 == 0 else reversed(ways):
                last = tpcb.write(publisher, transactions)
                began = time.monotonic()
                way.deliver(last)
                found[way.name].append(time.monotonic() - began)
                for other in ways:
                    if other is not way:
                        other.deliver(last)
        for way in ways:
            tpcb.require_equal(publisher, way.database)
    yield _describe(transactions, found)


def _begin(publisher: Publisher, held: ExitStack) -> Iterator[_Way]:
    tpcb.fill(publisher, _SCALE)
    databases = [_NATIVE_DATABASE, *(f"streams_{streams}" for streams in _GOALS)]
    for database in databases:
        publisher.create(database, "postgres")
    publisher.publish(*tpcb.TABLES)
    # The native subscriber fetches over the same distance.
    to_publisher = held.enter_context(slow_network(publisher.url_of("postgres"), delay_s=_DELAY_S))
    native.subscribe(publisher, _NATIVE_DATABASE, port=to_publisher.port)
    yield _Way(NATIVE, _NATIVE_DATABASE, partial(_deliver_natively, publisher))
    for streams in _GOALS:
        database = f"streams_{streams}"
        url = held.enter_context(slow_network(publisher.url_of(database), delay_s=_DELAY_S)).url
        publisher.subscribe_at(url)
        if streams > 1:
            publisher.replication.change_subscription(PUBLICATION, url, streams=streams)
        yield _Way(_name(streams), database, partial(_deliver, publisher, database, url))


def _name(streams: int) -> str:
    return f"rowtide replication run --once, {streams} stream{'s' if streams > 1 else ''}"


def _deliver_natively(publisher: Publisher, last: int) -> None:
    native.enable(publisher, _NATIVE_DATABASE)
    await_fact(partial(tpcb.has, publisher, _NATIVE_DATABASE, last), "PostgreSQL's subscription has all")
    native.disable(publisher, _NATIVE_DATABASE)


def _deliver(publisher: Publisher, database: str, url: str, last: int) -> None:
    command = [sys.executable, "-m", "rowtide", "replication", "run", "--once", "--subscriber", url]
    command += ["--db", publisher.url]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environment())
    await_fact(partial(tpcb.has, publisher, database, last), f"{database} has all")


def _describe(transactions: int, found: dict[str, list[float]]) -> Table:
    ratios = {
        streams: statistics.median(
            ours / theirs for ours, theirs in zip(found[_name(streams)], found[NATIVE], strict=True)
        )
        for streams in _GOALS
    }
    return Table(
        f"replication-streams: {transactions:,} TPC-B transactions over a network of 5 ms",
        ("way", "s", "fastest", "slowest"),
        tuple(
            (way, f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f}", f"{max(seconds):.2f}")
            for way, seconds in found.items()
        ),
        tuple(
            at_most(f"replication-streams, {streams}: PostgreSQL's", _GOALS[streams], ratio)
            for streams, ratio in ratios.items()
        ),
        "Medians, in turn. Ours from the process's start to its end, reading the log included.",
    )
