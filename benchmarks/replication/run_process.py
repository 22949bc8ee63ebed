"""`rowtide replication run` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import environment
from benchmarks.cpu import cpu_seconds
from benchmarks.replication.publisher import Publisher

_STOP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class RunProcess:
    """The agents' process, whose child reads the log."""

    pid: int

    def reader_cpu_s(self) -> float:
        """Return the CPU time that the log reader has had."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        return sum(cpu_seconds(int(child)) for found in children for child in found.read_text().split())


@contextmanager
def run_replication(publisher: Publisher) -> Iterator[RunProcess]:
    """Run it until the context ends."""
    command = [sys.executable, "-m", "rowtide", "replication", "run", "--db", publisher.url]
    with (publisher.source.folder / "replication-run").open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment())
    try:
        yield RunProcess(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_STOP_TIMEOUT_S)
