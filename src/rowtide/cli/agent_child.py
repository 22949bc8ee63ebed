"""A process of `rowtide agent run` for one database: `python -m rowtide.cli.agent_child`; see `agents.supervisor`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from typing import cast

from click.exceptions import Exit

from rowtide.agents.hangs import HangWatch, noting_events
from rowtide.agents.supervisor import receive_task
from rowtide.cli.agent import AgentWork, deliver_subscriptions, run_database_jobs, synchronise_subscribers
from rowtide.cli.exit_codes import FAILED
from rowtide.cli.main import begin_logging, end_at_signals, run_reporting, start_process, telling
from rowtide.cli.output.metrics import sending
from rowtide.cli.output.rows import notes
from rowtide.configuration.settings import AgentJob
from rowtide.core.redaction import hiding
from rowtide.databases.passwords import register_accesses

_STOP_PATIENCE_S = 25.0
_LOOK_S = 10.0
_AGENT = ("agent", "run")


def run_child() -> int:
    """Run the task that the supervisor sends, and return the exit code."""
    name, received, supervisor = receive_task()
    work = cast("AgentWork", received)
    notes.share(f"{name}: ")
    begin_logging(is_debugging=work.options.is_debugging)
    register_accesses(work.accesses)
    threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    threading.Thread(target=_end_if_hanging, daemon=True).start()
    options = work.options
    with noting_events(), telling(options.level, is_debugging=options.is_debugging), hiding(wanted=options.hides_keys):
        return run_reporting(lambda: _run(work, supervisor), _AGENT, _say, is_debugging=options.is_debugging)


def _say(text: str) -> None:
    notes.print(text, soft_wrap=True, is_error=True)


def _run(work: AgentWork, supervisor: Connection) -> None:
    run, job = _WORK.get(work.jobs[0], (run_database_jobs, "agent"))
    with sending(supervisor.send, work.database, job) if work.options.measures else nullcontext():
        try:
            run(work)
        except Exit as ended:
            # Of an error that the log has had already.
            raise SystemExit(ended.exit_code) from ended


_WORK: Mapping[AgentJob, tuple[Callable[[AgentWork], None], str]] = {
    AgentJob.SUBSCRIPTIONS: (deliver_subscriptions, "replication"),
    AgentJob.MERGE: (synchronise_subscribers, "merge"),
}


def _end_if_hanging() -> None:
    """End this process at once when a worker hangs: the supervisor restarts this process alone."""
    watch = HangWatch()
    while watch.find_hang() is None:
        time.sleep(_LOOK_S)
    os._exit(FAILED)


def _end_with(supervisor: Connection) -> None:
    """End this process when the supervisor has ended, even if killed: first as at SIGTERM, then at once."""
    with suppress(EOFError, OSError):
        supervisor.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_PATIENCE_S)
    os._exit(1)


if __name__ == "__main__":
    end_at_signals()
    start_process(run_child)
