"""Errors of jobs and scans."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Invalid, NotFound, RowtideError, numbered


@numbered
class JobTypeUnknown(Invalid):
    """There are two jobs (SQL Server: 22992)."""

    number = 22992
    fact = '"{job_type}" is not a job'
    hint = "Name capture or cleanup."
    job_type: str


@numbered
class JobMissing(NotFound):
    """The database has no such job (SQL Server: 22997)."""

    number = 22997
    fact = "database {database} has no {job_type} job"
    hint = "`rowtide cdc add-job {job_type}` adds it; enabling the first table adds both."
    job_type: str
    database: str


@numbered
class JobExists(AlreadyExists):
    """A database has one job of each type."""

    number = 4171
    fact = "database {database} has a {job_type} job already"
    hint = "`rowtide cdc change-job {job_type} NAME=VALUE` changes it."
    job_type: str
    database: str


@numbered
class ParameterUnknown(Invalid):
    """Not a parameter of any job."""

    number = 4172
    fact = '"{text}" does not set a parameter of a job'
    hint = "Write NAME=VALUE, where NAME is one of {names}."
    text: str
    names: str


@numbered
class ParameterNotInteger(Invalid):
    """Parameters of jobs are integers, except the schedule."""

    number = 4173
    fact = '"{value}" is not a value of {name}'
    hint = "Write an integer."
    name: str
    value: str


@numbered
class ScheduleInvalid(Invalid):
    """The text is not a schedule in cron's form."""

    number = 4174
    fact = '"{schedule}" is not a schedule: {reason}'
    hint = 'Write minute, hour, day, month and weekday as cron does, weekdays by name: "0 2 * * *", "30 1 * * sun".'
    schedule: str
    reason: str


@numbered
class ThresholdInvalid(Invalid):
    """The threshold is not positive (SQL Server: 22850)."""

    number = 22850
    fact = "threshold cannot be {value}"
    hint = "Give a number greater than 0."
    value: int


@numbered
class MaxscansInvalid(Invalid):
    """The number of scans is not positive (SQL Server: 22970)."""

    number = 22970
    fact = "maxscans cannot be {value}"
    hint = "Give a number of scans greater than 0."
    value: int


@numbered
class PollingIntervalInvalid(Invalid):
    """The interval is negative or a day and more (SQL Server: 22990)."""

    number = 22990
    fact = "pollinginterval cannot be {value}"
    hint = "Give seconds from 0 to 86399."
    value: int


@numbered
class MaxtransInvalid(Invalid):
    """The number of transactions is not positive (SQL Server: 22991)."""

    number = 22991
    fact = "maxtrans cannot be {value}"
    hint = "Give a number of transactions greater than 0."
    value: int


@numbered
class RetentionInvalid(Invalid):
    """The retention is not positive, or longer than a hundred years (SQL Server: 22994)."""

    number = 22994
    fact = "retention cannot be {value}"
    hint = "Give minutes from 1 to 52594800."
    value: int


@numbered
class ParameterOfCleanup(Invalid):
    """The capture job has no such parameter (SQL Server: 22995)."""

    number = 22995
    fact = "the capture job has no {parameter}"
    hint = "It is a parameter of the cleanup job: omit it."
    parameter: str


@numbered
class ParameterOfCapture(Invalid):
    """The cleanup job has no such parameter (SQL Server: 22996)."""

    number = 22996
    fact = "the cleanup job has no {parameter}"
    hint = "It is a parameter of the capture job: omit it."
    parameter: str


@numbered
class ContinuousInvalid(Invalid):
    """A job is continuous or not (SQL Server: 22998)."""

    number = 22998
    fact = "continuous cannot be {value}"
    hint = "Give 1, or 0 for a job that ends after one round of scans."
    value: str


@numbered
class PollingNotContinuous(Invalid):
    """A job that scans once has no polling interval (SQL Server: 22999)."""

    number = 22999
    fact = "a job that is not continuous has no pollinginterval of {value} s"
    hint = "Leave it out, or set continuous=1."
    value: int


@numbered
class ScanRunning(RowtideError):
    """Two processes cannot read one log (SQL Server: 22903)."""

    number = 22903
    fact = "another scan is running: {holder}"
    hint = "Wait for it, or, if an agent runs it, end it with `rowtide cdc stop-job capture`."
    holder: str


@numbered
class AgentNotRunning(RowtideError):
    """No agent runs that could start or stop a job (SQL Server: 22022)."""

    number = 22022
    fact = "no agent runs the jobs of database {database}"
    hint = "Start `rowtide agent run`: the capture job begins with it."
    database: str


@numbered
class JobRunning(RowtideError):
    """A job has at most one run at a time (SQL Server: 22022)."""

    number = 22022
    fact = "the {job_type} job is running already, since {since}"
    hint = "`rowtide cdc stop-job {job_type}` ends it."
    job_type: str
    since: str


@numbered
class JobNotRunning(RowtideError):
    """A job that does not run cannot be stopped (SQL Server: 22022)."""

    number = 22022
    fact = "the {job_type} job is not running"
    hint = "`rowtide cdc job-history {job_type}` says when and how it ended."
    job_type: str
