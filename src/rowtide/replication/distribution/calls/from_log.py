"""Read the log store's records as calls of a subscription's articles, with the commit times of their transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.log.batches import MAX_BATCH_BYTES
from rowtide.log.origin_marks import is_marked
from rowtide.log.store.entries import Segment
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.encoding import encode, filtered
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.snapshot.agent import ArticleCopy


def are_local(records: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which log records are the database's own changes: rowtide's delivery has not brought them."""
    origins = records["origin"]
    if origins.null_count == len(origins):
        return np.ones(len(origins), np.bool_)
    encoded = origins.combine_chunks().dictionary_encode()
    local = np.array([not is_marked(name) for name in encoded.dictionary.to_pylist()] + [True], np.bool_)
    places = encoded.indices.fill_null(len(local) - 1).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.bool_] = local[places]
    return found


_EPOCH = datetime.fromtimestamp(0, UTC)
_Times = npt.NDArray[np.int64]


class CommitTimes:
    """Commit times by LSN, in microseconds since 1970, by the publisher's clock."""

    def __init__(self) -> None:
        self._known: list[tuple[_Times, _Times]] = []

    def add(self, records: pa.Table) -> None:
        """Add the transactions of a segment."""
        lsns, places = np.unique(records["commit_lsn"].to_numpy(), return_index=True)
        times = records["commit_time"].cast(pa.int64()).to_numpy()
        self._known.append((lsns, times[places]))

    def find(self, lsn: int) -> int | None:
        """Return a transaction's commit time; None if none of the segments has it."""
        for lsns, times in reversed(self._known):
            place = int(np.searchsorted(lsns, lsn))
            if place < len(lsns) and lsns[place] == lsn:
                return int(times[place])
        return None


def microseconds(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)


ArticleVersions = Sequence[tuple[Article, LoggedTable]]
"""Articles, each with every version of its table."""
_PLACE = ("commit_lsn", "table_id", "seqval")
_BEHIND_ALL = np.iinfo(np.int64).max


def find_versions(state: ManifestState, articles: Iterable[Article]) -> ArticleVersions:
    """Return articles with the versions that the log has of their tables."""
    return [
        (article, version)
        for article in articles
        for version in state.tables.values()
        if version.shape.source_id == article.source_id
    ]


class Stage(NamedTuple):
    """Row changes of a transaction from the number `since` to the next stage's, and of which articles they are then."""

    since: int
    versions: ArticleVersions


def find_row_numbers(manifest: Manifest, lsn: CommitLsn, table_id: int) -> Sequence[int]:
    """Return the first and the last number of a transaction's row changes of a table version; none without any.

    Raises what `read_segment` of the log raises.
    """
    found: list[int] = []
    for segment in segments_between(manifest.state, Position(lsn.value), Position(lsn.value + 1)):
        if table_id in segment.tables:
            records = read_segment(manifest.store, segment.path, _PLACE)
            lsns, table_ids, seqvals = (records[name].to_numpy() for name in _PLACE)
            found += seqvals[(lsns == lsn.value) & (table_ids == table_id)].tolist()
            found = [min(found), max(found)] if found else []
    return found


@frozen
class LogCalls:
    """The calls of one subscription, and the commit times of what was read.

    `copies`: during a hand-over, by article; the changes that they contain are omitted.
    """

    manifest: Manifest
    subscription: Subscription
    copies: Mapping[str, ArticleCopy] | None = None
    times: CommitTimes = field(default_factory=CommitTimes)

    def read(
        self, begin: Position, end: Position, versions: ArticleVersions, relieve: Callable[[], None]
    ) -> Iterator[OrderedCalls]:
        """Yield the calls in [begin, end), those of each segment; `relieve` is called where they take much memory."""
        return self.read_stages(begin, end, (Stage(0, versions),), relieve)

    def read_stages(
        self, begin: Position, end: Position, stages: Sequence[Stage], relieve: Callable[[], None]
    ) -> Iterator[OrderedCalls]:
        """As `read`, of a transaction in which articles change: stage by stage within a segment."""
        held_bytes = 0
        versions = stages[0].versions
        for segment in segments_between(self.manifest.state, begin, end):
            if any(version.table_id in segment.tables for _, version in versions):
                if held_bytes + segment.raw_bytes > MAX_BATCH_BYTES:
                    relieve()
                    held_bytes = 0
                held_bytes += segment.raw_bytes
                yield from self._read_segment(segment, begin, end, stages)

    def read_segment(
        self, segment: Segment, begin: Position, end: Position, versions: ArticleVersions
    ) -> Iterator[OrderedCalls]:
        """Yield the calls of one segment in [begin, end), in log order.

        Raises what `read_segment` of the log raises, and `ColumnNotLogged`.
        """
        return self._read_segment(segment, begin, end, (Stage(0, versions),))

    def _read_segment(
        self, segment: Segment, begin: Position, end: Position, stages: Sequence[Stage]
    ) -> Iterator[OrderedCalls]:
        present = [Stage(stage.since, _of_segment(segment, stage.versions)) for stage in stages]
        if not present[0].versions:
            return iter(())
        # The records end before the first call is run.
        return map(OrderedCalls.of, self._read_present(segment, begin, end, present))

    def _read_present(
        self, segment: Segment, begin: Position, end: Position, stages: Sequence[Stage]
    ) -> Sequence[Sequence[Calls]]:
        records = read_segment(self.manifest.store, segment.path)
        self.times.add(records)
        if len(stages) == 1:
            return [list(self._encode(records, begin, end, stages[0].versions))]
        seqvals = records["seqval"].to_numpy()
        borders = [*(stage.since for stage in stages), _BEHIND_ALL]
        return [
            list(self._encode(filtered(records, (seqvals >= since) & (seqvals < until)), begin, end, stage.versions))
            for stage, (since, until) in zip(stages, pairwise(borders), strict=True)
        ]

    def _encode(self, records: pa.Table, begin: Position, end: Position, present: ArticleVersions) -> Iterator[Calls]:
        lsns, table_ids = records["commit_lsn"].to_numpy(), records["table_id"].to_numpy()
        is_sent = np.ones(len(lsns), np.bool_) if self.subscription.forwards else are_local(records)
        for article, version in present:
            start = max(begin, self.subscription.starts[article.article_id])
            stop = min(end, self._find_suspension(article) or end)
            is_inside = (lsns >= start.value) & (lsns < stop.value) & (table_ids == version.table_id) & is_sent
            copy = self.copies[article.article_id] if self.copies is not None else None
            # What a copy contains may predate a column that the copy has: none of it is delivered.
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


def _of_segment(segment: Segment, versions: ArticleVersions) -> ArticleVersions:
    return [found for found in versions if found[1].table_id in segment.tables]
