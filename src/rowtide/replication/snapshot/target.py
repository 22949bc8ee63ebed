"""What a subscriber keeps of a snapshot, and offers to the agent that copies; one module per database has it.

What holds the rows holds their snapshots: each chunk is noted in the transaction that brings it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from rowtide.core.lsn import Position
from rowtide.replication.articles import Article
from rowtide.replication.snapshot.chunks import Chunk, CopiedChunk


class SnapshotStatus(StrEnum):
    """How far a subscription's snapshot is; stored at the subscriber, and only ever moves forward."""

    COPYING = "copying"
    """Set when the subscription is made."""
    HANDING_OVER = "handing over"
    """Set by the snapshot agent when all chunks are there: changes are delivered that they do not have."""
    DELIVERED = "delivered"
    """Set by the distribution agent at the end of that; and from the beginning where nothing is copied."""


@dataclass(frozen=True, slots=True)
class SnapshotState:
    """A subscription's snapshot; chunks are in the order of articles and numbers.

    `end`: whatever commits there or later is in no chunk; known once all are copied.
    """

    status: SnapshotStatus
    end: Position | None
    missing: tuple[Chunk, ...]
    copied: tuple[CopiedChunk, ...]


class SnapshotTarget(Protocol):
    """A subscriber that is copied to. Raises `CopyRefused`, and `AgentReplaced` where another agent has come."""

    def read_state(self) -> SnapshotState:
        """Return how far the snapshot is."""

    def load(self, chunk: CopiedChunk, article: Article) -> AbstractContextManager[Callable[[bytes], None]]:
        """Take a chunk's rows in, as COPY writes them, through what it gives; all of it or nothing is there then.

        Several may be open at once, in threads of their own.
        """

    def discard(self, article: Article) -> None:
        """Remove an article's rows, and forget its chunks' snapshots."""

    def begin_hand_over(self, end: Position) -> None:
        """Note that all chunks are there."""

    def finish(self) -> None:
        """Give the tables their constraints, and forget the chunks, once `end` is delivered; a repeat is fine."""

    def close(self) -> None:
        """Let go; a repeat is fine."""
