"""A process of `rowtide agent run` for one database: `python -m rowtide.cli.agent_child`; see `agents.supervisor`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import cast

from rowtide.agents.supervisor import receive_task
from rowtide.cli.agent import AgentWork, deliver_subscriptions, run_jobs, synchronise_subscribers
from rowtide.cli.main import begin_logging, end_at_signals, run_reporting, start_process
from rowtide.cli.output.rows import notes
from rowtide.configuration.settings import AgentJob
from rowtide.core.redaction import hiding
from rowtide.databases.passwords import register_accesses

_STOP_PATIENCE_S = 25.0
_AGENT = ("agent", "run")


def run_child() -> int:
    """Do the work that the supervisor sends, and return the exit code."""
    name, received, supervisor = receive_task()
    work = cast("AgentWork", received)
    notes.share(f"{name}: ")
    begin_logging(is_debugging=work.options.is_debugging)
    register_accesses(work.accesses)
    threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    with hiding(wanted=work.options.hides_keys):
        return run_reporting(lambda: _run(work), _AGENT, _say, is_debugging=work.options.is_debugging)


def _say(text: str) -> None:
    notes.print(text, soft_wrap=True)


def _run(work: AgentWork) -> None:
    run: Callable[[AgentWork], None] = {
        AgentJob.SUBSCRIPTIONS: deliver_subscriptions,
        AgentJob.MERGE: synchronise_subscribers,
    }.get(work.jobs[0], run_jobs)
    run(work)


def _end_with(supervisor: Connection) -> None:
    """End this process when the supervisor has ended, also if that was killed: as at SIGTERM, and then at once."""
    with suppress(EOFError, OSError):
        supervisor.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_PATIENCE_S)
    os._exit(1)


if __name__ == "__main__":
    end_at_signals()
    start_process(run_child)
