"""Changes that a node sends in one synchronisation, read once: upserts parents first, then deletes children first."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rowtide.core.errors import FileNotWritable
from rowtide.merge.articles import Article
from rowtide.merge.nodes.node import Request, Sending
from rowtide.merge.partitions.candidates import Marks, Move, judge
from rowtide.merge.partitions.chains import choose_parents
from rowtide.merge.session.bridging import Bridge
from rowtide.merge.versions.bases import append
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.lineage import Change

_BATCH_ROWS = 2000


class Spool:
    """A sender's changes in a temporary file, so that its snapshot can end before the receiver has written them.

    `changes` is their number, `nicknames` are those of the articles that have any.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `__exit__`
        self.changes = 0
        self.nicknames: set[int] = set()
        self.bridges: Mapping[int, Bridge] = {}
        """What carries changes to the receiver's definitions, by article, where that is needed."""

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
        self.nicknames.add(article.nickname)

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
            found = [RowChange._make(each) for each in changes]
            yield nickname, self.bridges[nickname].carry(found) if nickname in self.bridges else found


@dataclass(slots=True)
class Outgoing:
    """Changes that a node sends on a request.

    `watch` is called with each batch. `marks` is the partition membership that the hub stores before sending, `bases`
    the additive values that the sender stores.
    """

    sending: Sending
    request: Request
    watch: Callable[[Article, Sequence[RowChange]], None] = lambda _article, _changes: None
    marks: dict[int, Marks] = field(default_factory=dict)
    bases: dict[int, dict[str, str]] = field(default_factory=dict)
    _deleted: dict[int, list[RowChange]] = field(default_factory=dict)

    def spool(self) -> Spool:
        """Read all changes."""
        spool = Spool()
        for article in self.request.articles:
            for batch in self._upserts(article):
                self._put(spool, article, batch)
                self._note_bases(article, batch)
        self._link_circles()
        for article in reversed(self.request.articles):
            for batch in self._deletes(article):
                self._put(spool, article, batch)
        return spool

    def _put(self, spool: Spool, article: Article, changes: Sequence[RowChange]) -> None:
        spool.put(article, changes)
        self.watch(article, changes)

    def _link_circles(self) -> None:
        """Choose the parents of rows in circles of articles, once all candidates are known."""
        following = {
            rowguid: each.parents for marks in self.marks.values() for rowguid, each in marks.following.items()
        }
        chosen = choose_parents(following)
        for marks in self.marks.values():
            marks.link(chosen)

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

    def _upserts(self, article: Article) -> Iterator[Sequence[RowChange]]:
        if article.nickname in self.request.filters:
            yield from self._entering(article)
            return
        yield from self.sending.upserts(article)
        asked = self.sending.asked(article)
        self._deleted[article.nickname] = [change for change in asked if change.row is None]
        yield [change for change in asked if change.row is not None]

    def _deletes(self, article: Article) -> Iterator[Sequence[RowChange]]:
        if article.is_upload_only:
            # A device makes room by deleting what the hub has.
            return
        yield from _batches(self._deleted[article.nickname])
        if article.nickname not in self.request.filters:
            yield from self.sending.deletes(article)

    def _entering(self, article: Article) -> Iterator[Sequence[RowChange]]:
        """Yield the partition's rows that are new to the destination, and collect membership changes of others."""
        row_filter = self.request.filters[article.nickname]
        marks = self.marks[article.nickname] = Marks(row_filter.is_circular)
        leaving: list[RowChange] = []
        buried: list[RowChange] = []
        for batch in self.sending.entering(article):
            sent: list[RowChange] = []
            for candidate, change in batch:
                move = judge(candidate, self.request.since, realigns=row_filter.realigns)
                marks.add(candidate, move)
                if change is None:
                    continue
                if move is Move.SEND:
                    sent.append(change)
                elif move is Move.LEAVE:
                    leaving.append(change._replace(row=None, tombstone=TombstoneType.LEFT))
                elif change.row is None and marks.buried[-1:] == [candidate.rowguid]:
                    buried.append(change)
            yield sent
        self._deleted[article.nickname] = leaving + buried


def _batches(changes: Sequence[RowChange]) -> Iterator[Sequence[RowChange]]:
    for start in range(0, len(changes), _BATCH_ROWS):
        yield changes[start : start + _BATCH_ROWS]
