"""Transactions of the log that alter published tables: which rows have the former definition, which the new. Pure.

Rows and alterations of a transaction have numbers in the order of the log, those of all tables together: a transaction
may change cascading keys before and after it alters each of several tables, and the rows of an alteration's own table
do not say where it belongs then. An alteration that was inferred has no exact place. It comes behind the last row of
the table's former shape, where what statements on other tables did to its rows is complete. If that is refused, because
cascades of its own rows are not, it comes before the first row of its next shape. A table with both kinds of cascades
around it is copied again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple, TypeGuard, assert_never

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.log.membership import Alteration, Altered, ChangesOmitted, Event, Reshaped
from rowtide.log.store.state import ManifestState, events_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import (
    NOT_REPLICATED,
    NOT_REPORTED,
    ColumnAdded,
    ColumnDropped,
    Followed,
    GeneratedAltered,
    HasValues,
    Unfollowed,
    follow,
    omit_added,
)
from rowtide.replication.distribution.log_events import find_difference, find_lost_identity, list_added
from rowtide.replication.errors.delivery import (
    IdentityLost,
    SchemaChanged,
)

_LAST = sys.maxsize
"""The place behind all row changes."""
AlteringEvent = Altered | Reshaped | ChangesOmitted
"""Events that may refer to another definition of a table."""


class CopyNeeded(Exception):
    """No subscriber can apply a schema change of an article: its rows have to be copied again."""

    def __init__(self, article: Article, error: SchemaChanged) -> None:
        super().__init__(str(error))
        self.article = article
        self.error = error


def find_altering(
    state: ManifestState, articles: Iterable[Article], from_position: Position, to_position: Position
) -> CommitLsn | None:
    """Return the first transaction of a range that alters a table as an article has it; None if none does."""
    known = list(articles)
    for event in events_between(state, from_position, to_position):
        if any(_concerns(event, state, article) for article in known):
            return event.commit_lsn
    return None


def read_steps(
    state: ManifestState,
    articles: Iterable[Article],
    starts: Mapping[str, Position],
    *,
    replicates_ddl: bool,
    refused: Mapping[tuple[str, int], str] | None = None,
) -> Iterator[Followed]:
    """Yield what the log has changed of articles since they were defined and their delivery starts, in its order.

    `refused` as for `AlteringTransaction`. For tables without rows, of which no transaction lacks anything. What a
    transaction changes last of a table is the end of it: before, an article is defined at the transaction, behind it
    afterwards. Raises `SchemaChanged`.
    """
    known = {article.article_id: article for article in articles}
    events = events_between(state, min(starts.values()), state.position)
    for lsn, of_transaction in groupby(events, key=lambda event: event.commit_lsn):
        altering = tuple(of_transaction)
        for article in tuple(known.values()):
            if starts[article.article_id].covers(lsn):
                continue
            steps = tuple(_steps(state, article, altering, replicates_ddl=replicates_ddl, refused=refused or {}))
            for followed in steps:
                now = replace(followed.article, defined_at=lsn.value + (followed is steps[-1]))
                yield replace(followed, article=now)
                known[article.article_id] = now


def _steps(
    state: ManifestState,
    article: Article,
    events: Iterable[Event],
    *,
    replicates_ddl: bool,
    refused: Mapping[tuple[str, int], str],
) -> Iterator[Followed]:
    for event in events:
        if not isinstance(event, ChangesOmitted) and _concerns(event, state, article):
            try:
                followed = _follow_event(state, article, event, replicates_ddl=replicates_ddl, has_no_rows=True)
            except CopyNeeded as found:
                # What even a copy cannot follow.
                raise found.error from found
            followed = _without_refused(followed, refused)
            yield followed
            article = followed.article


def _raise_lost(_article: Article, _table_id: int, error: IdentityLost) -> None:
    raise error


@frozen
class AlterationLookups:
    """What is looked up where a transaction's events do not say what an alteration means for its rows.

    `has_values`: as for `follow`. `row_numbers`: the first and the last number of the transaction's row changes of a
    table version, by its id; none without. `require_intact`: raises the error, or `CopyNeeded`, unless the log has what
    calls need of all rows of a table version whose replica identity does not cover that.
    """

    has_values: HasValues = lambda _source_id, _number: True
    row_numbers: Callable[[int], Sequence[int]] = lambda _table_id: ()
    require_intact: Callable[[Article, int, IdentityLost], None] = _raise_lost


def _follow_event(
    state: ManifestState,
    article: Article,
    event: AlteringEvent,
    *,
    replicates_ddl: bool,
    has_no_rows: bool = False,
    lookups: AlterationLookups | None = None,
) -> Followed:
    """Return what an event of an article's table changes. Raises `SchemaChanged`, `CopyNeeded`."""
    lookups = lookups or AlterationLookups()
    table, lsn = article.qualified_name, str(event.commit_lsn)
    since = None if replicates_ddl else NOT_REPLICATED
    match event:
        case ChangesOmitted():
            raise CopyNeeded(article, SchemaChanged(table, lsn, event.reason))
        case Reshaped():
            shape = state.tables[event.table_id].shape
            lost = find_lost_identity(article, shape)
            if lost is not None:
                quoted = quote_qualified(article.schema, article.table)
                lookups.require_intact(article, event.table_id, IdentityLost(table, lsn, lost, quoted))
            difference = find_difference(article, shape)
            if difference is not None:
                raise CopyNeeded(article, SchemaChanged(table, lsn, f"{difference}, and {NOT_REPORTED}"))
            added = list_added(article, shape)
            return Followed(article, omit_added(article, added, since or NOT_REPORTED), ())
        case Altered():
            try:
                followed = follow(
                    article,
                    event.alteration,
                    adds_none_since=since,
                    has_no_rows=has_no_rows,
                    has_values=lookups.has_values,
                )
            except Unfollowed as error:
                raise CopyNeeded(article, SchemaChanged(table, lsn, str(error))) from error
            return replace(followed, is_delivered=event.is_delivered)
        case _:
            assert_never(event)


def _concerns(event: Event, state: ManifestState, article: Article) -> TypeGuard[AlteringEvent]:
    """Whether an event changes a table as an article has it."""
    if event.commit_lsn.value < article.defined_at or not _is_of_table(event, state, article):
        return False
    match event:
        case ChangesOmitted():
            return True
        case Altered():
            return _differs(article, event.alteration)
        case Reshaped():
            shape = state.tables[event.table_id].shape
            is_lacking = find_lost_identity(article, shape) or find_difference(article, shape)
            return is_lacking is not None or bool(list_added(article, shape))
        case _:
            assert_never(event)


def _is_of_table(event: Event, state: ManifestState, article: Article) -> TypeGuard[AlteringEvent]:
    match event:
        case ChangesOmitted(_, member_id, _, is_unclear):
            return is_unclear and member_id == article.article_id
        case Altered(_, alteration):
            return alteration.source_id == article.source_id
        case Reshaped(_, table_id):
            return state.tables[table_id].shape.source_id == article.source_id
        case _:
            return False


def _differs(article: Article, alteration: Alteration) -> bool:
    try:
        return follow(article, alteration, adds_none_since=None).article != article
    except Unfollowed:
        return True


@frozen
class ArticleStep:
    """What a transaction changes of an article before its row changes with the number `seqval` and higher ones.

    With `is_estimated` the log does not say where: from after the table's previous row, up to its next one.
    """

    seqval: int
    followed: Followed
    is_estimated: bool = False


@frozen
class AlteringTransaction:
    """What a transaction makes of articles: as they are before it, and the steps, in the order of the log."""

    lsn: CommitLsn
    before: Sequence[Article]
    steps: Sequence[ArticleStep]

    @classmethod
    def read(
        cls,
        state: ManifestState,
        articles: Sequence[Article],
        lsn: CommitLsn,
        *,
        replicates_ddl: bool,
        refused: Mapping[tuple[str, int], str],
        late: Container[str] = (),
        lookups: AlterationLookups | None = None,
    ) -> AlteringTransaction:
        """Read a transaction's events; `refused` columns, by article and number, are omitted, or kept, with the reason
        given.

        Where the log does not say between which rows a table was altered, it is assumed to be altered before the first
        row that may follow; of the articles that are `late`, after the last one. Raises `IdentityLost`,
        `SchemaChanged`, `CopyNeeded`.
        """
        lookups = lookups or AlterationLookups()
        events = events_between(state, Position(lsn.value), Position(lsn.value + 1))
        before = {article.article_id: article for article in articles if lsn.value >= article.defined_at}
        now = dict(before)
        places = dict.fromkeys(now, _AlterationOffset(0, is_estimated=False))
        steps: list[ArticleStep] = []
        for number, event in enumerate(events):
            for article_id, article in now.items():
                if not _is_of_table(event, state, article):
                    continue
                if isinstance(event, Altered):
                    found = _find_offset(state, events, number, lookups, is_late=article_id in late)
                    places[article_id] = max(places[article_id], found)
                try:
                    followed = _follow_event(state, article, event, replicates_ddl=replicates_ddl, lookups=lookups)
                except CopyNeeded as found:
                    # The subscriber has nothing of this transaction, of its earlier statements neither.
                    raise CopyNeeded(before[article_id], found.error) from found
                followed = _without_refused(followed, refused)
                if followed.article != article:
                    now[article_id] = replace(followed.article, defined_at=lsn.value + 1)
                    place = places[article_id]
                    steps.append(
                        ArticleStep(place.seqval, replace(followed, article=now[article_id]), place.is_estimated)
                    )
        return cls(lsn, articles, sorted(steps, key=lambda step: step.seqval))

    def articles(self) -> tuple[Article, ...]:
        """Return the articles as they are after the transaction."""
        now = {article.article_id: article for article in self.before}
        now.update((step.followed.article.article_id, step.followed.article) for step in self.steps)
        return tuple(now.values())

    def is_estimated(self, article: Article) -> bool:
        """Whether the log does not say where an article's table was altered."""
        return any(step.is_estimated for step in self.steps if step.followed.article.article_id == article.article_id)

    def stages(self) -> Iterator[tuple[int, tuple[Article, ...]]]:
        """Yield from which row change on, by its number, the articles are as they are then."""
        now = {article.article_id: article for article in self.before}
        place = 0
        for step in self.steps:
            if step.seqval > place:
                yield place, tuple(now.values())
                place = step.seqval
            now[step.followed.article.article_id] = step.followed.article
        yield place, tuple(now.values())


class _AlterationOffset(NamedTuple):
    seqval: int
    is_estimated: bool


def _find_offset(
    state: ManifestState, events: Sequence[Event], number: int, lookups: AlterationLookups, *, is_late: bool
) -> _AlterationOffset:
    """Return the place of an alteration, one of a transaction's events, among the row changes.

    One that was inferred came at any time between the table's previous row and its next one, before which the log
    describes the table.
    """
    event = events[number]
    assert isinstance(event, Altered)
    alteration = event.alteration
    if not alteration.is_inferred:
        return _AlterationOffset(event.seqval, is_estimated=False)
    versions = {one.table_id for one in state.tables.values() if one.shape.source_id == alteration.source_id}
    later = (one.table_id for one in events[number:] if isinstance(one, Reshaped) and one.table_id in versions)
    first_after = next(later, None)
    if is_late:
        return _AlterationOffset(
            min(lookups.row_numbers(first_after), default=_LAST) if first_after else _LAST, is_estimated=True
        )
    earlier = (table_id for table_id in versions if first_after is None or table_id < first_after)
    last_before = max((seqval for table_id in earlier for seqval in lookups.row_numbers(table_id)), default=0)
    return _AlterationOffset(last_before + 1, is_estimated=True)


def _without_refused(followed: Followed, refused: Mapping[tuple[str, int], str]) -> Followed:
    """Return it without the added columns that the subscriber has refused, and with the dropped ones that it keeps."""
    for change in followed.changes:
        if not isinstance(change, ColumnAdded | ColumnDropped | GeneratedAltered):
            continue
        reason = refused.get((followed.before.article_id, change.column.number))
        if reason is None:
            continue
        if isinstance(change, ColumnAdded):
            followed = followed.leaving_out(change.column, reason)
        elif isinstance(change, GeneratedAltered):
            followed = followed.leaving_out_generated(change, reason)
        else:
            followed = followed.keeping(change.column, reason)
    return followed
