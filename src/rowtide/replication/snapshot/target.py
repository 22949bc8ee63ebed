"""The interface of a subscriber to the snapshot agent.

The subscriber stores each chunk's snapshot in the transaction that loads the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from rowtide.copying.chunks import Chunk, CopiedChunk, CopyForm
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.snapshot.table_details import TableDetails


class SnapshotStatus(StrEnum):
    """Progress of a subscription's snapshot; stored at the subscriber, and only moves forward."""

    COPYING = "copying"
    """Set when the subscription is created."""
    HANDING_OVER = "handing over"
    """Set by the snapshot agent when all chunks are loaded: the changes that they lack are delivered."""
    DELIVERED = "delivered"
    """Set by the distribution agent after that; and from the start if nothing is copied."""


@frozen
class SubscriptionSnapshot:
    """A subscription's snapshot; chunks in the order of articles and numbers.

    `end`: no chunk contains commits there or later; None until all are copied.
    """

    status: SnapshotStatus
    end: Position | None
    missing: tuple[Chunk, ...]
    copied: tuple[CopiedChunk, ...]


class SnapshotTarget(Protocol):
    """A subscriber that is copied to. Raises `CopyRefused`, and `AgentReplaced` if another agent has taken over."""

    def read_state(self) -> SubscriptionSnapshot:
        """Return the snapshot's progress."""

    def read_articles(self, articles: Sequence[Article]) -> tuple[Article, ...]:
        """Return articles as the subscriber has them, after the schema changes that it has applied."""

    def alter(self, followed: Followed) -> None:
        """Bring a table through a schema change, and copy its rows again.

        Raises `AlterationRefused` for an added or a dropped column, else `CopyRefused`.
        """

    def choose_form(self, article: Article) -> CopyForm:
        """Return the form in which it takes an article's rows."""

    def load(
        self, chunk: CopiedChunk, article: Article, form: CopyForm
    ) -> AbstractContextManager[Callable[[bytes], None]]:
        """Yield a function that takes a chunk's rows in that form; the chunk is loaded whole or not at all.

        Several may be open at once, in different threads.
        """

    def discard(self, article: Article) -> None:
        """Remove an article's rows and its chunks' snapshots."""

    def begin_hand_over(self, end: Position, details: Sequence[tuple[Article, TableDetails]]) -> None:
        """Record that all chunks are loaded.

        With details of all tables, tables that were created get these constraints, not those of when they were.
        """

    def finish(self) -> None:
        """Add the tables' constraints and delete the chunk records, once `end` is delivered. Idempotent."""

    def close(self) -> None:
        """Close the connection. Idempotent."""
