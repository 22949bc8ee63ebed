"""Changes that a node sends in one synchronisation, read once: upserts parents first, then deletes children first."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rowtide.core.errors import FileNotWritable
from rowtide.merge.articles import Article
from rowtide.merge.nodes.node import Enumeration
from rowtide.merge.partitions.candidates import Marks, Move, judge
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.bases import append
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.lineage import Change

_BATCH_ROWS = 2000


class Spool:
    """A sender's changes in a temporary file, so that its snapshot can end before the receiver has written them."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `__exit__`
        self.changes = 0

    def put(self, article: Article, changes: Sequence[RowChange]) -> None:
        """Append a batch of an article's changes. Raises `FileNotWritable`."""
        if not changes:
            return
        # As plain tuples: what has a class of its own takes three times as long.
        batch = (article.nickname, [tuple(each) for each in changes])
        try:
            pickle.dump(batch, self._file, protocol=5)
        except OSError as error:
            raise FileNotWritable(tempfile.gettempdir(), error.strerror or str(error)) from error
        self.changes += len(changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._file.close()

    def batches(self) -> Iterator[tuple[int, list[RowChange]]]:
        """Yield the stored batches in order, each with its article's nickname."""
        self._file.seek(0)
        while True:
            try:
                nickname, changes = pickle.load(self._file)  # noqa: S301 - what this process wrote itself
            except EOFError:
                return
            yield nickname, [RowChange._make(each) for each in changes]


@dataclass(slots=True)
class Outgoing:
    """Changes to send to a node that has everything up to generation `since`, and the rows that it requests again.

    `filters` are its partition's, by article; `marks` is the partition membership that the hub stores before sending,
    `bases` the additive values that the sender stores.
    """

    enumeration: Enumeration
    articles: Sequence[Article]
    since: int
    destination: int
    again: Mapping[int, Sequence[str]]
    filters: Mapping[int, RowFilter]
    marks: dict[int, Marks] = field(default_factory=dict)
    bases: dict[int, dict[str, str]] = field(default_factory=dict)

    def spool(self) -> Spool:
        """Read all changes."""
        spool = Spool()
        for article in self.articles:
            for batch in self._upserts(article):
                spool.put(article, batch)
                self._note_bases(article, batch)
        for article in reversed(self.articles):
            for batch in self._deletes(article):
                spool.put(article, batch)
        return spool

    def _note_bases(self, article: Article, changes: Sequence[RowChange]) -> None:
        """Collect the sent values of an additive column: later changes start from them."""
        column = article.additive_column
        place = None if column is None else article.place_of(column.name)
        if place is not None:
            noted = self.bases.setdefault(article.nickname, {})
            for change in changes:
                if change.bases is not None and change.row is not None:
                    version = Change.decode(change.last).version
                    noted[change.rowguid] = append(change.bases, version, change.row[place])

    def _asked(self, article: Article, *, is_live: bool) -> list[RowChange]:
        found = self.enumeration.again(article, self.again.get(article.nickname, ()))
        return [change for change in found if (change.row is not None) is is_live]

    def _upserts(self, article: Article) -> Iterator[Sequence[RowChange]]:
        if article.nickname in self.filters:
            yield from self._entering(article, self.filters[article.nickname])
            return
        yield from self.enumeration.upserts(article, self.since, self.destination)
        yield self._asked(article, is_live=True)

    def _deletes(self, article: Article) -> Iterator[Sequence[RowChange]]:
        if article.nickname in self.marks:
            yield from self._leaving(article, self.marks[article.nickname])
            return
        yield self._asked(article, is_live=False)
        yield from self.enumeration.deletes(article, self.since, self.destination)

    def _entering(self, article: Article, row_filter: RowFilter) -> Iterator[Sequence[RowChange]]:
        """Yield the partition's rows that are new to the destination, and collect membership changes of others."""
        marks = self.marks[article.nickname] = Marks()
        asked = self.again.get(article.nickname, ())
        for batch in self.enumeration.candidates(row_filter, self.since, self.destination, asked):
            moves = [(candidate, judge(candidate, self.since)) for candidate in batch]
            for candidate, move in moves:
                marks.add(candidate, move)
            sent = [candidate.rowguid for candidate, move in moves if move is Move.SEND]
            yield self.enumeration.again(article, sent)

    def _leaving(self, article: Article, marks: Marks) -> Iterator[Sequence[RowChange]]:
        for batch in _batches(marks.leaving):
            found = self.enumeration.again(article, batch)
            yield [change._replace(row=None, tombstone=TombstoneType.LEFT) for change in found]
        for batch in _batches(marks.buried):
            yield [change for change in self.enumeration.again(article, batch) if change.row is None]


def _batches(rowguids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(rowguids), _BATCH_ROWS):
        yield rowguids[start : start + _BATCH_ROWS]
