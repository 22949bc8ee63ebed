"""What a run tells whoever started it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rowtide.core.errors import RowtideError
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.agent import DeliveryReport
from rowtide.replication.errors import ArticleEnded, CommandError
from rowtide.replication.snapshot.agent import SnapshotReport


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error of one subscription's agent; it tries again after a pause, or has stopped (None)."""

    subscription: Subscription
    error: Exception
    pause_s: float | None


@dataclass(frozen=True, slots=True)
class SkippedCommand:
    """A command that one subscriber was not given, for its error."""

    subscription: Subscription
    error: CommandError


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A published table is no more; its subscription goes on without it."""

    subscription: Subscription
    error: ArticleEnded


def _ignore_batch(_report: DeliveryReport) -> None:
    pass


def _ignore_snapshot(_report: SnapshotReport) -> None:
    pass


def _ignore_trouble(_trouble: Trouble) -> None:
    pass


def _ignore_retry(_error: RowtideError, _pause_s: float) -> None:
    pass


def _ignore_skipped(_skipped: SkippedCommand) -> None:
    pass


def _ignore_dropped(_dropped: DroppedTable) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Watchers:
    """Called from the threads of a run, several at once. `on_retry` is of the publisher and its log."""

    on_batch: Callable[[DeliveryReport], None] = _ignore_batch
    on_trouble: Callable[[Trouble], None] = _ignore_trouble
    on_retry: Callable[[RowtideError, float], None] = _ignore_retry
    on_snapshot: Callable[[SnapshotReport], None] = _ignore_snapshot
    on_skipped: Callable[[SkippedCommand], None] = _ignore_skipped
    on_dropped: Callable[[DroppedTable], None] = _ignore_dropped
