"""Ten subscribers in place of one: what the publisher's side pays under a load, and when all have a backlog."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import psycopg

from benchmarks.cpu import cpu_seconds
from benchmarks.goals import at_most
from benchmarks.replication import native, tpcb
from benchmarks.replication.native import NATIVE
from benchmarks.replication.publisher import Publisher, await_fact, open_publisher
from benchmarks.replication.run_process import run_replication
from benchmarks.table import Sizes, Table

TRANSACTIONS = 5_000
SECONDS = 15
TRANSACTIONS_PER_S = 200
_SUBSCRIBERS = (1, 10)
_SCALE = 1
_MOST_GROWTH = 1.05
_TICK_S = 0.01
"""What the CPU time of processes is counted in: a short form may see none."""
_OURS = "rowtide replication run"


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of what reads the log under a steady load, and the seconds until all had a backlog."""

    way: str
    subscribers: int
    senders: int
    sender_cpu_s: float
    reader_cpu_s: float
    backlog_s: float

    @property
    def cpu_s(self) -> float:
        return self.sender_cpu_s + self.reader_cpu_s


@dataclass(frozen=True, slots=True)
class _Used:
    """What the WAL senders of now and the log reader have had."""

    senders: int
    sender_cpu_s: float
    reader_cpu_s: float


def measure_fan_out(sizes: Sizes) -> Iterator[Table]:
    """Deliver to one, and then to ten: a load as it comes, and a backlog."""
    transactions, seconds = sizes.rows or TRANSACTIONS, sizes.seconds or SECONDS
    ours, theirs = ([f"{way}_{number}" for number in range(max(_SUBSCRIBERS))] for way in ("ours", "native"))
    with open_publisher() as publisher:
        tpcb.fill(publisher, _SCALE)
        for database in (*ours, *theirs):
            publisher.create(database, "postgres")
        publisher.publish(*tpcb.TABLES)
        costs, subscribed = [], 0
        for number in _SUBSCRIBERS:
            for database in ours[subscribed:number]:
                publisher.subscribe(database)
            subscribed = number
            costs.append(_deliver(publisher, ours[:number], transactions, seconds))
        costs += [_deliver_natively(publisher, theirs[:number], transactions, seconds) for number in _SUBSCRIBERS]
    yield _describe(costs, transactions, seconds)


def _deliver(publisher: Publisher, databases: Sequence[str], transactions: int, seconds: int) -> Cost:
    last = tpcb.write(publisher, transactions)
    with run_replication(publisher) as process:
        # What a process takes to start is not compared: PostgreSQL's own workers have none.
        await_fact(lambda: bool(_senders(publisher)), "the log is being read")
        began = time.monotonic()
        _await_all(publisher, databases, last)
        backlog_s = time.monotonic() - began
        before = _use(publisher, process.reader_cpu_s())
        _load(publisher, databases, seconds)
        return _cost(_OURS, databases, before, _use(publisher, process.reader_cpu_s()), backlog_s)


def _deliver_natively(publisher: Publisher, databases: Sequence[str], transactions: int, seconds: int) -> Cost:
    for database in databases:
        native.subscribe(publisher, database)
    last, began = tpcb.write(publisher, transactions), time.monotonic()
    for database in databases:
        native.enable(publisher, database)
    _await_all(publisher, databases, last)
    backlog_s, before = time.monotonic() - began, _use(publisher, 0.0)
    _load(publisher, databases, seconds)
    cost = _cost(NATIVE, databases, before, _use(publisher, 0.0), backlog_s)
    for database in databases:
        native.drop(publisher, database)
    return cost


def _load(publisher: Publisher, databases: Sequence[str], seconds: int) -> None:
    _await_all(publisher, databases, tpcb.write_steadily(publisher, TRANSACTIONS_PER_S, seconds))


def _use(publisher: Publisher, reader_cpu_s: float) -> _Used:
    senders = _senders(publisher)
    return _Used(len(senders), sum(map(cpu_seconds, senders)), reader_cpu_s)


def _cost(way: str, databases: Sequence[str], before: _Used, after: _Used, backlog_s: float) -> Cost:
    sender_cpu_s = after.sender_cpu_s - before.sender_cpu_s
    reader_cpu_s = after.reader_cpu_s - before.reader_cpu_s
    return Cost(way, len(databases), after.senders, sender_cpu_s, reader_cpu_s, backlog_s)


def _await_all(publisher: Publisher, databases: Sequence[str], last: int) -> None:
    for database in databases:
        await_fact(partial(tpcb.has, publisher, database, last), f"{database} has the last transaction")


def _senders(publisher: Publisher) -> Sequence[int]:
    """Return the processes that send the log."""
    with psycopg.connect(publisher.url) as connection:
        return [row[0] for row in connection.execute("select pid from pg_stat_replication").fetchall()]


def _describe(costs: Sequence[Cost], transactions: int, seconds: int) -> Table:
    alone = {cost.way: cost.cpu_s for cost in costs if cost.subscribers == min(_SUBSCRIBERS)}
    growth = {(cost.way, cost.subscribers): cost.cpu_s / max(alone[cost.way], _TICK_S) for cost in costs}
    return Table(
        f"replication-fan-out: {TRANSACTIONS_PER_S} TPC-B transactions/s for {seconds} s",
        ("way", "subscribers", "WAL senders", "their CPU s", "log reader's CPU s", "of one's", "backlog s"),
        tuple(
            (
                cost.way,
                str(cost.subscribers),
                str(cost.senders),
                f"{cost.sender_cpu_s:.2f}",
                f"{cost.reader_cpu_s:.2f}",
                f"{growth[cost.way, cost.subscribers]:.2f}",
                f"{cost.backlog_s:.1f}",
            )
            for cost in costs
        ),
        (
            at_most(
                f"replication-fan-out: CPU for {max(_SUBSCRIBERS)} subscribers, of one's",
                _MOST_GROWTH,
                growth[_OURS, max(_SUBSCRIBERS)],
            ),
        ),
        f"CPU of what reads the publisher's log, while it comes; and when all have a backlog of {transactions:,} "
        "transactions, ours from when the log is being read.",
    )
