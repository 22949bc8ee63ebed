"""The rows of `cdc.cdc_jobs`: when they come and go, and who changes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import Ended, rowtide
from rowtide.agents.loop import RunOutcome
from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.cdc.errors.enabling import NotOwner
from rowtide.cdc.errors.jobs import JobExists, JobMissing
from rowtide.cdc.jobs.definitions import KEPT_RUNS, JobType, record_end, record_lost, record_start
from rowtide.databases.postgres.connect import open_engine
from rowtide.handle import connect
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.lease import describe_holder


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with the captured table `item`, and a table `other` that is not captured."""
    logged.execute("create table item (id int)", "create table other (id int)")
    logged.enable("item")
    return logged


def cdc(logged: LoggedDatabase, *arguments: str) -> Ended:
    return rowtide("cdc", *arguments, "--db", logged.url)


def listed(logged: LoggedDatabase) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cdc(logged, "jobs", "--format", "jsonl").output.splitlines()]


def job_ids(logged: LoggedDatabase) -> set[str]:
    return {job.job_id for job in logged.cdc.list_jobs()}


def test_jobs_come_with_the_first_table_and_go_with_the_last(enabled: LoggedDatabase) -> None:
    first = job_ids(enabled)
    assert len(first) == 2
    enabled.enable("other")
    enabled.cdc.disable_table("item")
    assert job_ids(enabled) == first
    enabled.cdc.disable_table("other")
    assert enabled.cdc.list_jobs() == ()


def test_a_database_without_tables_has_no_jobs(logged: LoggedDatabase) -> None:
    logged.cdc.enable_db(str(logged.lake))
    assert listed(logged) == []


def test_the_command_lists_them_with_sql_server_s_columns(enabled: LoggedDatabase) -> None:
    capture, cleanup = listed(enabled)
    ((database,),) = enabled.execute("select current_database()")
    assert list(capture)[:9] == [
        *("job_id", "job_type", "job_name"),
        *("maxtrans", "maxscans", "continuous", "pollinginterval", "retention", "threshold"),
    ]
    assert (capture["job_name"], cleanup["job_name"]) == (f"cdc.{database}_capture", f"cdc.{database}_cleanup")
    assert (capture["maxtrans"], capture["continuous"], capture["retention"]) == (None, True, None)
    assert (cleanup["retention"], cleanup["schedule"], cleanup["last_outcome"]) == (4320, "0 2 * * *", None)


def test_the_capture_job_shows_who_reads_the_log(enabled: LoggedDatabase) -> None:
    with open_log_reader(enabled.url):
        capture, cleanup = enabled.cdc.list_jobs()
    assert describe_holder() in (capture.log_reader or "")
    assert cleanup.log_reader is None
    assert enabled.cdc.list_jobs()[0].log_reader is None


def test_a_job_is_changed_and_what_is_not_named_stays(enabled: LoggedDatabase) -> None:
    assert cdc(enabled, "change-job", "capture", "maxtrans=50", "pollinginterval=3").code == 0
    assert cdc(enabled, "change-job", "capture", "maxscans=2").code == 0
    capture, _ = listed(enabled)
    assert (capture["maxtrans"], capture["maxscans"], capture["pollinginterval"]) == (50, 2, 3)
    cdc(enabled, "change-job", "capture", "retention=1").require_error(22995)
    cdc(enabled, "change-job", "backup", "retention=1").require_error(22992)


def test_cleanup_by_hand_keeps_what_the_job_keeps(enabled: LoggedDatabase) -> None:
    enabled.cdc.change_job("cleanup", retention=10)
    assert enabled.cdc.read_retention() == timedelta(minutes=10)
    enabled.cdc.drop_job("cleanup")
    assert enabled.cdc.read_retention() == timedelta(days=3)


def test_a_second_table_leaves_changed_jobs_as_they_are(enabled: LoggedDatabase) -> None:
    enabled.cdc.change_job("cleanup", retention=10)
    enabled.enable("other")
    assert enabled.cdc.list_jobs()[1].retention == 10


def test_dropped_job_is_added_again_with_sql_server_defaults(enabled: LoggedDatabase) -> None:
    with pytest.raises(JobExists):
        enabled.cdc.add_job("capture")
    assert cdc(enabled, "drop-job", "capture").code == 0
    cdc(enabled, "change-job", "capture", "maxtrans=1").require_error(22997)
    with pytest.raises(JobMissing):
        enabled.cdc.drop_job("capture")
    assert cdc(enabled, "add-job", "capture", "maxscans=4", "--sql-server-defaults").code == 0
    capture = enabled.cdc.list_jobs()[0]
    assert (capture.maxtrans, capture.maxscans, capture.pollinginterval) == (500, 4, 5)


def test_enable_db_makes_dropped_tables_of_jobs_again(enabled: LoggedDatabase) -> None:
    enabled.execute("drop table cdc.cdc_jobs", "drop table cdc.job_history")
    for use in (enabled.cdc.list_jobs, lambda: enabled.cdc.enable_table("other")):
        with pytest.raises(DefinitionsIncomplete, match="cdc_jobs, job_history"):
            use()
    enabled.enable()
    assert len(enabled.cdc.list_jobs()) == 2


def test_the_last_hundred_runs_of_each_job_are_kept(enabled: LoggedDatabase) -> None:
    with open_engine(enabled.url).begin() as connection:
        record_start(connection, JobType.CLEANUP, "an agent")
        for _ in range(KEPT_RUNS + 2):
            last = record_start(connection, JobType.CAPTURE, "an agent")
    runs = enabled.cdc.list_job_history("capture")
    assert (len(runs), runs[0].run_id) == (KEPT_RUNS, last)
    assert len(enabled.cdc.list_job_history()) == KEPT_RUNS + 1


def test_the_command_lists_the_runs_the_newest_first(enabled: LoggedDatabase) -> None:
    with open_engine(enabled.url).begin() as connection:
        first = record_start(connection, JobType.CAPTURE, "an agent")
        record_end(connection, first, RunOutcome.FAILED, 3, "RT-1101: down")
        record_start(connection, JobType.CAPTURE, "the next agent")
        record_lost(connection)
    lines = cdc(enabled, "job-history", "capture", "--format", "jsonl").output.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(run["outcome"], run["retries"], run["agent"]) for run in found] == [
        ("lost", 0, "the next agent"),
        ("failed", 3, "an agent"),
    ]
    assert listed(enabled)[0]["last_outcome"] == "lost"


def test_jobs_are_the_owner_s(make_role: Callable[[str], str], enabled: LoggedDatabase) -> None:
    clerk = make_role("login").replace(" ", "%20")
    cdc = connect(enabled.url.replace("postgres@", f"{clerk}@")).cdc
    with pytest.raises(NotOwner):
        cdc.change_job("cleanup", retention=1)


def test_the_statements_of_the_first_table_have_its_jobs(logged: LoggedDatabase) -> None:
    logged.cdc.enable_db(str(logged.lake))
    logged.execute("create table item (id int)")
    assert cdc(logged, "enable-table", "item", "--dry-run").output.lower().count("insert into cdc.cdc_jobs") == 2
    assert listed(logged) == []
