"""The capture thread on one log: pg_recvlogical, our log reader, and the whole way to a published change table."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from benchmarks.source import Source
from benchmarks.stopwatch import Stopwatch
from rowtide.cdc import capture, ledger
from rowtide.cdc.run import Watchers
from rowtide.core.lsn import CommitLsn, Position, parse_log_position
from rowtide.databases.postgres.connect import open_engine
from rowtide.log import reader
from rowtide.log.entries import Opened, RangeAppended
from rowtide.log.manifest import Manifest
from rowtide.log.membership import Enabled
from rowtide.log.postgres.source import PostgresSource
from rowtide.log.postgres.stream import ReplicationStream
from rowtide.log.reader import LogReader, RangeWriter
from rowtide.log.state import ManifestState
from rowtide.log.store import open_store


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall seconds of one way through the log, and where they went (phases overlap where threads do)."""

    name: str
    seconds: float
    phases: dict[str, float]


def run_pg_recvlogical(source: Source, end: str, number: int) -> Measured:
    """Let PostgreSQL's own client receive the same stream and throw it away: the walsender's own rate."""
    definition = source.cdc.source()
    slot = source.copy_slot(f"peer_{number}")
    command = [str(source.server.binary("pg_recvlogical")), "--dbname", source.url, "--slot", slot, "--start"]
    command += ["--file", "/dev/null", "--endpos", end, "--no-loop", "--option", "proto_version=1"]
    command += ["--option", f'publication_names="{definition.publication}"', "--option", "messages=true"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **source.server.environment()})
    return Measured("pg_recvlogical", time.perf_counter() - begin, {})


def run_log_reader(source: Source, end: str, number: int) -> Measured:
    """Read the log to durable, confirmed segments in a log store of its own."""
    engine = open_engine(source.url)
    own = source.cdc.source()
    ours = Manifest(open_store(own.log_store)).load()
    assert ours is not None
    definition = replace(own, slot=source.copy_slot(f"reader_{number}"))
    store = open_store(str(source.folder / f"reader_{number}"))
    manifest = Manifest(store)
    manifest.append(Opened(epoch=0, position=ours.position, source=ours.source, reason=None))
    token = manifest.take_lease("log", "benchmark")
    manifest.append(_known_members(token, ours))
    watch = Stopwatch()
    phases = (
        (ReplicationStream, "receive", "receive (waits for the walsender)"),
        (PostgresSource, "decode", "decode"),
        (reader, "write_segment", "write and sync segments"),
        (RangeWriter, "_append_range", "verify publication, manifest entry"),
    )
    begin = time.perf_counter()
    target = Position.of(0, parse_log_position(end))
    with (
        watch.around(*phases),
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        LogReader(
            PostgresSource.open(source.url, connection, definition, manifest, token), store, manifest, token
        ) as log_reader,
    ):
        while manifest.state.position < target:
            log_reader.step()
        seconds = time.perf_counter() - begin
    return Measured("log reader to durable segments", seconds, dict(watch.seconds))


def run_thread(source: Source, spark: SparkSession) -> Measured:
    """Read and capture everything that is committed, to published change tables, as `cdc run --once` does."""
    watch = Stopwatch()
    phases = (
        (ledger.Ledger, "record", "record the cycle"),
        (capture.Capture, "_append_changes", "append change rows"),
        (ledger.Ledger, "publish", "publish"),
        (ledger.Ledger, "read", "read the lake's state"),
    )
    begin = time.perf_counter()
    with watch.around(*phases):
        source.cdc.run(once=True, spark=spark, watchers=Watchers())
    return Measured("log to published change table", time.perf_counter() - begin, dict(watch.seconds))


def median(runs: int, measure: Callable[[int], Measured]) -> Measured:
    """Measure several times and return the run in the middle."""
    results = sorted((measure(number) for number in range(runs)), key=lambda result: result.seconds)
    return results[len(results) // 2]


def _known_members(token: int, state: ManifestState) -> RangeAppended:
    """Return the entry by which a store that begins in the middle of a log knows the members."""
    begin = CommitLsn(state.position.value)
    events = tuple(Enabled(begin, member) for member in state.members)
    end = Position(state.position.value + 1)
    return RangeAppended(token, state.position, end, segments=(), events=events, transactions=0)
