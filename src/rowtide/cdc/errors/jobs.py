"""Errors of jobs and scans, of consumers and their receivers."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError


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
    hint = "Give 1, or 0 for a job that ends after one poll."
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


class ConsumerUnknown(NotFound, number=4131):
    """There is no consumer of this name."""

    fact = "there is no consumer {consumer}"
    hint = """`rowtide cdc consumers` lists them, `rowtide cdc add-consumer {consumer} --instances INSTANCES` creates
        one."""
    consumer: str


class ConsumerExists(AlreadyExists, number=4132):
    """There is a consumer of this name already."""

    fact = "consumer {consumer} exists already"
    hint = "`rowtide cdc change-consumer {consumer} --instances INSTANCES` changes it; what it acknowledged stays."
    consumer: str


class ConsumerOwned(Denied, number=4144):
    """A consumer belongs to a target, and ends with it."""

    fact = "consumer {consumer} belongs to a target"
    hint = "Run `rowtide cdc drop-target TARGET`; `rowtide cdc targets` lists them."
    consumer: str


class ConsumerInvalid(Invalid, number=4133):
    """A consumer without a name, without instances, or with a limit below one hour."""

    fact = "consumer {consumer} is invalid: {reason}"
    hint = "Give it a name, at least one capture instance, and a limit of at least one hour."
    consumer: str
    reason: str


class ConsumerPassed(DataLoss, number=4134):
    """Changes that a consumer has not acknowledged were removed."""

    fact = "consumer {consumer} has acknowledged up to LSN {acknowledged}, but {instance} begins at {low} now: {reason}"
    hint = """Reload the table as of LSN {before} or later, then `rowtide cdc acknowledge {consumer} {before}` (or the
        LSN of that load) continues from there."""
    consumer: str
    acknowledged: str
    instance: str
    low: str
    before: str
    reason: str


class ConsumedInstanceEnded(DataLoss, number=4135):
    """An instance of a consumer was disabled; one enabled under its name since is a different instance."""

    fact = "capture instance {instance} of consumer {consumer} was disabled, and its changes were removed"
    hint = "Name the instances with which it continues: `rowtide cdc change-consumer {consumer} --instances INSTANCES`."
    consumer: str
    instance: str


class AcknowledgementRefused(Invalid, number=4136):
    """An acknowledgement before the last one, or after the last published LSN."""

    fact = "consumer {consumer} cannot acknowledge LSN {lsn}: {reason}"
    hint = "Acknowledge what was read, up to the last published LSN; `rowtide cdc consumers` shows the last one."
    consumer: str
    lsn: str
    reason: str


class ConsumerContended(RowtideError, number=4137):
    """Two processes consume under one name; this one's acknowledgement came second."""

    fact = "consumer {consumer} acknowledged up to LSN {acknowledged} elsewhere while this window was open"
    hint = "The changes of this window were read twice. Give each process its own consumer."
    consumer: str
    acknowledged: str


class AcknowledgementDenied(Denied, number=4138):
    """The role is neither the owner nor a member of the consumer's role."""

    fact = "role {role} may not acknowledge for consumer {consumer}"
    hint = "{mend}."
    role: str
    consumer: str
    mend: str


class NotOfConsumer(Invalid, number=4151):
    """A follower names instances that its consumer does not read: a consumer has one position for all its instances."""

    fact = "consumer {consumer} reads {instances}, not {asked}"
    hint = """Omit the instances, or name all of them; `rowtide cdc change-consumer {consumer} --instances
        INSTANCES` changes them."""
    consumer: str
    instances: str
    asked: str


class EventsRefused(RowtideError, number=4152):
    """A receiver refuses events, and would refuse them again."""

    fact = "{receiver} answered {status} to the events from {event_id} on"
    hint = """Nothing from that event on is acknowledged. Mend the receiver, its address or the headers, and run it
        again."""
    receiver: str
    status: str
    event_id: str


class ReceiverFails(Retryable, number=4153):
    """A receiver cannot be reached, or asks for another try; events are sent again."""

    fact = "{receiver} does not accept events: {reason}"
    hint = "They are sent again until it accepts them."
    receiver: str
    reason: str


class ReceiverUntrusted(Denied, number=4154):
    """A receiver's certificate is not valid."""

    fact = "the certificate of {receiver} is not valid: {reason}"
    hint = "Name the certificates to be trusted in SSL_CERT_FILE, or replace the receiver's certificate."
    receiver: str
    reason: str


class EventsNotWritten(RowtideError, number=4155):
    """A folder for files of events cannot be written to."""

    fact = "files of events cannot be written to {folder}: {reason}"
    hint = "Name an existing folder, with free space, that this user may write to."
    folder: str
    reason: str


class ConsumersBehind(Denied, number=4139):
    """A low-water mark that would remove changes that consumers have not acknowledged."""

    fact = "low-water mark {mark} would pass what was not acknowledged yet: {consumers}"
    hint = "Use a mark up to there, acknowledge for them with `rowtide cdc acknowledge CONSUMER LSN`, or drop them."
    mark: str
    consumers: str
