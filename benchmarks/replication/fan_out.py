"""Ten subscribers in place of one: what the publisher's side pays, and when all have a backlog."""

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

TRANSACTIONS = 10_000
_SUBSCRIBERS = (1, 10)
_SCALE = 1
_MOST_GROWTH = 1.1
_OURS = "rowtide replication run"


@dataclass(frozen=True, slots=True)
class Cost:
    """What delivering one backlog took: CPU seconds of the log's readers, WAL senders, seconds until all had it."""

    way: str
    subscribers: int
    sender_cpu_s: float
    reader_cpu_s: float
    senders: int
    seconds: float

    @property
    def cpu_s(self) -> float:
        return self.sender_cpu_s + self.reader_cpu_s


def measure_fan_out(sizes: Sizes) -> Iterator[Table]:
    """Deliver a backlog to one, and one of the same size to ten."""
    transactions = sizes.rows or TRANSACTIONS
    ours, theirs = ([f"{way}_{number}" for number in range(max(_SUBSCRIBERS))] for way in ("ours", "native"))
    with open_publisher() as publisher:
        tpcb.fill(publisher, _SCALE)
        for database in (*ours, *theirs):
            publisher.create(database, "postgres")
        publisher.publish(*tpcb.TABLES)
        costs = list(_deliver(publisher, ours, transactions))
        costs += [_deliver_natively(publisher, theirs[:number], transactions) for number in _SUBSCRIBERS]
    yield _describe(costs, transactions)


def _deliver(publisher: Publisher, databases: Sequence[str], transactions: int) -> Iterator[Cost]:
    subscribed = 0
    for number in _SUBSCRIBERS:
        for database in databases[subscribed:number]:
            publisher.subscribe(database)
        subscribed = number
        # What it costs to start, with nothing to read, is no part of what is compared.
        start = _run(publisher, databases[:number], tpcb.write_last(publisher))
        whole = _run(publisher, databases[:number], tpcb.write(publisher, transactions))
        yield Cost(
            _OURS,
            number,
            whole.sender_cpu_s - start.sender_cpu_s,
            whole.reader_cpu_s - start.reader_cpu_s,
            whole.senders,
            whole.seconds,
        )


def _run(publisher: Publisher, databases: Sequence[str], last: int) -> Cost:
    """Run until all have a transaction; the costs are those up to where all of the log is in the log store."""
    target, began = publisher.mark(), time.monotonic()
    with run_replication(publisher) as process:
        await_fact(lambda: publisher.source.read_log_store().position.log > target, "the log is read")
        senders, reader_cpu_s = _senders(publisher), process.reader_cpu_s()
        sender_cpu_s = sum(map(cpu_seconds, senders))
        _await_all(publisher, databases, last)
        seconds = time.monotonic() - began
    return Cost(_OURS, len(databases), sender_cpu_s, reader_cpu_s, len(senders), seconds)


def _deliver_natively(publisher: Publisher, databases: Sequence[str], transactions: int) -> Cost:
    for database in databases:
        native.subscribe(publisher, database)
    last, began = tpcb.write(publisher, transactions), time.monotonic()
    for database in databases:
        native.enable(publisher, database)
    _await_all(publisher, databases, last)
    seconds, senders = time.monotonic() - began, _senders(publisher)
    cost = Cost(NATIVE, len(databases), sum(map(cpu_seconds, senders)), 0.0, len(senders), seconds)
    for database in databases:
        native.drop(publisher, database)
    return cost


def _await_all(publisher: Publisher, databases: Sequence[str], last: int) -> None:
    for database in databases:
        await_fact(partial(tpcb.has, publisher, database, last), f"{database} has the last transaction")


def _senders(publisher: Publisher) -> Sequence[int]:
    """Return the processes that send the log."""
    with psycopg.connect(publisher.url) as connection:
        return [row[0] for row in connection.execute("select pid from pg_stat_replication").fetchall()]


def _describe(costs: Sequence[Cost], transactions: int) -> Table:
    alone = {cost.way: cost.cpu_s for cost in costs if cost.subscribers == min(_SUBSCRIBERS)}
    growth = {(cost.way, cost.subscribers): cost.cpu_s / alone[cost.way] for cost in costs}
    return Table(
        f"replication-fan-out: a backlog of {transactions:,} TPC-B transactions",
        ("way", "subscribers", "WAL senders", "their CPU s", "log reader's CPU s", "of one's", "s until all have it"),
        tuple(
            (
                cost.way,
                str(cost.subscribers),
                str(cost.senders),
                f"{cost.sender_cpu_s:.2f}",
                f"{cost.reader_cpu_s:.2f}",
                f"{growth[cost.way, cost.subscribers]:.2f}",
                f"{cost.seconds:.1f}",
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
        "CPU of what reads the publisher's log, ours up to where all of it is in the log store, without the start.",
    )
