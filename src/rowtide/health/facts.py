"""What health knows before it judges; times in UTC, by the clock of the database that was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from rowtide.agents.runs import PastError
from rowtide.core.errors import RowtideError
from rowtide.log.postgres.status import ReadingStatus
from rowtide.merge.status import MergeStatus


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
class ReadingFacts:
    """How far the log is read; `last_error` is the newest that `replication run` has recorded of it."""

    status: ReadingStatus
    last_error: PastError | None = None


@dataclass(frozen=True, slots=True)
class MergeFacts:
    """The merge publications that a node knows, and what is missing of their tables, by article."""

    now: datetime
    listed: Sequence[MergeStatus]
    damage: tuple[tuple[str, str], ...]
