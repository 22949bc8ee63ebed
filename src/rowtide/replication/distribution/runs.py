"""Calls gathered to runs, each of one article and operation, without changing what comes of them. Pure.

Within a batch, which is one transaction at the subscriber, calls of articles that cannot influence each other may
change places. Those of one group of articles that can stay in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rowtide.core.records import Operation
from rowtide.replication.articles import Article
from rowtide.replication.encoding import Arguments

MAX_CALLS = 1000
MAX_BYTES = 1 << 20
"""Of a run's values: a subscriber holds them in memory several times."""


@dataclass(slots=True)
class Run:
    """Calls that follow each other, of one article and operation."""

    article: Article
    operation: Operation
    arguments: list[Arguments] = field(default_factory=list)
    size: int = 0
    """Bytes of all values."""

    def add(self, arguments: Arguments) -> None:
        """Take another call."""
        self.arguments.append(arguments)
        self.size += sum([len(value) for value in arguments if value is not None])

    @property
    def is_full(self) -> bool:
        return len(self.arguments) >= MAX_CALLS or self.size >= MAX_BYTES


class Gatherer:
    """Takes calls in the order of the log, and gives runs in an order in which they may be sent.

    `groups`: which articles can influence each other, by their ids; one that is not named can influence all.
    """

    def __init__(self, groups: Mapping[str, int]) -> None:
        self._groups = groups
        self._open: dict[int, Run] = {}

    def add(self, article: Article, operation: Operation, arguments: Arguments) -> Iterator[Run]:
        """Take a call; yield the runs that it ends."""
        group = self._groups.get(article.article_id)
        if group is None or operation is Operation.TRUNCATE:
            # A truncate waits for whoever reads its table, and is alone.
            yield from self.end()
            yield Run(article, operation, [arguments])
            return
        run = self._open.get(group)
        if run is None or run.operation is not operation or run.article is not article:
            if run is not None:
                yield run
            run = self._open[group] = Run(article, operation)
        run.add(arguments)
        if run.is_full:
            del self._open[group]
            yield run

    def end(self) -> Iterator[Run]:
        """Yield what is left; what comes then is another batch, or the same one's rest."""
        runs, self._open = self._open, {}
        yield from runs.values()
