"""Programs in processes of their own, to be killed there: forked from a process that has imported what they use."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys

KILLED = -signal.SIGKILL
FORKS = multiprocessing.get_context("forkserver")
_IMPORTED = [
    "sqlite3",
    "psycopg",
    "sqlalchemy.dialects.postgresql",
    "rowtide.merge.api",
    "rowtide.tracking",
    "rowtide.gateway.http_server",
]
FORKS.set_forkserver_preload(_IMPORTED)


def run_program(program: str, *arguments: str, failpoint: str) -> int:
    """Run a program as `python -c` would, and kill it at a failpoint; return 0, or `KILLED` if it came there."""
    process = FORKS.Process(target=_run, args=(program, arguments, failpoint))
    process.start()
    process.join()
    assert process.exitcode in (0, KILLED)
    return process.exitcode


def _run(program: str, arguments: tuple[str, ...], failpoint: str) -> None:
    sys.argv = ["-c", *arguments]
    os.environ["ROWTIDE_FAILPOINT"] = failpoint
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
