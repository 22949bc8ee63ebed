"""Our ways through the log: the log reader alone, and the whole thread to published change tables."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession

from benchmarks.children import run_child
from benchmarks.log_reader_process import Answer, Settings
from benchmarks.measured import Measured
from benchmarks.source import Source
from benchmarks.stopwatch import Stopwatch
from rowtide.cdc import system_tables
from rowtide.cdc.capture import appends, capture
from rowtide.cdc.running.context import CaptureWatchers

LOG_READER = "log reader to durable segments"
THREAD = "log to published change tables"

_CYCLES = "cycles"
_PHASES = (
    (capture.Capture, "_run", _CYCLES),
    (system_tables.SystemTables, "record", "record the cycle"),
    (appends.ChangeAppender, "prepare", "write data files"),
    (appends.ChangeAppender, "commit", "commit them to change tables"),
    (system_tables.SystemTables, "publish", "publish"),
    (system_tables.SystemTables, "read", "read the lake's state"),
)


def run_log_reader(source: Source, end: str, number: int) -> Measured:
    """Read the log to durable, confirmed segments in a log store of its own, in a process of its own."""
    name = f"log_reader_{number}"
    return read_log(source, end, name, str(source.folder / f"{name}_store"))


def read_log(source: Source, end: str, name: str, store: str) -> Measured:
    """As `run_log_reader`, to a log store at a place."""
    settings = Settings(source.url, source.copy_slot(name), store, end)
    answer = Answer(**run_child("benchmarks.log_reader_process", settings, source.folder, name))
    return Measured(LOG_READER, answer.seconds, answer.start_s, answer.peak_memory, answer.phases)


def run_thread(source: Source, spark: SparkSession) -> Measured:
    """Read and capture everything that is committed as `cdc run --once` does, until the last cycle is published."""
    watch, begin = Stopwatch(), time.time()
    published: list[float] = []
    watchers = CaptureWatchers(on_cycle=lambda _report: published.append(watch.now()))
    with watch.around(*_PHASES):
        source.cdc.run(once=True, spark=spark, watchers=watchers)
    phases, seconds = dict(watch.seconds), published[-1]
    in_cycles = phases.pop(_CYCLES)
    phases[f"{len(published)} {_CYCLES}"] = in_cycles
    phases["outside cycles: the start, waiting for the log reader"] = seconds - in_cycles
    # The log reader's process takes the lease, then opens the log.
    start_s = source.read_log_store().leases["log"].taken_at.timestamp() - begin
    return Measured(THREAD, seconds, start_s, phases=phases)
