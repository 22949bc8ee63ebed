"""Where conflicts are kept: at a hub of merge, and at the subscribers of a publisher."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rowtide.conflicts.inbox import (
    ConflictSource,
    DecisionPreview,
    InboxConflict,
    InboxNote,
    InboxState,
    PreviewedRow,
    WrittenVersion,
    differing,
    identify,
)
from rowtide.core.values import frozen
from rowtide.databases.urls import DatabaseKind, parse_url
from rowtide.merge.api import MergeReplication
from rowtide.merge.catalogue import get_publication, list_publications
from rowtide.merge.conflicts.notes import ConflictNote as MergeNote, list_notes
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.conflicts.stored_conflicts import (
    ConflictsMark,
    MergeConflict,
    describe_conflict,
    list_conflicts,
    read_conflicts_mark,
)
from rowtide.merge.errors.rows import ConflictUnknown
from rowtide.merge.nodes.connecting import open_node
from rowtide.replication.conflict_decisions import ConflictWinner, Row

if TYPE_CHECKING:
    from rowtide.replication.conflict_decisions import ConflictOutcome, KeptConflict as DeliveryConflict
    from rowtide.replication.kept_conflicts import KeptConflicts, UnreadSubscriber

_PUBLISHERS = (DatabaseKind.POSTGRESQL,)
_WON = {"applied": "publisher", "skipped": "subscriber"}
_WINNERS = {"publisher": ConflictWinner.DELIVERED, "subscriber": ConflictWinner.PRESENT}
_SIDES = {winner.value: side for side, winner in _WINNERS.items()}


@frozen
class DecisionOptions:
    """How a decision is asked for; see `ConflictInbox.decide`."""

    over_later_changes: bool = False
    again: bool = False
    decided_by: str | None = None


@frozen
class DecidableConflict:
    """A conflict, what lets a side of it win and returns whether rows were written, and what would be done then."""

    conflict: InboxConflict
    settle: Callable[[str, DecisionOptions], bool]
    preview: Callable[[str], DecisionPreview]


class MergedConflicts:
    """The conflicts of merge that a node keeps; those that are as they were are not read again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._read: tuple[ConflictsMark, Sequence[DecidableConflict]] | None = None

    def read(self) -> Sequence[DecidableConflict]:
        """Return them, oldest first."""
        with open_node(self._url) as node:
            if not node.tables.is_prepared():
                return ()
            # Before they are read: what is recorded meanwhile is read again.
            mark = read_conflicts_mark(node.connection)
            known = self._read
            if known is not None and known[0] == mark:
                return known[1]
            kept = list_conflicts(node)
            publishers = {one.name: one.publisher for one in list_publications(node.connection)}
            noted = list_notes(node.connection) if kept else {}
        merge = MergeReplication(self._url)
        found = [
            _hold_merged(
                merge, one, noted.get(one.conflict_id, ()), is_publishers=one.origin == publishers[one.publication]
            )
            for one in kept
        ]
        self._read = mark, found
        return found


@frozen
class DescribedMerge:
    """A conflict of merge, with its notes and who wrote its versions."""

    held: DecidableConflict
    notes: tuple[InboxNote, ...]
    written: tuple[WrittenVersion, ...]


def find_merge(url: str, conflict_id: str) -> DescribedMerge | None:
    """Return a conflict of merge that a node keeps, without reading the others."""
    try:
        with open_node(url) as node:
            if not node.tables.is_prepared():
                return None
            found = describe_conflict(node, conflict_id)
            publisher = get_publication(node.connection, found.conflict.publication).publisher
            noted = list_notes(node.connection, conflict_id).get(conflict_id, ())
    except ConflictUnknown:
        return None
    is_publishers = found.conflict.origin == publisher
    sides = ("publisher", "subscriber") if is_publishers else ("subscriber", "publisher")
    written = [
        WrittenVersion(side, writer.subscriber, writer.earliest, writer.latest)
        for side, writer in zip(sides, (found.loser, found.winner), strict=True)
        if writer is not None
    ]
    return DescribedMerge(
        _hold_merged(MergeReplication(url), found.conflict, noted, is_publishers=is_publishers),
        tuple(InboxNote(one.noted_at, one.noted_by, one.note, one.winner) for one in noted),
        tuple(sorted(written, key=lambda one: one.side)),
    )


def _hold_merged(
    merge: MergeReplication, kept: MergeConflict, noted: Sequence[MergeNote], *, is_publishers: bool
) -> DecidableConflict:
    """`is_publishers`: the version that lost is the publisher's."""
    decision = next((note for note in reversed(noted) if note.winner is not None), None)
    # A refused row that is accepted later was settled by nobody: an earlier decision was not about that.
    decided = decision if kept.resolved_time is not None else None

    def settle(side: str, asked: DecisionOptions) -> bool:
        return merge.resolve(
            kept.conflict_id,
            Winner(side),
            over_later_changes=asked.over_later_changes,
            again=asked.again,
            decided_by=asked.decided_by,
        )

    def preview(side: str) -> DecisionPreview:
        found = merge.preview_resolution(kept.conflict_id, Winner(side))
        changed = tuple(PreviewedRow(row.table, row.rowguid, row.before, row.after, row.later) for row in found.rows)
        nodes = found.nodes + 1 if changed else 0
        return DecisionPreview(kept.conflict_id, side, changed, nodes, is_exact=found.is_exact)

    return DecidableConflict(_with_cause(_describe_merged(kept, decided, is_publishers=is_publishers)), settle, preview)


def _describe_merged(kept: MergeConflict, decided: MergeNote | None, *, is_publishers: bool) -> InboxConflict:
    rows = (kept.losing_row, kept.winning_row) if is_publishers else (kept.winning_row, kept.losing_row)
    return InboxConflict(
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
        base_row=_unchanged_columns(kept),
        publisher_time=None,
        differing_columns=", ".join(differing(*rows)),
        settled_by=decided.noted_by if decided is not None else None,
        settled_at=kept.resolved_time,
        decided=decided.winner if decided is not None else None,
    )


def _unchanged_columns(kept: MergeConflict) -> str | None:
    """Return the columns that the losing version had not changed, with the values that the row had before, as JSON."""
    if kept.losing_row is None or kept.losing_columns is None:
        return None
    changed = frozenset(json.loads(kept.losing_columns))
    known = {name: value for name, value in json.loads(kept.losing_row).items() if name not in changed}
    return json.dumps(known, ensure_ascii=False) if known else None


class DeliveredConflicts:
    """The conflicts of delivery to a publisher's subscribers; where they are as they were, they are not read again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._read: tuple[KeptConflicts, Sequence[DecidableConflict]] | None = None

    def read(self) -> tuple[Sequence[DecidableConflict], tuple[UnreadSubscriber, ...]]:
        """Return them, and the subscribers that could not be read."""
        if parse_url(self._url).kind not in _PUBLISHERS:
            return (), ()
        from rowtide.replication.api import TransactionalReplication
        from rowtide.replication.errors.publishing import DatabaseNotPublished

        replication, known = TransactionalReplication(self._url), self._read
        try:
            found = replication.read_conflicts(known=known[0] if known is not None else None)
        except DatabaseNotPublished:
            return (), ()
        if known is not None and known[0].listed == found.listed:
            return known[1], found.unread
        keys = {
            (one.publication, f"{one.source_owner}.{one.source_object}"): one.key_columns
            for one in (replication.list_articles() if found.conflicts else ())
        }
        held = [
            _hold_delivered(self._url, one, keys.get((one.publication, one.article), ())) for one in found.conflicts
        ]
        self._read = found, held
        return held, found.unread


def _hold_delivered(url: str, kept: DeliveryConflict, key_columns: Sequence[str]) -> DecidableConflict:
    held = _DeliveredConflict(url, kept)
    return DecidableConflict(_with_cause(held.describe(key_columns)), held.settle, held.preview)


@frozen
class _DeliveredConflict:
    """A conflict that a subscriber of the publisher at `url` keeps."""

    url: str
    kept: DeliveryConflict

    @property
    def name(self) -> str:
        """Its name in the list of all conflicts."""
        return identify(self.kept.publication, self.kept.subscriber, self.kept.conflict_id)

    def settle(self, side: str, asked: DecisionOptions) -> bool:
        """Write the rows of one side at the subscriber; return whether any changed."""
        outcome = self._resolving(side)(
            over_later_changes=asked.over_later_changes,
            again=asked.again,
            decided_by=asked.decided_by,
        )
        return bool(outcome.rows)

    def preview(self, side: str) -> DecisionPreview:
        """Return what `settle` would write, whatever was changed or decided since."""
        outcome = self._resolving(side)(over_later_changes=True, again=True, preview=True)
        changed_since = {one.key for one in outcome.changed_since}
        rows = tuple(
            PreviewedRow(
                self.kept.article,
                json.dumps(one.key, ensure_ascii=False),
                _encode(one.before),
                _encode(one.after),
                "it has changed since" if one.key in changed_since else None,
            )
            for one in outcome.rows
        )
        nodes = 1 + len(outcome.sent_to) if rows or outcome.waits else 0
        return DecisionPreview(self.name, side, rows, nodes, waits=outcome.waits)

    def describe(self, key_columns: Sequence[str]) -> InboxConflict:
        """Return it as conflicts of all features are listed."""
        kept = self.kept
        present = json.loads(kept.present_rows)
        # Several rows conflict with one change if it meets more than one unique key: they are shown as a list, and
        # no columns can be compared.
        is_single = len(present) == 1
        there = json.dumps(present[0], ensure_ascii=False) if is_single else kept.present_rows if present else None
        row = json.loads(kept.old_row or kept.new_row or "{}")
        is_by_time = any(json.loads(kept.present_times))
        return InboxConflict(
            conflict_id=self.name,
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
            differing_columns=", ".join(differing(kept.new_row, there) if is_single else ()),
            settled_by=kept.settled_by,
            settled_at=kept.settled_at,
            subscriber_time=_last_written(kept.present_times),
            decided=_SIDES.get(kept.winner or ""),
        )

    def _resolving(self, side: str) -> partial[ConflictOutcome]:
        from rowtide.replication.api import TransactionalReplication

        kept, replication = self.kept, TransactionalReplication(self.url)
        winner = _WINNERS[side]
        return partial(replication.resolve, kept.conflict_id, kept.subscriber, winner, publication=kept.publication)


def written_versions(conflict: InboxConflict) -> Sequence[WrittenVersion]:
    """Return when the versions of a conflict of delivery were committed, where that is known."""
    times = (("publisher", None, conflict.publisher_time), ("subscriber", conflict.node, conflict.subscriber_time))
    return [WrittenVersion(side, node, at, at) for side, node, at in times if at is not None]


def _encode(row: Row | None) -> str | None:
    return None if row is None else json.dumps(row, ensure_ascii=False)


def _last_written(present_times: str) -> datetime | None:
    """Return when the rows that a change met were written last, where that is known."""
    known = [one[0] for one in json.loads(present_times) if one is not None]
    return datetime.fromtimestamp(max(known) / 1_000_000, UTC) if known else None


def _with_cause(one: InboxConflict) -> InboxConflict:
    """Return a conflict with the name of its cause, which is the same at all nodes."""
    cause = (one.source, one.publication, one.table, one.kind, one.differing_columns, one.won, one.reason)
    return replace(one, cause=f"cause-{identify(*cause)}")


def read_delivery_notes(url: str, conflict: InboxConflict) -> Sequence[InboxNote]:
    """Return the comments on a conflict of delivery and the decision about it, oldest first."""
    from rowtide.replication.api import TransactionalReplication

    comments = TransactionalReplication(url).list_conflict_comments().get(conflict.conflict_id, ())
    notes = [InboxNote(one.commented_at, one.commented_by, one.comment, None) for one in comments]
    if conflict.settled_at is not None and conflict.decided is not None:
        notes.append(InboxNote(conflict.settled_at, conflict.settled_by or "somebody", None, conflict.decided))
    return sorted(notes, key=lambda one: one.noted_at)


def comment(url: str, conflicts: Sequence[InboxConflict], note: str, noted_by: str) -> None:
    """Record a comment on conflicts: those of merge at their node, those of delivery at the publisher."""
    by_source = {source: [one.conflict_id for one in conflicts if one.source is source] for source in ConflictSource}
    if merged := by_source[ConflictSource.MERGE]:
        MergeReplication(url).comment_on_conflicts(merged, note, noted_by)
    if delivered := by_source[ConflictSource.REPLICATION]:
        from rowtide.replication.api import TransactionalReplication

        TransactionalReplication(url).comment_on_conflicts(delivered, note, noted_by)
