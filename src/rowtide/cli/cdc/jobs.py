"""`rowtide cdc`: the capture and cleanup jobs, and the last scans with their errors."""

from __future__ import annotations

from typing import Annotated, Any

from rowtide.cli.groups import CommandTable
from rowtide.cli.listing import Listed, listing
from rowtide.cli.options import Db
from rowtide.cli.output.rows import notes
from rowtide.core.options import Argument, Option, values_of
from rowtide.handle import connect

app = CommandTable()


JobName = Annotated[str, Argument(metavar="JOB", help="capture or cleanup")]
Parameters = Annotated[
    list[str] | None,
    Argument(
        metavar="NAME=VALUE",
        help="maxtrans, maxscans, continuous, pollinginterval (s) of capture; "
        "retention (minutes), threshold, schedule of cleanup.",
    ),
]


@listing(
    app,
    epilog="Example: rowtide cdc jobs --db postgresql://localhost/shop",
    columns="job_type as job, schedule, retention, last_started_at, last_outcome as outcome",
)
def jobs(db: Db) -> Listed:
    """List the jobs with their parameters and their last run (SQL Server: sp_cdc_help_jobs)."""
    from rowtide.cdc.jobs.administration import ListedJob

    return ListedJob, connect(db).cdc.list_jobs()


@listing(
    app,
    epilog="Example: rowtide cdc job-history cleanup --db postgresql://localhost/shop",
    columns="run_id as run, job_type as job, started_at, ended_at, outcome, retries",
)
def job_history(
    db: Db, job: Annotated[str | None, Argument(metavar="JOB", help="capture or cleanup; default: both")] = None
) -> Listed:
    """List the runs of jobs, newest first (SQL Server: sp_help_jobhistory)."""
    from rowtide.cdc.jobs.definitions import HistoricRun

    return HistoricRun, connect(db).cdc.list_job_history(job)


@app.command(epilog="Example: rowtide cdc add-job capture maxtrans=10000 --db postgresql://localhost/shop")
def add_job(
    db: Db,
    job: JobName,
    parameters: Parameters = None,
    *,
    sql_server_defaults: Annotated[
        bool, Option("--sql-server-defaults", help="500 transactions, 10 scans, 5 s; threshold 5000.")
    ] = False,
) -> None:
    """Add a job (SQL Server: sp_cdc_add_job).

    Both jobs are added with the first enabled table, and dropped with the last. Omitted parameters mean no limit,
    except the retention of three days, and the schedule, daily at 2:00.
    """
    connect(db).cdc.add_job(job, sql_server_defaults=sql_server_defaults, **_given(parameters))
    notes.print(f"Added: the {job} job.")


@app.command(epilog="Example: rowtide cdc change-job cleanup retention=10080 --db postgresql://localhost/shop")
def change_job(db: Db, job: JobName, parameters: Parameters = None) -> None:
    """Change a job (SQL Server: sp_cdc_change_job). Takes effect when the job next starts.

    continuous=0 sets pollinginterval to 0; a pollinginterval alone makes the job continuous.
    """
    connect(db).cdc.change_job(job, **_given(parameters))
    notes.print("Changed, from the job's next start on.")


@app.command(epilog="Example: rowtide cdc drop-job cleanup --db postgresql://localhost/shop")
def drop_job(db: Db, job: JobName) -> None:
    """Drop a job (SQL Server: sp_cdc_drop_job); a running agent stops it."""
    connect(db).cdc.drop_job(job)
    notes.print(f"Dropped: the {job} job.")


@app.command(epilog="Example: rowtide cdc start-job capture --db postgresql://localhost/shop")
def start_job(db: Db, job: JobName) -> None:
    """Start a job (SQL Server: sp_cdc_start_job) in the running agent, `rowtide agent run`."""
    connect(db).cdc.start_job(job)
    notes.print(f"Started: the {job} job.")


@app.command(epilog="Example: rowtide cdc stop-job capture --db postgresql://localhost/shop")
def stop_job(db: Db, job: JobName) -> None:
    """Stop a job (SQL Server: sp_cdc_stop_job) after its current cycle or table.

    It runs again when it is started, when the agent next starts, or on its schedule.
    """
    with notes.status(f"Stopping the {job} job ..."):
        connect(db).cdc.stop_job(job)
    notes.print(f"Stopped: the {job} job.")


def _given(pairs: list[str] | None) -> dict[str, Any]:
    from rowtide.cdc.jobs.parameters import JobParameters, parse_parameters

    return values_of(JobParameters, parse_parameters(pairs or ()))


@listing(
    app,
    epilog="Example: rowtide cdc sessions --format csv --db postgresql://localhost/shop",
    columns="start_time, duration as seconds, tran_count as transactions, command_count as commands, "
    "latency as latency_s, error_count as errors",
)
def sessions(db: Db) -> Listed:
    """List the last 32 scans, newest first, after their total (SQL Server: sys.dm_cdc_log_scan_sessions).

    Capture writes them at most every ten seconds.
    """
    from rowtide.cdc.scans.sessions import ScanSession

    return ScanSession, connect(db).cdc.list_scan_sessions()


@listing(
    app,
    epilog="Example: rowtide cdc errors --db postgresql://localhost/shop",
    columns="session_id as session, entry_time, error_number as number, error_message as error",
)
def errors(db: Db) -> Listed:
    """List the errors of the last 32 scans, newest first (SQL Server: sys.dm_cdc_errors)."""
    from rowtide.cdc.scans.sessions import ScanError

    return ScanError, connect(db).cdc.list_scan_errors()
