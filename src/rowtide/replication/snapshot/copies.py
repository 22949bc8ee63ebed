"""Which changes a subscriber's copy of a table lacks, and must be delivered. Pure.

A change is in the copy if the snapshot of its key's chunk sees its transaction. If an update moves a key from one chunk
to another, one may contain the change and the other not; it is then a delete or an insert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rowtide.copying.chunks import CopiedChunk
from rowtide.copying.tables import CopiedTable
from rowtide.core.lsn import Position
from rowtide.replication.articles.articles import Article, as_copied

_Xids = npt.NDArray[np.int64]
_Facts = npt.NDArray[np.bool_]
_Keys = npt.NDArray[np.object_]
"""Keys' values by row and key column, as bytes."""

Locate = Callable[[CopiedTable, Sequence[CopiedChunk], _Keys], _Xids]
"""Returns the numbers of the chunks that contain keys; only the publisher knows the keys' order."""


@dataclass(frozen=True, slots=True)
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
        # Of a transaction that is in some chunks and not in others, each key tells in which it is.
        differs = np.flatnonzero((is_in_some & ~is_in_all)[places])
        if differs.size:
            numbers = self.locate(as_copied(self.article), self.chunks, keys[differs])
            lacking[differs] = ~seen[numbers, places[differs]]
        return lacking

    def lacks_all(self, xids: _Xids) -> _Facts:
        """Return whether the copy lacks changes to the whole table, such as truncates: its chunks agree on these."""
        return ~self.chunks[0].snapshot.sees(xids)


@dataclass(frozen=True, slots=True)
class HandOver:
    """The transition from copying to delivery: `copies` by article id; no chunk contains commits at `until` or later.

    `finish` is called once, when everything below `until` is delivered.
    """

    until: Position
    copies: Mapping[str, ArticleCopy]
    finish: Callable[[], None]
