"""How long a program with Spark waits before its first query of a lake in a bucket: jars, JVM, session, functions."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks.children import environment
from benchmarks.goals import at_most
from benchmarks.table import Sizes, Table
from builders.capture.capture_instances import instance, source_table
from builders.faults.faulty_proxy import FaultyProxy
from builders.lakes.made_lakes import MadeLake, make_rows
from builders.servers.object_servers import create_bucket, drop_bucket, running_object_server
from rowtide.cdc.change_columns import full_mask

_INSTANCES, _CYCLES = 4, 10
_REQUEST_S = 0.04
_MOST_S = 12.0
_NAME = "Spark's start, a lake in a bucket"
_STARTS = """
import sys, time
begin = time.monotonic()
import rowtide
spark = rowtide.build_session(lakes=[sys.argv[1]])
built = time.monotonic()
rowtide.register(spark, sys.argv[1])
print(built - begin, time.monotonic() - built)
"""


def measure_spark_start(sizes: Sizes) -> Iterator[Table]:
    """Start Spark some times in new processes, and register a lake of four tables."""
    with running_object_server() as endpoint:
        bucket = create_bucket(endpoint, "benchmark")
        before = dict(os.environ)
        os.environ.update(bucket.environment)
        try:
            lake = _make_lake(f"{bucket.url}/lake")
            with FaultyProxy(endpoint, latency_s=_REQUEST_S) as proxy:
                # The first start may fetch jars.
                _start(lake, endpoint)
                near, far = (_measure(lake, place, sizes.runs) for place in (endpoint, proxy.endpoint))
        finally:
            os.environ.clear()
            os.environ.update(before)
            drop_bucket(bucket)
    yield Table(
        _NAME,
        ("a request takes, ms", "build_session, s", "register, s"),
        tuple((f"{ms:g}", *(f"{part:.2f}" for part in parts)) for ms, parts in ((0, near), (_REQUEST_S * 1000, far))),
        (at_most(f"{_NAME}, s", _MOST_S, sum(near)),),
        f"Medians of {sizes.runs} starts, the jars in Ivy's cache; {_INSTANCES} instances of {_CYCLES} cycles.",
    )


SPARK_START: dict[str, Callable[[Sizes], Iterator[Table]]] = {"spark-start": measure_spark_start}


def _make_lake(place: str) -> str:
    made = MadeLake(place)
    instances = [
        instance(f"m{number}", table=source_table(name=f"t{number}", source_id=20_000 + number))
        for number in range(_INSTANCES)
    ]
    for one in instances:
        made.enable(one, 90)
    for cycle in range(_CYCLES):
        position = {"__$start_lsn": 100 + cycle, "__$seqval": 1, "__$operation": 2, "__$update_mask": full_mask(2)}
        made.publish(*((one, [make_rows(one, [{**position, "id": cycle, "name": "tea"}])]) for one in instances))
    return made.path


def _measure(lake: str, endpoint: str, runs: int) -> tuple[float, float]:
    """Return the median seconds of the session's start and of the registration."""
    found = [_start(lake, endpoint) for _ in range(runs)]
    return statistics.median(built for built, _ in found), statistics.median(done for _, done in found)


def _start(lake: str, endpoint: str) -> tuple[float, float]:
    variables = {**environment(), "AWS_ENDPOINT_URL": endpoint}
    command = [sys.executable, "-c", _STARTS, lake]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables)
    built, done = map(float, ran.stdout.split())
    return built, done
