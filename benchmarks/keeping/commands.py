"""Whole commands of rowtide, as a user types them."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.children import environment
from benchmarks.source import Source


class CommandFailed(Exception):
    """A command of rowtide failed."""


def time_command(source: Source, *arguments: str) -> float:
    """Run `rowtide ARGUMENTS --db URL`; return its seconds of wall time. Raises `CommandFailed`."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "rowtide", *arguments, "--db", source.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if ended.returncode:
        raise CommandFailed(f"{' '.join(arguments)}: {ended.stderr[-2000:]}")
    return time.perf_counter() - begin
