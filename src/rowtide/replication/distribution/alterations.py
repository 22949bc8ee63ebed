"""Transactions of the log that alter published tables: what is of an article as it was, and what as it is. Pure.

Within a transaction rows have the table version that the log describes before them, and an alteration comes before the
description of what it made. Rows of other tables have their place by their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import TableVersion
from rowtide.log.alterations import Alteration
from rowtide.log.membership import Altered, Event, Reshaped
from rowtide.log.state import ManifestState, events_between
from rowtide.replication.articles import Article
from rowtide.replication.distribution.events import find_difference, list_added
from rowtide.replication.errors import SchemaChanged
from rowtide.replication.schema_changes import (
    NOT_READ,
    NOT_REPLICATED,
    ColumnAdded,
    Followed,
    Unfollowed,
    follow,
    leave_out_added,
)


def find_altering(
    state: ManifestState, articles: Iterable[Article], from_position: Position, to_position: Position
) -> CommitLsn | None:
    """Return the first transaction of a range that alters a table as an article has it; None if none does."""
    known = list(articles)
    for event in events_between(state, from_position, to_position):
        if any(_concerns(state, article, event) for article in known):
            return event.commit_lsn
    return None


def fold(
    state: ManifestState, articles: Iterable[Article], starts: Mapping[str, Position], *, replicates_ddl: bool
) -> Iterator[Followed]:
    """Yield what the log has changed of articles since they were defined and their delivery starts, in its order.

    For tables without rows. Raises `SchemaChanged`.
    """
    known = {article.article_id: article for article in articles}
    for event in events_between(state, min(starts.values()), state.position):
        for article in known.values():
            if starts[article.article_id].covers(event.commit_lsn) or not _concerns(state, article, event):
                continue
            followed = _follow_event(state, article, event, replicates_ddl=replicates_ddl)
            now = replace(followed.article, defined_at=event.commit_lsn.value + 1)
            known = known | {article.article_id: now}
            yield replace(followed, article=now)


def adds_none_since(state: ManifestState, article: Article, *, replicates_ddl: bool) -> str | None:
    """Return why added columns are left out of an article; None if they are not."""
    if not replicates_ddl:
        return NOT_REPLICATED
    takes_added = any(member.member_id == article.article_id and member.takes_added for member in state.members)
    return None if takes_added else NOT_READ


def _follow_event(state: ManifestState, article: Article, event: Event, *, replicates_ddl: bool) -> Followed:
    table = f"{article.schema}.{article.table}"
    if isinstance(event, Reshaped):
        shape = state.tables[event.table_id].shape
        difference = find_difference(article, shape)
        if difference is not None:
            raise SchemaChanged(table, str(event.commit_lsn), difference)
        return Followed(article, leave_out_added(article, list_added(article, shape)), ())
    assert isinstance(event, Altered)
    try:
        since = adds_none_since(state, article, replicates_ddl=replicates_ddl)
        return follow(article, event.alteration, adds_none_since=since, has_no_rows=True)
    except Unfollowed as error:
        raise SchemaChanged(table, str(event.commit_lsn), str(error)) from error


def _concerns(state: ManifestState, article: Article, event: Event) -> bool:
    if event.commit_lsn.value < article.defined_at:
        return False
    match event:
        case Altered(_, alteration) if alteration.source_id == article.source_id:
            return _differs(article, alteration)
        case Reshaped(_, table_id) if state.tables[table_id].shape.source_id == article.source_id:
            shape = state.tables[table_id].shape
            return find_difference(article, shape) is not None or bool(list_added(article, shape))
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
    ) -> AlteringTransaction:
        """Read a transaction's events; `refused` columns, by article and number, are left out with the reason given.

        Raises `SchemaChanged`.
        """
        found = cls(lsn, versions={article.article_id: [article] for article in articles})
        for event in events_between(state, Position(lsn.value), Position(lsn.value + 1)):
            for article in articles:
                found._add(state, article.article_id, event, replicates_ddl=replicates_ddl, refused=refused)
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
    ) -> None:
        versions = self.versions[article_id]
        article = versions[-1]
        if event.commit_lsn.value < versions[0].defined_at:
            return
        match event:
            case Altered(_, alteration) if alteration.source_id == article.source_id:
                since = adds_none_since(state, article, replicates_ddl=replicates_ddl)
                followed = _without_refused(self._follow(article, alteration, since), refused)
                if followed.article != article:
                    self._take(followed)
            case Reshaped(_, table_id) if state.tables[table_id].shape.source_id == article.source_id:
                self._describe(state.tables[table_id], article)
            case _:
                pass

    def _follow(self, article: Article, alteration: Alteration, since: str | None) -> Followed:
        try:
            return follow(article, alteration, adds_none_since=since)
        except Unfollowed as error:
            raise SchemaChanged(f"{article.schema}.{article.table}", str(self.lsn), str(error)) from error

    def _take(self, followed: Followed) -> None:
        article = replace(followed.article, defined_at=self.lsn.value + 1)
        self.steps.setdefault(article.article_id, []).append(replace(followed, article=article))
        self.versions[article.article_id].append(article)

    def _describe(self, version: TableVersion, article: Article) -> None:
        versions = self.versions[article.article_id]
        difference = find_difference(article, version.shape)
        if difference is not None:
            raise SchemaChanged(f"{article.schema}.{article.table}", str(self.lsn), difference)
        added = list_added(article, version.shape)
        if added:
            self._take(Followed(article, leave_out_added(article, added), ()))
        self.places[article.article_id, version.table_id] = len(versions) - 1


def _without_refused(followed: Followed, refused: Mapping[tuple[str, int], str]) -> Followed:
    """Return it without the added columns that the subscriber has refused."""
    for change in followed.changes:
        if isinstance(change, ColumnAdded):
            reason = refused.get((followed.before.article_id, change.column.number))
            followed = followed if reason is None else followed.leaving_out(change.column, reason)
    return followed
