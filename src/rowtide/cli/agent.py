"""`rowtide agent`: the jobs of a database, or of all databases of the configuration file as tasks of a supervisor."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import click

from rowtide.agents.hangs import HangWatch, noting_events
from rowtide.agents.signals import has_terminal
from rowtide.agents.supervisor import Supervisor, Task, Tasks
from rowtide.cdc.scans.pace import CaptureOptions
from rowtide.cli.active_configuration import configuration, label_of, load
from rowtide.cli.exit_codes import ExitCode
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import ClusterOptions, HideKeys, Upgrade, upgrade_first
from rowtide.cli.output.metrics import MetricsOptions, measuring, publishing
from rowtide.cli.output.rows import notes
from rowtide.cli.output.watching import watching
from rowtide.configuration.settings import DEFAULT_JOBS, AgentJob, Configuration, DatabaseSettings
from rowtide.core.exports import naming_extras
from rowtide.core.options import Option
from rowtide.core.redaction import are_hidden
from rowtide.core.values import frozen
from rowtide.databases.passwords import DatabaseAccess, EnvironmentPassword, PasswordSource
from rowtide.events.catalogue import ProcessFailed, ProcessReported
from rowtide.events.configuration import LogOptions
from rowtide.events.event import Level, emit
from rowtide.handle import connect
from rowtide.lake.session import requesting
from rowtide.lake.spark_settings import SparkRequest
from rowtide.systemd import MANAGERS_VARIABLES, ServiceManager

TOGETHER: Mapping[AgentJob, str] = {
    AgentJob.CAPTURE: "",
    AgentJob.CLEANUP: "",
    AgentJob.TARGETS: "",
    AgentJob.SUBSCRIPTIONS: "subscriptions",
    AgentJob.MERGE: "merge",
}
"""The jobs that share a process, by what is added to its name.

Delivery and merge need no Spark, and must not end with its JVM.
"""


@frozen
class RunOptions:
    """The options of `rowtide agent run`."""

    capture: CaptureOptions
    spark: SparkRequest
    log: LogOptions
    hides_keys: bool = False
    level: Level = Level.INFO
    """Level of messages: `--quiet`, `-v`."""
    is_debugging: bool = False
    measures: bool = False
    """Whether each process reports metrics."""
    upgrades: bool = False
    """Whether each process first migrates the stores of an earlier version."""


@frozen
class AgentWork:
    """The work of one process. It contains no secrets: passwords are read from their sources, for each connection."""

    url: str
    jobs: tuple[AgentJob, ...]
    accesses: tuple[DatabaseAccess, ...]
    options: RunOptions
    database: str = ""
    """The database's name in the file."""


def make_tasks(
    read: Configuration, names: Collection[str], options: RunOptions, environment: Mapping[str, str]
) -> Tasks:
    """Return a task for each process of some databases of a file, by the names under which they are reported."""
    return {
        f"{name} {added}".rstrip(): Task(
            AgentWork(str(settings.url), jobs, _accesses(read, settings), options, name),
            _environment(read, settings, environment),
        )
        for name, settings in read.databases.items()
        if name in names
        for added, jobs in group_jobs(settings.run).items()
    }


def group_jobs(run: Collection[AgentJob]) -> Mapping[str, tuple[AgentJob, ...]]:
    """Return the jobs of each process, by what is added to its name."""
    added = dict.fromkeys(TOGETHER[job] for job in run)
    return {one: tuple(job for job in run if TOGETHER[job] == one) for one in added}


def _accesses(read: Configuration, own: DatabaseSettings) -> tuple[DatabaseAccess, ...]:
    """Return the accesses of this database, and of possible subscribers whose accesses need no environment variable."""
    return tuple(
        one.access for one in read.databases.values() if one is own or not isinstance(one.password, EnvironmentPassword)
    )


def _environment(read: Configuration, own: DatabaseSettings, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment without the secrets that are not this database's."""
    secrets = {name for source in _sources(read) for name in _variables(source)}
    left_out = (secrets | {"ROWTIDE_DB", *MANAGERS_VARIABLES}) - {*_variables(own.password)}
    return {name: value for name, value in environment.items() if name not in left_out}


def _sources(read: Configuration) -> Iterator[PasswordSource | None]:
    yield read.monitor.auth
    yield from (settings.password for settings in read.databases.values())


def _variables(source: PasswordSource | None) -> Iterator[str]:
    if isinstance(source, EnvironmentPassword):
        yield source.name


app = CommandTable()

_CHILD = "rowtide.cli.agent_child"

OneDatabase = Annotated[
    str | None,
    Option(
        "--db",
        envvar="ROWTIDE_DB",
        help="The source database: postgresql://user@host/name, or its name in the configuration file; default: all "
        "databases of the file.",
        show_default=False,
        is_database=True,
        from_file=False,
    ),
]


@app.command(epilog="Example: rowtide agent run --db postgresql://localhost/shop")
def run(
    db: OneDatabase = None,
    *,
    capture: CaptureOptions,
    spark: ClusterOptions,
    upgrade: Upgrade = False,
    _hide_keys: HideKeys = False,
    log: LogOptions,
    metrics: MetricsOptions,
) -> None:
    """Run the jobs of a database, or of all databases of the configuration file, until Ctrl-C (SQL Server Agent).

    The capture job starts with it. The cleanup job runs on its schedule, by default daily at 2:00 by this computer's
    clock; a missed run is made up. `rowtide cdc start-job` and `stop-job` take effect within a second or two.

    For databases of the file, `run` says which jobs: also the delivery of subscriptions, and merge. Each database has
    processes of its own, which are started again when they end; SIGHUP reads the file again, where there is no
    terminal. Subscriptions of other databases are delivered by `rowtide replication run`.
    """
    options = RunOptions(capture, spark.request, log, are_hidden(), notes.level, notes.is_debugging, upgrades=upgrade)
    read = configuration()
    names = [name for name, settings in read.databases.items() if db in (None, str(settings.url))]
    if db is None and not names:
        raise click.UsageError("Missing option '--db', and no configuration file has databases.")
    if db is not None:
        run_list = read.databases[names[0]].run if names else DEFAULT_JOBS
        if list(group_jobs(run_list)) == [""]:
            with measuring(metrics, label_of(db), "agent"):
                run_database_jobs(AgentWork(db, run_list, (), options))
            return
    _supervise(read, names if db is not None else None, replace(options, measures=metrics.is_asked), metrics)


def _supervise(read: Configuration, names: Sequence[str] | None, options: RunOptions, metrics: MetricsOptions) -> None:
    """Run databases of a file in processes; without names, those that the file has."""

    def tasks_of(read: Configuration) -> Tasks:
        return make_tasks(read, read.databases if names is None else names, options, os.environ)

    def reload() -> Tasks:
        return tasks_of(load(str(read.path), read.origin))

    manager = ServiceManager.from_environment(os.environ, os.getpid())
    supervisor = Supervisor(
        _CHILD,
        (ExitCode.USAGE, ExitCode.NEEDS_PERSON),
        lambda report: emit(ProcessReported(report)),
        lambda report: emit(ProcessFailed(report)),
        manager.beat,
        manager.pause_s,
    )
    with (
        _publishing_all(supervisor, metrics),
        watching("Starting the databases' processes ...", options.log, "", "supervisor", manager=manager),
    ):
        supervisor.run(tasks_of(read), None if has_terminal() else reload)


@contextmanager
def _publishing_all(supervisor: Supervisor, metrics: MetricsOptions) -> Iterator[None]:
    """Publish the combined counters of the processes of a supervisor."""
    if not metrics.is_asked:
        yield
        return
    with naming_extras():
        from rowtide.monitor.agent_figures import AgentFigures, merge_figures
    reported: dict[str, AgentFigures] = {}

    def take(name: str, report: object) -> None:
        if isinstance(report, AgentFigures):
            reported[name] = report

    supervisor.on_report = take
    with publishing(metrics, lambda: merge_figures([*reported.values()])):
        yield


def run_database_jobs(work: AgentWork) -> None:
    """Run capture, cleanup and targets of a database until it is stopped."""
    beginning, log, at_hangup = "Starting the log reader ...", work.options.log, has_terminal()
    manager = ServiceManager.from_environment(os.environ, os.getpid())
    hangs = HangWatch()
    with (
        requesting(work.options.spark),
        noting_events(),
        watching(beginning, log, work.url, "agent", at_hangup=at_hangup, manager=manager) as stop,
    ):
        if work.options.upgrades:
            upgrade_first(work.url)
        connect(work.url).run_agent(
            options=work.options.capture,
            stop=stop,
            on_step=lambda: _beat(manager, hangs),
            jobs=work.jobs,
            is_standby=manager.is_there,
        )


def _beat(manager: ServiceManager, hangs: HangWatch) -> None:
    """Notify the service manager's watchdog while every worker is alive."""
    if hangs.find_hang() is None:
        manager.beat()


def deliver_subscriptions(work: AgentWork) -> None:
    """Deliver the subscriptions of a publisher until it is stopped."""
    with watching("Starting the log reader ...", work.options.log, work.url, "replication") as stop:
        if work.options.upgrades:
            upgrade_first(work.url, None)
        connect(work.url).replication.run(stop=stop)


def synchronise_subscribers(work: AgentWork) -> None:
    """Synchronise the subscribers of a hub repeatedly until it is stopped."""
    with watching("Synchronising ...", work.options.log, work.url, "merge") as stop:
        if work.options.upgrades:
            upgrade_first(work.url, None)
        connect(work.url).merge.run(stop=stop)
