"""The log reader alone, as a process: small batches and frequent heartbeats, so that little happens a lot."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from builders.capture.captured_databases import LoggedDatabase

READ = """
import sys, threading
from rowtide.log.opening import open_log_reader
from rowtide.agents.loop import run_agent
from rowtide.log import reader
reader.MAX_BATCH_MESSAGES = 1000
reader._HEARTBEAT_INTERVAL_S = 0.5
has_run = sys.argv[2] == "True"
run_agent(lambda: open_log_reader(sys.argv[1]), stop=threading.Event(), idle_s=0, has_run=has_run)
"""


@contextmanager
def log_reader(logged: LoggedDatabase, *, has_run: bool = False, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the log reader as a process, with batches of at most a thousand messages and settings for failpoints.

    What it logs, its retries, is in its `stderr`.
    """
    environment = {**os.environ, **settings}
    command = [sys.executable, "-c", READ, logged.url, str(has_run)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def is_streaming(logged: LoggedDatabase) -> bool:
    return bool(logged.execute("select 1 from pg_stat_replication where state = 'streaming'"))
