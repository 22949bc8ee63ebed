"""The initial copy of a table, beside PostgreSQL's own copy from one psql to another."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator

from benchmarks.goals import at_least
from benchmarks.replication.publisher import PUBLICATION, NotReplicated, Publisher, open_publisher
from benchmarks.table import Sizes, Table
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.running.subscription_agent import SubscriptionAgent

ROWS = 3_000_000
_PSQL, _OURS = "psql to psql", "rowtide's snapshot"
_OF_PSQL = 0.9
_TABLE = "create table copied (id bigint primary key, bucket int, amount int, name text, at timestamptz)"
_FILL = """
insert into copied select i, i % 1000, i * 7 % 100003, 'name ' || i, timestamptz '2026-01-01' + i * interval '1 s'
from generate_series(1, {rows}) i
"""
_SUM = "select count(*), sum(id), sum(bucket), sum(amount), sum(length(name)), max(at) from copied"


def measure_copying(sizes: Sizes) -> Iterator[Table]:
    """Copy one table in both ways in turn, each time to an empty database."""
    rows = sizes.rows or ROWS
    found: dict[str, list[float]] = {_PSQL: [], _OURS: []}
    with open_publisher() as publisher:
        publisher.query("postgres", _TABLE)
        publisher.query("postgres", _FILL.format(rows=rows))
        publisher.query("postgres", "vacuum (freeze, analyze) copied")
        publisher.publish("copied")
        for _ in range(sizes.runs):
            found[_PSQL].append(_measure(publisher, "piped", _pipe))
            found[_OURS].append(_measure(publisher, "ours", _snapshot))
    seconds = {way: statistics.median(times) for way, times in found.items()}
    of_psql = {way: seconds[_PSQL] / time_s for way, time_s in seconds.items()}
    yield Table(
        f"replication-copy: {rows:,} narrow rows",
        ("way", "s", "k rows/s", "of psql's"),
        tuple(
            (way, f"{time_s:.2f}", f"{rows / time_s / 1000:,.0f}", f"{of_psql[way]:.2f}")
            for way, time_s in seconds.items()
        ),
        (at_least("replication-copy: of psql's rows/s", _OF_PSQL, of_psql[_OURS]),),
        f"Medians of {sizes.runs}, in turn, to a table with its primary key; "
        "ours from `add-subscription` to the hand-over.",
    )


def _measure(publisher: Publisher, database: str, copy: Callable[[Publisher, str], float]) -> float:
    publisher.create(database)
    seconds = copy(publisher, database)
    if publisher.query(database, _SUM) != publisher.query("postgres", _SUM):
        raise NotReplicated(f"{database} has other rows")
    publisher.query("template1", f"drop database {database}")
    return seconds


def _pipe(publisher: Publisher, database: str) -> float:
    publisher.query(database, _TABLE)
    server = publisher.source.server
    command = [str(server.binary("psql")), "--no-psqlrc", "--quiet", "--command"]
    known = {**os.environ, **server.environment()}
    began = time.monotonic()
    with subprocess.Popen([*command, "copy copied to stdout"], stdout=subprocess.PIPE, env=known) as writer:
        subprocess.run(
            [*command, "copy copied from stdin"], stdin=writer.stdout, env={**known, "PGDATABASE": database}, check=True
        )
    return time.monotonic() - began


def _snapshot(publisher: Publisher, database: str) -> float:
    """Step an agent until the rows are there and changes would be delivered."""
    url, subscriber = publisher.url, publisher.url_of(database)
    began = time.monotonic()
    publisher.replication.add_subscription(PUBLICATION, subscriber)
    with SubscriptionAgent.open(DeliveryContext(url, open_engine(url)), publisher.find(database)) as agent:
        while agent.position is None:
            agent.step()
        seconds = time.monotonic() - began
    publisher.replication.drop_subscription(PUBLICATION, subscriber)
    return seconds
