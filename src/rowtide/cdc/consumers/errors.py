"""Errors of named consumers."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class ConsumerUnknown(RowtideError):
    """There is no consumer of this name."""

    number = 4131
    fact = "there is no consumer {consumer}"
    hint = "`rowtide cdc consumers` lists them, `rowtide cdc add-consumer` makes one."
    consumer: str


@numbered
class ConsumerExists(RowtideError):
    """There is a consumer of this name already."""

    number = 4132
    fact = "consumer {consumer} exists already"
    hint = "`rowtide cdc change-consumer {consumer}` changes its instances and its limit; what it acknowledged stays."
    consumer: str


@numbered
class ConsumerInvalid(RowtideError):
    """A consumer without a name, without instances, or without patience."""

    number = 4133
    fact = "consumer {consumer} cannot be so: {reason}"
    hint = "Give it a name, at least one capture instance, and a limit of at least one hour."
    consumer: str
    reason: str


@numbered
class ConsumerPassed(RowtideError):
    """Changes that a consumer has not acknowledged are gone."""

    number = 4134
    fact = "consumer {consumer} has acknowledged up to LSN {acknowledged}, but {instance} begins at {low} now: {reason}"
    hint = (
        "Load the table anew as of LSN {before} or later, then `rowtide cdc acknowledge {consumer} {before}` "
        "(or what it was loaded as of) goes on from there."
    )
    consumer: str
    acknowledged: str
    instance: str
    low: str
    before: str
    reason: str


@numbered
class ConsumedInstanceEnded(RowtideError):
    """An instance of a consumer was disabled; one that was enabled under its name since is another."""

    number = 4135
    fact = "capture instance {instance} of consumer {consumer} was disabled, and its changes are gone"
    hint = "Name the instances that it goes on with: `rowtide cdc change-consumer {consumer} --instances ...`."
    consumer: str
    instance: str


@numbered
class AcknowledgementRefused(RowtideError):
    """An acknowledgement that is behind the last one, or ahead of what is published."""

    number = 4136
    fact = "consumer {consumer} cannot acknowledge LSN {lsn}: {reason}"
    hint = "Acknowledge what was read, up to the last published LSN; `rowtide cdc consumers` shows the last one."
    consumer: str
    lsn: str
    reason: str


@numbered
class ConsumerContended(RowtideError):
    """Two processes consume under one name; this one's acknowledgement came second."""

    number = 4137
    fact = "consumer {consumer} acknowledged up to LSN {acknowledged} elsewhere while this window was open"
    hint = "What this window held was read twice. Give each process a consumer of its own."
    consumer: str
    acknowledged: str


@numbered
class AcknowledgementDenied(RowtideError):
    """Neither the owner nor a member of the consumer's role."""

    number = 4138
    fact = "role {role} may not acknowledge for consumer {consumer}"
    hint = "{mend}."
    role: str
    consumer: str
    mend: str


@numbered
class ConsumersBehind(RowtideError):
    """A low-water mark that would take changes from consumers that have not acknowledged them."""

    number = 4139
    fact = "low-water mark {mark} would pass what was not acknowledged yet: {consumers}"
    hint = "Use a mark up to there, acknowledge for them with `rowtide cdc acknowledge`, or drop them."
    mark: str
    consumers: str
