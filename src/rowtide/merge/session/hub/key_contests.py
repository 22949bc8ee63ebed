"""Inserts with primary keys that rows of the hub have: one row keeps the key.

The other goes to the conflict inbox with its descendants, or gets a new key, which its descendants follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowtide.core.redaction import shown_key
from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, identify, record
from rowtide.merge.conflicts.resolvers import Contest, Resolver, Winner, winner_of, withdrawal
from rowtide.merge.errors.rows import ParentNotThere, RowsRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import Holder
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.session.accepted_versions import accepted
from rowtide.merge.session.hub.cascading_deletes import are_any_of_others
from rowtide.merge.session.hub.decisions import instead
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.receiver import Refused
from rowtide.merge.versions.changes import KnownVersion, Row, Write

_REASON = "two nodes inserted a row with the same primary key"


@frozen
class KeyContest:
    """A refused insert, and the local row `holder` that has its primary key; with what is known of both.

    `row` is the refused one with the keys that its parents have here.
    """

    place: int
    refused: Refused
    known: KnownVersion | None
    holder: str
    held: KnownVersion
    row: Row


@frozen
class Descendant:
    """A row of the hub that references a row which loses its key, or another descendant of it; `parents` as sent."""

    article: Article
    rowguid: str
    row: Row
    parents: tuple[str | None, ...]


@frozen
class KeyContests:
    """Settles contests over keys at the hub, in its transaction.

    `articles` are the publication's, by nickname; `source` and `source_name` are the subscriber, `priority` is the
    weight of its changes. `holder` is the subscriber if it has some rows only, `filters` are those of its partition.
    """

    node: Node
    articles: Mapping[int, Article]
    pubid: str
    source: int
    source_name: str
    hub_name: str
    priority: float
    version_priority: float | None
    resolver: Callable[[Article], Resolver]
    holder: Holder | None
    filters: Mapping[int, RowFilter]

    def settle(self, article: Article, contests: Sequence[KeyContest]) -> dict[int, Counts]:
        """Settle contests over an article's keys; return the result of each, by its place."""
        rows = self.node.rows.read(article, [contest.holder for contest in contests])
        freed = [contest for contest in contests if contest.holder not in rows]
        contests = [contest for contest in contests if contest.holder in rows]
        winners = {contest.place: self._winner_of(article, contest, rows[contest.holder]) for contest in contests}
        taking = [contest for contest in contests if winners[contest.place] is Winner.SUBSCRIBER]
        taken_keys = self._take_keys(article, taking, rows)
        losing = [contest for contest in contests if contest.place not in taken_keys]
        renumbered = self._renumber(article, losing)
        withdrawn = [contest for contest in losing if contest.place not in renumbered]
        self.node.writer.write(article, [self._withdrawal(contest) for contest in withdrawn])
        for contest in losing:
            self._keep_sent(contest, rows[contest.holder], renumbered.get(contest.place))
        settled = {place: Counts(conflicts=1, inserts=1, deletes=not article.renumber) for place in taken_keys}
        settled |= {contest.place: Counts(conflicts=1) for contest in withdrawn}
        settled |= {place: Counts(conflicts=1, inserts=1) for place in renumbered}
        return settled | self._write_freed(article, freed)

    def _write_freed(self, article: Article, contests: Sequence[KeyContest]) -> dict[int, Counts]:
        """Write rows whose keys are free, because the rows that had them have gone with their parents."""
        if not contests:
            return {}
        writes = [
            accepted(contest.refused.change, contest.known, self.source, self.version_priority) for contest in contests
        ]
        refused = self.node.writer.write_each([(article, writes)])[0]
        lost = [contest for contest in contests if contest.refused.change.rowguid in refused]
        self.node.writer.write(article, [self._withdrawal(contest) for contest in lost])
        for contest in lost:
            self._keep_sent(contest, None, None)
        return {contest.place: Counts(conflicts=1) if contest in lost else Counts(inserts=1) for contest in contests}

    def _winner_of(self, article: Article, contest: KeyContest, row: Row) -> Winner:
        if contest.held.version.last is None:
            return Winner.PUBLISHER
        sent = contest.refused.change
        winner = winner_of(
            self.resolver(article)(Contest(article, sent, contest.held, row, self.priority, is_of_keys=True))
        )
        is_of_others = winner is Winner.SUBSCRIBER and self._is_of_others(article, contest, row)
        return Winner.PUBLISHER if is_of_others else winner

    def _is_of_others(self, article: Article, contest: KeyContest, row: Row) -> bool:
        """Whether the subscriber's row would displace a row that is no concern of the subscriber."""
        if self.holder is None:
            return False
        below = self._descendants(article, {contest.holder: row})
        displaced = [(article, contest.holder), *((each.article, each.rowguid) for each in below)]
        return are_any_of_others(self.node, self.holder, self.filters, displaced)

    def _take_keys(self, article: Article, contests: Sequence[KeyContest], rows: Mapping[str, Row]) -> frozenset[int]:
        """Give the keys of the hub's rows to the subscriber's; return those contests where the hub takes that."""
        if not contests:
            return frozenset()
        try:
            with self.node.transaction():
                self._replace(article, contests, rows)
        except RowsRefused:
            if len(contests) == 1:
                return frozenset()
            middle = len(contests) // 2
            first, second = contests[:middle], contests[middle:]
            return self._take_keys(article, first, rows) | self._take_keys(article, second, rows)
        return frozenset(contest.place for contest in contests)

    def _replace(self, article: Article, contests: Sequence[KeyContest], rows: Mapping[str, Row]) -> None:
        """Write the subscriber's rows in place of those that have their keys, and record these."""
        holders = {contest.holder: rows[contest.holder] for contest in contests}
        keys: dict[str, str] = {}
        writes: list[Write] = []
        if article.renumber:
            keys = dict(zip(holders, self.node.keys.next_keys(article, len(holders)), strict=True))
            self.node.keys.renumber(article, keys)
        else:
            self._withdraw(self._descendants(article, holders), contests[0].refused.change.last)
            writes = [
                withdrawal(contest.holder, contest.held.version.lineage.encode(), is_live=True) for contest in contests
            ]
        for contest in contests:
            writes.append(self._taken(contest))
        self.node.writer.write(article, writes)
        for contest in contests:
            self._keep_holder(contest, rows[contest.holder], keys.get(contest.holder))

    def _taken(self, contest: KeyContest) -> Write:
        """Return what writes the subscriber's row; as the hub's own change, if its parents have other keys here."""
        change = contest.refused.change
        if contest.row != change.row:
            return instead(change, contest.known, contest.row, is_new=True)
        return accepted(change, contest.known, self.source, self.version_priority)

    def _renumber(self, article: Article, losing: Sequence[KeyContest]) -> dict[int, str]:
        """Write the losers with new keys, where the article has that; return the keys by the contests' places."""
        if not article.renumber or not losing:
            return {}
        keys = self.node.keys.next_keys(article, len(losing))
        writes = [self._with_new_key(article, contest, key) for contest, key in zip(losing, keys, strict=True)]
        refused = self.node.writer.write_each([(article, writes)])[0]
        return {
            contest.place: key
            for contest, key in zip(losing, keys, strict=True)
            if contest.refused.change.rowguid not in refused
        }

    def _with_new_key(self, article: Article, contest: KeyContest, key: str) -> Write:
        change, row = contest.refused.change, contest.row
        place = article.index_of(article.key_columns[0].name)
        assert place is not None
        return self._withdrawal(contest)._replace(
            row=(*row[:place], key, *row[place + 1 :]),
            columns=change.columns,
            own_columns=frozenset([place]) if article.column_tracking else frozenset(),
        )

    def _withdrawal(self, contest: KeyContest) -> Write:
        change = contest.refused.change
        return withdrawal(change.rowguid, change.lineage, is_live=False)

    def _descendants(self, article: Article, rows: Mapping[str, Row]) -> list[Descendant]:
        """Return the rows of the hub that reference some rows, at any depth."""
        found: dict[tuple[int, str], Descendant] = {}
        above = {(article.nickname, rowguid): row for rowguid, row in rows.items()}
        while above:
            below: dict[tuple[int, str], Row] = {}
            for child in self.articles.values():
                for each in self._children(child, above):
                    row_id = (child.nickname, each.rowguid)
                    if row_id not in found and not (child == article and each.rowguid in rows):
                        found[row_id], below[row_id] = each, each.row
            above = below
        return list(found.values())

    def _children(self, child: Article, above: Mapping[tuple[int, str], Row]) -> list[Descendant]:
        """Return an article's rows that reference some rows."""
        found: dict[str, Descendant] = {}
        for place, reference in enumerate(child.references):
            keys = self._keys_of(reference, above)
            for rowguid, row in (
                self.node.rows.read_referencing(child, reference.columns, list(keys)) if keys else {}
            ).items():
                parent = keys.get(_values(child, reference.columns, row))
                known = found[rowguid].parents if rowguid in found else (None,) * len(child.references)
                found[rowguid] = Descendant(child, rowguid, row, (*known[:place], parent, *known[place + 1 :]))
        return list(found.values())

    def _keys_of(self, reference: ArticleReference, above: Mapping[tuple[int, str], Row]) -> dict[Row, str]:
        parent = self.articles.get(reference.parent)
        if parent is None:
            return {}
        keys = {
            _values(parent, reference.parent_columns, row): rowguid
            for (nickname, rowguid), row in above.items()
            if nickname == parent.nickname
        }
        return {key: rowguid for key, rowguid in keys.items() if None not in key}

    def _withdraw(self, descendants: Sequence[Descendant], last: bytes) -> None:
        """Delete rows everywhere, children first, and record them."""
        by_article: dict[int, list[Descendant]] = {}
        for each in descendants:
            by_article.setdefault(each.article.nickname, []).append(each)
        for listed in sorted(by_article.values(), key=lambda some: -some[0].article.processing_order):
            article = listed[0].article
            known = self.node.versions.read_known(article, [each.rowguid for each in listed])
            lineages = {each.rowguid: known[each.rowguid].version.lineage.encode() for each in listed}
            self.node.writer.write(
                article, [withdrawal(rowguid, lineage, is_live=True) for rowguid, lineage in lineages.items()]
            )
            for each in listed:
                made_by = known[each.rowguid].version.last
                error = self._missing_parent(each)
                self._record(
                    _LostKey(
                        article,
                        each.rowguid,
                        last,
                        self.source if made_by is None else made_by.nickname,
                        (error.code, error.reason),
                        (each.row, None),
                        lineages[each.rowguid],
                        self.hub_name,
                        each.parents,
                    )
                )

    def _missing_parent(self, descendant: Descendant) -> ParentNotThere:
        place, parent = next((place, each) for place, each in enumerate(descendant.parents) if each is not None)
        above = self.articles[descendant.article.references[place].parent]
        return ParentNotThere.named(descendant.article.name, above.name, parent)

    def _keep_sent(self, contest: KeyContest, winner_row: Row | None, key: str | None) -> None:
        """Record that the subscriber's row has lost its key."""
        change, code = contest.refused.change, contest.refused.error.code
        assert change.row is not None
        self._record(
            _LostKey(
                contest.refused.article,
                change.rowguid,
                change.last,
                self.source,
                (code, reason_of_contest(key)),
                (change.row, winner_row),
                change.lineage,
                self.source_name,
                change.parents,
                self._settled(contest.refused.article, change.rowguid, key),
            )
        )

    def _keep_holder(self, contest: KeyContest, row: Row, key: str | None) -> None:
        """Record that the hub's row has lost its key."""
        change, code, made_by = contest.refused.change, contest.refused.error.code, contest.held.version.last
        assert change.row is not None
        self._record(
            _LostKey(
                contest.refused.article,
                contest.holder,
                change.last,
                self.source if made_by is None else made_by.nickname,
                (code, reason_of_contest(key)),
                (row, change.row),
                contest.held.version.lineage.encode(),
                self.hub_name,
                (),
                self._settled(contest.refused.article, contest.holder, key),
            )
        )

    def _settled(self, article: Article, rowguid: str, key: str | None) -> Row | None:
        """Return a row that lost its key, as it is now: gone, unless it got another one."""
        return None if key is None else self.node.rows.read(article, [rowguid]).get(rowguid)

    def _record(self, lost: _LostKey) -> None:
        conflict = ConflictRecord(
            identify(lost.rowguid, lost.last, b"key"),
            self.pubid,
            lost.article,
            lost.rowguid,
            ConflictType.UPLOAD_INSERT_FAILED,
            lost.origin,
            *lost.why,
            *lost.rows,
            lost.lineage,
            lost.datasource,
            lost.parents,
            settled_row=lost.settled_row,
        )
        record(self.node.connection, conflict)


@frozen
class _LostKey:
    """A row that another one keeps from having its key, as its conflict records it.

    `last` is its version's last change, by the node `origin`; `rows` are this row and the winner, `why` is code and
    reason, `settled_row` what the row is now.
    """

    article: Article
    rowguid: str
    last: bytes
    origin: int
    why: tuple[str, str]
    rows: tuple[Row, Row | None]
    lineage: bytes
    datasource: str
    parents: tuple[str | None, ...]
    settled_row: Row | None = None


def _values(article: Article, columns: Sequence[str], row: Row) -> Row:
    places = [article.index_of(name) for name in columns]
    return tuple(row[place] for place in places if place is not None)


def reason_of_contest(key: str | None) -> str:
    """Return why a row lost its key; `key` is the one that it got instead, if it got one."""
    return _REASON if key is None else f"{_REASON}: this one has {shown_key(key)} now"
