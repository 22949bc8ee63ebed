"""Transactions of the log that alter published tables: what is of an article as it was, and what as it is. Pure.

Within a transaction rows have the table version that the log describes before them, and an alteration comes before the
description of what it made. Rows of other tables have their place by their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeGuard, assert_never

from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.alterations import Alteration
from rowtide.log.membership import Altered, Event, LeftOut, Reshaped
from rowtide.log.state import ManifestState, events_between
from rowtide.replication.articles import Article
from rowtide.replication.distribution.events import find_difference, find_lost_identity, list_added
from rowtide.replication.errors.delivery import SchemaChanged
from rowtide.replication.schema_changes import (
    NOT_READ,
    NOT_REPLICATED,
    NOT_REPORTED,
    ColumnAdded,
    ColumnDropped,
    Followed,
    HasValues,
    Unfollowed,
    follow,
    leave_out_added,
)

AlteringEvent = Altered | Reshaped | LeftOut
"""What may be of a table in another form."""


class CopyNeeded(Exception):
    """No subscriber can be brought through a schema change of an article: its rows have to be copied again."""

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


def fold(
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
        if not isinstance(event, LeftOut) and _concerns(event, state, article):
            try:
                followed = _follow_event(state, article, event, replicates_ddl=replicates_ddl, has_no_rows=True)
            except CopyNeeded as found:
                # What even a copy cannot follow.
                raise found.error from found
            followed = _without_refused(followed, refused)
            yield followed
            article = followed.article


def adds_none_since(state: ManifestState, article: Article, *, replicates_ddl: bool) -> str | None:
    """Return why added columns are left out of an article; None if they are not."""
    if not replicates_ddl:
        return NOT_REPLICATED
    takes_added = any(member.member_id == article.article_id and member.takes_added for member in state.members)
    return None if takes_added else NOT_READ


def _follow_event(
    state: ManifestState,
    article: Article,
    event: AlteringEvent,
    *,
    replicates_ddl: bool,
    has_no_rows: bool = False,
    has_values: HasValues = lambda _source_id, _number: True,
) -> Followed:
    """Return what an event of an article's table changes. Raises `SchemaChanged`, `CopyNeeded`."""
    table, lsn = f"{article.schema}.{article.table}", str(event.commit_lsn)
    since = adds_none_since(state, article, replicates_ddl=replicates_ddl)
    match event:
        case LeftOut():
            raise CopyNeeded(article, SchemaChanged(table, lsn, event.reason))
        case Reshaped():
            shape = state.tables[event.table_id].shape
            lost = find_lost_identity(article, shape)
            if lost is not None:
                raise SchemaChanged(table, lsn, lost)
            difference = find_difference(article, shape)
            if difference is not None:
                raise CopyNeeded(article, SchemaChanged(table, lsn, f"{difference}, and {NOT_REPORTED}"))
            added = list_added(article, shape)
            return Followed(article, leave_out_added(article, added, since or NOT_REPORTED), ())
        case Altered():
            try:
                followed = follow(
                    article, event.alteration, adds_none_since=since, has_no_rows=has_no_rows, has_values=has_values
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
        case LeftOut():
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
        case LeftOut(_, member_id, _, is_unclear):
            return is_unclear and member_id == article.article_id
        case Altered(_, alteration, _):
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


@dataclass(slots=True)
class AlteringTransaction:
    """What a transaction makes of each article, one version after the other.

    `versions` begin with the article as it was; `places` say of which version rows of a table version are, by article.
    """

    lsn: CommitLsn
    steps: dict[str, list[Followed]] = field(default_factory=dict)
    versions: dict[str, list[Article]] = field(default_factory=dict)
    places: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        state: ManifestState,
        articles: Sequence[Article],
        lsn: CommitLsn,
        *,
        replicates_ddl: bool,
        refused: Mapping[tuple[str, int], str],
        has_values: HasValues = lambda _source_id, _number: True,
    ) -> AlteringTransaction:
        """Read a transaction's events; `refused` columns, by article and number, are left out, or kept, with the reason
        given.

        `has_values` as for `follow`. Raises `SchemaChanged`, `CopyNeeded`.
        """
        found = cls(lsn, versions={article.article_id: [article] for article in articles})
        for event in events_between(state, Position(lsn.value), Position(lsn.value + 1)):
            for article in articles:
                found._add(
                    state,
                    article.article_id,
                    event,
                    replicates_ddl=replicates_ddl,
                    refused=refused,
                    has_values=has_values,
                )
        return found

    def articles(self) -> tuple[Article, ...]:
        """Return the articles as they are after the transaction."""
        return tuple(versions[-1] for versions in self.versions.values())

    def article_of(self, article_id: str, table_id: int) -> Article:
        """Return the article as rows of a table version have it."""
        return self.versions[article_id][self.places.get((article_id, table_id), 0)]

    def until(self, article: Article) -> Iterator[Followed]:
        """Yield the steps, once each, that come before a call of an article in one of its versions."""
        steps = self.steps.get(article.article_id, [])
        while steps and self._place(steps[0].article) <= self._place(article):
            yield steps.pop(0)

    def due(self, left: Mapping[tuple[str, int], int]) -> Iterator[Followed]:
        """Yield the steps, once each, before which no call is left; `left` counts calls by `version_of`."""
        for article_id, steps in self.steps.items():
            while steps and not any(left.get((article_id, one), 0) for one in range(self._place(steps[0].article))):
                yield steps.pop(0)

    def version_of(self, article: Article) -> tuple[str, int]:
        """Return which version of which article this is."""
        return article.article_id, self._place(article)

    def rest(self) -> Iterator[Followed]:
        """Yield the steps that are left at the end."""
        for steps in self.steps.values():
            while steps:
                yield steps.pop(0)

    def _place(self, article: Article) -> int:
        return self.versions[article.article_id].index(article)

    def _add(
        self,
        state: ManifestState,
        article_id: str,
        event: Event,
        *,
        replicates_ddl: bool,
        refused: Mapping[tuple[str, int], str],
        has_values: HasValues,
    ) -> None:
        versions = self.versions[article_id]
        article = versions[-1]
        if event.commit_lsn.value < versions[0].defined_at:
            return
        if not _is_of_table(event, state, article):
            return
        followed = _follow_event(state, article, event, replicates_ddl=replicates_ddl, has_values=has_values)
        followed = _without_refused(followed, refused)
        if followed.article != article:
            self._take(followed)
        if isinstance(event, Reshaped):
            self.places[article_id, event.table_id] = len(versions) - 1

    def _take(self, followed: Followed) -> None:
        article = replace(followed.article, defined_at=self.lsn.value + 1)
        self.steps.setdefault(article.article_id, []).append(replace(followed, article=article))
        self.versions[article.article_id].append(article)


def _without_refused(followed: Followed, refused: Mapping[tuple[str, int], str]) -> Followed:
    """Return it without the added columns that the subscriber has refused, and with the dropped ones that it keeps."""
    for change in followed.changes:
        if not isinstance(change, ColumnAdded | ColumnDropped):
            continue
        reason = refused.get((followed.before.article_id, change.column.number))
        if reason is None:
            continue
        if isinstance(change, ColumnAdded):
            followed = followed.leaving_out(change.column, reason)
        else:
            followed = followed.keeping(change.column, reason)
    return followed
