"""Reads the log store's records as the calls of a subscription's articles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rowtide.core.lsn import Position
from rowtide.core.tables import TableVersion
from rowtide.log.batches import MAX_BATCH_BYTES
from rowtide.log.entries import Segment
from rowtide.log.manifest import Manifest
from rowtide.log.segments import read_segment
from rowtide.log.state import ManifestState, segments_between
from rowtide.replication.articles import Article
from rowtide.replication.distribution.batches import Block, Call, in_blocks
from rowtide.replication.distribution.commit_times import CommitTimes
from rowtide.replication.distribution.encoding import Calls, encode, filtered
from rowtide.replication.distribution.origins import are_local
from rowtide.replication.snapshot.copies import ArticleCopy
from rowtide.replication.subscription_records import Subscription

ArticleVersions = Sequence[tuple[Article, TableVersion]]
"""Articles, each with every version of its table."""


def find_versions(state: ManifestState, articles: Iterable[Article]) -> ArticleVersions:
    """Return articles with the versions that the log has of their tables."""
    return [
        (article, version)
        for article in articles
        for version in state.tables.values()
        if version.shape.source_id == article.source_id
    ]


@dataclass(frozen=True, slots=True)
class LogCalls:
    """The calls of one subscription, and the commit times of what was read.

    `copies`: during a hand-over, by article; the changes that they contain are left out.
    """

    manifest: Manifest
    subscription: Subscription
    copies: Mapping[str, ArticleCopy] | None = None
    times: CommitTimes = field(default_factory=CommitTimes)

    def read(
        self, begin: Position, end: Position, versions: ArticleVersions, relieve: Callable[[], None]
    ) -> Iterator[Call | Block]:
        """Yield the calls in [begin, end), in log order; `relieve` is called where those so far take much memory."""
        held_bytes = 0
        for segment in segments_between(self.manifest.state, begin, end):
            if any(version.table_id in segment.tables for _, version in versions):
                if held_bytes + segment.raw_bytes > MAX_BATCH_BYTES:
                    relieve()
                    held_bytes = 0
                held_bytes += segment.raw_bytes
                yield from self.read_segment(segment, begin, end, versions)

    def read_segment(
        self, segment: Segment, begin: Position, end: Position, versions: ArticleVersions
    ) -> Iterator[Call | Block]:
        """Yield the calls of one segment in [begin, end), in log order. Raises what `read_segment` of the log raises,
        and `ColumnNotLogged`.
        """
        present = [found for found in versions if found[1].table_id in segment.tables]
        # The records end before the first call is run.
        return in_blocks(self._read_present(segment, begin, end, present)) if present else iter(())

    def _read_present(
        self, segment: Segment, begin: Position, end: Position, present: ArticleVersions
    ) -> Sequence[Calls]:
        records = read_segment(self.manifest.store, segment.path)
        self.times.add(records)
        return list(self._encode(records, begin, end, present))

    def _encode(self, records: pa.Table, begin: Position, end: Position, present: ArticleVersions) -> Iterator[Calls]:
        lsns, table_ids = records["commit_lsn"].to_numpy(), records["table_id"].to_numpy()
        is_sent = np.ones(len(lsns), np.bool_) if self.subscription.forwards else are_local(records)
        for article, version in present:
            start = max(begin, self.subscription.starts[article.article_id])
            stop = min(end, self._find_suspension(article) or end)
            is_inside = (lsns >= start.value) & (lsns < stop.value) & (table_ids == version.table_id) & is_sent
            copy = self.copies[article.article_id] if self.copies is not None else None
            # What a copy contains may be of before a column that the copy has: none of it is delivered.
            yield from encode(
                article, version.shape, filtered(records, is_inside), copy, may_lack_columns=copy is not None
            )

    def _find_suspension(self, article: Article) -> Position | None:
        """Return where an article was suspended because the subscriber could not store a row."""
        start = self.subscription.starts[article.article_id]
        lacking = (
            Position(one.lsn.value)
            for one in self.manifest.state.lacking(self.subscription.reader)
            if one.member_id == article.article_id
        )
        return next((lsn for lsn in lacking if start <= lsn), None)
