"""A backlog converted by a cluster's workers: of one core, and of two; driver, workers and server share the machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.children import environment
from benchmarks.goals import at_least, figure
from benchmarks.source import Source, open_source
from benchmarks.table import Sizes, Table
from benchmarks.workloads import WORKLOADS
from builders.servers.spark_clusters import SparkCluster, running_cluster
from rowtide.cdc.published import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.core.lsn import parse_log_position
from rowtide.lake.small_tables import SmallTable
from rowtide.log.opening import open_log_reader

_ROWS = 20_000_000
_LEAST_OF_ONE = 1.6
_NAME = "backlog on two workers"


def measure_workers(sizes: Sizes) -> Iterator[Table]:
    """Measure the rate of a backlog's cycles, without the first, which waits for Spark's start."""
    rows = sizes.rows or _ROWS
    with (
        tempfile.TemporaryDirectory(prefix="rowtide-bench-") as folder,
        running_cluster(Path(folder), is_pinned=True) as cluster,
    ):
        one, two = (_measure(Path(folder, f"{cores}"), cluster, cores, rows) for cores in (1, 2))
    yield Table(
        _NAME,
        ("workers of one core", "rows a second"),
        (("1", figure(one)), ("2", figure(two))),
        (at_least(f"{_NAME}, of one", _LEAST_OF_ONE, two / one),),
        f"{rows:,} narrow rows in the log store, cycles after the first; this machine's cores are the driver's too.",
    )


WORKERS: dict[str, Callable[[Sizes], Iterator[Table]]] = {"two-workers": measure_workers}


def _measure(folder: Path, cluster: SparkCluster, cores: int, rows: int) -> float:
    """Return the rows a second on executors of so many cores in all."""
    folder.mkdir()
    workload = WORKLOADS["inserts"]
    with open_source(folder, over_socket=True) as source:
        source.write(workload.definitions())
        source.enable(workload.table_names)
        source.write(workload.statements(1, rows))
        _read_log(source)
        conf = (f"spark.cores.max={cores}", "spark.executor.cores=1")
        options = [option for setting in conf for option in ("--spark-conf", setting)]
        command = cluster.command("cdc", "run", "--once", "--engine", "spark", "--db", source.url, *options)
        variables = {**environment(), **cluster.environment}
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, env=variables)
        return _rate_after_first(source.lake)


def _read_log(source: Source) -> None:
    """Read everything committed so far to the source's log store."""
    end = parse_log_position(source.mark())
    with open_log_reader(source.url) as reader:
        while source.read_log_store().position.log <= end:
            for _ in range(100):
                reader.step()
    time.sleep(1)  # the server notices a moment later that its reader has left


def _rate_after_first(lake: str) -> float:
    mapping = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
    assert mapping is not None
    rows = mapping.read(arrow_schema(LSN_TIME_MAPPING, "start_lsn", "cycle", "published_at"))
    cycles, times = rows["cycle"].to_numpy(), rows["published_at"].to_numpy().astype("datetime64[us]").astype(np.int64)
    busy = [cycle for cycle in np.unique(cycles) if np.count_nonzero(cycles == cycle) > 1]
    seconds = (times[cycles == busy[-1]].max() - times[cycles == busy[0]].max()) / 1e6
    transactions = np.count_nonzero(np.isin(cycles, busy[1:]))
    return float(transactions * WORKLOADS["inserts"].rows_per_transaction / seconds)
