"""What a poll of a database with many captured tables takes, and each page that shows what it found."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

from benchmarks.goals import Goal, at_most
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from rowtide.core.addresses import Address
from rowtide.monitor.databases import NamedUrl, name_databases
from rowtide.monitor.polling import open_reader
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving
from rowtide.monitor.views import make_view

_TABLES, _CONSUMERS = 500, 50
_POLLS, _REQUESTS = 20, 40
_MOST_POLL_S = _MOST_PAGE_S = 0.1
"""Goals in seconds, on a machine that does nothing else."""


def measure_monitor(sizes: Sizes) -> Iterator[Table]:
    """Poll a database of which so many tables (--rows) are captured, and fifty consumers read all of them."""
    tables = sizes.rows or _TABLES
    with tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder, open_source(Path(folder)) as source:
        _capture(source, tables)
        (database,) = name_databases([source.url])
        seconds = {"poll": _poll(database), **_serve(database, Path(folder))}
    yield Table(
        name="monitor",
        columns=("what", "median s", "p95 s"),
        rows=tuple((name, f"{statistics.median(taken):.3f}", f"{_p95(taken):.3f}") for name, taken in seconds.items()),
        goals=tuple(_goals(seconds)),
        remark=f"{tables:,} captured tables, all read by {_CONSUMERS} consumers; the first poll is not counted.",
    )


MONITOR: dict[str, Callable[[Sizes], Iterator[Table]]] = {"monitor": measure_monitor}


def _capture(source: Source, tables: int) -> None:
    source.write(f"create table item_{number} (id int primary key, name text)" for number in range(tables))
    source.cdc.enable_db(source.lake)
    source.cdc.enable_tables(["public.item_*"], snapshot=False)
    for consumer in range(_CONSUMERS):
        source.cdc.add_consumer(f"reader {consumer}", [f"public_item_{number}" for number in range(tables)])
    source.cdc.run(once=True)


def _poll(database: NamedUrl) -> Sequence[float]:
    found = []
    with open_reader(database) as reader:
        for _ in range(1 + _POLLS):
            begin = time.perf_counter()
            make_view(reader.read())
            found.append(time.perf_counter() - begin)
    return found[1:]


def _serve(database: NamedUrl, folder: Path) -> dict[str, Sequence[float]]:
    base = f"/db/{quote(database.name, safe='')}"
    pages = ("/", base, f"{base}/capture", f"{base}/instances/public_item_1", f"{base}/check", "/metrics")
    # One poll, so that none is beside the requests.
    with (
        Ring.open(folder / "state") as ring,
        serving((database,), ring, Address("127.0.0.1", 0), every_s=3600.0) as served,
    ):
        while _request(served.address, "/readyz")[0] != 200:
            time.sleep(0.05)
        return {page: [_request(served.address, page)[1] for _ in range(_REQUESTS)] for page in pages}


def _request(address: Address, path: str) -> tuple[int, float]:
    """Return the status of an answer, and the seconds until it was there."""
    begin = time.perf_counter()
    connection = HTTPConnection(address.host, address.port, timeout=60)
    try:
        connection.request("GET", path, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - begin
    finally:
        connection.close()


def _p95(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


def _goals(seconds: dict[str, Sequence[float]]) -> Iterator[Goal]:
    yield at_most("monitor: seconds of a poll, the median", _MOST_POLL_S, statistics.median(seconds["poll"]))
    for name, taken in seconds.items():
        if name != "poll":
            yield at_most(f"monitor: seconds of {name}, p95", _MOST_PAGE_S, _p95(taken))
