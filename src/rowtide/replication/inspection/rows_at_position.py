"""Published rows at a subscriber's position, and what its own programs changed that the publisher lacks.

A change counts once more if it commits below the position and the snapshot does not see it; it is undone if the
snapshot sees it and it commits at the position or later. Neither LSN nor commit time says what a snapshot sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from rowtide.copying.chunks import TransactionSnapshot
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, TableShape
from rowtide.core.values import frozen
from rowtide.log.store.entries import Segment
from rowtide.log.store.state import ManifestState, segments_between, skipped_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat, Command, KeyUpdates
from rowtide.replication.articles.schema_changes import ColumnDropped, ColumnRetyped
from rowtide.replication.distribution.altering_transactions import AlteringTransaction, CopyNeeded, find_altering
from rowtide.replication.distribution.calls.encoding import encode
from rowtide.replication.distribution.calls.from_log import are_local
from rowtide.replication.distribution.calls.ordered import Calls
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import SchemaChanged
from rowtide.replication.targets.compared_rows import (
    EMPTY,
    Buckets,
    Division,
    Fingerprint,
    Row,
    bucket_of,
    hash_row,
    key_of,
)

_CALL, _XCALL = Command(CallFormat.CALL), Command(CallFormat.XCALL)


class NotComparable(Exception):
    """Why an article's rows cannot be compared; `may_pass`: delivery may remove the cause."""

    def __init__(self, reason: str, *, may_pass: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.may_pass = may_pass


@frozen
class PositionMove:
    """From a snapshot of the publisher to an article's position.

    The snapshot sees what is in the log before `begin`, unless a commit has waited since `unseen_since` (None if none
    has), and nothing from `end` on.
    Without `forwards`, changes that the publisher received from others are in place: the subscriber has them of itself.
    """

    article: Article
    forwards: bool
    snapshot: TransactionSnapshot
    position: Position
    begin: Position
    end: Position
    unseen_since: datetime | None

    def find_segments(self, state: ManifestState) -> tuple[Segment, ...]:
        """Return the segments that may have changes between the two."""
        tables = {table_id for table_id, _ in self._list_shapes(state)}
        since = self.unseen_since
        unseen = () if since is None else tuple(one for one in state.segments if one.created_at >= since)
        between = segments_between(state, min(self.position, self.begin), max(self.position, self.end))
        found = dict.fromkeys((*unseen, *between))
        return tuple(segment for segment in found if not tables.isdisjoint(segment.tables))

    def list_changes(self, state: ManifestState, records: pa.Table, *, with_values: bool) -> Iterator[tuple[Row, int]]:
        """Yield the rows that come (1) and go (-1) by a segment's records; without values only their number counts.

        Raises `NotComparable`.
        """
        lsns, table_ids = records["commit_lsn"].to_numpy(), records["table_id"].to_numpy()
        is_seen = self.snapshot.sees(records["xid"].to_numpy())
        is_below = lsns < self.position.value
        is_sent = np.ones(len(lsns), np.bool_) if self.forwards else are_local(records)
        whole = replace(self.article, insert=_CALL, update=_XCALL, delete=_XCALL, key_updates=KeyUpdates.UPDATE)
        for table_id, shape in self._list_shapes(state):
            for sign, chosen in ((1, is_below & ~is_seen), (-1, ~is_below & is_seen)):
                changes = records.filter(chosen & is_sent & (table_ids == table_id))
                if changes.num_rows:
                    _require_movable(changes, with_values=with_values)
                    # Columns that the subscriber has and these rows lack were added later, without a value.
                    yield from _list_rows(encode(whole, shape, changes, may_lack_columns=True), sign)

    def _list_shapes(self, state: ManifestState) -> list[tuple[int, TableShape]]:
        return [
            (version.table_id, version.shape)
            for version in state.tables.values()
            if version.shape.source_id == self.article.source_id
        ]


def _require_movable(changes: pa.Table, *, with_values: bool) -> None:
    operations = changes["operation"].to_numpy()
    truncates = changes.filter(operations == Operation.TRUNCATE)
    if truncates.num_rows:
        lsn = CommitLsn(int(truncates["commit_lsn"][0].as_py()))
        raise NotComparable(f"it was truncated at LSN {lsn}, which the subscriber has not reached")
    has_old_row = np.isin(operations, (Operation.UPDATE, Operation.DELETE))
    if with_values and (changes["image"].to_numpy()[has_old_row] != ImageKind.FULL).any():
        raise NotComparable("it changes, and the log has only the keys of its old rows")


def _list_rows(groups: Iterable[Calls], sign: int) -> Iterator[tuple[Row, int]]:
    for calls in groups:
        width = len(calls.article.columns)
        for arguments in calls.arguments.rows:
            if calls.operation is not Operation.INSERT:
                yield tuple(arguments[:width]), -sign
            if calls.operation is not Operation.DELETE:
                yield tuple(arguments[-width:]), sign


def add_to_buckets(
    article: Article, published: Buckets, changes: Iterable[tuple[Row, int]], division: Division, *, with_checksum: bool
) -> Buckets:
    """Return fingerprints after rows came and went."""
    rows = {bucket: found.rows for bucket, found in published.items()}
    sums = {bucket: found.checksum or 0 for bucket, found in published.items()}
    for row, sign in changes:
        bucket = bucket_of(article, division, key_of(article, row))
        rows[bucket] = rows.get(bucket, 0) + sign
        if with_checksum:
            sums[bucket] = sums.get(bucket, 0) + sign * hash_row(article.columns, row)
    return {
        bucket: Fingerprint(count, sums.get(bucket, 0) if with_checksum else None)
        for bucket, count in rows.items()
        if count or sums.get(bucket, 0)
    }


def total(buckets: Buckets, *, with_checksum: bool) -> Fingerprint:
    """Return the fingerprint of all buckets' rows."""
    found = buckets.values()
    checksum = sum(one.checksum or 0 for one in found) if with_checksum else None
    return Fingerprint(sum(one.rows for one in found), checksum)


def differing(published: Buckets, present: Buckets) -> frozenset[int]:
    """Return the buckets whose rows differ."""
    buckets = {*published, *present}
    return frozenset(one for one in buckets if published.get(one, EMPTY) != present.get(one, EMPTY))


def find_position(
    state: ManifestState, subscription: Subscription, article: Article, recorded: Position
) -> tuple[Position, str | None]:
    """Return the position of an article's rows at a subscriber; and why it gets no more, if so."""
    start = subscription.starts[article.article_id]
    position = max(recorded, start)
    for one in state.lacking(subscription.reader):
        if one.member_id == article.article_id and start <= Position(one.lsn.value) < position:
            return Position(one.lsn.value), one.reason
    return position, None


def require_between(
    state: ManifestState, subscription: Subscription, article: Article, position: Position, end: Position
) -> None:
    """Raise `NotComparable` unless the log has all that lies between a position and its end, in rows."""
    if position.epoch != state.epoch:
        raise NotComparable("the log was restarted, and the subscriber is before the gap", may_pass=False)
    if position < state.low:
        raise NotComparable(
            f"the subscriber is at LSN {position}, and the log store begins at {state.low}", may_pass=False
        )
    if position > state.position:
        reason = f"the subscriber is at LSN {position}, and the log was read only up to {state.position}"
        raise NotComparable(reason, may_pass=False)
    for one in state.incomplete:
        if one.member_id == article.article_id and not position.covers(one.lsn):
            reason = f"the log lacks a change of the transaction at LSN {one.lsn}: {one.reason}"
            raise NotComparable(reason, may_pass=False)
    for gap in skipped_between(state, position, end):
        raise NotComparable(f"the log has a gap at LSN {gap.after}: {gap.reason}", may_pass=False)
    _require_same_values(state, subscription, article, position, end)


def _require_same_values(
    state: ManifestState, subscription: Subscription, article: Article, position: Position, end: Position
) -> None:
    """Raise `NotComparable` if a schema change between altered values that the subscriber has."""
    while (lsn := find_altering(state, [article], position, end)) is not None:
        try:
            altering = AlteringTransaction.read(
                state, [article], lsn, replicates_ddl=subscription.replicates_ddl, refused={}
            )
        except SchemaChanged as error:
            raise NotComparable(f"its table was altered at LSN {lsn}: {error.change}", may_pass=False) from error
        except CopyNeeded as found:
            raise NotComparable(f"its table is copied again: {found.error.change}") from found
        changes = (change for step in altering.steps for change in step.followed.changes)
        if any(isinstance(change, ColumnDropped | ColumnRetyped) for change in changes):
            raise NotComparable(f"its table was altered at LSN {lsn}, which the subscriber has not reached")
        (article,) = altering.articles()
        position = Position(lsn.value + 1)
