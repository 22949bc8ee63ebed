"""A running `rowtide cdc run`, as a user starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.children import environment
from benchmarks.cpu import tree_cpu_seconds
from benchmarks.source import Source
from rowtide.cdc.published import system_table_path
from rowtide.core.lsn import parse_log_position
from rowtide.delta.replay import LOG
from rowtide.lake.stores import open_folder

CAPTURE, AGENT = ("cdc", "run"), ("agent", "run")
_PATIENCE_S = 600
_STOP_TIMEOUT_S = 60
_POLL_S = 0.05


class CaptureSilent(Exception):
    """`rowtide cdc run` ended, or does not come to the point that is waited for."""


@dataclass(frozen=True, slots=True)
class RunningCapture:
    """The process, and what it captures."""

    source: Source
    process: subprocess.Popen[bytes]
    messages: Path

    def await_published(self, end: str) -> None:
        """Return when everything before the log position is published. Raises `CaptureSilent`."""
        target, deadline = parse_log_position(end), time.monotonic() + _PATIENCE_S
        published = open_folder(system_table_path(self.source.lake, "lsn_time_mapping"))
        while True:
            reader = self.source.read_log_store().readers.get("cdc")
            if reader is not None and reader.position.log >= target and published.list(LOG):
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise CaptureSilent(self.messages.read_text(errors="replace")[-2000:])
            time.sleep(_POLL_S)

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, of its log reader and its JVM too."""
        return tree_cpu_seconds(self.process.pid)


@contextmanager
def run_capture(
    source: Source, variables: Mapping[str, str] = MappingProxyType({}), command: Sequence[str] = CAPTURE
) -> Iterator[RunningCapture]:
    """Run it, with environment variables, until the context ends; it has published its first cycle before."""
    messages = source.folder / "-".join(command)
    with messages.open("wb") as output:
        own = {**environment(), **variables}
        given = [sys.executable, "-m", "rowtide", *command, "--db", source.url]
        process = subprocess.Popen(given, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=own)
    running = RunningCapture(source, process, messages)
    try:
        running.await_published(source.mark())
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_STOP_TIMEOUT_S)
