"""The numbered errors of the Spark source: 4300 to 4319."""

from __future__ import annotations

from rowtide.core.errors import DataLoss, Invalid


class SourceOptionInvalid(Invalid, number=4300):
    """An option of the Spark source is unknown, missing, or has a value that it cannot have."""

    fact = "the option {option} of the Spark source {problem}"
    hint = "{advice}."
    option: str
    problem: str
    advice: str


class StreamOvertaken(DataLoss, number=4301):
    """Changes that a streaming query has not read were removed by a cleanup, or are lost in a gap."""

    fact = "the query resumes at LSN {at}, but {instance} begins at {low} now: {reason}"
    hint = """The changes between are gone. Load the table's rows as of LSN {before} or later, then start the query with
        another checkpointLocation and startingLsn={low}."""
    at: str
    instance: str
    low: str
    reason: str
    before: str


class StreamAhead(Invalid, number=4302):
    """A query's checkpoint is ahead of the lake: it is another lake's, or the lake was restored to an earlier state."""

    fact = "the query resumes after LSN {at}, but the lake {lake} ends at {high}"
    hint = """If the path is that of another lake, name the one of the checkpoint. If the lake was restored, load the
        tables' rows again, and start the query with another checkpointLocation."""
    at: str
    lake: str
    high: str


class StreamedInstanceReplaced(DataLoss, number=4303):
    """An instance of a streaming query was disabled; one enabled under its name since is a different instance."""

    fact = "{instance} is not the instance that the query has read up to LSN {at}: it was disabled and enabled again"
    hint = """Changes between are missing. Load the table's rows as of LSN {low} or later, then start the query with
        another checkpointLocation."""
    instance: str
    at: str
    low: str


class StreamColumnsChanged(Invalid, number=4304):
    """The columns of the changes are no longer those that the query was planned with."""

    fact = "the changes have other columns than the query: {difference}"
    hint = "Start the query again with the same checkpointLocation, and without .schema(): it uses the current columns."
    difference: str


class StreamOffsetUnknown(Invalid, number=4305):
    """A checkpoint has an offset that is not one of this source's."""

    fact = "the checkpoint has the offset {offset}, which is not one of rowtide's"
    hint = "Give each query a checkpointLocation of its own; it belongs to the query's sources."
    offset: str


class StreamedTransactionMissing(DataLoss, number=4306):
    """The next transaction of a streaming query is one whose changes are missing."""

    fact = "everything before LSN {missing} was read, whose changes {instance} lacks: {note}"
    hint = "To continue without them, start the query with another checkpointLocation and startingLsn={after}."
    missing: str
    instance: str
    note: str
    after: str


class StreamedInstanceNeeded(Invalid, number=4307):
    """An instance was omitted before the query was past the first LSN of the one that takes over its table."""

    fact = "{left} is omitted, which the query has read up to LSN {at}, and {instance} begins only at {begin}"
    hint = """Name both, the older first, until the query is past {begin}. If {left} is disabled already, load the
        table's rows as of LSN {before} or later, and start the query with another checkpointLocation."""
    left: str
    at: str
    instance: str
    begin: str
    before: str
