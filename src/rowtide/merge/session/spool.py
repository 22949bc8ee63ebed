"""Changes that a node sends in one synchronisation, read once: upserts parents first, then deletes children first.

They are read part by part: where the receiver is a server, while it writes the parts before. Changes by earlier
definitions of articles than the hub's are converted to the hub's.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Self

from rowtide.core.errors import FileNotWritable
from rowtide.core.values import frozen
from rowtide.merge.articles import Article, DeviceLimits
from rowtide.merge.errors.rows import RowTooLarge, UploadTooLarge
from rowtide.merge.nodes.sending import ChangesRequest, Sending
from rowtide.merge.partitions.belonging import choose_parents
from rowtide.merge.partitions.candidates import CandidateAction, CandidateMemberships, choose_action
from rowtide.merge.session.messages import Counts
from rowtide.merge.versions.changes import RowChange, TombstoneType, make_changes
from rowtide.merge.versions.comparison import Lineage, NodeChange, in_all_columns, move_columns
from rowtide.merge.versions.stored_metadata import append

_PRIORITY = "priority"


@frozen
class ArticleMapping:
    """An article as its sender defines it, and as the receiver writes it; `kept` are the sender's places of columns."""

    sender: Article
    receiver: Article
    kept: tuple[int, ...]

    @property
    def is_needed(self) -> bool:
        """Whether changes are to be carried over at all."""
        is_moved = self.kept != tuple(range(len(self.sender.columns)))
        return is_moved or self.sender.column_tracking != self.receiver.column_tracking

    def carry(self, changes: Sequence[RowChange]) -> list[RowChange]:
        """Return changes with the receiver's columns."""
        return [
            change._replace(
                row=None if change.row is None else tuple(change.row[place] for place in self.kept),
                columns=self._columns(change),
            )
            for change in changes
        ]

    def _columns(self, change: RowChange) -> bytes | None:
        if not self.receiver.column_tracking:
            return None
        if not self.sender.column_tracking:
            return in_all_columns(change.last, len(self.kept))
        return None if change.columns is None else move_columns(change.columns, self.kept)


def map_article(sender: Article, receiver: Article) -> ArticleMapping:
    """Return what carries changes from one definition of an article to a later one."""
    columns = tuple(column for column in receiver.columns if sender.same_column(column) is not None)
    common = replace(receiver, columns=columns)
    column = receiver.resolver.partition(":")[2].partition(":")[0]
    if column and receiver.index_of(column) is not None and common.index_of(column) is None:
        # Its column is new: the subscriber has no value of it.
        common = replace(common, resolver=_PRIORITY)
    return ArticleMapping(sender, common, tuple(common.indexes_in(sender)))


def map_articles(known: Iterable[Article], published: Iterable[Article]) -> Mapping[int, ArticleMapping]:
    """Return the mappings of all articles that both have, by nickname."""
    there = {article.nickname: article for article in published}
    return {each.nickname: map_article(each, there[each.nickname]) for each in known if each.nickname in there}


_BATCH_ROWS = 2000
_BATCH_BYTES = 4 * 1024 * 1024
"""Of a batch of several rows."""


Parts = Iterator[tuple[Article, Sequence[RowChange]]]
"""Batches of changes, each of one article and either of rows or of tombstones; an empty one while one is collected."""


class Spool:
    """A sender's changes in a temporary file, so that its snapshot can end before the receiver has written them.

    `changes` is the number of those read so far, `count` that of their batches, `counts` those of each article that has
    any, by nickname; an insert counts as an update.
    """

    def __init__(self, parts: Parts, limits: DeviceLimits | None = None) -> None:
        self._parts = parts
        self._limits = limits
        self._failure: Exception | None = None
        self.on_end: Callable[[], None] = lambda: None
        """Called when all has been read."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `__exit__`
        self._end = 0
        self.changes = 0
        self.count = 0
        self.counts: dict[int, Counts] = {}
        self.mappings: Mapping[int, ArticleMapping] = {}
        """What carries changes to the receiver's definitions, by article, where that is needed."""
        self.on_carried: Callable[[ArticleMapping, Sequence[RowChange]], None] = lambda _mapping, _changes: None
        """Called with changes before they are carried."""

    def complete(self) -> None:
        """Read all changes that are left. Raises `FileNotWritable`, and what has failed before."""
        while self._read():
            pass

    def count_deletes(self) -> int:
        """Read all changes that are left; return the number of deletes. Raises as `complete`."""
        self.complete()
        return sum(counts.deletes for counts in self.counts.values())

    def read_ahead(self) -> bool:
        """Read on for a few milliseconds; return whether there is more. What fails is raised by `batches`."""
        try:
            return self._read()
        except Exception:  # noqa: BLE001 - raised later
            return False

    def _read(self) -> bool:
        """Read on; return whether there may be more. What has failed once fails again: the rest was not read."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._read_part()
        except Exception as error:
            self._failure = error
            raise

    def _read_part(self) -> bool:
        for article, changes in self._parts:
            if changes:
                self._put(article, changes)
            return True
        self.on_end()
        return False

    def _put(self, article: Article, changes: Sequence[RowChange]) -> None:
        # As plain tuples: what has a class of its own takes three times as long.
        batch = (article.nickname, [tuple(each) for each in changes])
        try:
            place = self._file.seek(self._end)
            pickle.dump(batch, self._file, protocol=5)
            end = self._file.tell()
        except OSError as error:
            raise FileNotWritable(tempfile.gettempdir(), error.strerror or str(error)) from error
        if end - place > _BATCH_BYTES and len(changes) > 1:
            # A receiver has a batch in memory at once.
            middle = len(changes) // 2
            self._put(article, changes[:middle])
            self._put(article, changes[middle:])
            return
        self._end = end
        self.changes += len(changes)
        self.count += 1
        is_delete = changes[0].row is None
        number = Counts(deletes=len(changes)) if is_delete else Counts(updates=len(changes))
        self.counts.setdefault(article.nickname, Counts()).add(number)
        if self._limits is not None:
            _require_within(self._limits, article, changes, self.changes, self._end, batch_bytes=self._end - place)

    @property
    def nicknames(self) -> Set[int]:
        """The articles that have changes so far, by nickname."""
        return self.counts.keys()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._file.close()

    def batches(self) -> Iterator[tuple[int, list[RowChange]]]:
        """Yield the batches in order, each with its article's nickname; those that are missing yet are read."""
        place = 0
        while self._reaches_behind(place):
            self._file.seek(place)
            nickname, changes = pickle.load(self._file)  # noqa: S301 - what this process wrote itself
            place = self._file.tell()
            found, mapping = make_changes(changes), self.mappings.get(nickname)
            if mapping is not None:
                self.on_carried(mapping, found)
            yield nickname, found if mapping is None else mapping.carry(found)

    def _reaches_behind(self, place: int) -> bool:
        while self._end == place:
            if not self._read():
                return False
        return True


def _require_within(
    limits: DeviceLimits, article: Article, changes: Sequence[RowChange], rows: int, size: int, *, batch_bytes: int
) -> None:
    """Raise `UploadTooLarge`, `RowTooLarge` if what is spooled exceeds what is taken."""
    if rows > limits.rows:
        raise UploadTooLarge(f"{limits.rows:,} rows")
    if size > limits.upload_bytes:
        raise UploadTooLarge(f"{limits.upload_bytes:,} bytes")
    for change in changes if batch_bytes > limits.row_bytes else ():
        if sum(len(value) for value in change.row or () if value is not None) > limits.row_bytes:
            raise RowTooLarge(article.qualified_name, change.rowguid, limits.row_bytes)


@dataclass(slots=True)
class Outgoing:
    """Changes that a node sends on a request.

    `watch` is called with each batch. `marks` is the partition membership that the hub stores before sending, `bases`
    the additive values that the sender stores.
    """

    sending: Sending
    request: ChangesRequest
    watch: Callable[[Article, Sequence[RowChange]], None] = lambda _article, _changes: None
    marks: dict[int, CandidateMemberships] = field(default_factory=dict)
    bases: dict[int, dict[str, str]] = field(default_factory=dict)
    _deleted: dict[int, list[RowChange]] = field(default_factory=dict)

    def spool(self, limits: DeviceLimits | None = None) -> Spool:
        """Return all changes, still to be read, up to some limits."""
        return Spool(self._read(), limits)

    def _read(self) -> Parts:
        for article in self.request.articles:
            for batch in _collected(self._upserts(article)):
                self._note_bases(article, batch)
                self.watch(article, batch)
                yield article, batch
        self._link_circles()
        for article in reversed(self.request.articles):
            for batch in _collected(self._deletes(article)):
                self.watch(article, batch)
                yield article, batch

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
        place = None if column is None else article.index_of(column.name)
        if place is not None:
            noted = self.bases.setdefault(article.nickname, {})
            for change in changes:
                if change.bases is not None and change.row is not None:
                    version = NodeChange.decode(change.last).version
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
        marks = self.marks[article.nickname] = CandidateMemberships(row_filter.is_circular)
        leaving: list[RowChange] = []
        buried: list[RowChange] = []
        for batch in self.sending.entering(article):
            sent: list[RowChange] = []
            for candidate, known in batch:
                move = choose_action(candidate, self.request.since, realigns=row_filter.realigns)
                marks.add(candidate, move)
                if known is None:
                    continue
                change = self._overruling(known) if candidate.is_of_others else known
                if move is CandidateAction.SEND:
                    sent.append(change)
                elif move is CandidateAction.LEAVE:
                    leaving.append(change._replace(row=None, tombstone=TombstoneType.LEFT))
                elif change.row is None and marks.buried[-1:] == [candidate.rowguid]:
                    buried.append(change)
            yield sent
        self._deleted[article.nickname] = leaving + buried

    def _overruling(self, change: RowChange) -> RowChange:
        """Return a row that the destination wrote to, though it did not have it, as newer than what it wrote.

        The sender's own version stays as it is: nothing that the destination says of the row becomes part of it. What
        the destination has is for itself to tell: the version may be of nodes below it.
        """
        last = NodeChange(self.request.source, self.sending.generation)
        lineage = Lineage.decode(change.lineage).with_change(last)
        return change._replace(lineage=lineage.encode(), last=last.encode(), overrules=self.request.received)


def _collected(pieces: Iterator[Sequence[RowChange]]) -> Iterator[Sequence[RowChange]]:
    """Yield pieces joined to batches, and nothing where a batch is still to grow."""
    batch: list[RowChange] = []
    for piece in pieces:
        batch += piece
        if len(batch) < _BATCH_ROWS:
            yield ()
            continue
        yield batch
        batch = []
    yield batch


def _batches(changes: Sequence[RowChange]) -> Iterator[Sequence[RowChange]]:
    for start in range(0, len(changes), _BATCH_ROWS):
        yield changes[start : start + _BATCH_ROWS]
