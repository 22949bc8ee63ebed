"""`rowtide cdc`: status, listings of instances, jobs and their last scans, cleanup, and the consumers it waits for."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from rowtide.actions.wording import say_started, say_stopped
from rowtide.cdc.requests import CleanupOrder, ConsumerChange, ConsumerName, NewConsumer
from rowtide.cli.groups import CommandTable, report_done
from rowtide.cli.health import print_unhealthy
from rowtide.cli.options import Db, InstanceName, Listed, ListingFormat, listing
from rowtide.cli.output.rows import OutputFormat, notes, print_facts, print_rows
from rowtide.cli.output.tables import show_fact
from rowtide.core.lsn import CommitLsn
from rowtide.core.names import parse_column_list
from rowtide.core.options import MOST_MINUTES, Argument, Option, values_of
from rowtide.handle import connect

app = CommandTable()


@listing(
    app,
    epilog="Example: rowtide cdc instances --format csv --db postgresql://localhost/shop",
    columns="capture_instance as instance, source_schema as schema, source_table as table, "
    "supports_net_changes as net_changes, role_name as role, create_date as created",
)
def instances(
    db: Db,
    source_schema: Annotated[str | None, Option(help="Only of a table, with --source-name.")] = None,
    source_name: Annotated[str | None, Option(help="Only of a table, with --source-schema.")] = None,
) -> Listed:
    """List the capture instances (SQL Server: sp_cdc_help_change_data_capture).

    Only those that the role may read, from the catalogue. start_lsn is stored in the lake; `rowtide cdc lsn min` prints
    it.
    """
    from rowtide.cdc.introspection import ListedInstance

    return ListedInstance, connect(db).cdc.list_instances(source_schema, source_name)


@listing(
    app,
    epilog="Example: rowtide cdc columns public_orders --db postgresql://localhost/shop",
    columns="column_ordinal as ordinal, column_name as column, data_type as type, "
    "character_maximum_length as length, numeric_precision as precision, numeric_scale as scale",
)
def columns(db: Db, instance: InstanceName) -> Listed:
    """List an instance's captured columns, by ordinal (SQL Server: sp_cdc_get_captured_columns)."""
    from rowtide.cdc.introspection import ListedColumn

    return ListedColumn, connect(db).cdc.get_captured_columns(instance)


@app.command(epilog="Example: rowtide cdc generate-wrapper public_orders --db postgresql://localhost/shop")
def generate_wrapper(
    db: Db,
    instance: Annotated[str | None, Argument(metavar="INSTANCE", help="default: every one")] = None,
    column_list: Annotated[
        str | None, Option(help='Columns to return, separated by commas, in "" or [] where needed; default: all.')
    ] = None,
    update_flag_list: Annotated[
        str | None, Option(help="Columns with a flag, <name>_uflag: whether an update changed it.")
    ] = None,
    form: Annotated[
        OutputFormat | None, Option("--format", help="As rows (function_name, create_script); default: scripts alone.")
    ] = None,
    *,
    closed: Annotated[
        bool,
        Option("--closed-high-end-point/--open-high-end-point", help="Whether the end time belongs to the window."),
    ] = True,
) -> None:
    """Print scripts of Spark SQL functions for queries by time (SQL Server: sp_cdc_generate_wrapper_function).

    fn_all_changes_INSTANCE and fn_net_changes_INSTANCE (start_time, end_time, row_filter_option): the start is
    exclusive; a null means the end of the validity interval. They call the functions that `rowtide.register` registers.
    """
    wrappers = connect(db).cdc.generate_wrapper(
        instance,
        closed_high_end_point=closed,
        column_list=parse_column_list(column_list) if column_list is not None else None,
        update_flag_list=parse_column_list(update_flag_list) if update_flag_list is not None else None,
    )
    if form is not None:
        rows = [(wrapper.function_name, wrapper.create_script) for wrapper in wrappers]
        print_rows(("function_name", "create_script"), rows, form)
        return
    sys.stdout.write("\n".join(f"{wrapper.create_script.rstrip()};\n" for wrapper in wrappers))


@app.command(epilog="Example: rowtide cdc status --format jsonl --db postgresql://localhost/shop")
def status(db: Db, form: ListingFormat = OutputFormat.TABLE) -> None:
    """Print the progress of reading and capture, and what the server retains for them: a line per fact, or one object.

    Problems are printed on stderr with their remedies, as by `rowtide health`.
    """
    # Not by the handle: it imports what reads the lake's changes.
    from rowtide.cdc.status import read_status
    from rowtide.databases.postgres.connect import open_engine
    from rowtide.databases.postgres.repeated_reading import reading_once
    from rowtide.databases.urls import parse_url
    from rowtide.diagnosis import Area, read_health

    with reading_once():
        print_facts(read_status(open_engine(db), parse_url(db).name), form)
        print_unhealthy(read_health(db, [Area.LOG, Area.CAPTURE]))


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
    report_done(say_started(job))


@app.command(epilog="Example: rowtide cdc stop-job capture --db postgresql://localhost/shop")
def stop_job(db: Db, job: JobName) -> None:
    """Stop a job (SQL Server: sp_cdc_stop_job) after its current cycle or table.

    It runs again when it is started, when the agent next starts, or on its schedule.
    """
    with notes.status(f"Stopping the {job} job ..."):
        connect(db).cdc.stop_job(job)
    report_done(say_stopped(job))


def _given(pairs: list[str] | None) -> dict[str, Any]:
    from rowtide.cdc.jobs.definitions import JobParameters, parse_parameters

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
    from rowtide.cdc.scans.metrics import ScanSession

    return ScanSession, connect(db).cdc.list_scan_sessions()


@listing(
    app,
    epilog="Example: rowtide cdc errors --db postgresql://localhost/shop",
    columns="session_id as session, entry_time, error_number as number, error_message as error",
)
def errors(db: Db) -> Listed:
    """List the errors of the last 32 scans, newest first (SQL Server: sys.dm_cdc_errors)."""
    from rowtide.cdc.scans.metrics import ScanError

    return ScanError, connect(db).cdc.list_scan_errors()


@listing(
    app,
    epilog="Example: rowtide cdc consumers --format jsonl --db postgresql://localhost/shop",
    columns="consumer, instances, acknowledged_lsn as acknowledged, lag_seconds as lag_s, hours_left, "
    "is_at_risk as at_risk",
)
def consumers(db: Db) -> Listed:
    """List the named consumers: what they acknowledged, their lag, and how long cleanup waits for them."""
    from rowtide.cdc.consumers.consumers import ListedConsumer

    return ListedConsumer, connect(db).cdc.list_consumers()


@app.command(
    epilog="Example: rowtide cdc add-consumer warehouse --instances public_orders,public_items "
    "--db postgresql://localhost/shop"
)
def add_consumer(db: Db, consumer: NewConsumer) -> None:
    """Add a named consumer; its first window begins at the low endpoints."""
    connect(db).cdc.add_consumer(consumer)
    notes.print(f"Added: consumer {consumer.name}.")


@app.command(epilog="Example: rowtide cdc change-consumer warehouse --limit-hours 72 --db postgresql://localhost/shop")
def change_consumer(db: Db, change: ConsumerChange) -> None:
    """Change a consumer's instances or its limit; its acknowledged LSN stays."""
    connect(db).cdc.change_consumer(change)
    notes.print(f"Changed: consumer {change.name}.")


@app.command(epilog="Example: rowtide cdc drop-consumer warehouse --db postgresql://localhost/shop")
def drop_consumer(db: Db, name: ConsumerName) -> None:
    """Drop a consumer: cleanup no longer waits for it."""
    connect(db).cdc.drop_consumer(name)
    notes.print(f"Dropped: consumer {name}.")


@app.command(epilog="Example: rowtide cdc acknowledge warehouse 0/16B3748 --db postgresql://localhost/shop")
def acknowledge(db: Db, name: ConsumerName, lsn: Annotated[str, Argument(help="the last LSN it has")]) -> None:
    """Acknowledge for a consumer: its next window begins after this LSN."""
    connect(db).cdc.acknowledge(name, CommitLsn.parse(lsn))
    notes.print(f"Acknowledged: consumer {name} has everything up to LSN {CommitLsn.parse(lsn)}.")


@app.command(epilog="Example: rowtide cdc cleanup --retention 10080 --db postgresql://localhost/shop")
def cleanup(
    db: Db,
    order: CleanupOrder,
    retention: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_MINUTES,
            help="Minutes before the last captured commit that stay; default: the cleanup job's.",
        ),
    ] = None,
    form: ListingFormat = OutputFormat.TABLE,
) -> None:
    """Remove old change rows, after raising low endpoints (SQL Server: cleanup job, sp_cdc_cleanup_change_table).

    A running `cdc run` does it between its cycles; if none runs, this process does. Without a mark, for an INSTANCE, it
    only removes the rows below its low endpoint that an earlier cleanup could not remove.
    """
    cdc = connect(db).cdc
    kept = timedelta(minutes=retention) if retention is not None else cdc.read_retention()
    order = replace(order, retention=kept)
    with notes.status("Cleaning up ...") as progress:
        cleaned = cdc.cleanup(order, on_progress=progress.update, on_note=notes.print)
    rows = [(found.name, str(found.low) if found.low is not None else None, found.removed_rows) for found in cleaned]
    print_rows(("table", "low_endpoint", "removed_rows"), rows, form, show=show_fact)
