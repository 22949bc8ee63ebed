"""The log reader in a process of its own: from the log to durable, confirmed segments in a log store of its own.

`python -m benchmarks.log_reader_process SETTINGS ANSWER`: two files of JSON, `Settings` and `Answer`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.memory import peak_memory
from benchmarks.stopwatch import Stopwatch
from rowtide.agents.log_reading import SWITCH_INTERVAL_S
from rowtide.core.lsn import CommitLsn, Position, parse_log_position
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.log import reader
from rowtide.log.membership import Enabled
from rowtide.log.postgres.log_source import PostgresSource
from rowtide.log.postgres.restricted_reading import LogAccess
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.log.reader import LogReader, RangeWriter
from rowtide.log.store.entries import Opened, RangeAppended
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState

_PHASES = (
    (ReplicationStream, "receive", "receive (waits for the walsender)"),
    (PostgresSource, "decode", "decode"),
    (reader, "write_segment", "write and sync segments"),
    (RangeWriter, "_append_range", "manifest entry"),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The source, the slot to read from, the folder of the log store, and the log's end."""

    url: str
    slot: str
    store: str
    end: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds from opening the log to the end, durable, and CPU seconds from then on; see `Measured`."""

    seconds: float
    start_s: float
    peak_memory: int
    phases: Mapping[str, float]
    cpu_s: float


def main() -> None:
    """Read up to the end."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    given, answer = map(Path, sys.argv[1:])
    answer.write_text(json.dumps(asdict(_read(Settings(**json.loads(given.read_text()))))))


def _read(settings: Settings) -> Answer:
    engine = open_engine(settings.url)
    own = connect(settings.url).cdc.get_source()
    ours = Manifest.open(open_store(own.log_store)).state
    definition = replace(own, slot=settings.slot)
    store = open_store(settings.store)
    manifest = Manifest(store)
    manifest.append(Opened(epoch=0, position=ours.position, source=ours.source, reason=None))
    token = manifest.take_lease("log", "benchmark")
    manifest.append(_known_members(token, ours))
    target = Position.of(0, parse_log_position(settings.end))
    watch = Stopwatch()
    with (
        watch.around(*_PHASES),
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        LogReader(
            PostgresSource.open(LogAccess(settings.url, connection, definition, manifest, token)),
            store,
            manifest,
            token,
        ) as log_reader,
    ):
        start_s, start_cpu_s = watch.now(), time.process_time()
        while manifest.state.position < target:
            log_reader.step()
        seconds, cpu_s = watch.now(), time.process_time() - start_cpu_s
    return Answer(seconds, start_s, peak_memory(), dict(watch.seconds), cpu_s)


def _known_members(token: int, state: ManifestState) -> RangeAppended:
    """Return the entry by which a store that begins in the middle of a log knows the members."""
    begin = CommitLsn(state.position.value)
    events = tuple(Enabled(begin, member) for member in state.members)
    end = Position(state.position.value + 1)
    return RangeAppended(token, state.position, end, segments=(), events=events, transactions=0)


if __name__ == "__main__":
    main()
