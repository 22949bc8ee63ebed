"""The interface of a subscriber to the distribution agent, one implementation per kind; and where delivery resumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.errors.delivery import CommandError

if TYPE_CHECKING:
    from rowtide.log.store.state import Reader
    from rowtide.replication.articles.articles import Article
    from rowtide.replication.articles.schema_changes import Followed, SchemaChange
    from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
    from rowtide.replication.snapshot.table_details import TableDetails


@frozen
class DeliveryProgress:
    """A subscriber's progress: its position, the number of its last batch, and the epoch of its agent.

    `age_s`: how long ago that batch was committed when an agent took over, by the subscriber's clock; None without one.
    """

    position: Position
    batch: int
    epoch: int
    age_s: float | None = None

    def after_batch(self, reached: Position) -> DeliveryProgress:
        """Return the progress once a batch is committed that reaches a position."""
        return DeliveryProgress(reached, self.batch + 1, self.epoch)


class BatchUndone(Exception):
    """A batch was refused and rolled back, and has to be delivered row by row.

    An exception and no result, like those below: it ends the blocks of a pipeline and a transaction, which roll back.
    """


class CallNotStorable(Exception):
    """A subscriber cannot store a call's values, and retrying does not help; its batch was rolled back."""

    def __init__(self, call: ProcedureCall, reason: str) -> None:
        super().__init__(reason)
        self.call = call
        self.reason = reason


class AlterationRefused(Exception):
    """A subscriber cannot be given a schema change, or its procedures (None); the batch was rolled back.

    `is_of_rows`: rows at this place of the transaction prevent it, not the table.
    """

    def __init__(self, article: Article, change: SchemaChange | None, reason: str, *, is_of_rows: bool = False) -> None:
        super().__init__(reason)
        self.article = article
        self.change = change
        self.reason = reason
        self.is_of_rows = is_of_rows


class JoiningMoved(Exception):
    """A joining article has no longer exactly what it was said to have; the batch was rolled back."""


@frozen
class JoiningArticle:
    """An article that becomes one of a subscription's, known by the subscriber as `guid` so far.

    It has everything below `since`. With details, foreign keys between its table and those of `others` are created.
    """

    guid: str
    since: Position
    article: Article
    details: TableDetails | None
    others: tuple[tuple[Article, TableDetails], ...]


class Delivery(Protocol):
    """An agent's connection to a subscriber, fenced by an epoch.

    A batch, between `begin` and `end`, is committed as a whole or not at all. Raises `AgentReplaced` if another agent
    has taken over; a `CommandError` or `BatchRefused`, after which the batch is rolled back and the object cannot be
    used any more; `BatchUndone`, after which the batch is delivered again row by row; `CallNotStorable`,
    after which it is delivered again without the call's article.
    """

    @property
    def progress(self) -> DeliveryProgress:
        """What was committed last."""

    def begin(self, *, one_by_one: bool = False, committed_us: int | None = None) -> None:
        """Begin a batch. With `one_by_one`, an error names the call that caused it, or the call is skipped.

        `committed_us` is the commit time of its first transaction, in microseconds since 1970.
        """

    def begin_early(self) -> Callable[[], None] | None:
        """Begin a batch of one transaction that may yet have to be rolled back; return what does that.

        None, and nothing is begun, where a batch is not to stay open for long, or cannot be delivered again. An error
        raises `BatchUndone`.
        """

    def run(self, calls: OrderedCalls) -> None:
        """Run calls of the batch, at once or before `end` returns."""

    def alter(self, followed: Followed) -> None:
        """Bring the article's table and procedures through a schema change, within a batch that is sent `one_by_one`.

        Calls before are of the article as it was, calls after as it is; `open` gets it from then on. Raises
        `AlterationRefused`, and `SubscriberTableInUse` if others use the table for too long.
        """

    def join(self, joining: JoiningArticle) -> None:
        """Attach an article, after its calls in a batch that is sent `one_by_one`, and fence its agent.

        Raises as `alter`, and `JoiningMoved`.
        """

    def flush(self) -> None:
        """Wait until all calls so far have run, so that none is held in memory. No effect outside a batch."""

    def end(self, reached: Position) -> Sequence[CommandError]:
        """Commit the batch with the position that it reaches; return the errors of skipped calls."""

    def close(self) -> None:
        """Close the connection; an uncommitted batch is rolled back."""


def resume_position(progress: DeliveryProgress, reader: Reader, joined_at: int = 0) -> Position:
    """Return the position below which the subscriber has everything.

    A subscriber is not written to while the log has nothing for it: its recorded position stays behind while the log
    store removes the log, and the reader's entry says that nothing was there. A subscriber restored to an even older
    state resumes from its own position, because it lacks changes in between. So does one whose newest article joined at
    `joined_at`, if the entry is an earlier agent's: that had nothing for the other articles.
    """
    if progress.position >= reader.position:
        return progress.position
    has_nothing_between = (
        # An entry of an earlier build, which did not record how far the log is empty: the subscriber's last batch is
        # the same.
        reader.cycle == progress.batch
        if reader.idle_from is None
        else joined_at <= reader.idle_from.value and reader.idle_from <= progress.position
    )
    return reader.position if has_nothing_between else progress.position
