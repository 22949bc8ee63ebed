"""Running capture: the lake lease, the log reader's process, and capture's loop (SQL Server: the capture job)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from rowtide.agents.log_reader import LogReaderProcess
from rowtide.agents.loop import Agent, run_agent
from rowtide.cdc.capture import Capture, CycleReport
from rowtide.cdc.cleanup import Cleanup
from rowtide.cdc.definitions import require_complete
from rowtide.cdc.housekeeping import Housekeeping
from rowtide.cdc.lake_lease import LAKE, LakeLease
from rowtide.cdc.ledger import Ledger
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.lake.session import pinned, spark_watched
from rowtide.log.catalogue import SourceDefinition, read_source
from rowtide.log.manifest import Manifest
from rowtide.log.postgres import slot
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.membership import mark_log
from rowtide.log.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONCE_PREFIX = "rowtide.once"
IDLE_S = 0.1
LONGEST_REST_S = 1.0
_LEASE_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Watchers:
    """Who is told what happens: each cycle, and each retry with its pause in seconds."""

    on_cycle: Callable[[CycleReport], None] = lambda _report: None
    on_retry: Callable[[RowtideError, float], None] = lambda _error, _pause_s: None


def run_capture(
    url: str,
    make_spark: Callable[[], SparkSession],
    *,
    once: bool,
    stop: threading.Event,
    watchers: Watchers,
) -> None:
    """Read the log and capture until `stop` is set; with `once`, until all that is committed now is published.

    Raises `LeaseHeld` when another process captures, `SparkLost`, and every error that needs a decision.
    """
    engine = open_engine(url, application_name=f"rowtide capture on {describe_holder()}")
    target = _emit_mark(engine, url) if once else None
    spark: list[SparkSession] = []

    @contextmanager
    def open_agent() -> Iterator[Agent]:
        with ExitStack() as stack:
            lease = stack.enter_context(AdvisoryLease.take(engine, LAKE, patience_s=_LEASE_PATIENCE_S))
            source = _verify_source(engine, url)
            reader = stack.enter_context(LogReaderProcess(url, watchers.on_retry, has_run=bool(spark)))
            if not spark:
                spark.append(pinned(make_spark()))
            capture, housekeeping = _open_capture(spark[0], source, lease, watchers)
            yield _Supervisor(capture, housekeeping, reader, stop, target)

    with spark_watched():
        run_agent(open_agent, stop=stop, idle_s=IDLE_S, on_retry=watchers.on_retry)


class _Supervisor:
    """Capture's steps, housekeeping between them, while the log reader is kept running; the end at the target."""

    def __init__(
        self,
        capture: Capture,
        housekeeping: Housekeeping,
        reader: LogReaderProcess,
        stop: threading.Event,
        target: int | None,
    ) -> None:
        self._capture = capture
        self._housekeeping = housekeeping
        self._reader = reader
        self._stop = stop
        self._target = target

    def step(self) -> bool:
        self._reader.keep_running()
        begun = time.monotonic()
        worked = self._capture.step()
        has_kept_house = self._housekeeping.step()
        if self._target is not None and self._capture.position.log > self._target:
            self._stop.set()
        if worked and self._target is None and not self._capture.is_behind:
            # Cycles end to end would take a core for themselves, and leave the most and the smallest files.
            self._stop.wait(min(time.monotonic() - begun, LONGEST_REST_S))
        return worked or has_kept_house


def _open_capture(
    spark: SparkSession, source: SourceDefinition, lease: AdvisoryLease, watchers: Watchers
) -> tuple[Capture, Housekeeping]:
    """Return capture, and what is to be done between its cycles."""
    store = open_store(source.log_store)
    held = LakeLease.take(store, lease)
    ledger = Ledger(spark, source.lake, source.source_id)
    capture = Capture(ledger, store, held, on_cycle=watchers.on_cycle)
    return capture, Housekeeping(lease.connection, Cleanup(ledger, held))


def _verify_source(engine: Engine, url: str) -> SourceDefinition:
    """Return the definition; raise what the log reader would only find out in its own process."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, url)
        require_complete(connection)
        manifest = Manifest(open_store(source.log_store))
        manifest.load()
        slot.verify_slot(connection, source.slot, manifest.state.position.log)
        slot.verify_publication(connection, source)
    return source


def _emit_mark(engine: Engine, url: str) -> int:
    """Write a message behind everything that is committed; return its log position."""
    with translated(), engine.begin() as connection:
        read_source(connection, url)
        return mark_log(connection, ONCE_PREFIX)
