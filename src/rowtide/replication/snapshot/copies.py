"""Which changes a subscriber's copy of a table does not have: those are delivered, the others are in it. Pure.

A change is in the copy if the snapshot of its key's chunk sees its transaction. So a change of the key may be in the
one chunk and not in the other; it is a delete or an insert then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rowtide.core.lsn import Position
from rowtide.replication.articles import Article
from rowtide.replication.snapshot.chunks import CopiedChunk

_Xids = npt.NDArray[np.int64]
_Facts = npt.NDArray[np.bool_]
_Keys = npt.NDArray[np.object_]
"""The values of keys by rows and key columns, as bytes."""

Locate = Callable[[Article, Sequence[CopiedChunk], _Keys], _Xids]
"""Returns the numbers of the chunks that keys are in; the publisher knows the order of its keys."""


@dataclass(frozen=True, slots=True)
class ArticleCopy:
    """An article's rows at a subscriber, chunk by chunk, in the order of their numbers."""

    article: Article
    chunks: tuple[CopiedChunk, ...]
    locate: Locate

    def lacks(self, xids: _Xids, keys: _Keys) -> _Facts:
        """Tell of each change, by its transaction and its key, whether the copy does not have it."""
        known, places = np.unique(xids, return_inverse=True)
        seen = np.array([chunk.snapshot.sees(known) for chunk in self.chunks])
        is_in_all: _Facts = np.logical_and.reduce(seen)
        is_in_some: _Facts = np.logical_or.reduce(seen)
        lacking: _Facts = ~is_in_all[places]
        # Of a transaction that is in some chunks and not in others, each key tells in which it is.
        differs = np.flatnonzero((is_in_some & ~is_in_all)[places])
        if differs.size:
            numbers = self.locate(self.article, self.chunks, keys[differs])
            lacking[differs] = ~seen[numbers, places[differs]]
        return lacking

    def lacks_all(self, xids: _Xids) -> _Facts:
        """As above, of changes of the whole table: its chunks agree about those."""
        return ~self.chunks[0].snapshot.sees(xids)


@dataclass(frozen=True, slots=True)
class HandOver:
    """From copying to delivering: `copies` by article id; whatever commits at `until` or later is in none of them.

    `finish` is called once, when all below `until` is delivered.
    """

    until: Position
    copies: Mapping[str, ArticleCopy]
    finish: Callable[[], None]
