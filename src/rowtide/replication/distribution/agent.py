"""The distribution agent of one subscription delivers changes from the log store, in order and exactly once.

(SQL Server: Distribution Agent.) The subscriber's own progress says what it has; the log store's reader entry says how
far the log had nothing for it after that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.log.membership import Traced
from rowtide.log.postgres.missed_ddl import has_earlier_values
from rowtide.log.store.entries import TransactionOmitted
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.replay import require_here
from rowtide.log.store.state import LogGap, ManifestState, bounded_end, next_gap
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import ColumnAdded, ColumnDropped, Followed, GeneratedAltered
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution import altering_transactions, delivery_interface, log_events, run_context
from rowtide.replication.distribution.calls import from_log
from rowtide.replication.distribution.calls.batch_limits import ONE_BY_ONE, BatchLimits, BatchSplitter
from rowtide.replication.distribution.calls.ordered import OrderedCalls, ProcedureCall
from rowtide.replication.distribution.early_delivery import EarlyDelivery
from rowtide.replication.distribution.lost_identities import require_intact
from rowtide.replication.distribution.reader_entry import ReaderEntry, require_same_history
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.distributor.tracers import record_arrival
from rowtide.replication.errors import delivery as errors
from rowtide.replication.errors.publishing import ChangeRefused
from rowtide.replication.snapshot.agent import DeliveryStart

_RESTARTED = "the log was restarted"
_MAX_STEP_ROWS = 500_000
"""Rows of the segments that a step reads, about: it ends before these are merged with others and deleted."""


CompleteChange = Callable[[Followed, CommitLsn], Followed]
"""Adds the custom script to what a transaction changes of an article."""


@frozen
class _Portion:
    """What a step delivers: everything before `end`, which a gap, an alteration or a token may have set."""

    end: Position
    lost: LogGap | None
    altering: CommitLsn | None
    token: Traced | None


class DistributionAgent:
    """Delivers one subscription, in bounded steps."""

    def __init__(
        self,
        context: run_context.DeliveryContext,
        subscription: Subscription,
        articles: Sequence[Article],
        manifest: Manifest,
        delivery: delivery_interface.Delivery,
        hand_over: DeliveryStart | None = None,
        complete: CompleteChange = lambda followed, _lsn: followed,
    ) -> None:
        """With a `hand_over`, the subscriber has a snapshot, whose chunks contain some of the changes already."""
        self._context = context
        self._subscription = subscription
        self._articles = articles
        self._manifest = manifest
        self._delivery = delivery
        self._hand_over = hand_over
        self._complete = complete
        self._early = EarlyDelivery(delivery, articles, self._open_calls)
        self._entry = ReaderEntry(manifest, subscription)
        self._position = self._entry.find_start(manifest.refresh(), delivery.progress, articles)
        # Before anything is sent: a publisher that was restored together with its log store writes other transactions
        # at LSNs that the subscriber has passed, and these would never be delivered.
        require_same_history(context.engine, manifest, subscription, delivery.progress)
        self._has_altered = False
        self._opened_at = delivery.progress.position
        self._next_stop: Position | None = None

    @property
    def has_altered(self) -> bool:
        """Whether tables were altered, or got constraints: then both it and its delivery have to be opened again."""
        return self._has_altered

    @property
    def position(self) -> Position:
        """Everything below was delivered, or was not for this subscription."""
        return self._position

    @property
    def is_past_hand_over(self) -> bool:
        """Whether no copied chunk matters any more."""
        return self._hand_over is None

    @property
    def is_as_opened(self) -> bool:
        """Whether the position is the one that the subscriber had when this agent took over."""
        return self._position <= self._opened_at

    @property
    def is_caught_up(self) -> bool:
        """Whether everything that the log store had at the last step is delivered, and no copy matters any more."""
        return self._hand_over is None and self._position >= self._manifest.state.position

    def stop_at(self, position: Position) -> None:
        """End a batch at a position, if it is still ahead."""
        # A transaction that is delivered early may reach beyond the position at which the batch has to end.
        self._early.undo()
        self._next_stop = position

    def record_position(self) -> None:
        """Let the subscriber record the position, even if nothing was delivered since its last batch."""
        # Ranges without a change for this subscription move the position in memory alone. Programs that verify that
        # all is delivered read it at the subscriber.
        if self._delivery.progress.position < self._position:
            self._early.undo()
            self._delivery.begin(one_by_one=True)
            self._delivery.end(self._position)

    def change(self, followed: Followed) -> None:
        """Change an article at the subscriber from this position on. Raises `ChangeRefused`."""
        self._early.undo()
        self._delivery.begin(one_by_one=True)
        try:
            self._delivery.alter(followed)
        except delivery_interface.AlterationRefused as error:
            article = followed.article
            raise ChangeRefused(article.qualified_name, error.reason) from error
        self._delivery.end(self._position)
        self._has_altered = True

    def attach(self, joining: delivery_interface.JoiningArticle, held_by: Subscription) -> bool:
        """Deliver what a joining article lacks up to this position, atomically with making it one of these.

        `held_by` is its subscription so far. Returns false if that has to deliver more before: the article was altered,
        or the log has a gap. Raises what `Delivery` raises.
        """
        state, article, since = self._manifest.refresh(), joining.article, joining.since
        end = self._position
        # An alteration or a gap in the range has a place of its own among the rows. The joining article's own agent
        # knows how to pass it, and attaches afterwards.
        is_plain = (
            altering_transactions.find_altering(state, (article,), since, end) is None
            and log_events.find_gap(state, since, end) is None
        )
        if self._hand_over is not None or since.epoch != end.epoch or not is_plain:
            return False
        # Recorded before the article becomes one of these. After a crash in between, the record is found again and not
        # repeated.
        self._keep_suspension(state, article, held_by)
        joining = replace(joining, article=replace(article, joined_at=end.value))
        starts = {**self._subscription.starts, article.article_id: held_by.starts[article.article_id]}
        self._subscription = replace(self._subscription, starts=starts)
        while True:
            try:
                self._deliver_joining(self._manifest.state, joining)
            except delivery_interface.CallNotStorable as found:
                self._suspend(found.call, found.reason)
            except delivery_interface.JoiningMoved:
                return False
            else:
                return True

    def _deliver_joining(self, state: ManifestState, joining: delivery_interface.JoiningArticle) -> None:
        versions, calls = from_log.find_versions(state, (joining.article,)), self._open_calls()
        self._early.undo()
        self._delivery.begin(one_by_one=True)
        for found in calls.read(joining.since, self._position, versions, self._delivery.flush):
            self._run(found, 0, len(found))
        # In the transaction of the rows that it lacked: there is no moment at which it is one of the articles without
        # them.
        self._delivery.join(joining)
        self._delivery.end(self._position)

    def _keep_suspension(self, state: ManifestState, article: Article, held_by: Subscription) -> None:
        """Record for this subscription which transactions were omitted of a joining article."""
        known = {(one.member_id, one.lsn) for one in state.lacking(self._subscription.reader)}
        for one in state.lacking(held_by.reader):
            if one.member_id == article.article_id and (one.member_id, one.lsn) not in known:
                reader = self._subscription.reader
                self._manifest.append(TransactionOmitted(reader, one.member_id, one.lsn, one.reason))

    def step(self) -> bool:
        """Deliver what the log store has now, in bounded portions; return whether there was anything to do.

        Raises `SchemaChanged`, `CopyNeeded` or `ChangesLost` once everything before it is delivered,
        `LogStoreRelocated`, and what `Delivery` raises.
        """
        state = self._manifest.refresh()
        require_here(state)
        gap = self._find_reconciled(state)
        self._entry.require_kept(state, self._position)
        # A hand-over may end without any change to deliver; its chunks are deleted nevertheless.
        if self._end_hand_over():
            return True
        last = gap.after if gap is not None else state.position
        if last <= self._position:
            self._advance_now_and_then()
            if gap is not None:
                self._cross(gap)
            return gap is not None or self._begin_early(state)
        if self._early.finish(state, self._position, self._end):
            return True
        portion = self._plan_portion(state, last)
        begin, end = self._position, portion.end
        has_delivered = self._deliver(state, end)
        if portion.token is not None:
            self._pass_on(portion.token, end, has_delivered=has_delivered)
        for dropped in log_events.find_dropped(state, self._articles, begin, end):
            self._report_dropped(dropped)
        # Batches have moved it only up to their last transaction; what follows in the range has no call of this
        # subscription.
        self._position = max(self._position, end)
        has_ended = self._end_hand_over()
        self._advance_now_and_then()
        # Raised after the range before the gap is committed, so that it is delivered once, however the gap is handled.
        if portion.lost is not None:
            raise errors.ChangesLost(str(CommitLsn(portion.lost.after.value)), portion.lost.reason)
        # After a hand-over everything is opened again, and the next step finds the alteration.
        if portion.altering is not None and not has_ended:
            self._alter(state, portion.altering)
        return has_delivered or has_ended or end < state.position

    def _plan_portion(self, state: ManifestState, last: Position) -> _Portion:
        """Return what a step delivers of the log up to `last`.

        Whichever comes first ends it: a gap, an alteration, or a token. Each look goes only as far as the one before,
        so what it finds comes first, and what was found so far is dropped: the next step finds it again, from the
        position that this one reaches.
        """
        # Bounded: the segments that a step has planned with are merged and deleted after a while.
        end = self._bound(min(bounded_end(state, self._position, _MAX_STEP_ROWS), last))
        lost = log_events.find_gap(state, self._position, end)
        if lost is not None:
            end = lost.after
        altering = altering_transactions.find_altering(state, self._articles, self._position, end)
        if altering is not None:
            end, lost = Position(altering.value), None
        token = log_events.find_token(state, self._subscription.publication, self._position, end)
        if token is not None:
            # A token measures the delivery of what was committed before it: the rest waits for the next step.
            end, lost, altering = Position(token.commit_lsn.value + 1), None, None
        return _Portion(end, lost, altering, token)

    def _begin_early(self, state: ManifestState) -> bool:
        """Deliver what there is of a transaction that is still read; return whether there was anything."""
        is_plain = self._hand_over is None and (self._next_stop is None or self._next_stop <= self._position)
        return is_plain and self._early.follow(state, self._position)

    def _find_reconciled(self, state: ManifestState) -> LogGap | None:
        """Return the gap behind the position's epoch, None in the log's.

        Raises `ChangesLost` unless the log has what the gap changed in every article, and `SubscriberAhead`.
        """
        gap = next_gap(state, self._position)
        is_bridged = gap is not None and {article.article_id for article in self._articles} <= set(gap.bridged)
        # All articles, or the subscription stops: a table without the reconciled difference would silently lack rows.
        if self._position.epoch != state.epoch and not is_bridged:
            raise errors.ChangesLost(str(self._position), _RESTARTED)
        if gap is not None and self._position > gap.after:
            # The log store was restored before the gap was bridged, which has only what the gap itself changed.
            raise errors.SubscriberAhead(self._subscription.subscriber, str(self._position), str(gap.after))
        return gap

    def _cross(self, gap: LogGap) -> None:
        """Continue after a gap, once everything before it is delivered.

        Raises `ChangesLost` during a hand-over: it is not known which copied chunks contain what the gap changed.
        """
        if self._hand_over is not None:
            raise errors.ChangesLost(str(self._position), _RESTARTED)
        self._position = gap.before

    def _bound(self, end: Position) -> Position:
        """End the batch at the hand-over's end: after it, the copies no longer matter."""
        stops = [] if self._hand_over is None else [self._hand_over.until]
        if self._next_stop is not None and self._next_stop > self._position:
            stops.append(self._next_stop)
        return min(end, *stops) if stops else end

    def _end_hand_over(self) -> bool:
        """Advance the subscriber past the hand-over, even if nothing was delivered, before it deletes its chunks.

        Returns whether it has ended now.
        """
        hand_over = self._hand_over
        if hand_over is None or self._position < hand_over.until:
            return False
        if self._delivery.progress.position < hand_over.until:
            self._delivery.begin(one_by_one=True)
            self._delivery.end(hand_over.until)
        hand_over.finish()
        self._hand_over = None
        self._has_altered = True
        return True

    def advance(self) -> None:
        """Let the log store remove what was delivered, and what was not for this subscription."""
        self._entry.note(self._position)
        if self._entry.is_registered():
            self._confirm(self._manifest.state)
            self._entry.advance(self._position, self._delivery.progress.position)

    def _confirm(self, state: ManifestState) -> None:
        """Where commit times decide, record at the subscriber how far everything is delivered, even without rows.

        It keeps the keys that were deleted later.
        """
        is_needed = self._subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME and self._hand_over is None
        is_caught_up = self._position == state.position > self._delivery.progress.position
        if is_needed and is_caught_up and state.as_of is not None:
            self._delivery.begin(one_by_one=True, committed_us=from_log.microseconds(state.as_of))
            self._delivery.end(self._position)

    def _advance_now_and_then(self) -> None:
        if self._entry.is_due(self._position):
            self.advance()

    def _deliver(self, state: ManifestState, end: Position) -> bool:
        """Deliver a range batch by batch.

        A batch that was rolled back is read again, since it is not kept in memory.
        """
        one_by_one = has_delivered = False
        while True:
            before = self._position
            try:
                return self._deliver_from(state, end, one_by_one=one_by_one) or has_delivered
            except delivery_interface.BatchUndone:
                has_delivered |= self._position > before
                # The server refuses a set without naming the call at fault. Sent again row by row, the error names one.
                one_by_one = True
            except delivery_interface.CallNotStorable as found:
                has_delivered |= self._position > before
                self._suspend(found.call, found.reason)

    def _suspend(self, call: ProcedureCall, reason: str) -> None:
        """Record from which transaction on the subscriber lacks an article, before anything later is delivered."""
        lsn, article = CommitLsn(call.lsn), call.article
        if not self._entry.is_registered():
            raise errors.SubscriptionDeactivated(self._subscription.publication, self._subscription.subscriber)
        # The manifest first, then the delivery without the article: the other order could lose the record in a crash,
        # and the next agent would deliver later changes to a table that lacks earlier ones.
        failpoint("article_suspension.before")
        self._manifest.append(TransactionOmitted(self._subscription.reader, article.article_id, lsn, reason))
        failpoint("article_suspension.after")
        self._report_dropped(errors.ArticleSuspended(article.qualified_name, str(lsn), reason))

    def _deliver_from(self, state: ManifestState, end: Position, *, one_by_one: bool) -> bool:
        """Deliver the rest of a range; the first batch row by row if it was rolled back, in smaller ones.

        Most of what precedes a refused command is thus committed.
        """
        log, batch = self._open_calls(), None
        versions = from_log.find_versions(state, self._articles)
        limits = BatchLimits.of(self._subscription.settings)
        # The first splitter ends batches where they ended in the attempt that was rolled back; until it ends one, the
        # smaller splitter divides that batch. The refused command is then behind, so later batches are sent at once
        # again.
        splitter, smaller = BatchSplitter(limits), BatchSplitter(limits.at_most(ONE_BY_ONE))
        for calls in log.read(self._position, end, versions, self._delivery.flush):
            begun = 0
            for lsn, start, stop in calls.transactions():
                whole = reached = splitter.ends_before(lsn, stop - start)
                if one_by_one:
                    part = smaller.ends_before(lsn, stop - start)
                    reached, one_by_one = part if whole is None else whole, whole is None
                # Batches end between transactions, so that the subscriber never shows a part of one.
                if batch is not None and reached is not None:
                    self._run(calls, begun, start)
                    self._end(batch, reached, log)
                    batch, begun = None, start
                if batch is None:
                    self._delivery.begin(one_by_one=one_by_one, committed_us=log.times.find(lsn))
                    batch = run_context.BatchCounts()
                batch.count(lsn, stop - start)
            self._run(calls, begun, len(calls))
            del calls  # up to a gigabyte, while the next ones are read
        if batch is not None:
            self._end(batch, end, log)
        return batch is not None

    def _alter(self, state: ManifestState, lsn: CommitLsn) -> None:
        """Deliver a transaction that alters published tables, atomically with the schema changes.

        A column that the subscriber cannot add is omitted, one that it cannot drop is kept; a table is copied whose
        alteration fits into no place among the transaction's rows. Raises `IdentityLost`, `SchemaChanged`,
        `CopyNeeded`, `LogNotRead`.
        """
        # Each refusal excludes one alternative. The transaction is then read and delivered again as a whole, since the
        # refusal has rolled back all of it.
        refused: dict[tuple[str, int], str] = {}
        late: set[str] = set()
        while True:
            transaction = altering_transactions.AlteringTransaction.read(
                state,
                self._articles,
                lsn,
                replicates_ddl=self._subscription.replicates_ddl,
                refused=refused,
                late=late,
                lookups=altering_transactions.AlterationLookups(
                    self._has_values,
                    partial(from_log.find_row_numbers, self._manifest, lsn),
                    partial(require_intact, self._context, self._manifest),
                ),
            )
            try:
                self._deliver_altering(state, transaction)
            except delivery_interface.AlterationRefused as error:
                is_estimated = transaction.is_estimated(error.article)
                if is_estimated and error.article.article_id not in late:
                    # Perhaps for keys of which the cascades are not delivered at the first possible place.
                    late.add(error.article.article_id)
                    continue
                fits_nowhere = is_estimated and error.is_of_rows
                if fits_nowhere or not isinstance(error.change, ColumnAdded | ColumnDropped | GeneratedAltered):
                    raise self._explain(error, transaction) from error
                refused[error.article.article_id, error.change.column.number] = error.reason
            except delivery_interface.CallNotStorable as found:
                self._suspend(found.call, found.reason)
            else:
                return

    def _has_values(self, source_id: int, number: int) -> bool:
        with translated(), self._context.engine.connect() as connection:
            return has_earlier_values(connection, source_id, number)

    def _explain(
        self, error: delivery_interface.AlterationRefused, transaction: altering_transactions.AlteringTransaction
    ) -> errors.SchemaChanged | altering_transactions.CopyNeeded:
        """Return what a refused schema change comes to: a copy, unless a procedure of the user's refuses it."""
        table = error.article.qualified_name
        stop = errors.SchemaChanged(table, str(transaction.lsn), f"the subscriber refuses it: {error.reason}")
        before = {article.article_id: article for article in transaction.before}
        return (
            stop if error.change is None else altering_transactions.CopyNeeded(before[error.article.article_id], stop)
        )

    def _deliver_altering(self, state: ManifestState, transaction: altering_transactions.AlteringTransaction) -> None:
        """Deliver a transaction; a table is altered between the rows between which the publisher altered it."""
        end = Position(transaction.lsn.value + 1)
        stages = [
            from_log.Stage(since, from_log.find_versions(state, articles)) for since, articles in transaction.stages()
        ]
        read = self._open_calls()
        consecutive_calls = read.read_stages(self._position, end, stages, self._delivery.flush)
        # With the first one its transaction's commit time is known.
        first = list(islice(consecutive_calls, 1))
        self._delivery.begin(one_by_one=True, committed_us=read.times.find(transaction.lsn.value))
        batch = run_context.BatchCounts()
        batch.count(transaction.lsn.value, 1)
        steps = deque(transaction.steps)
        for calls in chain(first, consecutive_calls):
            begun = 0
            while steps and len(calls) and steps[0].seqval <= calls.seqvals[-1]:
                place = calls.find(steps[0].seqval)
                self._run(calls, begun, place)
                self._make(steps.popleft().followed, transaction.lsn)
                begun = place
            batch.commands += len(calls)
            self._run(calls, begun, len(calls))
        for step in steps:
            self._make(step.followed, transaction.lsn)
        self._end(batch, end, read)
        self._articles = transaction.articles()
        self._has_altered = True

    def _make(self, followed: Followed, lsn: CommitLsn) -> None:
        self._delivery.alter(self._complete(followed, lsn))

    def _pass_on(self, token: Traced, end: Position, *, has_delivered: bool) -> None:
        """Report a token once everything before it is delivered.

        If there was nothing, commit an empty transaction for it.
        """
        if not has_delivered:
            self._delivery.begin(one_by_one=True)
            self._delivery.end(end)
        # After the commit at the subscriber, whose time is measured. A crash in between loses the measurement, not a
        # change.
        record_arrival(self._context.engine, self._subscription.agent_id, self._subscription.subscriber, token)

    def _run(self, calls: OrderedCalls, start: int, end: int) -> None:
        if start < end:
            self._delivery.run(calls.between(start, end))

    def _end(self, batch: run_context.BatchCounts, reached: Position, calls: from_log.LogCalls) -> None:
        # The one commit of rows and position. What follows here is repeated or lost without harm.
        skipped = self._delivery.end(reached)
        # After the commit: if that fails, the batch is read again from the former position.
        self._position = reached
        for error in skipped:
            self._context.watchers.on_skipped(run_context.SkippedCommand(self._subscription, error))
        seconds = time.monotonic() - batch.began
        committed_us = calls.times.find(batch.last_lsn)
        latency_ms = (time.time_ns() // 1000 - committed_us) // 1000 if committed_us is not None else None
        subscriber = self._subscription.subscriber
        counts = batch.transactions, batch.commands, seconds, latency_ms
        report = run_context.DeliveryReport(subscriber, reached, *counts)
        self._context.watchers.on_batch(report)

    def _report_dropped(self, error: errors.ArticleEnded) -> None:
        self._context.watchers.on_dropped(run_context.DroppedTable(self._subscription, error))

    def _open_calls(self) -> from_log.LogCalls:
        copies = None if self._hand_over is None else self._hand_over.copies
        return from_log.LogCalls(self._manifest, self._subscription, copies)
