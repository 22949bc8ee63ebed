"""The two jobs of a database and their parameters: defaults, limits and the meaning of changes. Pure.

Rules of sp_cdc_add_job and sp_cdc_change_job (specification, part 1.5). Where SQL Server limits capture's pace by
default, rowtide sets no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, fields, replace
from enum import StrEnum
from typing import Annotated, Any

from rowtide.agents.schedule import Schedule
from rowtide.cdc.errors.jobs import (
    ContinuousInvalid,
    JobTypeUnknown,
    MaxscansInvalid,
    MaxtransInvalid,
    ParameterNotInteger,
    ParameterOfCapture,
    ParameterOfCleanup,
    ParameterUnknown,
    PollingIntervalInvalid,
    PollingNotContinuous,
    RetentionInvalid,
    ScheduleInvalid,
    ThresholdInvalid,
)
from rowtide.core.errors import RowtideError
from rowtide.core.options import Option, values_of
from rowtide.core.values import frozen

RETENTION_MINUTES = 4320
DAILY_AT_TWO = "0 2 * * *"
_DAY_S = 86_400
_LONGEST_RETENTION_MINUTES = 52_594_800


class JobType(StrEnum):
    """The jobs of a database."""

    CAPTURE = "capture"
    CLEANUP = "cleanup"

    @classmethod
    def parse(cls, text: str) -> JobType:
        """Read a job's name. Raises `JobTypeUnknown`."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            raise JobTypeUnknown(text) from None


@frozen(kw_only=True)
class JobParameters:
    """The parameters of a job. None: in a job, no limit (`threshold`: no counterpart); in a change, unchanged."""

    maxtrans: Annotated[int | None, Option(help="Transactions per scan.", sql_server="@maxtrans")] = None
    maxscans: Annotated[int | None, Option(help="Scans per poll.", sql_server="@maxscans")] = None
    continuous: Annotated[
        bool | None, Option(help="Whether it polls until it is stopped, or once.", sql_server="@continuous")
    ] = None
    pollinginterval: Annotated[
        int | None, Option(help="Seconds from a poll's end to the next.", sql_server="@pollinginterval")
    ] = None
    retention: Annotated[int | None, Option(help="Minutes that change rows are kept.", sql_server="@retention")] = None
    threshold: Annotated[int | None, Option(help="Accepted, without effect.", sql_server="@threshold")] = None
    schedule: Annotated[str | None, Option(help="When it runs, as in a crontab.")] = None


@frozen
class JobChange(JobParameters):
    """A job, `capture` or `cleanup`, and what is to change of it (SQL Server: sp_cdc_change_job)."""

    job_type: str

    @property
    def parameters(self) -> JobParameters:
        """The parameters that are given."""
        return JobParameters(**values_of(JobParameters, self))


@frozen
class NewJob(JobChange):
    """A job as it is added (SQL Server: sp_cdc_add_job); what is not given has rowtide's defaults."""

    sql_server_defaults: bool = field(default=False, kw_only=True)
    """Or SQL Server's: 500 transactions, 10 scans, 5 s; threshold 5000."""


_OF = {
    JobType.CAPTURE: ("maxtrans", "maxscans", "continuous", "pollinginterval"),
    JobType.CLEANUP: ("retention", "threshold", "schedule"),
}

DEFAULTS = {
    JobType.CAPTURE: JobParameters(continuous=True),
    JobType.CLEANUP: JobParameters(retention=RETENTION_MINUTES, schedule=DAILY_AT_TWO),
}

SQL_SERVER_DEFAULTS = {
    JobType.CAPTURE: JobParameters(maxtrans=500, maxscans=10, continuous=True, pollinginterval=5),
    JobType.CLEANUP: JobParameters(retention=RETENTION_MINUTES, threshold=5000, schedule=DAILY_AT_TWO),
}


def new_parameters(job_type: JobType, given: JobParameters, *, has_sql_server_defaults: bool = False) -> JobParameters:
    """Return the parameters of a new job: those given, and defaults for the others. Raises those of `errors`."""
    _require_valid(job_type, given)
    if given.continuous is False:
        if given.pollinginterval:
            raise PollingNotContinuous(given.pollinginterval)
        given = replace(given, pollinginterval=0)
    return _overlaid((SQL_SERVER_DEFAULTS if has_sql_server_defaults else DEFAULTS)[job_type], given)


def changed_parameters(job_type: JobType, present: JobParameters, change: JobParameters) -> JobParameters:
    """Return a job's parameters after a change. Raises those of `errors`.

    A job that is set to not continuous has polling interval 0, whatever was given; an interval without `continuous`
    makes it continuous.
    """
    _require_valid(job_type, change)
    if change.continuous is False:
        change = replace(change, pollinginterval=0)
    elif change.continuous is None and change.pollinginterval:
        change = replace(change, continuous=True)
    return _overlaid(present, change)


def parse_parameters(pairs: Iterable[str]) -> JobParameters:
    """Read parameters written NAME=VALUE. Raises `ParameterUnknown`, `ParameterNotInteger`, `ContinuousInvalid`."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, is_set, value = (part.strip() for part in pair.partition("="))
        if name not in _NAMES or not is_set:
            raise ParameterUnknown(pair, ", ".join(_NAMES))
        values[name] = _parse(name, value)
    return JobParameters(**values)


_NAMES = tuple(field.name for field in fields(JobParameters))


def _parse(name: str, value: str) -> int | bool | str:
    if name == "schedule":
        return value
    if name == "continuous":
        if value not in ("0", "1"):
            raise ContinuousInvalid(value)
        return value == "1"
    try:
        return int(value)
    except ValueError:
        raise ParameterNotInteger(name, value) from None


def _overlaid(below: JobParameters, above: JobParameters) -> JobParameters:
    given = {name: getattr(above, name) for name in _NAMES if getattr(above, name) is not None}
    return replace(below, **given)


def _require_valid(job_type: JobType, given: JobParameters) -> None:
    for name in _NAMES:
        value = getattr(given, name)
        if value is None:
            continue
        if name not in _OF[job_type]:
            raise (ParameterOfCleanup if job_type is JobType.CAPTURE else ParameterOfCapture)(name)
        if name in _LIMITS:
            low, high, error = _LIMITS[name]
            if not low <= value <= high:
                raise error(value)
    if given.schedule is not None:
        _require_schedule(given.schedule)


def _require_schedule(text: str) -> None:
    try:
        Schedule(text).verify()
    except ValueError as error:
        raise ScheduleInvalid(text, str(error)) from error


_LARGEST_INTEGER = 2**31 - 1

_LIMITS: dict[str, tuple[int, int, Callable[[int], RowtideError]]] = {
    "maxtrans": (1, _LARGEST_INTEGER, MaxtransInvalid),
    "maxscans": (1, _LARGEST_INTEGER, MaxscansInvalid),
    "pollinginterval": (0, _DAY_S - 1, PollingIntervalInvalid),
    "retention": (1, _LONGEST_RETENTION_MINUTES, RetentionInvalid),
    "threshold": (1, 2**63 - 1, ThresholdInvalid),
}
