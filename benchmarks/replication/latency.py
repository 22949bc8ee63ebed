"""From commit at the publisher to commit at the subscriber, under a steady load, by one server's clock.

The subscriber's time is that of a deferred trigger, which fires when its transaction commits: the commit timestamp
that the server notes is the publisher's where PostgreSQL's own subscription applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import psycopg

from benchmarks.goals import at_most
from benchmarks.replication import native, tpcb
from benchmarks.replication.native import NATIVE
from benchmarks.replication.publisher import Publisher, await_fact, open_publisher
from benchmarks.replication.run_process import run_replication
from benchmarks.table import Sizes, Table

TRANSACTIONS_PER_S = 500
SECONDS = 45
_SCALE = 4
_OURS = "rowtide replication run"
_MEDIAN_GOAL_S = 0.2
_COMMITTED = """
select id, extract(epoch from pg_xact_commit_timestamp(xmin))::float8 from pgbench_history
where id between %s and %s order by id
"""
_ARRIVED = "select id, extract(epoch from at)::float8 from arrivals where id between %s and %s order by id"
_NOTING = (
    "create table public.arrivals (id bigint, at timestamptz)",
    """
    create function public.note_arrival() returns trigger language plpgsql as $$ begin
        insert into public.arrivals values (new.id, clock_timestamp()); return null;
    end $$
    """,
    """
    create constraint trigger noting after insert on pgbench_history deferrable initially deferred
    for each row execute function public.note_arrival()
    """,
    "alter table pgbench_history enable always trigger noting",
)


def measure_latency(sizes: Sizes) -> Iterator[Table]:
    """Load the publisher for a while beside our run, and for a while beside PostgreSQL's own subscription."""
    seconds = sizes.seconds or SECONDS
    with open_publisher() as publisher:
        tpcb.fill(publisher, _SCALE)
        for database in ("ours", "native"):
            publisher.create(database, "postgres")
            for statement in _NOTING:
                publisher.query(database, statement)
        publisher.publish(*tpcb.TABLES)
        publisher.subscribe("ours")
        with run_replication(publisher):
            ours = _load(publisher, "ours", seconds)
        tpcb.require_equal(publisher, "ours")
        native.subscribe(publisher, "native", is_enabled=True)
        theirs = _load(publisher, "native", seconds)
        native.drop(publisher, "native")
    yield _describe({NATIVE: theirs, _OURS: ours}, seconds)


def _load(publisher: Publisher, database: str, seconds: int) -> npt.NDArray[np.float64]:
    """Return the seconds that each transaction took, once the first has come."""
    first = _await(publisher, database, tpcb.write_last(publisher))
    last = _await(publisher, database, tpcb.write_steadily(publisher, TRANSACTIONS_PER_S, seconds))
    committed = _read(publisher, "postgres", _COMMITTED, first + 1, last)
    arrived = _read(publisher, database, _ARRIVED, first + 1, last)
    assert np.array_equal(committed[:, 0], arrived[:, 0]), "the same transactions"
    taken: npt.NDArray[np.float64] = arrived[:, 1] - committed[:, 1]
    return taken


def _await(publisher: Publisher, database: str, history_id: int) -> int:
    await_fact(partial(tpcb.has, publisher, database, history_id), f"{database} has transaction {history_id}")
    return history_id


def _read(publisher: Publisher, database: str, times: str, first: int, last: int) -> npt.NDArray[np.float64]:
    with psycopg.connect(publisher.url_of(database)) as connection:
        rows = connection.execute(times.encode(), [first, last]).fetchall()
    return np.array(rows, dtype=np.float64)


def _describe(found: dict[str, npt.NDArray[np.float64]], seconds: int) -> Table:
    median = float(np.median(found[_OURS]))
    return Table(
        f"replication-latency: {TRANSACTIONS_PER_S} TPC-B transactions/s for {seconds} s",
        ("way", "transactions", "median s", "95th percentile", "99th percentile"),
        tuple(
            (way, f"{taken.size:,}", *(f"{value:.3f}" for value in np.percentile(taken, (50, 95, 99))))
            for way, taken in found.items()
        ),
        (at_most("replication-latency: commit to commit, median s", _MEDIAN_GOAL_S, median),),
        "Commit at the publisher to commit at the subscriber, by one clock; one way after the other.",
    )
