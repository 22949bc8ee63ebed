"""The agent of a database in a thread of this process, with the Spark that is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase, wait_until
from builders.threads import in_thread
from rowtide.agents.loop import RunOutcome
from rowtide.cdc.jobs.definitions import HistoricRun
from rowtide.cdc.jobs.requests import AGENT, take_requests
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.log.postgres.lease import AdvisoryLease


@dataclass
class RunningAgent:
    """An agent that runs; `errors` has what it ended with."""

    captured: CapturedDatabase
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[BaseException] = field(default_factory=list)

    def run(self) -> None:
        """Run until `stop` is set."""
        try:
            connect(self.captured.url).run_agent(spark=self.captured.spark, stop=self.stop)
        except BaseException as error:  # noqa: BLE001 - looked at in the test's own thread
            self.errors.append(error)

    def last_run(self, job_type: str) -> HistoricRun | None:
        return next(iter(self.captured.cdc.list_job_history(job_type)), None)

    def wait_outcome(self, job_type: str, outcome: RunOutcome) -> HistoricRun:
        """Wait until the last run of a job stands so; return it."""
        found: list[HistoricRun] = []

        def is_so() -> bool:
            assert not self.errors
            last = self.last_run(job_type)
            found[:] = [last] if last is not None and last.outcome is outcome else []
            return bool(found)

        wait_until(is_so, what=f"{job_type} {outcome}")
        return found[0]

    def wait_published(self) -> None:
        """Wait until all that is committed now is published."""
        target, manifest = self.captured.mark(), self.captured.manifest()
        wait_until(lambda: manifest.refresh().readers["cdc"].position.log > target, what=f"published up to {target:X}")


@contextmanager
def running_agent(captured: CapturedDatabase) -> Iterator[RunningAgent]:
    """Run an agent meanwhile; raise what it ended with."""
    agent = RunningAgent(captured)
    thread = threading.Thread(target=agent.run)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop.set()
        thread.join(60)
    assert not agent.errors, agent.errors
    assert not thread.is_alive()


@contextmanager
def idle_agent(logged: LoggedDatabase) -> Iterator[None]:
    """Stand in for an agent that runs no jobs: it takes requests, and that is all."""

    def take(is_over: threading.Event) -> None:
        with AdvisoryLease.take(open_engine(logged.url), AGENT) as lease:
            held.set()
            while not is_over.wait(0.05):
                take_requests(lease.connection)

    held = threading.Event()
    with in_thread(take):
        assert held.wait(10)
        yield
