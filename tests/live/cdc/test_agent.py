"""The agent: jobs run, stop and start without loss; what fails is recorded and ends no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.agents import idle_agent, running_agent
from builders.capture.capture_processes import AGENT, CaptureProcess
from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide
from builders.threads import in_thread
from rowtide.agents.loop import RunOutcome
from rowtide.cdc.cleanup import cleanup as cleanup_module
from rowtide.cdc.errors.capturing import CleanupImplausible
from rowtide.cdc.errors.jobs import AgentNotRunning, JobMissing, JobNotRunning
from rowtide.cdc.jobs.definitions import JobType, record_end, record_start
from rowtide.cdc.running import job_agent, job_agent as agent_module
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.diagnosis import capture as diagnosis
from rowtide.handle import connect
from rowtide.log.errors import LeaseHeld
from rowtide.log.postgres.lease import AdvisoryLease


@contextmanager
def load(written: LoggedDatabase) -> Iterator[None]:
    """Insert rows with growing ids, a transaction each, as fast as that goes."""

    def write(is_over: threading.Event) -> None:
        with psycopg.connect(written.url, autocommit=True) as session:
            while not is_over.wait(0.01):
                session.execute("insert into item default values")

    with in_thread(write):
        yield


def await_insert(loaded: LoggedDatabase) -> int:
    """Return the id of a row that the load has inserted since the call: a second writer's would commit out of turn."""

    def read_last() -> int:
        return int(loaded.execute("select coalesce(max(id), 0) from item")[0][0])

    before = read_last()
    wait_until(lambda: read_last() > before, what="a row more")
    return read_last()


def enable(captured: LoggedDatabase) -> None:
    captured.execute("create table item (id int generated always as identity primary key)")
    captured.enable("item")


def require_all_rows_once(captured: CapturedDatabase) -> None:
    """Compare the change table with the table, which has seen inserts only, by one writer at a time."""
    written = [row[0] for row in captured.execute("select id from item order by id")]
    assert written
    assert [row["id"] for row in captured.changes("public_item")] == written


@pytest.fixture
def quick_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleanup without its grace for readers, and without a vacuum, which takes seconds for each table."""
    monkeypatch.setattr(cleanup_module, "READER_GRACE_S", 0.0)
    monkeypatch.setattr(cleanup_module, "vacuum", lambda _spark, _path: None)


@pytest.mark.usefixtures("quick_cleanup")
@pytest.mark.exhaustive
def test_jobs_restarted_under_load_lose_nothing_and_catch_up(
    captured: CapturedDatabase,
) -> None:
    enable(captured)
    captured.execute("update cdc.cdc_jobs set created_at = created_at - interval '2 days'")
    cdc = captured.cdc
    with load(captured), running_agent(captured) as agent:
        assert "rows removed from" in (agent.wait_outcome("cleanup", RunOutcome.SUCCEEDED).message or "")
        agent.wait_published()
        cdc.stop_job("capture")
        assert agent.last_run("capture").outcome is RunOutcome.STOPPED  # type: ignore[union-attr]
        with pytest.raises(JobNotRunning):
            cdc.stop_job("capture")
        await_insert(captured)
        assert rowtide("cdc", "start-job", "capture", "--db", captured.url).code == 0
        agent.wait_outcome("capture", RunOutcome.RUNNING)
        agent.wait_published()
        cdc.change_job("capture", continuous=False)
        cdc.stop_job("capture")
        last = await_insert(captured)
        cdc.start_job("capture")
        agent.wait_outcome("capture", RunOutcome.SUCCEEDED)
        assert last in [row["id"] for row in captured.changes("public_item")]
    captured.capture()
    require_all_rows_once(captured)
    assert len(cdc.list_job_history("cleanup")) == 1
    assert [run.outcome for run in cdc.list_job_history("capture")] == ["succeeded", "stopped", "stopped"]


@pytest.mark.exhaustive
def test_capture_runs_without_jobs_and_survives_a_failing_job(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise CleanupImplausible("then", "now", "before")

    monkeypatch.setattr(job_agent, "clean_up", fail)
    captured.enable()
    with running_agent(captured) as agent:
        agent.wait_outcome("capture", RunOutcome.RUNNING)
        enable(captured)
        captured.cdc.start_job("cleanup")
        failed = agent.wait_outcome("cleanup", RunOutcome.FAILED)
        assert (failed.message or "").startswith("RT-4125: ")
        captured.execute("insert into item default values")
        agent.wait_published()
        require_all_rows_once(captured)
        captured.cdc.drop_job("capture")
        agent.wait_outcome("capture", RunOutcome.STOPPED)
        captured.cdc.add_job("capture")
        agent.wait_outcome("capture", RunOutcome.RUNNING)


@pytest.mark.soak
def test_agent_killed_under_load_loses_and_duplicates_nothing(captured: CapturedDatabase, tmp_path: Path) -> None:
    enable(captured)
    with load(captured):
        with CaptureProcess(captured.url, tmp_path, AGENT) as process:
            process.wait_published(captured)
            process.arm("change_table_append.after")
            process.wait_killed()
        with CaptureProcess(captured.url, tmp_path, AGENT) as process:
            process.wait_published(captured)
            assert process.interrupt() == 0, process.messages()
    captured.capture()
    require_all_rows_once(captured)
    assert [run.outcome for run in captured.cdc.list_job_history("capture")] == ["stopped", "lost"]


@pytest.mark.soak
def test_server_restart_is_waited_out_and_its_errors_recorded(
    captured: CapturedDatabase, server: EmbeddedServer
) -> None:
    enable(captured)
    with running_agent(captured) as agent:
        agent.wait_published()
        server.restart("fast")
        with psycopg.connect(captured.url, autocommit=True) as session:
            session.execute("insert into item default values")
        agent.wait_published()
        wait_until(lambda: agent.last_run("capture").retries > 0, what="retries are recorded")  # type: ignore[union-attr]
        assert agent.wait_outcome("capture", RunOutcome.RUNNING)
    assert [row["id"] for row in captured.changes("public_item")] == [1]
    assert 1101 in {error.error_number for error in captured.cdc.list_scan_errors()}


@pytest.mark.parametrize("outcome", [RunOutcome.STOPPED, RunOutcome.FAILED])
def test_capture_that_an_agent_ended_is_to_be_started(
    logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch, outcome: RunOutcome
) -> None:
    """`cdc run` would take the lake from the agent; a job that was dropped is started by nothing."""
    monkeypatch.setattr(diagnosis, "LATE_S", 0.0)
    enable(logged)
    logged.execute("insert into item default values")
    logged.read_log()
    with open_engine(logged.url).begin() as connection:
        record_end(connection, record_start(connection, JobType.CAPTURE, "an agent"), outcome, 0, "")

    def ends(remedy: str) -> bool:
        (said,) = (str(one.remediation) for one in connect(logged.url).health() if one.subject == "capture")
        return said.removesuffix("`.").endswith(remedy)

    assert ends("rowtide cdc run")
    with idle_agent(logged):
        assert ends("rowtide cdc start-job capture")
        logged.cdc.drop_job("capture")
        assert ends("rowtide cdc run")


def test_without_an_agent_no_job_is_started_or_stopped(logged: LoggedDatabase) -> None:
    enable(logged)
    with pytest.raises(AgentNotRunning):
        logged.cdc.start_job("capture")
    rowtide("cdc", "stop-job", "capture", "--db", logged.url).require_error(22022)


def test_missing_or_stopped_job_cannot_be_started_or_stopped(logged: LoggedDatabase) -> None:
    enable(logged)
    with idle_agent(logged):
        logged.cdc.start_job("capture")
        with pytest.raises(JobNotRunning):
            logged.cdc.stop_job("capture")
        logged.cdc.drop_job("cleanup")
        with pytest.raises(JobMissing):
            logged.cdc.start_job("cleanup")


def test_a_database_has_one_agent(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_module, "_LEASE_PATIENCE_S", 0.0)
    enable(logged)
    with AdvisoryLease.take(open_engine(logged.url, application_name="the first"), "agent"):
        rowtide("agent", "run", "--db", logged.url).require_error(LeaseHeld.number, code=69)
