"""Change the outcome of stored conflicts afterwards, also of rows that were changed since they were decided."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import ColumnElement, and_, false, func, or_, select, true, update

from rowtide.core.values import frozen
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import Article, Publication
from rowtide.merge.catalogue import find_article, get_publication, list_articles, read_nickname
from rowtide.merge.conflicts.lost_rows import Lost, describe_lost, keep_lost
from rowtide.merge.conflicts.notes import add_note, find_decider
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, encode_presence, identify, record
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.conflicts.stored_conflicts import MergeConflict, as_kept, get_conflict
from rowtide.merge.definitions import conflicts_info, partition_mappings, subscriptions
from rowtide.merge.errors import rows as errors
from rowtide.merge.exchange_state import drop_retries
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.nodes.rows import read_known
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.versions.changes import KnownVersion, Row, TombstoneType, Write
from rowtide.merge.versions.comparison import Lineage, Presence, encode_columns

Values = Mapping[str, str | None]
"""A row by column name."""


@frozen
class Restored:
    """The row to write, None for its absence; the columns that it changes; and what has changed since, if anything."""

    row: Values | None
    columns: frozenset[str]
    later: str | None


def restore(
    wanted: Values | None, present: Values | None, settled: Values | None, columns: Collection[str]
) -> Restored:
    """Return what a version makes of a row.

    `wanted` is the version, `present` the row as it is, `settled` the row as it was left; `columns` are those that the
    version changed, none if it counts as a whole.
    """
    if wanted is None:
        return Restored(None, frozenset(present or ()), _later(present, settled, present or {}))
    brought = {name: value for name, value in wanted.items() if not columns or name in columns}
    if present is None:
        row = {**settled, **brought} if settled is not None else wanted
        return Restored(row, frozenset(row), None if settled is None else "it was deleted")
    brought = {name: value for name, value in brought.items() if name in present}
    row = {**present, **brought}
    if row == present:
        return Restored(row, frozenset(brought), None)
    replaced = {name: present[name] for name in brought if present[name] != row[name]}
    return Restored(row, frozenset(brought), _later(present, settled, replaced))


def _later(present: Values | None, settled: Values | None, replaced: Values) -> str | None:
    if present is None:
        return None
    if settled is None:
        return "it is there again"
    names = [name for name, value in replaced.items() if name in settled and settled[name] != value]
    return f"{', '.join(names)} changed" if names else None


_SETTLED = (
    ConflictType.UPDATE_CONFLICT,
    ConflictType.COLUMN_UPDATE_CONFLICT,
    ConflictType.UPDATE_DELETE_WINS_CONFLICT,
    ConflictType.UPDATE_WINS_DELETE_CONFLICT,
    ConflictType.RECORD_DELETE_WINS_CONFLICT,
    ConflictType.RECORD_UPDATE_CONFLICT,
    ConflictType.RECORD_UPDATE_WINS_CONFLICT,
    ConflictType.UPLOAD_ROW_NOT_HELD,
)
"""Types of conflicts whose winner all nodes have, or get, anyway."""

_NOT_TAKEN_THERE = (
    ConflictType.DOWNLOAD_INSERT_FAILED,
    ConflictType.DOWNLOAD_UPDATE_FAILED,
    ConflictType.DOWNLOAD_DELETE_FAILED,
)


@frozen
class ResolvedRow:
    """A row that a decision writes at the hub, as JSON before and after it, None for none.

    `later` says what has changed since the conflict was decided, None if nothing that would be replaced.
    """

    table: str
    rowguid: str
    before: str | None
    after: str | None
    later: str | None


@frozen
class ResolutionPreview:
    """What a decision would write; each other node whose partition has the row gets it when it synchronises."""

    conflict_id: str
    rows: tuple[ResolvedRow, ...]
    nodes: int
    """Subscriptions whose nodes have the rows, the hub aside."""
    is_exact: bool = True
    """False: a row may enter or leave partitions, and `nodes` counts all subscriptions of the publication."""


@frozen
class ResolutionRequest:
    """How a decision is asked for; without `again` a conflict about which somebody has decided is left as it is."""

    winner: Winner
    over_later_changes: bool = False
    again: bool = True
    decided_by: str | None = None


class _Previewed(Exception):
    """Rolls the transaction of a preview back."""


def resolve_conflict(hub: Node, conflict_id: str, request: ResolutionRequest) -> bool:
    """Let one side win; return whether a row was written, which all nodes then receive as the hub's own change.

    If the version that lost is chosen, the columns that it had changed are written, or the whole row; if the side that
    won at first is chosen after the other one, what had given way is restored. Rows that lost with a parent are
    restored, or stay deleted, with it. Columns that the table did not have then keep their values, or get their
    defaults. Raises `ConflictUnknown`; `ConflictNotAtHub`; `ConflictOfSubscriber` for a row that the subscriber
    refused; `ChangedSince` if later changes would be lost, unless they are to be, and become a conflict;
    `ParentInInbox` if a parent of the row is not there; `StillReferenced` if a row would go whose children the hub has;
    `RowsRefused` if the hub refuses the row; `MergeConflictSettled`.
    """
    return transact_at(hub, lambda: _open(hub, conflict_id, request).settle())


def preview_resolution(hub: Node, conflict_id: str, winner: Winner) -> ResolutionPreview:
    """Return what a decision would write, over later changes, too: it is made and rolled back.

    Raises as `resolve_conflict`, except for later changes and earlier decisions.
    """
    rows: list[ResolvedRow] = []
    counted, is_exact = 0, True

    def make_and_leave() -> None:
        nonlocal counted, is_exact
        rows.clear()
        resolution = _open(hub, conflict_id, ResolutionRequest(winner, over_later_changes=True), rows)
        resolution.settle()
        holding = resolution.holding()
        is_exact = holding is not None
        of_publication = subscriptions.c.pubid == resolution.publication.pubid
        counted = hub.connection.execute(
            select(func.count()).where(of_publication & (true() if holding is None else holding))
        ).scalar_one()
        # Made and rolled back: what would be written, and what would be refused, is found by writing it.
        raise _Previewed

    try:
        transact_at(hub, make_and_leave)
    except _Previewed:
        return ResolutionPreview(conflict_id, tuple(rows), counted, is_exact)
    raise AssertionError("a preview was committed")


def _open(
    hub: Node, conflict_id: str, request: ResolutionRequest, rows: list[ResolvedRow] | None = None
) -> _Resolution:
    """Return the resolution of a conflict about which nobody else decides until the transaction ends."""
    hub.connection.execute(
        select(conflicts_info.c.conflict_id).where(conflicts_info.c.conflict_id == conflict_id).with_for_update()
    )
    conflict = get_conflict(hub, conflict_id)
    publication = get_publication(hub.connection, conflict.publication)
    if publication.publisher != read_nickname(hub.connection):
        raise errors.ConflictNotAtHub(conflict_id)
    if conflict.conflict_type in _NOT_TAKEN_THERE:
        raise errors.ConflictOfSubscriber(conflict_id)
    if conflict.resolved_time is not None and not request.again:
        decider = find_decider(hub.connection, conflict_id) or "somebody"
        raise errors.MergeConflictSettled(conflict_id, decider, f"{conflict.resolved_time:%Y-%m-%d %H:%M:%S} UTC")
    listed = list_articles(hub.connection, publication.pubid)
    articles = {each.nickname: each for each in listed}
    return _Resolution(hub, publication, articles, conflict, request, [] if rows is None else rows)


@frozen
class _StoredConflict:
    """A conflict's row at the hub: its article, the row as it is, and how it was left."""

    conflict: MergeConflict
    article: Article
    present: Row | None

    @property
    def settled(self) -> Values | None:
        """The row as the conflict, or the last resolution, left it."""
        if self.conflict.settled_row is not None:
            return _values_of(self.conflict.settled_row)
        if self.conflict.conflict_type == ConflictType.UPLOAD_INSERT_FAILED:
            return None
        return _values_of(self.conflict.winning_row)

    @property
    def is_of_dropped_columns(self) -> bool:
        """Whether the table has none of the columns that the losing version changed."""
        return self.conflict.losing_columns is not None and not self.columns

    @property
    def columns(self) -> frozenset[str]:
        """The columns that the losing version changed; none if it counts as a whole."""
        names = self.conflict.losing_columns
        return frozenset(() if names is None else json.loads(names)) & {each.name for each in self.article.columns}


@frozen
class _Resolution:
    """Resolves a conflict of a publication again, in the hub's transaction; `articles` are its own, by nickname.

    What it writes is added to `rows`.
    """

    hub: Node
    publication: Publication
    articles: Mapping[int, Article]
    conflict: MergeConflict
    request: ResolutionRequest
    rows: list[ResolvedRow] = field(default_factory=list)

    def settle(self) -> bool:
        """Let one side win, with the rows that lost with its row; return whether that was written."""
        is_written = self._settle(self.conflict)
        if self.request.decided_by is not None:
            chosen = self.request.winner.value
            add_note(self.hub, [self.conflict.conflict_id], self.request.decided_by, winner=chosen)
        return is_written

    def _settle(self, conflict: MergeConflict) -> bool:
        loser = Winner.PUBLISHER if conflict.origin == self.publication.publisher else Winner.SUBSCRIBER
        if self.request.winner is loser:
            is_written = self._let_loser_win(conflict)
            for child in self._descendants(conflict, is_restored=False):
                self._let_loser_win(child, conflict)
            return is_written
        # The side that has won already is chosen, and nothing has given way to the other one: the row stays as it is.
        if conflict.replaced_row is None:
            is_written = self._leave(conflict)
            for child in self._descendants(conflict, is_restored=False):
                self._conclude(child, conflict)
            return is_written
        # Children first: they returned with the parent, and reference it until they are gone.
        for child in reversed(self._descendants(conflict, is_restored=True)):
            self._turn_back(child, conflict)
        return self._turn_back(conflict)

    def _let_loser_win(self, conflict: MergeConflict, parent: MergeConflict | None = None) -> bool:
        stored = self._read(conflict)
        if stored.is_of_dropped_columns:
            self._conclude(conflict, parent)
            return False
        wanted = _values_of(conflict.losing_row)
        if wanted is not None:
            wanted = self._with_parents_keys(stored, wanted)
        # Kept with the conflict, so that the other side can still be chosen later.
        gave_way = encode_presence(self.hub.connection, stored.article, stored.present)
        restored = restore(wanted, _named(stored.article, stored.present), stored.settled, stored.columns)
        is_again = conflict.replaced_row is not None
        is_written = self._write(stored, restored, always=not is_again and conflict.conflict_type not in _SETTLED)
        if is_again and not is_written:
            return False
        self._conclude(conflict, parent, settled_row=self._encoded(stored), replaced_row=gave_way)
        return is_written

    def _turn_back(self, conflict: MergeConflict, parent: MergeConflict | None = None) -> bool:
        """Restore what had given way to the losing version."""
        stored = self._read(conflict)
        assert conflict.replaced_row is not None
        gave_way = _values_of(conflict.replaced_row)
        columns = stored.columns if gave_way is not None and stored.settled is not None else frozenset[str]()
        is_written = self._write(
            stored, restore(gave_way, _named(stored.article, stored.present), stored.settled, columns)
        )
        self._conclude(conflict, parent, settled_row=self._encoded(stored), replaced_row=None)
        return is_written

    def _leave(self, conflict: MergeConflict) -> bool:
        """Let a row stay as it is; what the hub did not take is undone at the subscriber."""
        # The subscriber still has the version that the hub has rejected. A change of the hub's own replaces it there.
        is_undone = conflict.conflict_type not in _SETTLED
        if is_undone:
            stored = self._read(conflict)
            article = stored.article
            columns = stored.columns or {each.name for each in article.columns}
            known = self._known(article, conflict)
            self.hub.writer.write(article, [_decision(conflict, known, article, stored.present, columns)])
            self._note(stored, None)
            drop_retries(self.hub.connection, conflict.origin, article.nickname, [conflict.rowguid])
        self._conclude(conflict)
        return is_undone

    def holding(self) -> ColumnElement[bool] | None:
        """Return the condition of the subscriptions whose nodes have rows that were written.

        None: a row is new, or what decides about partitions has changed, and who gets it is not known yet.
        """
        if any(not self._article_of(row).is_filtered for row in self.rows):
            return true()
        filters = bind_articles(list(self.articles.values()), None) if self.rows else {}
        if any(_may_move(row, filters[self._article_of(row).nickname]) for row in self.rows):
            return None
        mapped = partition_mappings.c
        held = [
            and_(mapped.tablenick == self._article_of(row).nickname, mapped.rowguid == row.rowguid) for row in self.rows
        ]
        return subscriptions.c.replnickname.in_(select(mapped.replnickname).where(or_(false(), *held)))

    def _article_of(self, row: ResolvedRow) -> Article:
        return find_article(self.publication, list(self.articles.values()), row.table)

    def _read(self, conflict: MergeConflict) -> _StoredConflict:
        article = find_article(self.publication, list(self.articles.values()), conflict.article)
        present = self.hub.rows.read(article, [conflict.rowguid]).get(conflict.rowguid)
        return _StoredConflict(conflict, article, present)

    def _known(self, article: Article, conflict: MergeConflict) -> KnownVersion | None:
        return self.hub.versions.read_known(article, [conflict.rowguid]).get(conflict.rowguid)

    def _encoded(self, stored: _StoredConflict) -> str:
        """Return the row as it is now."""
        row = self.hub.rows.read(stored.article, [stored.conflict.rowguid]).get(stored.conflict.rowguid)
        return encode_presence(self.hub.connection, stored.article, row)

    def _write(self, stored: _StoredConflict, restored: Restored, *, always: bool = False) -> bool:
        """Write a row, unless it is there; return whether it was. Raises `ChangedSince`, `StillReferenced`."""
        conflict, article, row = stored.conflict, stored.article, None
        if restored.later is not None and not self.request.over_later_changes:
            # The publisher's row of an update that it refused was not always kept.
            is_unknown = conflict.conflict_type == ConflictType.UPLOAD_UPDATE_FAILED and stored.settled is None
            later = "it may have changed" if is_unknown else restored.later
            raise errors.ChangedSince(conflict.conflict_id, conflict.article, conflict.rowguid, later)
        if restored.row is not None:
            # Columns that the table did not have then get their defaults.
            article = article.only([each.name for each in article.columns if each.name in restored.row])
            row = tuple(restored.row[each.name] for each in article.columns)
            if self.hub.rows.find_key_holder(article, row) not in (None, conflict.rowguid):
                row = _with_free_key(self.hub, article, row, stored.present)
        if row == stored.present and not always:
            return False
        # Before the write: rows that go with this one cannot be read afterwards.
        taking = self._find_cascaded(stored) if row is None and stored.present is not None else ()
        known = self._known(article, conflict)
        self.hub.writer.write(article, [_decision(conflict, known, article, row, restored.columns)])
        keep_lost(self.hub, self.publication, taking, self.publication.publisher)
        self._note(stored, restored.later)
        if restored.later is not None:
            self._record_replaced(stored, known, restored)
        return True

    def _note(self, stored: _StoredConflict, later: str | None) -> None:
        """Note a row that was written."""
        before = (
            None if stored.present is None else encode_presence(self.hub.connection, stored.article, stored.present)
        )
        after = self._encoded(stored)
        gone = json.dumps(None)
        noted = ResolvedRow(
            stored.article.name, stored.conflict.rowguid, before, None if after == gone else after, later
        )
        self.rows.append(noted)

    def _with_parents_keys(self, stored: _StoredConflict, row: Values) -> Values:
        """Return a losing row with the keys that its parents have; raises `ParentInInbox` if one is not at the hub."""
        conflict, article, changed = stored.conflict, stored.article, dict(row)
        rowguids: list[str | None] = json.loads(conflict.parents) if conflict.parents else []
        for reference, rowguid in zip(article.references, rowguids, strict=False):
            parent = self.articles.get(reference.parent)
            is_brought = not stored.columns or not stored.columns.isdisjoint(reference.columns)
            if rowguid is None or parent is None or not is_brought:
                continue
            key = self.hub.rows.read(parent.only(reference.parent_columns), [rowguid]).get(rowguid)
            if key is None:
                raise errors.ParentInInbox(conflict.conflict_id, article.name, parent.name, rowguid)
            changed.update((name, value) for name, value in zip(reference.columns, key, strict=True) if name in changed)
        return changed

    def _find_cascaded(self, stored: _StoredConflict) -> Sequence[Lost]:
        """Return the rows that the delete of a row would delete or change by foreign keys' actions.

        Raises `StillReferenced` if rows reference it and its foreign keys have no action.
        """
        article, top = stored.article, (stored.article.nickname, stored.conflict.rowguid)
        if not self.hub.actions.find_acting([article]):
            self._require_no_children(stored)
            return ()
        reach = self.hub.actions.find_reach(article, [stored.conflict.rowguid], self.articles)
        below = reach.under([top]) - {top}
        known = read_known(lambda asked: self.hub.versions.read_known_and_rows(asked, [])[0], self.articles, below)
        return describe_lost(self.hub, self.articles, {place: frozenset([top]) for place in below}, reach, known)

    def _require_no_children(self, stored: _StoredConflict) -> None:
        article, row, rowguid = stored.article, stored.present, stored.conflict.rowguid
        for child in self.articles.values():
            for reference in child.references:
                key = tuple((_named(article, row) or {}).get(name) for name in reference.parent_columns)
                if reference.parent != article.nickname or None in key:
                    continue
                if self.hub.rows.read_referencing(child, reference.columns, [key]).keys() - {rowguid}:
                    raise errors.StillReferenced(stored.conflict.conflict_id, article.name, rowguid, child.name)

    def _record_replaced(self, stored: _StoredConflict, known: KnownVersion | None, restored: Restored) -> None:
        """Record what was at the hub, as a conflict that is resolved; choosing the publisher in it restores that."""
        conflict, article, hub = stored.conflict, stored.article, self.hub
        is_both = stored.present is not None and restored.row is not None
        is_part = is_both and len(restored.columns) < len(article.columns)
        conflict_type = (
            ConflictType.UPDATE_WINS_DELETE_CONFLICT
            if stored.present is None
            else ConflictType.UPDATE_DELETE_WINS_CONFLICT
            if restored.row is None
            else ConflictType.COLUMN_UPDATE_CONFLICT
            if is_part
            else ConflictType.UPDATE_CONFLICT
        )
        lineage = b"" if known is None else known.version.lineage.encode()
        gave_way = encode_presence(hub.connection, article, stored.present).encode()
        replaced = ConflictRecord(
            identify(conflict.rowguid, conflict.conflict_id.encode(), lineage, gave_way),
            self.publication.pubid,
            article,
            conflict.rowguid,
            conflict_type,
            self.publication.publisher,
            str(int(conflict_type)),
            f"it gave way when conflict {conflict.conflict_id} was resolved",
            stored.present,
            hub.rows.read(article, [conflict.rowguid]).get(conflict.rowguid),
            lineage,
            self.publication.name,
            losing_columns=tuple(sorted(restored.columns)) if is_part else None,
        )
        record(hub.connection, replaced)
        resolved = conflicts_info.c.conflict_id == replaced.conflict_id
        hub.connection.execute(update(conflicts_info).where(resolved).values(resolved_time=datetime.now(UTC)))

    def _conclude(self, conflict: MergeConflict, parent: MergeConflict | None = None, **values: str | None) -> None:
        mine = conflicts_info.c.conflict_id == conflict.conflict_id
        resolved = {"resolved_time": datetime.now(UTC), "resolved_with": None if parent is None else parent.conflict_id}
        self.hub.connection.execute(update(conflicts_info).where(mine).values({**resolved, **values}))

    def _descendants(self, conflict: MergeConflict, *, is_restored: bool) -> list[MergeConflict]:
        """Return the conflicts of rows that lost with another, parents before their children.

        Those that are open, or were resolved with it; with `is_restored` those that have returned with it.
        """
        c = conflicts_info.c
        with_it = c.resolved_with == conflict.conflict_id
        chosen = with_it & c.replaced_row.is_not(None) if is_restored else c.resolved_time.is_(None) | with_it
        found: dict[str, MergeConflict] = {}
        above = [conflict.rowguid]
        while above:
            is_child = or_(*(c.parents.contains(rowguid) for rowguid in above))
            statement = select(conflicts_info).where(chosen & (c.pubid == self.publication.pubid) & is_child)
            names = {self.publication.pubid: self.publication.name}
            below = [as_kept(row, names) for row in self.hub.connection.execute(statement).mappings()]
            new = {each.conflict_id: each for each in below if each.conflict_id not in found}
            found |= new
            above = [each.rowguid for each in new.values()]
        return list(found.values())


def _may_move(row: ResolvedRow, row_filter: RowFilter) -> bool:
    """Return whether a written row may enter or leave partitions."""
    before, after = _values_of(row.before), _values_of(row.after)
    if before is None or after is None:
        return after is not None
    names = [row_filter.article.columns[place].name for place in row_filter.deciding]
    return any(before.get(name) != after.get(name) for name in names)


def _values_of(stored: str | None) -> Values | None:
    return None if stored is None else cast("Values | None", json.loads(stored))


def _named(article: Article, row: Row | None) -> Values | None:
    return None if row is None else {each.name: value for each, value in zip(article.columns, row, strict=True)}


def _with_free_key(hub: Node, article: Article, row: Row, present: Row | None) -> Row:
    """Return a row with the key that it has now, or the next one that is free, which only single numbers get."""
    places = [index for index, column in enumerate(article.columns) if column.key_ordinal is not None]
    if present is not None:
        return tuple(present[index] if index in places else value for index, value in enumerate(row))
    if len(places) != 1 or kind_of(article.columns[places[0]].type_text) is not TypeKind.WHOLE_NUMBER:
        return row
    (key,) = hub.keys.next_keys(article, 1)
    return (*row[: places[0]], key, *row[places[0] + 1 :])


def _decision(
    conflict: MergeConflict, known: KnownVersion | None, article: Article, row: Row | None, changed: Collection[str]
) -> Write:
    """Return a row as the hub's own change that includes the current version and the losing one."""
    lineage, columns = Lineage.decode(conflict.losing_lineage), None
    if known is not None:
        # Both versions are included, so that a node that has either accepts this one as newer, without another
        # conflict.
        lineage = lineage.joined(known.version.lineage)
        columns = None if known.version.columns is None else encode_columns(known.version.columns)
    is_live = known is not None and known.version.presence is Presence.LIVE
    is_whole = row is None or not is_live
    places = [index for index, each in enumerate(article.columns) if is_whole or each.name in changed]
    return Write(
        rowguid=conflict.rowguid,
        row=row,
        is_live=is_live,
        lineage=lineage.encode(),
        last=None,
        columns=columns,
        origin=None,
        own_columns=frozenset(places) if article.column_tracking else frozenset(),
        tombstone=TombstoneType.USER if known is not None else TombstoneType.SYSTEM,
    )
