"""The agent of one subscription: what its subscriber lacks is copied, then its changes are delivered.

Articles that were added, or are copied again, join while it delivers; see `JoiningAgent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby

from sqlalchemy import Connection

from rowtide.copying.errors import CopiedTableAltered
from rowtide.copying.source import PostgresCopySource
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.manifest import Manifest
from rowtide.replication.articles import schema_changes
from rowtide.replication.articles.articles import Article, with_conflict_detection
from rowtide.replication.articles.changes import follow_change
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution.agent import DistributionAgent
from rowtide.replication.distribution.altering_transactions import CopyNeeded, read_steps
from rowtide.replication.distribution.delivery_interface import AlterationRefused
from rowtide.replication.distribution.run_context import DeliveryContext, DroppedTable, Trouble
from rowtide.replication.distributor import joining, subscription_records
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.joining import PendingChange
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors import delivery as errors
from rowtide.replication.running.agent_history import AgentHistory
from rowtide.replication.running.custom_scripts import CustomScripting, find_allowed
from rowtide.replication.snapshot.agent import ArticleCopy, DeliveryStart, SnapshotAgent
from rowtide.replication.snapshot.table_details import TableDetails, read_table_details
from rowtide.replication.snapshot.target import SnapshotStatus, SubscriptionSnapshot
from rowtide.replication.subscribing.joining import clean, complete, copy_again, mark_unready, read_joining
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.subscriber_kind import OpenedSubscriber

_FOREIGN_KEY_VIOLATION = "23503"
Look = Callable[[], Sequence[Subscription]]
"""Returns the subscriptions that were recorded lately; cheap, since it is called at each step."""
HasFailed = Callable[[Subscription], bool]
"""Returns whether the agent of a subscription has stopped with an error, after which it is not started again."""


def has_not_failed(_subscription: Subscription) -> bool:
    """Return that no agent has failed: nothing is known of others."""
    return False


class SubscriptionAgent:
    """A snapshot agent until its work is done, a distribution agent from then on; made by `open`."""

    def __init__(
        self,
        context: DeliveryContext,
        subscription: Subscription,
        manifest: Manifest,
        held: ExitStack,
        look: Look,
        has_failed: HasFailed,
    ) -> None:
        self._context = context
        self._subscription = subscription
        self._articles: tuple[Article, ...] = ()
        self._changes: Sequence[PendingChange] = ()
        self._is_over = False
        self._moved_from: Position | None = None
        self._manifest = manifest
        self._held = held
        self._look = look
        self._has_failed = has_failed
        self._snapshot: SnapshotAgent | None = None
        self._failed_at: Position | None = None
        self._allowed: schema_changes.Followed | None = None
        self._distribution: DistributionAgent | None = None
        self._scripting = CustomScripting(context, subscription)
        self._open_now()

    @classmethod
    @contextmanager
    def open(
        cls,
        context: DeliveryContext,
        subscription: Subscription,
        look: Look = tuple,
        has_failed: HasFailed = has_not_failed,
    ) -> Iterator[SubscriptionAgent]:
        """Open a subscription's agent, which replaces any earlier one; the run's own settings have precedence.

        It shares nothing with other agents: each may run in a thread of its own. `look` says which articles were
        added, dropped and copied since, `has_failed` which of them are not copied for now. Raises
        `DatabaseNotPublished`, and what opening a subscriber raises.
        """
        with translated(), context.engine.connect() as connection:
            source = read_source(connection, context.url)
        manifest = open_own_manifest(source)
        with ExitStack() as held:
            yield cls(context, subscription, manifest, held, look, has_failed)

    @property
    def position(self) -> Position | None:
        """Everything below is delivered; None while rows are copied."""
        return self._distribution.position if self._distribution is not None else None

    @property
    def is_past_copy(self) -> bool:
        """Whether the copied rows are consistent with the position: they have what changed while they were copied."""
        return self._distribution is not None and self._distribution.is_past_hand_over

    def record_if_caught_up(self) -> Position | None:
        """Once everything is delivered, let the subscriber record how far that is, and return it; None before."""
        if self._distribution is None or not self._distribution.is_caught_up:
            return None
        self._distribution.record_position()
        return self._distribution.position

    def step(self) -> bool:
        """Do one piece of work; return whether there was any. Raises what either agent raises."""
        if self._is_over:
            return False
        # An open agent knows the articles that it was opened with. Everything is read again before it delivers more.
        if self._has_changed():
            self._open_again()
            return True
        if self._distribution is not None:
            return self._deliver(self._distribution)
        state = self._target.read_state()
        if state.status is SnapshotStatus.COPYING:
            return self._copy()
        self._read_articles()
        # What the subscriber itself records is decisive: a crash may come between an alteration there and its record in
        # the distribution database.
        self._record_followed()
        self._distribution = self._held.enter_context(self._open_distribution(state))
        # In the same step: opening alone counts as no work. It succeeds before every try of a batch that fails, and
        # the pause between tries would never grow.
        return self._deliver(self._distribution)

    def _deliver(self, distribution: DistributionAgent) -> bool:
        if self._allowed is not None:
            distribution.change(self._allowed)
            self._allowed = None
        elif self._changes and distribution.is_past_hand_over:
            self._make_change(distribution, self._changes[0])
        try:
            worked = distribution.has_altered or distribution.step()
        except CopyNeeded as found:
            self._copy_again(found)
            return True
        except (errors.BatchRefused, errors.CommandRefused) as error:
            is_waiting = self._awaits_released_keys(error)
            if not is_waiting and isinstance(error, errors.CommandRefused):
                self._allowed = find_allowed(self._context.engine, self._articles, error)
            if not is_waiting and self._allowed is None:
                raise
            self._open_again()
            return not is_waiting
        if distribution.has_altered:
            self._open_again()
            return worked
        return self._attach_ready(distribution) or worked

    def _copy_again(self, found: CopyNeeded) -> None:
        """Detach an article, and attach it again with a copy, where the log is not enough to follow a schema change."""
        engine, known = self._context.engine, self._subscription
        failpoint("article_copy.before")
        # Decided once, in one transaction: after a crash the article is either still attached, and this is found again,
        # or it joins with a copy.
        is_copied = copy_again(engine, known, found.article)
        failpoint("article_copy.after")
        if is_copied:
            error = errors.ArticleCopiedAgain(found.error.table, found.error.lsn, found.error.change)
            self._context.watchers.on_dropped(DroppedTable(known, error))
        if known.joins is None:
            self._open_again()
        else:
            # Another subscription joins in the place of this one.
            self._distribution = None
            self._is_over = True

    def _awaits_released_keys(self, error: errors.BatchRefused | errors.CommandRefused) -> bool:
        """Whether an error may be caused by a foreign key of a table that left to be copied again: it stays until the
        copy begins.

        One that the subscriber refuses to begin is reported, and so is this error.
        """
        if error.sqlstate != _FOREIGN_KEY_VIOLATION:
            return False
        with translated(), self._context.engine.connect() as connection:
            joining_it = subscription_records.list_joining(connection, self._subscription.agent_id)
        return any(one.state is SubscriptionState.WAITING and not self._has_failed(one) for one in joining_it)

    def _make_change(self, distribution: DistributionAgent, pending: PendingChange) -> None:
        """Apply a recorded change of an article at the subscriber, once delivery has reached its position."""
        held = next((one for one in self._articles if one.article_id == pending.article_id), None)
        followed = None if held is None else follow_change(held, pending.change)
        if followed is None or followed.article == held:
            with translated(), self._context.engine.begin() as connection:
                joining.forget_change(connection, pending.change_id)
            self._changes = self._changes[1:]
        elif distribution.position < pending.since:
            # What was committed before is delivered as the article was defined then.
            distribution.stop_at(pending.since)
        else:
            distribution.change(followed)

    def _attach_ready(self, distribution: DistributionAgent) -> bool:
        """Attach an article that is ready; return whether there was one."""
        for ready in self._look():
            if ready.joins == self._subscription.agent_id and ready.state is SubscriptionState.READY:
                return self._attach(distribution, ready)
        return False

    def _attach(self, distribution: DistributionAgent, ready: Subscription) -> bool:
        since = ready.ready_at
        if since is None or not distribution.is_past_hand_over:
            return False
        if distribution.position < since:
            # The article is one of a batch's articles, or it is not: a batch has to end where the copy is valid.
            distribution.stop_at(since)
            return False
        engine = self._context.engine
        if distribution.is_as_opened:
            # Behind what an earlier agent may have said of the log: see `resume_position`.
            self._move_log(distribution.position)
            return False
        article = read_joining(engine, ready, since, self._articles)
        if article is None:
            return False
        try:
            has_joined = distribution.attach(article, ready)
        except AlterationRefused as error:
            self._reject_article(ready, errors.JoiningRefused(article.article.qualified_name, error.reason))
            return True
        if has_joined:
            complete(engine, self._manifest, ready, self._subscription)
            self._open_again()
        else:
            mark_unready(engine, ready)
        return True

    def _move_log(self, position: Position) -> None:
        """Write a mark, once, so that delivery gets past a position of an idle log."""
        if self._moved_from != position:
            self._source.mark()
            self._moved_from = position

    def _reject_article(self, ready: Subscription, error: errors.JoiningRefused) -> None:
        """Pause an article that the subscriber rejects; the subscription continues without it."""
        with translated(), self._context.engine.begin() as connection:
            subscription_records.set_status(connection, ready.agent_id, SubscriptionState.INACTIVE)
        AgentHistory(self._context.engine, ready).fail(error)
        self._context.watchers.on_trouble(Trouble(ready, error, None))

    def _has_changed(self) -> bool:
        """Whether articles were added to the subscription or dropped from it since it was opened."""
        known = self._subscription
        now = next((one for one in self._look() if one.agent_id == known.agent_id), known)
        return now.resumptions > known.resumptions

    def _read_articles(self) -> None:
        """Read which articles the subscriber has, after schema changes."""
        held = self._target.read_articles(self._articles)
        self._articles = tuple(map(schema_changes.bound, held, self._articles))

    def _open_target(self) -> OpenedSubscriber:
        opened = kind_of(self._subscription.subscriber).open_snapshot(self._subscription)
        return self._held.enter_context(closing(opened))

    def _open_again(self) -> None:
        """Open everything of the subscriber again: what is known of its tables and procedures has changed."""
        self._distribution = self._snapshot = None
        self._held.close()
        self._open_now()

    def _open_now(self) -> None:
        """Open the subscriber, and reconcile what it has of its articles with what is recorded."""
        self._target = self._open_target()
        engine, known = self._context.engine, self._subscription
        if known.joins is None:
            clean(engine, known)
            self._complete_joined()
        with translated(), engine.connect() as connection:
            now = subscription_records.find_subscription(connection, known.agent_id)
            if now is None:
                # Dropped: the run of replication learns of that, and stops the agent.
                self._is_over = True
                return
            # The run's own settings have precedence over those that the subscription records.
            settings = now.settings.changed(**self._context.settings)
            # The server allows as many prepared transactions as its subscriptions need.
            settings = settings if now.joins is None else settings.changed(streams=1)
            self._subscription = replace(now, settings=settings)
            self._articles = subscription_records.list_subscribed(connection, known.agent_id)
            self._changes = joining.list_changes(connection, known.agent_id)

    def _complete_joined(self) -> None:
        """Record articles that have joined, as the subscriber says, before the agent could record it."""
        known = self._subscription
        with translated(), self._context.engine.connect() as connection:
            present = subscription_records.list_joining(connection, known.agent_id)
        for one in present:
            if kind_of(known.subscriber).has_joined(known.subscriber, one.guid):
                complete(self._context.engine, self._manifest, one, known)

    def _record_followed(self) -> None:
        """Record in the distribution database which schema changes the subscriber has applied."""
        with translated(), self._context.engine.begin() as connection:
            subscription_records.record_followed(connection, self._subscription.agent_id, self._articles)

    def _copy(self) -> bool:
        self._snapshot = self._snapshot or self._open_snapshot()
        try:
            return self._snapshot.step()
        except CopiedTableAltered as found:
            # The table may have been altered back meanwhile.
            return self._are_as_now() or self._follow_altered(found.error)
        except (errors.CopyUnreadable, errors.CopyRefused) as error:
            if self._are_as_now():
                raise
            return self._follow_altered(error)

    def _follow_altered(self, error: RowtideError) -> bool:
        """Apply to the copied tables the alterations made during the copy, which the log has once it is read up to
        here.

        Returns whether it has them already. Raises the error if it never will.
        """
        self._failed_at = self._failed_at or Position.of(self._manifest.state.epoch, self._source.mark())
        is_read = self._manifest.refresh().position >= self._failed_at
        if self._follow():
            self._failed_at = None
            return True
        if is_read:
            raise error
        return False

    def _read_details(self, end: Position) -> Sequence[tuple[Article, TableDetails]] | None:
        """Return the tables' details if none was altered since its copy began.

        One that was is copied again, once the log says how; one that was altered behind the end is not. What the log
        says already is followed at once: a run may end before the log is read up to the end.
        """
        with translated(), self._context.engine.connect() as opened:
            # One snapshot for all tables: their details are of the moment at which none was altered.
            connection = opened.execution_options(isolation_level="REPEATABLE READ")
            if all(map(partial(_is_as_now, connection), self._articles)):
                return [(article, read_table_details(connection, article)) for article in self._articles]
        is_read = self._manifest.refresh().position >= end
        return () if not self._follow() and is_read else None

    def _are_as_now(self) -> bool:
        """Whether all tables are as they are copied."""
        with translated(), self._context.engine.connect() as connection:
            return all(map(partial(_is_as_now, connection), self._articles))

    def _follow(self) -> bool:
        """Apply the schema changes in the log to the tables that are copied; return whether there were any."""
        is_any, refused = False, dict[tuple[str, int], str]()
        while True:
            try:
                for followed in self._find_changes(refused):
                    self._target.alter(self._scripting.complete(followed, CommitLsn(followed.article.defined_at - 1)))
                    self._snapshot, is_any = None, True
            except AlterationRefused as error:
                if not isinstance(error.change, schema_changes.ColumnAdded | schema_changes.ColumnDropped):
                    raise
                refused[error.article.article_id, error.change.column.number] = error.reason
                # Some changes may have been made.
                self._read_articles()
            else:
                return is_any

    def _find_changes(self, refused: Mapping[tuple[str, int], str]) -> Iterator[schema_changes.Followed]:
        subscription, state = self._subscription, self._manifest.refresh()
        replicates = subscription.replicates_ddl
        return read_steps(state, self._articles, subscription.starts, replicates_ddl=replicates, refused=refused)

    def _open_snapshot(self) -> SnapshotAgent:
        self._read_articles()
        return SnapshotAgent(
            self._source,
            self._target,
            self._articles,
            self._subscription.subscriber,
            epoch=self._manifest.refresh().epoch,
            stop=self._context.stop,
            on_report=self._context.watchers.on_snapshot,
            read_details=self._read_details,
        )

    def _report_dropped(self, dropped: DroppedTable) -> None:
        """Report a table that no longer exists, unless its article was dropped meanwhile."""
        with translated(), self._context.engine.connect() as connection:
            known = subscription_records.list_subscribed(connection, self._subscription.agent_id)
        if not isinstance(dropped.error, errors.PublishedTableDropped) or any(
            dropped.error.table == article.qualified_name for article in known
        ):
            self._context.watchers.on_dropped(dropped)

    @contextmanager
    def _open_distribution(self, state: SubscriptionSnapshot) -> Iterator[DistributionAgent]:
        subscription, articles = self._subscription, self._articles
        watchers = replace(self._context.watchers, on_dropped=self._report_dropped)
        context = replace(self._context, watchers=watchers)
        if state.status is SnapshotStatus.DELIVERED:
            # One connection is enough from here on.
            opened = self._target.deliver(subscription, articles)
        else:
            opened = kind_of(subscription.subscriber).open_delivery(subscription, articles)
        with closing(opened) as delivery:
            hand_over = None if state.end is None else self._plan_hand_over(state, state.end)
            complete = self._scripting.complete
            sent = self._as_sent(articles)
            agent = DistributionAgent(context, subscription, sent, self._manifest, delivery, hand_over, complete)
            yield agent
            # At the end, too, since an agent advances its entry at intervals only: the log store may remove what was
            # delivered.
            agent.advance()

    def _as_sent(self, articles: tuple[Article, ...]) -> tuple[Article, ...]:
        settings = self._subscription.settings
        if not settings.detects_conflicts:
            return articles
        is_divided = settings.conflicts is Resolver.LAST_COMMIT_TIME
        return tuple(with_conflict_detection(article, is_divided=is_divided) for article in articles)

    def _plan_hand_over(self, state: SubscriptionSnapshot, end: Position) -> DeliveryStart:
        known = {article.article_id: article for article in self._articles}
        grouped = groupby(state.copied, key=lambda copied: copied.chunk.member_id)
        copies = {
            article_id: ArticleCopy(known[article_id], tuple(chunks), self._source.locate)
            for article_id, chunks in grouped
        }
        return DeliveryStart(end, copies, self._finish_snapshot)

    def _finish_snapshot(self) -> None:
        self._target.finish()
        self._target.close()

    @property
    def _source(self) -> PostgresCopySource:
        return PostgresCopySource(self._context.engine, self._context.url, errors.CopyUnreadable)


def _is_as_now(connection: Connection, article: Article) -> bool:
    """Whether the publisher's table is as an article has it."""
    table = find_by_id(connection, article.source_id)
    if table is None:
        return True
    try:
        now = schema_changes.follow(
            article, schema_changes.as_alteration(table), adds_none_since=None, has_no_rows=True
        ).article
    except schema_changes.Unfollowed:
        return False
    return now == article
