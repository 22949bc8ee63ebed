"""The interface of a node that receives changes: what it is given, how it writes that, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.nodes.node import Node, Result, transact_at
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.session.messages import Counts
from rowtide.merge.versions.changes import RowChange


@frozen
class Refused:
    """A change that a node refused; see `Refusal`."""

    article: Article
    change: RowChange
    refusal: Refusal

    @property
    def error(self) -> RowsRefused:
        """The node's error."""
        return self.refusal.error


class Attempt(Enum):
    """How rows are written.

    A batch is written in `ALONE`, or in `FIRST` where more is written in the transaction. If that fails as a whole, its
    halves are; rows that have each other's keys are written `TOGETHER`. All refused rows are deferred, and written once
    more at the end of the transfer: in `LAST` with the last batch, or else in `RETRY`. A node that cannot try rows
    together in one transaction (`tries_together` of its writer) gets them `TOGETHER`, then each row with the one that
    has its key. If the commit refuses even that, each row is written in a transaction of its own, in `FIRST`. What is
    refused then is rejected.
    """

    FIRST = auto()
    """The node writes what it accepts, and returns what it refuses; others may follow in the transaction."""
    ALONE = auto()
    """As `FIRST`, where the caller does nothing else in the transaction: a server can commit in the same round trip."""
    TOGETHER = auto()
    """All rows are written, with deferred constraints, or none."""
    RETRY = auto()
    """Rows refused before: together first, then each removal with the row that takes its key, then each row."""
    LAST = auto()
    """`FIRST` for the last batch, and `RETRY` for what it refuses and what was deferred before, in one transaction."""


Part = tuple[Article, Sequence[RowChange]]
"""Changes of an article."""
ArticleChange = tuple[Article, RowChange]
"""A change of an article's row."""


@dataclass(slots=True)
class Received:
    """The result of a part, and what the node refused of it."""

    counts: Counts
    refused: list[Refused] = field(default_factory=list)


class Receiver(Protocol):
    """Decides what to do with received changes, and writes the result in the caller's transaction."""

    @property
    def bounds(self) -> Mapping[int, RowFilter]:
        """The partitions that received rows have to be in, by the article's nickname."""

    @property
    def node(self) -> Node: ...

    @property
    def is_upload(self) -> bool:
        """Whether the hub receives."""

    @property
    def again(self) -> Mapping[int, Sequence[str]]:
        """The rows that are requested once more, by the article's nickname: their changes come last."""

    def group(self, deletes: Iterable[Part]) -> Iterable[Sequence[Part]]:
        """Yield deletes in the parts that are written together."""

    def receive(self, parts: Sequence[Part], attempt: Attempt, late: Set[str] = frozenset()) -> list[Received]:
        """Write the newer versions of each part; in `Attempt.LAST` rows that come `late` are only retried.

        Raises `RowsRefused` where the caller has to distinguish rows, and in `Attempt.TOGETHER`.
        """

    def reject(self, refused: Sequence[Refused]) -> list[Counts]:
        """Handle changes that were refused in every attempt, in the caller's transaction; return the result of each."""

    def check(self) -> None:
        """Raise `SessionReplaced` if another synchronisation has replaced this one; called in each transaction."""


def by_article(changes: Iterable[ArticleChange]) -> list[Part]:
    """Return changes as parts, one for each article."""
    parts: dict[int, tuple[Article, list[RowChange]]] = {}
    for article, change in changes:
        parts.setdefault(article.nickname, (article, []))[1].append(change)
    return list(parts.values())


def transact(receiver: Receiver, work: Callable[[], Result]) -> Result:
    """Run work at the receiver's node as `transact_at` does, if the session was not replaced."""
    return transact_at(receiver.node, work, first=receiver.check)
