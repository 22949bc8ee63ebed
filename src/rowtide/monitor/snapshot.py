"""The results of a poll. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from rowtide.agents.loop import RunOutcome
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.diagnosis import CheckResult
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.places import PlaceFacts
from rowtide.diagnosis.postgres.reading import PostgresWorkFacts
from rowtide.diagnosis.result import Known, Unread
from rowtide.diagnosis.tracked_tables import TrackedFacts


@frozen
class Cycle:
    """A cycle of capture from its table of sessions; `number` increases from cycle to cycle."""

    number: int
    phase: str
    duration_s: float
    ended_at: datetime | None = None
    rows: int = 0
    transactions: int = 0


@frozen
class NumberedError:
    """A recorded error; `code` is its number, or the name of its class."""

    id: int
    code: str
    publication: str | None = None
    subscriber: str | None = None
    at: datetime | None = None


@frozen
class PolledJobRun:
    """A run of a job; `message` is what it did, or its last error."""

    id: int
    job: str
    retries: int
    outcome: RunOutcome
    ended_at: datetime | None
    started_at: datetime | None = None
    message: str | None = None


@frozen
class PolledCopy:
    """An open request for a snapshot; `rows_left` is None where the size of the table is not known."""

    instance: str
    rows_left: int | None
    copied_rows: int = 0
    remaining_s: float | None = None
    is_paused: bool = False


@frozen
class TokenArrival:
    """A tracer token that a subscriber has committed, with the seconds of its hops."""

    arrived_at: datetime
    publication: str
    subscriber: str
    log_s: float | None
    delivery_s: float | None


@frozen
class MergeRun:
    """A synchronisation that ended."""

    id: int
    publication: str
    duration_s: float


DIRECTIONS = ("upload", "download")


@frozen
class MergedRows:
    """Rows that a synchronisation has exchanged; direction is one of `DIRECTIONS`."""

    id: int
    direction: str
    inserts: int
    updates: int
    deletes: int


@frozen
class FoundConflict:
    """A conflict of a change delivered into this database."""

    id: int
    publication: str
    kind: str


@frozen
class PolledFigures:
    """What only metrics need of a PostgreSQL database. Where something could not be read, it is `Unread`.

    `oldest_s` are ages of transactions by kind; a kind that the role cannot see is missing. `capture_rows` counts the
    changes of all cycles.
    """

    oldest_s: Mapping[str, float]
    invalidation: str | None
    cycles: tuple[Cycle, ...] | Unread
    capture_rows: int | Unread | None
    scan_errors: tuple[NumberedError, ...] | Unread
    runs: tuple[PolledJobRun, ...] | Unread
    copying: tuple[PolledCopy, ...] | Unread
    delivery_errors: tuple[NumberedError, ...] | Unread
    arrivals: tuple[TokenArrival, ...] | Unread
    conflicts: tuple[FoundConflict, ...] | Unread
    merge_runs: tuple[MergeRun, ...] | Unread
    merged_rows: tuple[MergedRows, ...] | Unread
    table_changes: Mapping[str, int] | Unread = field(default_factory=dict)
    """Changes that the server has counted of each table whose log is read."""
    low_times: Mapping[CommitLsn, datetime] = field(default_factory=dict)
    """When the transactions committed that are the low endpoints of instances, as far as it is known."""


@frozen
class Identity:
    """The server and timeline of a poll: counters belong to one server.

    `is_standby`: it was in recovery, and may be behind the server of another poll.
    """

    system: str
    timeline: int
    is_standby: bool = False


@frozen
class PolledSnapshot:
    """The results of a poll of a database, at a time of this machine's clock.

    `work` and `figures` are of PostgreSQL alone; `tracked`, `place` and `merge` of a file, `merge` of both. `error`
    says why nothing could be read; then the rest is empty.
    """

    database: str
    at: datetime
    duration_s: float
    identity: Identity | None = None
    results: tuple[CheckResult, ...] = ()
    work: PostgresWorkFacts | None = None
    figures: PolledFigures | None = None
    merge: MergeFacts | Unread | None = None
    tracked: tuple[TrackedFacts, ...] | Unread = ()
    place: PlaceFacts | None = None
    error: RowtideError | None = None


def known_of(found: tuple[Known, ...] | Unread) -> tuple[Known, ...]:
    """Return the items; none where they could not be read."""
    return () if isinstance(found, Unread) else found
