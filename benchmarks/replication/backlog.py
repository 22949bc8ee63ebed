"""A backlog of TPC-B: PostgreSQL's own subscription, ours, and what one pipeline of calls can be."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.goals import at_least
from benchmarks.replication import native, recorded, tpcb
from benchmarks.replication.callings import CALLINGS, Calling
from benchmarks.replication.native import NATIVE
from benchmarks.replication.publisher import Publisher, await_fact, open_publisher
from benchmarks.table import Sizes, Table
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.running.subscription_agent import SubscriptionAgent
from rowtide.replication.targets.postgres.delivery.streams.several_connections import open_delivery

TRANSACTIONS = 30_000
_SCALE = 4
_CEILING = "the same calls by one pipeline"


def measure_backlog(sizes: Sizes) -> Iterator[Table]:
    """Deliver one backlog in every way, each to databases of its own, in turn, round after round."""
    transactions, rounds = sizes.rows or TRANSACTIONS, range(sizes.runs)
    with open_publisher() as publisher:
        tpcb.fill(publisher, _SCALE)
        databases = [
            *(f"{way}_{number}" for number in rounds for way in ("native", "ceiling")),
            *(_database(place, number) for number in rounds for place in range(len(CALLINGS))),
        ]
        for database in databases:
            publisher.create(database, "postgres")
        publisher.publish(*tpcb.TABLES)
        for database in databases:
            (partial(native.subscribe, publisher) if database.startswith("native") else publisher.subscribe)(database)
        last = tpcb.write(publisher, transactions)
        target = publisher.mark()
        reading_s = publisher.read_log(target)
        batches, encoding_s = recorded.record(publisher.url, publisher.find("ceiling_0"), target)
        found: dict[str, list[float]] = {name: [] for name in (NATIVE, *(way.name for way in CALLINGS), _CEILING)}
        for number in rounds:
            found[NATIVE].append(_deliver_natively(publisher, f"native_{number}", last))
            for place, way in enumerate(CALLINGS):
                found[way.name].append(_deliver(publisher, _database(place, number), way, target))
            found[_CEILING].append(recorded.send(batches, publisher.url_of(f"ceiling_{number}")))
        for database in databases:
            tpcb.require_equal(publisher, database)
        yield _describe(transactions, found, reading_s, encoding_s)


def _database(place: int, number: int) -> str:
    return f"rowtide_{place}_{number}"


def _deliver_natively(publisher: Publisher, database: str, last: int) -> float:
    began = time.monotonic()
    native.enable(publisher, database)
    await_fact(partial(tpcb.has, publisher, database, last), f"{database} has the last transaction")
    seconds = time.monotonic() - began
    native.drop(publisher, database)
    return seconds


def _deliver(publisher: Publisher, database: str, way: Calling, target: int) -> float:
    """Deliver what is in the log store, in this process; return the seconds, the start included."""
    subscription, began = publisher.find(database), time.monotonic()
    if not way.has_arrays:
        with closing(open_delivery(subscription)) as delivery:
            return recorded.deliver(publisher.url, subscription, target, delivery)
    with SubscriptionAgent.open(DeliveryContext(publisher.url, open_engine(publisher.url)), subscription) as agent:
        while agent.position is None or agent.position.log <= target:
            agent.step()
        return time.monotonic() - began


def _describe(transactions: int, found: dict[str, list[float]], reading_s: float, encoding_s: float) -> Table:
    seconds = {name: statistics.median(times) for name, times in found.items()}
    for way in CALLINGS:
        seconds[f"{way.name}, reading the log included"] = seconds[way.name] + reading_s
    of_native = {name: seconds[NATIVE] / time_s for name, time_s in seconds.items()}
    name = f"replication: a backlog of {transactions:,} TPC-B transactions"
    return Table(
        name,
        ("way", "s", "transactions/s", "of PostgreSQL's"),
        tuple(
            (way, f"{time_s:.2f}", f"{transactions / time_s:,.0f}", f"{of_native[way]:.2f}")
            for way, time_s in seconds.items()
        ),
        tuple(
            at_least(f"replication, {way.name}: of PostgreSQL's", way.of_native, of_native[way.name])
            for way in CALLINGS
        ),
        f"Medians of {len(found[NATIVE])}, in turn. Reading the log into the log store took {reading_s:.2f} s; "
        f"reading that and encoding the calls, without sending them, {encoding_s:.2f} s.",
    )
