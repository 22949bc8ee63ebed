"""Repair rows at subscribers that differ from the published ones, while both change.

A repair is a transaction at the subscriber, at the position that it has and under its agent's epoch: the agent waits
and continues. Both rows are read again within it. What it did is written by the same transaction, and then kept at the
publisher.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from sqlalchemy import Engine

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.requests import RowRepair
from rowtide.replication.articles.schema_changes import bound
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distributor import repair_records
from rowtide.replication.distributor.repair_records import RepairedRow
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.inspection.comparing import SubscriberComparison, Wanted, compare_all, open_publisher
from rowtide.replication.inspection.counterflow import Counterflow
from rowtide.replication.inspection.differences import (
    DifferingRow,
    as_json,
    changes_by_key,
    differing_columns,
    find_differing,
    key_as_json,
    read_differing,
)
from rowtide.replication.inspection.rows_at_position import NotComparable
from rowtide.replication.subscribing.originators import Ends
from rowtide.replication.targets.compared_rows import RepairRecord, RepairTransaction, Row, RowCorrection
from rowtide.replication.targets.kinds import kind_of

_ROUND = 100_000
"""Keys of rows that differ, in memory at once; for more, the tables are compared again."""
_BATCH = 500
"""Rows that are repaired in one transaction, for which delivery waits."""
_AT_ONCE = 10_000
"""Rows that were refused, and are in one transaction with those that have their unique values."""
_PASSES = 10
"""Rows wait for each other's unique values in chains; each pass shortens them by one row."""
_ACTIONS = {Operation.INSERT: "inserted", Operation.UPDATE: "updated", Operation.DELETE: "deleted"}
_FROM_OTHERS = "further databases change it, whose changes may be on their way to either side"
_CHANGED_BY_BOTH = "changes of it are on their way"
_CHANGED_THERE = "the subscriber's own change of it is on its way to the publisher"
LEFT, REFUSED, NOT_COMPARED, ON_ITS_WAY = "left", "refused", "not compared", "on its way"

Place = tuple[str, Row]
"""An article's id, and a key."""


@frozen
class Repair:
    """The outcome for a row that differed: it was `inserted`, `updated` or `deleted`; or why it was not repaired.

    An extra row is `left` unless it is to be deleted; a row is `refused` by the subscriber; an article is `not
    compared`; of a row that differs because of a change that is `on its way`, the outcome is not known yet. The other
    fields are those of a `RepairedRow`.
    """

    publication: str
    subscriber: str
    article: str
    action: str
    key: str | None = None
    before: str | None = None
    after: str | None = None
    position: Position | None = None
    reason: str | None = None


@frozen
class _Difference:
    """A row that differs, or why an article was not compared."""

    article: Article
    key: Row
    reason: str | None = None


def repair(
    engine: Engine,
    url: str,
    wanted: Sequence[Wanted],
    options: RowRepair,
) -> Iterator[Repair]:
    """Repair the rows that differ, and yield the outcome for each, as it is done. Idempotent.

    Extra rows are deleted only with `delete_extra`. A rehearsal rolls each of its transactions back. Raises as
    `compare_all`, and what opening a subscriber raises.
    """
    for subscription, articles in wanted:
        kind = _Rehearsing if options.is_rehearsal else _Repairing
        yield from kind(engine, url, subscription, articles, options).run()


class _Repairing:
    """The repair of one subscription."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        subscription: Subscription,
        articles: Sequence[Article],
        options: RowRepair,
    ) -> None:
        self._engine = engine
        self._url = url
        self._subscription = subscription
        self._articles = articles
        self._options = options
        self._unrepaired: dict[Place, Repair] = {}
        self._tried: set[Place] = set()
        self._counterflow: Counterflow | None = None

    def run(self) -> Iterator[Repair]:
        """Repair in rounds until nothing is left that can be repaired."""
        constraints = self._open_counterflow()
        for article in self._articles:
            if article.article_id in constraints:
                yield self._describe(article, NOT_COMPARED, reason=constraints[article.article_id])
        self._articles = [article for article in self._articles if article.article_id not in constraints]
        self._forward()
        is_all = False
        while not is_all:
            places, uncompared = self._find()
            yield from self._repair(places)
            is_all = len(places) < _ROUND
        # What a row needs may have come after it.
        while refused := [place for place, found in self._unrepaired.items() if found.action == REFUSED]:
            for place in refused:
                del self._unrepaired[place]
            repaired = list(self._repair(refused, at_once=_AT_ONCE))
            yield from repaired
            if not repaired:
                break
        yield from (*self._unrepaired.values(), *uncompared)

    def _open_counterflow(self) -> Mapping[str, str]:
        """Find what the subscriber publishes to the publisher; return why articles cannot be repaired, by id."""
        with translated(), self._engine.connect() as connection:
            ends = Ends.read(connection, self._subscription.subscriber)
        returning = ends.subscriber.delivers.keys() & ends.publisher.receives.keys()
        tables = {f"{one.schema}.{one.table}": one.article_id for one in self._articles}
        constraints = {}
        if self._subscription.settings.detects_conflicts:
            others = [*ends.subscriber.receives.items(), *ends.publisher.receives.items()]
            known = {self._subscription.guid, *returning}
            changed = [one.tables or frozenset() for guid, one in others if guid not in known]
            constraints = {tables[name]: _FROM_OTHERS for name in tables.keys() & frozenset().union(*changed)}
        sent = {guid for guid in returning if ends.subscriber.delivers[guid].tables & tables.keys()}
        if sent:
            try:
                self._counterflow = Counterflow(self._subscription.subscriber, sent)
            except RowtideError as error:
                reason = f"changes that are on their way from the subscriber cannot be read from here: {error}"
                constraints |= dict.fromkeys(tables.values(), reason)
        return constraints

    def _find(self) -> tuple[Sequence[Place], Sequence[Repair]]:
        """Return rows that differ and were not tried yet, and which articles could not be compared."""
        wanted = [(self._subscription, self._articles)]
        found = compare_all(self._engine, self._url, wanted, self._options, _list_differing, _not_compared)
        places: list[Place] = []
        uncompared: list[Repair] = []
        with closing(found):
            known = self._unrepaired.keys() | self._tried
            new = (one for one in found if (one.article.article_id, one.key) not in known)
            for one in islice(new, _ROUND):
                if one.reason is None:
                    places.append((one.article.article_id, one.key))
                else:
                    uncompared.append(self._describe(one.article, NOT_COMPARED, reason=one.reason))
        return places, uncompared

    def _repair(self, places: Sequence[Place], *, at_once: int = _BATCH) -> Iterator[Repair]:
        for first in range(0, len(places), at_once):
            keys: dict[str, list[Row]] = defaultdict(list)
            for article_id, key in places[first : first + at_once]:
                keys[article_id].append(key)
            yield from self._repair_batch(keys)
            self._forward()

    def _repair_batch(self, keys: Mapping[str, Sequence[Row]]) -> Iterator[Repair]:
        articles = [article for article in self._articles if article.article_id in keys]
        subscription = self._subscription
        with kind_of(subscription.subscriber).open_rows(subscription, articles) as subscribed:
            held = tuple(map(bound, subscribed.articles, articles))
        if self._counterflow is not None:
            self._counterflow.note_delivered()
        with (
            open_publisher(self._engine, self._url, held) as publisher,
            kind_of(subscription.subscriber).open_repair(subscription, articles) as transaction,
        ):
            # After the repair's transaction has begun: delivery waits for it, so the position that is read now stays
            # the subscriber's until the commit.
            publisher.manifest.refresh()
            present = transaction.subscribed
            now = tuple(map(bound, present.articles, articles))
            comparison = SubscriberComparison(
                subscription, publisher.rows, present, publisher.manifest, publisher.end, now
            )
            changes: dict[RowCorrection, Repair] = {}
            for article in now:
                changes |= self._plan(comparison, article, keys[article.article_id])
            made = {change: changes[change] for change in self._apply(transaction, changes)}
            if made:
                self._end(transaction, made)
        yield from made.values()

    def _end(self, transaction: RepairTransaction, made: Mapping[RowCorrection, Repair]) -> None:
        """Commit changes, with what they were."""
        repair_id, time = str(uuid.uuid4()), datetime.now(UTC)
        records = (repair_records.encode_repair(_as_record(one, time)) for one in made.values())
        transaction.commit([RepairRecord(repair_id, index, text) for index, text in enumerate(records, 1)])

    def _plan(
        self, comparison: SubscriberComparison, article: Article, keys: Sequence[Row]
    ) -> dict[RowCorrection, Repair]:
        """Return what would repair rows, and how it is described; both rows are read here, within the transaction."""
        try:
            move = comparison.plan(article)
            between = changes_by_key(article, comparison.list_changes(move, with_values=True), {*keys}.__contains__)
            # They are locked once they are read: what the subscriber's programs have changed is in its log.
            rows = list(read_differing(comparison, article, keys, between))
            published, counterflow = comparison.published.rows, self._counterflow
            returning = frozenset[Row]() if counterflow is None else counterflow.find_keys(article, published)
        except NotComparable as error:
            for key in keys:
                self._unrepaired[article.article_id, key] = self._describe(article, NOT_COMPARED, key, error.reason)
            return {}
        planned: dict[RowCorrection, Repair] = {}
        # The last commit time of a row before changes that are on their way is not known any more.
        is_by_time = self._subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME
        for row in rows:
            change = plan_change(article, row)
            if change is None:
                continue
            if row.key in returning or not row.is_certain or (is_by_time and row.key in between):
                reason = _CHANGED_THERE if row.key in returning else _CHANGED_BY_BOTH
                self._unrepaired[article.article_id, row.key] = self._describe(article, ON_ITS_WAY, row.key, reason)
                continue
            described = self._describe_change(change, row, move.position)
            if change.operation is Operation.DELETE and not self._options.delete_extra:
                self._unrepaired[article.article_id, row.key] = replace(described, action=LEFT)
            else:
                planned[change] = described
        return planned

    def _apply(
        self, transaction: RepairTransaction, changes: Mapping[RowCorrection, Repair]
    ) -> Iterator[RowCorrection]:
        """Make changes, repeatedly while some release values that others need; yield those that are made."""
        waiting = sorted(changes, key=lambda change: change.operation is not Operation.DELETE)
        for _ in range(_PASSES):
            reasons = {change: transaction.try_change(change) for change in waiting}
            refused = [change for change in waiting if reasons[change] is not None]
            yield from (change for change in waiting if reasons[change] is None)
            if not refused or len(refused) == len(waiting):
                break
            waiting = refused
        while refused:
            found = transaction.try_together(refused)
            if not found:
                yield from refused
            reasons |= found
            for change in found:
                described = replace(changes[change], action=REFUSED, reason=reasons[change])
                self._unrepaired[change.article.article_id, change.key] = described
            refused = [change for change in refused if change not in found] if found else []

    def _forward(self) -> None:
        """Record at the publisher what repairs did, also one that was killed, and then forget it at the subscriber."""
        with kind_of(self._subscription.subscriber).open_outbox(self._subscription) as outbox:
            records = outbox.read()
            if not records:
                return
            failpoint("repair_record.before")
            with translated(), self._engine.begin() as connection:
                rows = [(one.repair_id, one.ordinal, one.record) for one in records]
                repair_records.add_repairs(connection, self._subscription.agent_id, rows)
            failpoint("repair_record.after")
            failpoint("repair_forget.before")
            outbox.forget(records)
            failpoint("repair_forget.after")

    def _describe(self, article: Article, action: str, key: Row | None = None, reason: str | None = None) -> Repair:
        subscription = self._subscription
        return Repair(
            publication=subscription.publication,
            subscriber=redact(subscription.subscriber),
            article=article.name,
            action=action,
            key=None if key is None else key_as_json(article, key),
            reason=reason,
        )

    def _describe_change(self, change: RowCorrection, row: DifferingRow, position: Position) -> Repair:
        described = self._describe(change.article, _ACTIONS[change.operation], change.key)
        before = as_json(change.article, row.present, change.columns)
        after = as_json(change.article, row.published, change.columns)
        return replace(described, before=before, after=after, position=position)


class _Rehearsing(_Repairing):
    """A repair whose transactions are rolled back: what the subscriber refuses is known, and nothing is changed."""

    def _end(self, transaction: RepairTransaction, made: Mapping[RowCorrection, Repair]) -> None:  # noqa: ARG002 - not committed
        self._tried.update((change.article.article_id, change.key) for change in made)

    def _forward(self) -> None:
        pass


def plan_change(article: Article, row: DifferingRow) -> RowCorrection | None:
    """Return what makes a subscriber's row the published one; None if it is. Pure."""
    if row.published is None:
        return None if row.present is None else RowCorrection(article, Operation.DELETE, row.key, row.present)
    if row.present is None:
        return RowCorrection(article, Operation.INSERT, row.key, row.published)
    columns = differing_columns(article, row)
    return RowCorrection(article, Operation.UPDATE, row.key, row.published, columns) if columns else None


def _list_differing(comparison: SubscriberComparison, article: Article) -> Iterator[_Difference]:
    for row in find_differing(comparison, comparison.plan(article)):
        yield _Difference(article, row.key)


def _not_compared(_subscription: Subscription, article: Article, reason: str) -> _Difference:
    return _Difference(article, (), reason)


def _as_record(done: Repair, time: datetime) -> RepairedRow:
    assert done.key is not None
    assert done.position is not None
    return RepairedRow(
        publication=done.publication,
        subscriber=done.subscriber,
        article=done.article,
        action=done.action,
        key=done.key,
        before=done.before,
        after=done.after,
        position=done.position,
        time=time,
    )
