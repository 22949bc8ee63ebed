"""Where conflicts are kept: at a hub of merge, and at the subscribers of a publisher."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowtide.conflicts.errors import InboxConflictSettled
from rowtide.conflicts.inbox import ConflictSource, InboxConflict, InboxState, differing, identify
from rowtide.core.values import frozen
from rowtide.databases.urls import DatabaseKind, parse_url
from rowtide.merge.api import MergeReplication
from rowtide.merge.catalogue import list_publications
from rowtide.merge.conflicts.records import KeptConflict as MergeConflict
from rowtide.merge.conflicts.resolution import Winner
from rowtide.merge.nodes.connecting import open_node
from rowtide.replication.conflicts import ConflictWinner

if TYPE_CHECKING:
    from rowtide.replication.resolving import UnreadSubscriber
    from rowtide.replication.targets.subscriber_kind import KeptConflict as DeliveryConflict

_PUBLISHERS = (DatabaseKind.POSTGRESQL,)
_WON = {"applied": "publisher", "skipped": "subscriber"}
_WINNERS = {"publisher": ConflictWinner.DELIVERED, "subscriber": ConflictWinner.PRESENT}


@frozen
class DecisionOptions:
    """How a decision is asked for; see `ConflictInbox.decide`."""

    over_later_changes: bool = False
    again: bool = False
    decided_by: str | None = None


@frozen
class DecidableConflict:
    """A conflict, and what lets a side of it win and returns whether rows were written."""

    conflict: InboxConflict
    settle: Callable[[str, DecisionOptions], bool]


def read_merge(url: str) -> Sequence[DecidableConflict]:
    """Return the conflicts of merge that a node keeps."""
    merge = MergeReplication(url)
    kept = merge.list_conflicts()
    if not kept:
        return ()
    with open_node(url) as node:
        publishers = {one.name: one.publisher for one in list_publications(node.connection)}
    return [_hold_merged(merge, one, is_publishers=one.origin == publishers[one.publication]) for one in kept]


def _hold_merged(merge: MergeReplication, kept: MergeConflict, *, is_publishers: bool) -> DecidableConflict:
    """`is_publishers`: the version that lost is the publisher's."""
    rows = (kept.losing_row, kept.winning_row) if is_publishers else (kept.winning_row, kept.losing_row)

    def settle(side: str, asked: DecisionOptions) -> bool:
        if kept.resolved_time is not None and not asked.again:
            raise InboxConflictSettled(kept.conflict_id, f"{kept.resolved_time:%Y-%m-%d %H:%M:%S} UTC")
        return merge.resolve(kept.conflict_id, Winner(side), over_later_changes=asked.over_later_changes)

    return DecidableConflict(
        _with_cause(
            InboxConflict(
                conflict_id=kept.conflict_id,
                cause="",
                source=ConflictSource.MERGE,
                publication=kept.publication,
                table=kept.article,
                key=kept.rowguid,
                kind=kept.conflict,
                state=InboxState.OPEN if kept.resolved_time is None else InboxState.SETTLED,
                won="subscriber" if is_publishers else "publisher",
                reason=kept.reason_text,
                node=kept.origin_datasource,
                created=kept.create_time,
                publisher_row=rows[0],
                subscriber_row=rows[1],
                base_row=None,
                publisher_time=None,
                differing_columns=", ".join(differing(*rows)),
                settled_by=None,
                settled_at=kept.resolved_time,
            )
        ),
        settle,
    )


def read_delivery(url: str) -> tuple[Sequence[DecidableConflict], tuple[UnreadSubscriber, ...]]:
    """Return the conflicts of delivery to a publisher's subscribers, and the subscribers that could not be read."""
    if parse_url(url).kind not in _PUBLISHERS:
        return (), ()
    from rowtide.replication.api import TransactionalReplication
    from rowtide.replication.errors.publishing import DatabaseNotPublished

    replication = TransactionalReplication(url)
    try:
        found = replication.read_conflicts()
    except DatabaseNotPublished:
        return (), ()
    keys = {
        (one.publication, f"{one.source_owner}.{one.source_object}"): one.key_columns
        for one in (replication.list_articles() if found.conflicts else ())
    }
    held = [_hold_delivered(url, one, keys.get((one.publication, one.article), ())) for one in found.conflicts]
    return held, found.unread


def _hold_delivered(url: str, kept: DeliveryConflict, key_columns: Sequence[str]) -> DecidableConflict:
    from rowtide.replication.api import TransactionalReplication

    present = json.loads(kept.present_rows)
    there = json.dumps(present[0], ensure_ascii=False) if len(present) == 1 else kept.present_rows if present else None
    row = json.loads(kept.old_row or kept.new_row or "{}")
    is_by_time = any(json.loads(kept.present_times))

    def settle(side: str, asked: DecisionOptions) -> bool:
        outcome = TransactionalReplication(url).resolve(
            kept.conflict_id,
            kept.subscriber,
            _WINNERS[side],
            publication=kept.publication,
            over_later_changes=asked.over_later_changes,
            again=asked.again,
            decided_by=asked.decided_by,
        )
        return bool(outcome.rows)

    return DecidableConflict(
        _with_cause(
            InboxConflict(
                conflict_id=identify(kept.publication, kept.subscriber, kept.conflict_id),
                cause="",
                source=ConflictSource.REPLICATION,
                publication=kept.publication,
                table=kept.article,
                key=json.dumps({name: row.get(name) for name in key_columns}, ensure_ascii=False),
                kind=kept.kind,
                state=InboxState(kept.state),
                won=_WON.get(kept.resolution),
                reason=f"{kept.resolution} by last commit time" if is_by_time else kept.resolution,
                node=kept.subscriber,
                created=kept.logged_at,
                publisher_row=kept.new_row,
                subscriber_row=there,
                base_row=kept.old_row,
                publisher_time=kept.commit_time,
                differing_columns=", ".join(differing(kept.new_row, there) if len(present) == 1 else ()),
                settled_by=kept.settled_by,
                settled_at=kept.settled_at,
            )
        ),
        settle,
    )


def _with_cause(one: InboxConflict) -> InboxConflict:
    """Return a conflict with the name of its cause."""
    cause = (one.source, one.publication, one.table, one.kind, one.node, one.differing_columns, one.won, one.reason)
    return replace(one, cause=f"cause-{identify(*cause)}")
