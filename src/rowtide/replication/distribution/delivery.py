"""What a subscriber offers to the agent that delivers to it; one module per database has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import Position
from rowtide.core.records import Operation
from rowtide.replication.articles import Article
from rowtide.replication.encoding import Arguments


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a subscriber is: its position, the number of its last batch, and the epoch of its agent."""

    position: Position
    batch: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A command that was left out for its error, and the LSN of its transaction."""

    lsn: int
    error: RowtideError


class BatchUndone(Exception):
    """A batch was refused, and has to be delivered one by one: it is undone."""


class Delivery(Protocol):
    """An agent's hold on a subscriber, taken with an epoch of its own.

    Between `begin` and `end` lies a batch, which is committed whole or not at all. Raises `AgentReplaced` where
    another agent has taken the hold, `RowNotFound` and `CommandRefused`, after which the batch is undone and the hold
    is of no more use; `BatchUndone`, after which it is begun again one by one.
    """

    @property
    def progress(self) -> Progress:
        """What was committed last."""

    def begin(self, *, one_by_one: bool = False) -> None:
        """Begin a batch. `one_by_one`: an error names the call that caused it, or this is skipped."""

    def run(self, lsn: int, article: Article, operation: Operation, arguments: Arguments) -> None:
        """Run one call of the batch, now or by the time `end` returns."""

    def end(self, reached: Position) -> Sequence[Skipped]:
        """Commit the batch, which brings the subscriber up to a position; return what was left out of it."""

    def close(self) -> None:
        """Let go; a batch that was not ended is undone."""
