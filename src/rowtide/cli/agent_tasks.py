"""What `rowtide agent run` does for the databases of the configuration file, as tasks of a supervisor. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from rowtide.agents.supervisor import Task, Tasks
from rowtide.cdc.scans.pace import CaptureOptions
from rowtide.configuration.settings import AgentJob, Configuration, DatabaseSettings
from rowtide.core.values import frozen
from rowtide.databases.access import Access
from rowtide.databases.passwords import EnvironmentPassword, PasswordSource
from rowtide.events.configuration import LogOptions
from rowtide.events.event import Level
from rowtide.lake.spark.settings import SparkRequest
from rowtide.systemd.notifying import MANAGERS_VARIABLES

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
    """Of messages: `--quiet`, `-v`."""
    is_debugging: bool = False
    upgrades: bool = False
    """Whether each process first migrates what an earlier version stored."""


@frozen
class AgentWork:
    """What one process does. It has no secret: passwords are read where they are kept, for each connection."""

    url: str
    jobs: tuple[AgentJob, ...]
    accesses: tuple[Access, ...]
    options: RunOptions


def make_tasks(
    read: Configuration, names: Collection[str], options: RunOptions, environment: Mapping[str, str]
) -> Tasks:
    """Return a task for each process of some databases of a file, by the names under which they are reported."""
    return {
        f"{name} {added}".rstrip(): Task(
            AgentWork(str(settings.url), jobs, _accesses(read, settings), options),
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


def _accesses(read: Configuration, own: DatabaseSettings) -> tuple[Access, ...]:
    """Return how this database is accessed, and others that may be its subscribers, if that needs no variable."""
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
