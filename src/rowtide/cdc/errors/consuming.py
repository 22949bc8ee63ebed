"""Errors of consumers and their receivers."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Denied, Invalid, NotFound, Retryable, RowtideError


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
