"""Capture with lake and log store on an object store: an S3 server of the tests, behind a proxy that makes each request
last.

What this process asks itself goes past the proxy: it would be counted, and would wait.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.cycles import CYCLE_WARM_UPS, Cycle, run_cycle
from benchmarks.goals import at_least, at_most, figure
from benchmarks.latency import TABLES, WARM_UP_S, initialize, load
from benchmarks.running_capture import CAPTURE, run_capture
from benchmarks.segment_times import Times
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.thread import read_log
from benchmarks.workloads import WORKLOADS
from builders.faults.faulty_proxy import FaultyProxy, Request
from builders.servers.object_servers import Bucket, create_bucket, drop_bucket, running_object_server
from rowtide.cdc.published import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.cdc.scans.pace import REQUESTS_A_CYCLE, REQUESTS_A_SECOND, REQUESTS_A_TABLE, USUAL_LATENCY_S
from rowtide.delta.replay import LOG, LogFiles, read_commit
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.stores import open_folder

_REQUEST_S = 0.04
_SHAPES = ((4, 100, 0.4), (50, 6, 1.0), (200, 6, 3.0), (300, 1, 5.0))
"""Tables, rows of each in a cycle's one transaction, and the goal in seconds."""
_MOST_QUERYABLE_S = 1.5
_MOST_A_CYCLE, _MOST_A_TABLE = 10, 2.4
_MOST_IDLE = 2.0
_AT_ONCE = (*CAPTURE, "--max-latency", "0")
"""Cycles as soon as may be, whatever they cost."""
_INTERVALS_S = (1.0, 10.0, 60.0)
_LEAST_OF_LOCAL = 0.9
_MEASURED_S = 30
_IDLE_S = 10.0
_LOOKS_EVERY_S = 0.02
_KINDS = ("GET", "PUT", "LIST", "DELETE", "POST")
_PLACES = {"manifest/": "manifest", "segments/": "segments", "pending/": "segments", "_CT/": "change tables"}
_MONTH_S = 30 * 24 * 3600
_PRICES = {"GET": 0.4e-6, "PUT": 5e-6, "LIST": 5e-6, "POST": 5e-6}
"""Dollars a request, Amazon S3 Standard in us-east-1; a DELETE costs nothing."""


@dataclass(frozen=True, slots=True)
class _Objects:
    """A bucket, and the proxy by which capture reaches it."""

    bucket: Bucket
    proxy: FaultyProxy

    @property
    def capture_environment(self) -> Mapping[str, str]:
        return {**self.bucket.environment, "AWS_ENDPOINT_URL": self.proxy.endpoint}


@dataclass(frozen=True, slots=True)
class _Asked:
    """Requests of a cycle with so many tables, those that have the price of a PUT and others; and idle a second."""

    tables: int
    writes: float
    reads: float
    idle: float

    def month(self, interval_s: float) -> tuple[float, float]:
        """Return the requests of a month with a cycle in each interval."""
        cycles = _MONTH_S / interval_s
        return cycles * self.writes, cycles * self.reads + _MONTH_S * self.idle


def measure_object_store(sizes: Sizes) -> Iterator[Table]:
    """Measure cycles, the latency under load, and the log reader, each with a bucket of its own."""
    asked: list[_Asked] = []
    for tables, rows, most_s in _SHAPES:
        yield _measure_cycles(tables, rows, most_s, sizes.runs, asked.append)
    yield _sum_up_costs(asked)
    yield _measure_latency(sizes.seconds or _MEASURED_S)
    yield _measure_reading(sizes)


OBJECT_STORE: dict[str, Callable[[Sizes], Iterator[Table]]] = {"object-store": measure_object_store}


@contextmanager
def _objects() -> Iterator[_Objects]:
    """Start a server and a proxy; the environment leads to the server."""
    with running_object_server() as endpoint, FaultyProxy(endpoint, latency_s=_REQUEST_S) as proxy:
        bucket = create_bucket(endpoint, "benchmark")
        before = dict(os.environ)
        os.environ.update(bucket.environment)
        try:
            yield _Objects(bucket, proxy)
        finally:
            os.environ.clear()
            os.environ.update(before)
            drop_bucket(bucket)


@contextmanager
def _source(objects: _Objects) -> Iterator[Source]:
    with (
        tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder,
        open_source(Path(folder), place=objects.bucket.url) as source,
    ):
        yield source


def _measure_cycles(tables: int, rows: int, most_s: float, runs: int, note: Callable[[_Asked], None]) -> Table:
    with _objects() as objects, _source(objects) as source:
        names = [f"measured_{number}" for number in range(tables)]
        source.write(f"create table {name} (id bigint primary key, bucket int, note text)" for name in names)
        source.enable(names)
        cycles: list[Cycle] = []
        counts: list[Counter[tuple[str, str]]] = []

        def count() -> None:
            counts.append(_count(objects.proxy.seen()))

        with run_capture(source, objects.capture_environment, _AT_ONCE) as capture:
            for number in range(CYCLE_WARM_UPS + runs):
                objects.proxy.forget()
                cycles.append(run_cycle(source, capture, names, rows, number, count))
            idle = _measure_idle(objects.proxy)
    seconds = statistics.median(cycle.seconds for cycle in cycles[CYCLE_WARM_UPS:])
    published_s = statistics.median(cycle.published_s for cycle in cycles[CYCLE_WARM_UPS:])
    found = sorted(counts[CYCLE_WARM_UPS:], key=Counter.total)[runs // 2]
    name = f"object store: cycle of {tables} tables"
    of_tables = sum(count for (place, _), count in found.items() if place == "change tables")
    waiting = idle * (published_s - seconds)
    writes = sum(count for (_, kind), count in found.items() if kind in _PRICES and kind != "GET")
    reads = max(sum(count for (_, kind), count in found.items() if kind == "GET") - waiting, 0)
    note(_Asked(tables, writes, reads, idle))
    return Table(
        name,
        ("requests to", *_KINDS),
        tuple(_rows(found)),
        (
            at_most(f"{name}, s", most_s, seconds),
            at_most(f"{name}: requests a table", _MOST_A_TABLE, of_tables / tables),
            at_most(f"{name}: other requests", _MOST_A_CYCLE, found.total() - of_tables - waiting),
            at_most(f"{name}: requests a second while idle", _MOST_IDLE, idle),
        ),
        f"Cycle {seconds:.3f} s, commit to published {published_s:.3f} s; {_REQUEST_S * 1000:.0f} ms a request. Among "
        f"them are {waiting:.0f} of capture that waited for the log reader: {idle:.1f} a second.",
    )


def _sum_up_costs(asked: list[_Asked]) -> Table:
    """Return what a month costs whose cycles all have so many tables: at intervals, and at the pace of capture."""
    rows = []
    for one in asked:
        own_s = min((REQUESTS_A_CYCLE + REQUESTS_A_TABLE * one.tables) / REQUESTS_A_SECOND, USUAL_LATENCY_S)
        for interval_s, said in (*((given, "") for given in _INTERVALS_S), (own_s, ", capture's own")):
            writes, reads = one.month(interval_s)
            cost = writes * _PRICES["PUT"] + reads * _PRICES["GET"]
            rows.append(
                (
                    f"{one.tables}",
                    f"{interval_s:g} s{said}",
                    f"{one.writes:g}",
                    f"{one.reads:.0f}",
                    f"{writes / 1e6:.1f}",
                    f"{reads / 1e6:.1f}",
                    f"{cost:,.0f}",
                )
            )
    return Table(
        "object store: what a month costs",
        ("tables", "a cycle each", "PUT, LIST a cycle", "GET a cycle", "M PUT, LIST", "M GET", "$"),
        tuple(rows),
        (),
        "A month has 2,592,000 s. PUT and LIST: cycles in it times those of a cycle. GET: likewise, and those of an "
        "idle second in all. 5 $ a million PUT or LIST, 0.4 $ a million GET.",
    )


def _measure_idle(proxy: FaultyProxy) -> float:
    """Return how many requests a second are made while nothing is committed."""
    proxy.forget()
    time.sleep(_IDLE_S)
    return len(proxy.seen()) / _IDLE_S


def _measure_latency(seconds: int) -> Table:
    with _objects() as objects, _source(objects) as source:
        initialize(source)
        source.enable(TABLES)
        published = system_table_path(source.lake, "lsn_time_mapping")
        with run_capture(source, objects.capture_environment) as capture, _watching(published) as times:
            load(source, WARM_UP_S)
            objects.proxy.forget()
            begin, cpu_s = time.time(), capture.cpu_seconds()
            load(source, seconds)
            cpu_s, found = capture.cpu_seconds() - cpu_s, _count(objects.proxy.seen())
            capture.await_published(source.mark())
        waits, cycles = _waits(published, times, begin)
    name = "object store: commit to queryable at 500 transactions/s"
    median, p95, p99 = np.percentile(waits, (50, 95, 99)).tolist()
    of_tables = sum(count for (place, _), count in found.items() if place == "change tables")
    month = {kind: sum(found[place, kind] for place, _ in found) / seconds * _MONTH_S for kind in _KINDS}
    cost = sum(_PRICES.get(kind, 0.0) * count for kind, count in month.items())
    return Table(
        name,
        ("requests a cycle to", *_KINDS),
        tuple(_rows(found, cycles)),
        (
            at_most(f"{name}, s, median", _MOST_QUERYABLE_S, median),
            at_most(f"{name}: requests a table and cycle", _MOST_A_TABLE, of_tables / cycles / len(TABLES)),
            at_most(f"{name}: other requests a cycle", _MOST_A_CYCLE, (found.total() - of_tables) / cycles),
        ),
        f"{len(waits):,} transactions in {cycles} cycles: median {median:.2f} s, 95 % {p95:.2f} s, 99 % {p99:.2f} s; "
        f"{cpu_s / seconds:.2f} CPU s a second. A month of this: "
        + ", ".join(f"{count / 1e6:.1f} M {kind}" for kind, count in month.items() if count)
        + f", {cost:,.0f} $ on Amazon S3.",
    )


def _measure_reading(sizes: Sizes) -> Table:
    workload = WORKLOADS["inserts"]
    rows = sizes.rows or workload.rows
    with _objects() as objects, _source(objects) as source:
        source.write(workload.definitions())
        source.enable(workload.table_names)
        source.cdc.run(once=True)
        source.write(workload.statements(1, rows))
        end = source.mark()
        rates: dict[str, list[float]] = {"local disk": [], "object store": []}
        for number in range(sizes.runs):
            local = read_log(source, end, f"local_{number}", str(source.folder / f"local_{number}_store"))
            with _environment(objects.capture_environment):
                remote = read_log(source, end, f"remote_{number}", f"{objects.bucket.url}/log_{number}")
            rates["local disk"].append(rows / local.running_s)
            rates["object store"].append(rows / remote.running_s)
    median = {place: statistics.median(found) for place, found in rates.items()}
    name = "object store: the log reader"
    share = median["object store"] / median["local disk"]
    return Table(
        name,
        ("log store on", "k rows/s"),
        tuple((place, figure(rate / 1000)) for place, rate in median.items()),
        (at_least(f"{name}, of its rate on a local disk", _LEAST_OF_LOCAL, share),),
    )


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _count(seen: list[Request]) -> Counter[tuple[str, str]]:
    """Return how many requests went to each place, of each kind."""
    return Counter((_place_of(request), request.kind) for request in seen)


def _place_of(request: Request) -> str:
    target = request.target.replace("%2F", "/")
    return next((place for part, place in _PLACES.items() if part in target), "system tables")


def _rows(found: Counter[tuple[str, str]], cycles: int = 1) -> Iterator[tuple[str, ...]]:
    for place in ("manifest", "segments", "system tables", "change tables"):
        counts = [found[place, kind] / cycles for kind in _KINDS]
        yield (place, *(f"{count:g}" if cycles == 1 else f"{count:.1f}" for count in counts))
    totals = [sum(found[place, kind] for place in set(_PLACES.values()) | {"system tables"}) for kind in _KINDS]
    yield ("all", *(f"{count / cycles:g}" if cycles == 1 else f"{count / cycles:.1f}" for count in totals))


@contextmanager
def _watching(table: str) -> Iterator[dict[int, float]]:
    """Yield the versions of a table that appear, with the time at which they were seen."""
    store, times, stop = open_folder(table), dict[int, float](), threading.Event()

    def look() -> None:
        last = ""
        while not stop.wait(_LOOKS_EVERY_S):
            now = time.time()
            for path in store.list(LOG, after=last or LOG):
                for version in LogFiles.of([path]).commits:
                    times.setdefault(version, now)
                    last = path

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield times
    finally:
        stop.set()
        watcher.join()


def _waits(table: str, times: Mapping[int, float], begin: float) -> tuple[Times, int]:
    """Return how long each transaction after a time took to be queryable, and the number of their cycles."""
    store = open_folder(table)
    queryable: dict[int, float] = {}
    for version, seen_at in times.items():
        for kind, values in read_commit(store.get(f"{LOG}{version:020d}.json")):
            if kind == "txn":
                queryable[values["version"]] = seen_at
    opened = SmallTable.open(table)
    assert opened is not None
    rows = opened.read(arrow_schema(LSN_TIME_MAPPING, "cycle", "tran_commit_time"))
    committed = rows["tran_commit_time"].cast(pa.int64()).to_numpy() / 1e6
    cycles = rows["cycle"].to_numpy()
    is_measured = (committed >= begin) & np.isin(cycles, list(queryable))
    seen = np.array([queryable[cycle] for cycle in cycles[is_measured].tolist()])
    return seen - committed[is_measured], len(np.unique(cycles[is_measured]))
