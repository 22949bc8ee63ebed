"""What health knows before it judges; times in UTC, by the clock of the database that was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from rowtide.core.errors import RowtideError
from rowtide.merge.inspection.status import MergeStatus


@dataclass(frozen=True, slots=True)
class Unread:
    """Facts that could not be read, and why."""

    error: RowtideError


Known = TypeVar("Known")


def attempt(read: Callable[[], Known]) -> Known | Unread:
    """Read facts; one area that cannot be read must not hide the others."""
    try:
        return read()
    except RowtideError as error:
        return Unread(error)


@dataclass(frozen=True, slots=True)
class PastError:
    """The newest error that an agent has recorded."""

    time: datetime
    text: str


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """How far the log is read.

    `reader` is the holder of the log's lease, None where nobody reads. All that was committed by `as_of` was read;
    `unread_bytes` of the server's log were not. `kept_bytes` is the WAL that the server keeps for the slot.
    `last_error` is the newest that `replication run` has recorded of it.
    """

    now: datetime
    reader: str | None
    as_of: datetime | None
    unread_bytes: int
    kept_bytes: int | None
    last_error: PastError | None = None


@dataclass(frozen=True, slots=True)
class CapturingFacts:
    """How far capture is; transactions since `oldest_waiting` were read and are not published, None: none waits."""

    now: datetime
    capture: str | None
    instances: int
    published_as_of: datetime | None
    oldest_waiting: datetime | None
    gaps: tuple[str, ...]
    last_error: PastError | None


@dataclass(frozen=True, slots=True)
class CleanupFacts:
    """How change rows are removed.

    `last_cleaned` is when a cleanup of all instances last ended well, None before the first; `oldest_instance` is when
    the oldest was enabled. `last_failure` is that of the job's newest run, None where that did not fail. Without a
    job `schedule` and `retention` are None.
    """

    now: datetime
    schedule: str | None
    retention: timedelta | None
    oldest_instance: datetime | None
    last_cleaned: datetime | None
    last_failure: PastError | None
    agent: str | None


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """How a transactional subscription stands.

    `runstatus` and `comments` are those of the newest row of its agent's history, None before the first. Changes since
    `oldest_waiting` wait in the log store, None where none does; the log store keeps them for `retention`.
    """

    publication: str
    subscriber: str
    is_paused: bool
    is_deactivated: bool
    runstatus: str | None
    comments: str | None
    oldest_waiting: datetime | None


@dataclass(frozen=True, slots=True)
class DeliveryFacts:
    """The publications of a database, their subscriptions, and whether `replication run` is at work."""

    now: datetime
    is_running: bool
    retention: timedelta
    publications: tuple[str, ...]
    subscriptions: tuple[SubscriptionFacts, ...]


@dataclass(frozen=True, slots=True)
class MergeFacts:
    """The merge publications that a node knows, and what is missing of their tables, by article."""

    now: datetime
    listed: Sequence[MergeStatus]
    damage: tuple[tuple[str, str], ...]
