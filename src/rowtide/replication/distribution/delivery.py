"""What a subscriber offers to the agent that delivers to it, one module per database; and where delivery goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowtide.core.lsn import Position
from rowtide.replication.errors import CommandError

if TYPE_CHECKING:
    from rowtide.log.state import Reader
    from rowtide.replication.distribution.batches import Call


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a subscriber is: its position, the number of its last batch, and the epoch of its agent."""

    position: Position
    batch: int
    epoch: int


class BatchUndone(Exception):
    """A batch was refused, and has to be delivered one by one: it is undone."""


class CallNotHeld(Exception):
    """A subscriber cannot hold what a call gives it, however often it comes; its batch is undone."""

    def __init__(self, call: Call, reason: str) -> None:
        super().__init__(reason)
        self.call = call
        self.reason = reason


class Delivery(Protocol):
    """An agent's hold on a subscriber, taken with an epoch of its own.

    Between `begin` and `end` lies a batch, which is committed whole or not at all. Raises `AgentReplaced` where
    another agent has taken the hold, a `CommandError` or `BatchRefused`, after which the batch is undone and the hold
    is of no more use; `BatchUndone`, after which it is begun again one by one; `CallNotHeld`, after which it is begun
    again without the call's article.
    """

    @property
    def progress(self) -> Progress:
        """What was committed last."""

    def begin(self, *, one_by_one: bool = False) -> None:
        """Begin a batch. `one_by_one`: an error names the call that caused it, or this is skipped."""

    def run(self, call: Call) -> None:
        """Run one call of the batch, now or by the time `end` returns."""

    def flush(self) -> None:
        """Wait until all calls so far have run: none is in memory any more. Nothing where no batch has begun."""

    def end(self, reached: Position) -> Sequence[CommandError]:
        """Commit the batch, which brings the subscriber up to a position; return the errors of what it leaves out."""

    def close(self) -> None:
        """Let go; a batch that was not ended is undone."""


def resume_position(progress: Progress, reader: Reader) -> Position:
    """Return the position below which the subscriber has everything.

    A subscriber is not written to while the log has nothing for it: what it recorded stays behind, the log store
    forgets the log in between, and the reader's entry says that nothing was there. A subscriber that went back
    further than the log is empty goes on from what it holds: it lacks what lies between.
    """
    if progress.position >= reader.position:
        return progress.position
    has_nothing_between = (
        # Log stores from before rowtide recorded how far the log is empty: the same batch was the subscriber's last.
        reader.cycle == progress.batch if reader.idle_from is None else reader.idle_from <= progress.position
    )
    return reader.position if has_nothing_between else progress.position
