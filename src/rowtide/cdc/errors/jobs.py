"""Errors of jobs and scans."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Invalid, NotFound, RowtideError


class JobTypeUnknown(Invalid, number=22992):
    """There are two jobs (SQL Server: 22992)."""

    fact = '"{job_type}" is not a job'
    hint = "Name capture or cleanup."
    job_type: str


class JobMissing(NotFound, number=22997):
    """The database has no such job (SQL Server: 22997)."""

    fact = "database {database} has no {job_type} job"
    hint = "`rowtide cdc add-job {job_type}` adds it; enabling the first table adds both."
    job_type: str
    database: str


class JobExists(AlreadyExists, number=4171):
    """A database has one job of each type."""

    fact = "database {database} has a {job_type} job already"
    hint = "`rowtide cdc change-job {job_type} NAME=VALUE` changes it."
    job_type: str
    database: str


class ParameterUnknown(Invalid, number=4172):
    """Not a parameter of any job."""

    fact = '"{text}" does not set a parameter of a job'
    hint = "Write NAME=VALUE, where NAME is one of {names}."
    text: str
    names: str


class ParameterNotInteger(Invalid, number=4173):
    """Parameters of jobs are integers, except the schedule."""

    fact = '"{value}" is not a value of {name}'
    hint = "Write an integer."
    name: str
    value: str


class ScheduleInvalid(Invalid, number=4174):
    """The text is not a schedule in cron's form."""

    fact = '"{schedule}" is not a schedule: {reason}'
    hint = 'Write minute, hour, day, month and weekday as cron does, weekdays by name: "0 2 * * *", "30 1 * * sun".'
    schedule: str
    reason: str


class ThresholdInvalid(Invalid, number=22850):
    """The threshold is not positive (SQL Server: 22850)."""

    fact = "threshold cannot be {value}"
    hint = "Give a number greater than 0."
    value: int


class MaxscansInvalid(Invalid, number=22970):
    """The number of scans is not positive (SQL Server: 22970)."""

    fact = "maxscans cannot be {value}"
    hint = "Give a number of scans greater than 0."
    value: int


class PollingIntervalInvalid(Invalid, number=22990):
    """The interval is negative or a day and more (SQL Server: 22990)."""

    fact = "pollinginterval cannot be {value}"
    hint = "Give seconds from 0 to 86399."
    value: int


class MaxtransInvalid(Invalid, number=22991):
    """The number of transactions is not positive (SQL Server: 22991)."""

    fact = "maxtrans cannot be {value}"
    hint = "Give a number of transactions greater than 0."
    value: int


class RetentionInvalid(Invalid, number=22994):
    """The retention is not positive, or longer than a hundred years (SQL Server: 22994)."""

    fact = "retention cannot be {value}"
    hint = "Give minutes from 1 to 52594800."
    value: int


class ParameterOfCleanup(Invalid, number=22995):
    """The capture job has no such parameter (SQL Server: 22995)."""

    fact = "the capture job has no {parameter}"
    hint = "It is a parameter of the cleanup job: omit it."
    parameter: str


class ParameterOfCapture(Invalid, number=22996):
    """The cleanup job has no such parameter (SQL Server: 22996)."""

    fact = "the cleanup job has no {parameter}"
    hint = "It is a parameter of the capture job: omit it."
    parameter: str


class ContinuousInvalid(Invalid, number=22998):
    """A job is continuous or not (SQL Server: 22998)."""

    fact = "continuous cannot be {value}"
    hint = "Give 1, or 0 for a job that ends after one round of scans."
    value: str


class PollingNotContinuous(Invalid, number=22999):
    """A job that scans once has no polling interval (SQL Server: 22999)."""

    fact = "a job that is not continuous has no pollinginterval of {value} s"
    hint = "Omit it, or set continuous=1."
    value: int


class ScanRunning(RowtideError, number=22903):
    """Two processes cannot read one log (SQL Server: 22903)."""

    fact = "another scan is running: {holder}"
    hint = "Wait for it, or, if an agent runs it, end it with `rowtide cdc stop-job capture`."
    holder: str


class AgentNotRunning(RowtideError, number=22022):
    """No agent runs that could start or stop a job (SQL Server: 22022)."""

    fact = "no agent runs the jobs of database {database}"
    hint = "Start `rowtide agent run`: the capture job begins with it."
    database: str


class JobRunning(RowtideError, number=22022):
    """A job has at most one run at a time (SQL Server: 22022)."""

    fact = "the {job_type} job is running already, since {since}"
    hint = "`rowtide cdc stop-job {job_type}` ends it."
    job_type: str
    since: str


class JobNotRunning(RowtideError, number=22022):
    """A job that does not run cannot be stopped (SQL Server: 22022)."""

    fact = "the {job_type} job is not running"
    hint = "`rowtide cdc job-history {job_type}` says when and how it ended."
    job_type: str
