"""Deletes whose foreign keys' actions reach rows at the hub, and rows that take a deleted row's key.

The sender deleted a row with the rows that it knew to reference it. Others are another node's work: the delete is
refused as a whole, or each row lost becomes a conflict. A subscriber may neither write to rows of the hub that it does
not have, nor take their keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication, UnseenChildren
from rowtide.merge.conflicts.lost_rows import Lost, describe_lost, keep_lost
from rowtide.merge.errors.rows import ChildrenNotSeen
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import AnyPlace, Holder, Place, Reach, Reading, Refusal, by_nickname, read_known
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.session.receiver import Part
from rowtide.merge.versions.changes import KnownVersion, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Nothing, Presence, compare

_BATCH_ROWS = 2000


@frozen
class Judged:
    """The deletes that are refused, each with its error, and the rows that the others may reach unseen."""

    refused: Mapping[Place, ChildrenNotSeen] = field(default_factory=dict)
    lost: Sequence[Lost] = ()

    def of(self, article: Article, writes: Sequence[Write]) -> dict[str, Refusal]:
        """Return the refusals of an article's writes."""
        places = ((one.rowguid, (article.nickname, one.rowguid)) for one in writes)
        return {rowguid: Refusal(self.refused[place], None) for rowguid, place in places if place in self.refused}


@dataclass(slots=True)
class Cascades:
    """Judges a subscriber's deletes at the hub.

    `articles` are the publication's, with those that were dropped, by nickname, `filters` those of the subscriber's
    partition. `sent` is the hub's generation that the subscriber has, `unreceived` what it refused of that. `returning`
    are the deletes refused in this synchronisation, `staying` the rows whose deletes the hub has decided against.
    """

    node: Node
    articles: Mapping[int, Article]
    filters: Mapping[int, RowFilter]
    source: int
    sent: int
    publication: Publication
    unreceived: Mapping[int, Sequence[str]] = field(default_factory=dict)
    returning: dict[Place, ChildrenNotSeen] = field(default_factory=dict)
    staying: set[Place] = field(default_factory=set)
    _below_returning: dict[Place, ChildrenNotSeen] = field(default_factory=dict)
    _acting: dict[int, bool] = field(default_factory=dict)
    _clearing: dict[int, Set[str]] = field(default_factory=dict)
    _refused_there: frozenset[Place] | None = None

    def group(self, deletes: Iterable[Part]) -> Iterable[Sequence[Part]]:
        """Yield deletes, children first, those of a row with those of the rows that its foreign keys' actions reach.

        What is refused together is written in one transaction then.
        """
        deletes = iter(deletes)
        first = list(islice(deletes, 2))
        if len(first) == 1 and _is_one_group(*first[0]):
            # Whether foreign keys act costs a round trip.
            return [first]
        if not self.is_acting:
            # As they are read: the hub writes meanwhile.
            return ([part] for part in chain(first, deletes))
        listed = [*first, *deletes]
        articles = {article.nickname: article for article, _ in listed}
        left = {(article.nickname, change.rowguid): change for article, changes in listed for change in changes}
        groups: list[Sequence[Part]] = []
        for nickname in reversed(articles):
            own = [place for place in left if place[0] == nickname]
            for start in range(0, len(own), _BATCH_ROWS):
                batch = [place for place in own[start : start + _BATCH_ROWS] if place in left]
                below = self._reach(batch).under(batch)
                members = [*(place for place in left if place in below), *batch]
                taken = {place: left.pop(place) for place in members if place in left}
                parts = (
                    (article, [change for place, change in taken.items() if place[0] == article.nickname])
                    for article in articles.values()
                )
                groups.append([part for part in parts if part[1]])
        return [group for group in reversed(groups) if group]

    def judge(self, parts: Sequence[tuple[Article, Sequence[Write]]], reading: Reading) -> Judged:
        """Return which deletes of one attempt are refused, and which rows the others reach; within a transaction."""
        articles = {article.nickname: article for article, _ in parts}
        deleted = {
            (article.nickname, one.rowguid)
            for article, writes in parts
            for one in writes
            if one.row is None and one.is_live
        }
        rekeyed = self._find_rekeyed(parts)
        is_acting = self.are_acting(articles[nickname] for nickname in {place[0] for place in deleted})
        if (
            not is_acting
            and not rekeyed
            and deleted.isdisjoint(self.returning)
            and deleted.isdisjoint(self._below_returning)
        ):
            return Judged()
        reach, cleared = self._reach(deleted), self._reach(rekeyed, is_update=True)
        reached = (reach.under(deleted) | cleared.under(rekeyed)) - deleted
        known = read_known(reading, self.articles, reached)
        unseen = {place for place, here in known.items() if self._is_unseen(place, here)}
        elsewhere = self._find_elsewhere(unseen, known)
        tops = _tops(deleted, reach)
        below = {place: set(cleared.below.get(place, ())) for place in rekeyed}
        below |= {top: set(reach.under([top])) for top in tops}
        refused = self._refuse(deleted, below, unseen - elsewhere)
        reach.add(cleared)
        running = {top: rows for top, rows in below.items() if top not in refused}
        lost = {
            place: frozenset(top for top, rows in running.items() if place in rows)
            for place in set[AnyPlace]().union(*running.values())
            if place in unseen or place in refused or isinstance(place[0], str)
        }
        if lost:
            known |= read_known(reading, self.articles, [place for place in lost if place in refused])
        return Judged(refused, describe_lost(self.node, self.articles, lost, reach, known))

    def keep_lost(self, lost: Sequence[Lost], without: Set[Place]) -> dict[Place, int]:
        """Record the rows that deletes reached, once all but those `without` are written; count them by delete."""
        written = [replace(each, deleted=each.deleted - without) for each in lost if each.deleted - without]
        return keep_lost(self.node, self.publication, written, self.source)

    @property
    def is_acting(self) -> bool:
        """Whether foreign keys with an action on delete reference any published table."""
        return self.are_acting(self.articles.values())

    def are_acting(self, articles: Iterable[Article]) -> bool:
        """Whether foreign keys with an action on delete reference any of some articles."""
        listed = list(articles)
        unknown = {each.nickname: each for each in listed if each.nickname not in self._acting}
        if unknown:
            acting = self.node.actions.find_acting(list(unknown.values()))
            self._acting.update((nickname, nickname in acting) for nickname in unknown)
        return any(self._acting[each.nickname] for each in listed)

    def _find_rekeyed(self, parts: Sequence[tuple[Article, Sequence[Write]]]) -> set[Place]:
        """Return the updates of keys that what references them does not follow, but loses."""
        found: set[Place] = set()
        for article, writes in parts:
            places = [place for name in self._find_clearing(article) if (place := article.index_of(name)) is not None]
            if not places:
                continue
            updated = {one.rowguid: one.row for one in writes if one.row is not None and one.is_live}
            present = self.node.rows.read(article, list(updated)) if updated else {}
            for rowguid, row in present.items():
                if any(row[place] != updated[rowguid][place] for place in places):
                    found.add((article.nickname, rowguid))
        return found

    def _find_clearing(self, article: Article) -> Set[str]:
        if article.nickname not in self._clearing:
            self._clearing[article.nickname] = self.node.actions.find_clearing(article)
        return self._clearing[article.nickname]

    def _reach(self, places: Iterable[Place], *, is_update: bool = False) -> Reach:
        found = Reach()
        for nickname, some in by_nickname(places).items():
            article = self.articles[nickname]
            if is_update or self.are_acting([article]):
                found.add(self.node.actions.find_reach(article, some, self.articles, is_update=is_update))
        return found

    def _is_unseen(self, place: Place, known: KnownVersion) -> bool:
        """Whether the subscriber has not seen the hub's version of a row, or the hub has decided that it stays."""
        if (
            not known.is_held
            or self.articles[place[0]].is_upload_only
            or place in self.staying
            or place in self.returning
        ):
            return True
        if known.version.last is None or known.origin == self.source:
            return False
        if known.generation is None or known.generation > self.sent:
            return True
        if self._refused_there is None:
            refused = self.unreceived
            self._refused_there = frozenset((nickname, each) for nickname, some in refused.items() for each in some)
        return place in self._refused_there

    def _find_elsewhere(self, places: Set[Place], known: Mapping[Place, KnownVersion]) -> set[Place]:
        """Return the rows that the subscriber is not to be sent."""
        found = {place for place in places if not _is_sent(self.articles[place[0]])}
        asked = by_nickname(place for place in places if place not in found and not known[place].is_held)
        for nickname, rowguids in asked.items():
            belonging = self.node.rows.find_belonging(self.filters[nickname], rowguids)
            found.update((nickname, rowguid) for rowguid in rowguids if rowguid not in belonging)
        return found

    def _refuse(
        self, deleted: Set[Place], below: Mapping[Place, Set[AnyPlace]], unseen: Set[Place]
    ) -> dict[Place, ChildrenNotSeen]:
        """Return the deletes that are refused: with one, those of all rows that it reaches, which keeps others."""
        known = self._below_returning | self.returning
        refused = {place: known[place] for place in {*deleted, *below} if place in known}
        is_more = True
        while is_more:
            is_more = False
            for top, rows in below.items():
                article = self.articles[top[0]]
                kept = min((each for each in rows if each in unseen or each in refused), default=None, key=str)
                if top in refused or kept is None or article.on_unseen_children is UnseenChildren.RECORD:
                    continue
                is_more = True
                child = self.articles[int(kept[0])].name
                refused[top] = ChildrenNotSeen.reaching(article.name, child, kept[1])
                # Some of the rows below may come later, as those of logical records come first.
                for nickname, rowguid in [place for place in _merged(rows) if top in deleted]:
                    error = ChildrenNotSeen.together(self.articles[nickname].name, article.name, top[1])
                    self._below_returning.setdefault((nickname, rowguid), error)
                    if (nickname, rowguid) in deleted:
                        refused.setdefault((nickname, rowguid), error)
        self.returning.update(refused)
        return refused


def _is_one_group(article: Article, changes: Sequence[RowChange]) -> bool:
    """Whether an article's deletes are one group, in whatever order."""
    return len(changes) <= _BATCH_ROWS and all(each.parent != article.nickname for each in article.references)


def _is_sent(article: Article) -> bool:
    """Whether subscribers are sent the hub's rows."""
    return not article.is_upload_only and not article.is_dropped


def _merged(places: Iterable[AnyPlace]) -> list[Place]:
    return [(key, rowguid) for key, rowguid in places if isinstance(key, int)]


def _tops(deleted: Set[Place], reach: Reach) -> list[Place]:
    """Return deletes of rows that no other deleted row reaches; of rows in a circle one."""
    reached = {child for place in deleted for child in reach.below.get(place, ()) if child != place}
    tops = sorted(deleted - reached)
    covered = set(tops) | reach.under(tops)
    for place in sorted(deleted - covered):
        if place not in covered:
            tops.append(place)
            covered |= {place} | reach.under([place])
    return tops


def find_others(changes: Sequence[RowChange], known: Mapping[str, KnownVersion], source: int) -> list[RowChange]:
    """Return the changes of rows that node `source` does not have, also those that say nothing new: it gets no row by
    them either.
    """
    return [change for change in changes if _is_of_others(change, known.get(change.rowguid), source)]


def is_news(change: RowChange, known: KnownVersion) -> bool:
    """Whether a change is of a version that the hub does not know."""
    return not isinstance(compare(change.version, known.version), Nothing)


def _is_of_others(change: RowChange, known: KnownVersion | None, source: int) -> bool:
    if known is None or known.is_held or change.tombstone is TombstoneType.LEFT:
        return False
    # If it had the row, that is in no membership once it is deleted.
    return known.version.presence is not Presence.DELETED or not known.version.lineage.version_of(source)


def are_any_of_others(
    hub: Node, holder: Holder, filters: Mapping[int, RowFilter], rows: Iterable[tuple[Article, str]]
) -> bool:
    """Whether any of the hub's rows is neither a subscriber's nor in its partition, within a transaction."""
    asked: dict[int, tuple[Article, list[str]]] = {}
    for article, rowguid in rows:
        if article.nickname in filters:
            asked.setdefault(article.nickname, (article, []))[1].append(rowguid)
    found, _ = hub.versions.read_known_and_rows(list(asked.values()), [], holder) if asked else ([], [])
    for (article, rowguids), known in zip(asked.values(), found, strict=True):
        unheld = [rowguid for rowguid in rowguids if rowguid in known and not known[rowguid].is_held]
        if unheld and len(hub.rows.find_belonging(filters[article.nickname], unheld)) < len(set(unheld)):
            return True
    return False
