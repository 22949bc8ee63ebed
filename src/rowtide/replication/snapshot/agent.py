"""The snapshot agent: copies a publication's tables to a subscriber while they change (SQL Server: Snapshot Agent).

Delivery then asks each copy which changes it lacks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from itertools import groupby, islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rowtide.copying.chunks import Chunk, CopiedChunk, CopiedTable, CopyForm, OpenChunk, TransactionSnapshot, is_torn
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article, as_copied
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.snapshot.target import SnapshotTarget, SubscriptionSnapshot

_WORKERS = 2
_LARGE_BYTES = 16 << 20
"""After a chunk of this size its worker takes the next one, as the others may take as long; else the step ends soon."""


class SnapshotSource(Protocol):
    """A publisher from which tables are copied; used by several threads at once."""

    def take_snapshot(self) -> TransactionSnapshot:
        """Return the current transaction snapshot."""

    def find_unfinished(self, snapshot: TransactionSnapshot) -> Sequence[str]:
        """Return the transactions of a snapshot that may be in the log as committed, but are still invisible."""

    def open_chunk(self, table: CopiedTable, chunk: Chunk, form: CopyForm) -> AbstractContextManager[OpenChunk]:
        """Read a chunk. Raises `CopyUnreadable`, `CopiedTableAltered`."""

    def mark(self) -> int:
        """Return a log position after everything that a chunk read before can contain."""


ReadDetails = Callable[[Position], Sequence[tuple[Article, TableDetails]] | None]
"""Returns what the tables have besides their rows, as they were copied; nothing if it is no longer known.

None: they may not be as they were at the end; then the agent waits.
"""


@frozen
class SnapshotReport:
    """Progress of a snapshot: chunks and bytes copied so far, or the transactions that it waits for."""

    subscriber: str
    table: str
    chunks: int
    of_chunks: int
    copied_bytes: int
    seconds: float
    waits_for: tuple[str, ...] = ()


class SnapshotAgent:
    """Copies the tables that a subscriber lacks, in bounded steps. `epoch` is that of log positions."""

    def __init__(
        self,
        source: SnapshotSource,
        target: SnapshotTarget,
        articles: Sequence[Article],
        subscriber: str,
        *,
        epoch: int,
        stop: threading.Event,
        on_report: Callable[[SnapshotReport], None] = lambda _report: None,
        read_details: ReadDetails = lambda _end: (),
    ) -> None:
        """After `stop`, no further chunk is begun.

        `read_details` is asked at the end, see `ReadDetails`.
        """
        self._source = source
        self._target = target
        self._articles = {article.article_id: article for article in articles}
        self._forms: dict[str, CopyForm] = {}
        self._subscriber = subscriber
        self._epoch = epoch
        self._stop = stop
        self._on_report = on_report
        self._began = time.monotonic()
        self._copied_bytes = 0
        self._may_read = False
        self._read_details = read_details
        self._end: Position | None = None
        self._earlier = source.take_snapshot()

    def step(self) -> bool:
        """Copy some chunks; return whether it could. After the last chunk, the hand-over begins.

        Copying waits for transactions that may be in the log as committed, before the subscription's start, but are
        still invisible: a chunk would not contain them, and they would never be delivered.
        """
        state = self._target.read_state()
        if not self._may_read:
            unfinished = self._source.find_unfinished(self._earlier)
            if unfinished:
                of_chunks = len(state.copied) + len(state.missing)
                self._report("", len(state.copied), of_chunks, tuple(unfinished))
                return False
            self._may_read = True
        if state.missing:
            self._copy(state)
            return True
        # A table that was truncated or rewritten between two chunks: no single order of its changes leads from these
        # chunks to the table, so it is copied again.
        torn = [article_id for article_id, copied in _by_article(state) if is_torn(copied)]
        for article_id in torn:
            self._target.discard(self._articles[article_id])
        if torn:
            return True
        # No chunk has a commit from beyond this position. Below it, delivery decides for each change by the snapshot of
        # the chunk of its key whether the copy has it.
        self._end = self._end or Position.of(self._epoch, self._source.mark())
        details = self._read_details(self._end)
        if details is None:
            return False
        self._target.begin_hand_over(self._end, details)
        return True

    def _copy(self, state: SubscriptionSnapshot) -> None:
        """Copy a chunk with each worker. A worker that is done takes the next: the others may take long."""
        for chunk in state.missing:
            if chunk.member_id not in self._forms:
                self._forms[chunk.member_id] = self._target.choose_form(self._articles[chunk.member_id])
        missing, copied = iter(state.missing), len(state.copied)
        of_chunks = copied + len(state.missing)
        with ThreadPoolExecutor(_WORKERS) as workers:
            running = {workers.submit(self._copy_chunk, chunk): chunk for chunk in islice(missing, _WORKERS)}
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for one in ended:
                    chunk, size = running.pop(one), one.result()
                    copied += 1
                    self._copied_bytes += size
                    self._report(self._name(chunk.member_id), copied, of_chunks)
                    if size >= _LARGE_BYTES and not self._stop.is_set():
                        running |= {workers.submit(self._copy_chunk, chunk): chunk for chunk in islice(missing, 1)}

    def _copy_chunk(self, chunk: Chunk) -> int:
        article, size = self._articles[chunk.member_id], 0
        form = self._forms[chunk.member_id]
        with self._source.open_chunk(as_copied(article), chunk, form) as opened:
            copied = CopiedChunk(chunk, opened.snapshot, opened.generation)
            with self._target.load(copied, article, form) as write:
                for block in opened.blocks:
                    write(block)
                    size += len(block)
        return size

    def _name(self, article_id: str) -> str:
        article = self._articles[article_id]
        return article.qualified_name

    def _report(self, table: str, copied: int, of_chunks: int, waits_for: tuple[str, ...] = ()) -> None:
        seconds = time.monotonic() - self._began
        self._on_report(
            SnapshotReport(self._subscriber, table, copied, of_chunks, self._copied_bytes, seconds, waits_for=waits_for)
        )


def _by_article(state: SubscriptionSnapshot) -> Iterator[tuple[str, Sequence[CopiedChunk]]]:
    for article_id, copied in groupby(state.copied, key=lambda copied: copied.chunk.member_id):
        yield article_id, tuple(copied)


_Xids = npt.NDArray[np.int64]
_Facts = npt.NDArray[np.bool_]
_Keys = npt.NDArray[np.object_]
"""Keys' values by row and key column, as bytes."""

Locate = Callable[[CopiedTable, Sequence[CopiedChunk], _Keys], _Xids]
"""Returns the numbers of the chunks that contain keys; only the publisher knows the keys' order."""


@frozen
class ArticleCopy:
    """An article's rows at a subscriber, by chunks in the order of their numbers."""

    article: Article
    chunks: tuple[CopiedChunk, ...]
    locate: Locate

    def lacks(self, xids: _Xids, keys: _Keys) -> _Facts:
        """Return, for changes given by transaction and key, whether the copy lacks them."""
        known, places = np.unique(xids, return_inverse=True)
        seen = np.array([chunk.snapshot.sees(known) for chunk in self.chunks])
        is_in_all: _Facts = np.logical_and.reduce(seen)
        is_in_some: _Facts = np.logical_or.reduce(seen)
        lacking: _Facts = ~is_in_all[places]
        # Of a transaction that is in some chunks and not in others, the key says in which it is.
        differs = np.flatnonzero((is_in_some & ~is_in_all)[places])
        if differs.size:
            numbers = self.locate(as_copied(self.article), self.chunks, keys[differs])
            lacking[differs] = ~seen[numbers, places[differs]]
        return lacking

    def lacks_all(self, xids: _Xids) -> _Facts:
        """Return whether the copy lacks changes to the whole table, such as truncates: its chunks agree on these."""
        return ~self.chunks[0].snapshot.sees(xids)


@frozen
class DeliveryStart:
    """The transition from copying to delivery: `copies` by article id; no chunk contains commits at `until` or later.

    `finish` is called once, when everything below `until` is delivered.
    """

    until: Position
    copies: Mapping[str, ArticleCopy]
    finish: Callable[[], None]
