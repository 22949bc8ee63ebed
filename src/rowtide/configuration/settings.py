"""The sections of the configuration file are dataclasses, whose fields are its keys.

The parser, `rowtide config show` and docs/reference/configuration.md are made from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

from rowtide.core.addresses import as_address
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.databases.passwords import DatabaseAccess, PasswordSource
from rowtide.databases.urls import DatabaseUrl
from rowtide.events.configuration import LogFormat
from rowtide.events.event import Level

OptionValue: TypeAlias = str | int | float | bool | tuple[str, ...]
"""The value of an option of a command."""


class MonitorValues(StrEnum):
    """Viewers to whom the monitor shows values of rows."""

    HIDDEN = "hidden"
    OPERATORS = "operators"


class AgentJob(StrEnum):
    """What `rowtide agent run` does for a database."""

    CAPTURE = "capture"
    CLEANUP = "cleanup"
    TARGETS = "targets"
    SUBSCRIPTIONS = "subscriptions"
    MERGE = "merge"


def as_destination(text: str) -> str:
    """Return where a log goes (`ValueError`)."""
    if text not in ("stderr", "journal") and not Path(text).is_absolute():
        raise ValueError("write stderr, journal, or a path from the root")
    return text


def as_place(text: str) -> str:
    """Return a folder that does not depend on the current one, or a URL (`ValueError`)."""
    if "://" not in text and not Path(text).is_absolute():
        raise ValueError("write a path from the root, or a URL")
    return text


def as_days(number: int) -> int:
    """Return a number of whole days (`ValueError`)."""
    if not 1 <= number <= _MOST_DAYS:
        raise ValueError(f"write a number from 1 to {_MOST_DAYS}")
    return number


_MOST_DAYS = 36_500


@frozen(kw_only=True)
class LogSettings:
    """Where and how events are written: defaults of the options `--log-…` of commands that run on."""

    format: Annotated[LogFormat | None, Option(help="How events are written: json is one object a line.")] = None
    level: Annotated[Level | None, Option(help="The least important events that are written.")] = None
    destination: Annotated[
        str | None, Option(metavar="stderr|journal|PATH", help="Where events are written.", check=as_destination)
    ] = None


@frozen(kw_only=True)
class MonitorSettings:
    """Settings of `rowtide monitor serve`."""

    listen: Annotated[
        str,
        Option(
            metavar="HOST:PORT", help="Where it listens; a host that others reach is their way in.", check=as_address
        ),
    ] = "127.0.0.1:8080"
    auth: Annotated[PasswordSource | None, Option(help="The token that clients must send, and where it is kept.")] = (
        None
    )
    values: Annotated[
        MonitorValues,
        Option(help="Who sees values of rows: nobody, or operators (`--show-values`), through `operator_url`."),
    ] = MonitorValues.HIDDEN


DEFAULT_JOBS = (AgentJob.CAPTURE, AgentJob.CLEANUP, AgentJob.TARGETS)


@frozen(kw_only=True)
class DatabaseSettings:
    """A database, which `--db NAME` names."""

    url: Annotated[DatabaseUrl, Option(metavar="URL", help="Its URL, without a password.")]
    password: Annotated[PasswordSource | None, Option(help="Where its password is kept.")] = None
    replication_url: Annotated[
        DatabaseUrl | None,
        Option(metavar="URL", help="Where its log is read, if `url` goes to a connection pooler."),
    ] = None
    run: Annotated[tuple[AgentJob, ...], Option(help="What `rowtide agent run` does for it.")] = DEFAULT_JOBS
    lake: Annotated[
        str | None,
        Option(
            metavar="PATH|URL",
            help="The `--lake` of `cdc enable-db` and `replication add-publication`.",
            check=as_place,
        ),
    ] = None
    operator_url: Annotated[
        DatabaseUrl | None,
        Option(
            metavar="URL",
            help="Through which operators act in the monitor, and see values of rows: of a role with these rights, "
            "which the role of `url` need not have.",
        ),
    ] = None
    operator_password: Annotated[
        PasswordSource | None, Option(help="Where the password of `operator_url` is kept.")
    ] = None

    audit_days: Annotated[
        int,
        Option(
            metavar="DAYS",
            help="How long entries of the audit are kept: each action deletes older ones.",
            check=as_days,
        ),
    ] = 365

    @property
    def accesses(self) -> Sequence[DatabaseAccess]:
        """The accesses of the database, including that of operators."""
        if self.operator_url is None or self.operator_url == self.url:
            return (self.access,)
        return self.access, DatabaseAccess(self.operator_url, self.operator_password)

    @property
    def access(self) -> DatabaseAccess:
        """The access of the database."""
        return DatabaseAccess(self.url, self.password, self.replication_url)


@frozen(kw_only=True)
class Configuration:
    """The contents of a configuration file."""

    path: str | None = None
    """None: there is no file."""
    origin: str = ""
    """The origin of the file: `--config`, `ROWTIDE_CONFIG`, or a default location."""
    log: LogSettings = LogSettings()
    monitor: MonitorSettings = MonitorSettings()
    defaults: Mapping[str, OptionValue]
    """Values of options, by the names that they have on the command line, without dashes before."""
    gateway: Mapping[str, OptionValue] = field(default_factory=dict)
    """Values of options of `gateway serve`, which precede those of `defaults` there."""
    databases: Mapping[str, DatabaseSettings]
    lines: Mapping[tuple[str, ...], int]
    """The lines of keys and section headers."""


NO_CONFIGURATION = Configuration(defaults={}, databases={}, lines={})
