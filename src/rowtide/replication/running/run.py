"""Running replication: the log reader, and an agent for each subscription, unless another process has them.

Which subscriptions a run delivers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from sqlalchemy import Connection, text

from rowtide.agents.log_reader_process import LogReaderProcess
from rowtide.agents.runs import report_retry, run_agent
from rowtide.core.errors import RowtideError
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.databases.postgres.connect import open_session
from rowtide.databases.postgres.errors import ConnectionFailed, UnexpectedSqlError, translated
from rowtide.log.errors import LeaseHeld
from rowtide.log.postgres import slot
from rowtide.log.postgres.control import mark_target
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.manifest import Manifest
from rowtide.replication.distribution.watchers import DeliveredElsewhere, DeliveryContext
from rowtide.replication.distributor import (
    definitions,
    history,
    publication_records,
    subscription_records,
    tracers,
)
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.location import follow_move, forget_companion
from rowtide.replication.distributor.retention import deactivate_expired
from rowtide.replication.distributor.subscription_records import Subscription, SubscriptionClaims, list_claims
from rowtide.replication.errors.delivery import (
    DistributionMissing,
    DistributorUnreachable,
    SubscriptionDeactivated,
    SubscriptionsFailed,
)
from rowtide.replication.errors.subscribing import SubscriberUnknown, SubscriptionUnknown
from rowtide.replication.publisher import read_source
from rowtide.replication.publishing.restarting import advance_placeholder
from rowtide.replication.running.agent_history import AgentHistory, LogReaderErrors
from rowtide.replication.running.subscription_runs import IDLE_AT_BUCKET_S, IDLE_S, SubscriptionRuns
from rowtide.replication.subscribing.readers import remove_lost_readers
from rowtide.replication.targets.kinds import kind_of
from rowtide.storage.object_urls import is_object_url


@frozen
class RunScope:
    """The subscriptions of a publication, or of all (None), to some subscribers, by address, or to all (none named)."""

    publication: str | None = None
    subscribers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, publication: str | None, subscribers: Sequence[str]) -> RunScope:
        """Return the scope of subscribers' URLs. Raises `DatabaseKindUnknown`."""
        return cls(publication, frozenset(kind_of(url).address(url) for url in subscribers))

    def includes(self, subscription: Subscription) -> bool:
        """Whether the run delivers a subscription of its publications."""
        return not self.subscribers or subscription.subscriber in self.subscribers

    def require_known(self, present: Sequence[Subscription]) -> None:
        """Require that each named subscriber has a subscription. Raises `SubscriptionUnknown`, `SubscriberUnknown`."""
        unknown = self.subscribers - {subscription.subscriber for subscription in present}
        if unknown and self.publication is not None:
            raise SubscriptionUnknown(self.publication, min(unknown))
        if unknown:
            raise SubscriberUnknown(min(unknown))


EVERYTHING = RunScope()


_POLL_S = 0.5
_READ_POLL_S = 0.05
_DECODED_AGAIN_BYTES = 32 * 1024 * 1024
"""The walsender decodes them in about 0.13 s; another mark is read in 0.03 s."""
_LEAVING_PATIENCE_S = 1.0
_LEAVING_POLL_S = 0.005
_CLEANUP_S = 600.0
_EXPIRY_S = 60.0
_READERS_S = 10.0
_DISTRIBUTOR_PAUSE_S = 5.0
_ROWS_FORGOTTEN = 1000


def run_replication(context: DeliveryContext, scope: RunScope = EVERYTHING, *, once: bool = False) -> None:
    """Read the log and deliver until the run is stopped; `once`: until all that was committed before is delivered.

    With `once` and without subscriptions, the log is read up to there: the publisher keeps none of it.
    A subscription that another process delivers is left to it while that one runs; with `once` this one waits for it.
    A subscription that stops with an error is reported, and the others continue. Raises when all have stopped so, with
    `once` at the end if one has: the error, or `SubscriptionsFailed` if there are several. An error that
    ends the log reader is raised at once.
    """
    agent = ReplicationAgent(context, scope, is_once=once)
    try:
        run_agent(agent.open, stop=context.stop, idle_s=_POLL_S, on_retry=context.watchers.on_retry)
    finally:
        agent.end()
    agent.raise_failures()


class ReplicationAgent:
    """The log reader and the subscriptions' runs, which outlive a lost connection to the publisher."""

    _connection: Connection
    _reader: LogReaderProcess
    _claims: SubscriptionClaims | None

    def __init__(self, context: DeliveryContext, scope: RunScope, *, is_once: bool) -> None:
        self._context = context
        self._scope = scope
        self._is_once = is_once
        self._target: int | None = None
        self._elsewhere: dict[int, str] = {}
        self._reading_errors = LogReaderErrors(context.engine)
        self._runs: SubscriptionRuns | None = None
        self._first: frozenset[int] = frozenset()
        self._next_cleanup = 0.0
        self._next_expiry = 0.0
        self._next_readers = 0.0
        self._next_follow = 0.0
        self._began = time.monotonic()
        self._manifest: Manifest | None = None

    @contextmanager
    def open(self) -> Iterator[ReplicationAgent]:
        """Connect to the publisher, and read its log if no other process does."""
        with translated(), open_session(self._context.engine) as opened:
            self._connection = opened.execution_options(isolation_level="AUTOCOMMIT")
            self._claims = None
            # First: it opens the log while this process reads the subscriptions.
            with LogReaderProcess(self._context.url, self._retry_reading, has_run=self._runs is not None) as reader:
                self._reader = reader
                self._runs = self._runs or self._begin(self._connection)
                yield self

    def step(self) -> bool:
        """Keep the log reader running, then follow the subscriptions."""
        assert self._runs is not None
        try:
            self._reader.keep_running()
        except RowtideError as error:
            self._reading_errors.fail(error)
            raise
        if time.monotonic() < self._next_follow:
            return False
        try:
            with translated():
                return self._follow(self._connection, self._runs)
        except (ConnectionFailed, DistributionMissing, DistributorUnreachable) as error:
            self._wait_for_distributor(error)
            return False
        except UnexpectedSqlError:
            # Its tables may just have gone.
            with translated():
                if not follow_move(self._connection):
                    raise
            return True

    def _wait_for_distributor(self, error: ConnectionFailed | DistributionMissing | DistributorUnreachable) -> None:
        """Go on reading the log and delivering without the distribution database. Raises the error if it is not that,
        but the publisher, which cannot be reached.
        """
        if self._connection.invalidated:
            raise error
        with translated():
            self._connection.execute(text("select 1"))
        if not forget_companion(self._connection) and not isinstance(error, DistributorUnreachable):
            raise error
        self._claims = None
        self._next_follow = time.monotonic() + _DISTRIBUTOR_PAUSE_S
        report_retry(error, _DISTRIBUTOR_PAUSE_S, self._context.watchers.on_retry)

    def end(self) -> None:
        """Stop the agents."""
        if self._runs is not None:
            self._runs.end()

    def raise_failures(self) -> None:
        """Raise if all subscriptions have failed; with `once`, if any has."""
        if self._runs is None or not (self._is_once or self._runs.have_all_failed):
            return
        failures = self._runs.failures
        if len(failures) == 1:
            raise failures[0][1]
        if failures:
            named = "; ".join(_name_failure(failed, error) for failed, error in failures)
            raise SubscriptionsFailed(len(failures), named)

    def _follow(self, connection: Connection, runs: SubscriptionRuns) -> bool:
        """Start and stop threads as subscriptions change; end the run when all have ended.

        Return whether to be called again at once: with `once`, after waiting for the subscriptions to end.
        """
        present = subscription_records.list_subscriptions(connection, self._scope.publication)
        elsewhere = self._assign(connection, runs, list(self._wanted(present)), present)
        has_ended = self._is_once and runs.have_ended and self._is_read()
        is_over = not elsewhere and (runs.have_all_failed or has_ended)
        if present and (is_over or time.monotonic() >= self._next_expiry):
            self._deactivate_expired(connection, runs, present)
        self._forget_old_history(connection)
        self._keep_log_store_small(connection)
        if is_over:
            self._leave_log(connection)
            self._context.stop.set()
        elif self._is_once and runs.have_ended:
            self._context.stop.wait(_READ_POLL_S)
        elif self._is_once:
            runs.wait(_POLL_S)
        return self._is_once

    def _leave_log(self, connection: Connection) -> None:
        """With `once`, let the next run begin to decode behind what was written meanwhile, if that is much: to a
        subscriber on the same server, say.
        """
        if self._target is None or slot.read_log_end(connection) - self._target < _DECODED_AGAIN_BYTES:
            return
        self._target = mark_target(connection)
        deadline = time.monotonic() + _LEAVING_PATIENCE_S
        while not self._is_read() and time.monotonic() < deadline:
            self._context.stop.wait(_LEAVING_POLL_S)

    def _is_read(self) -> bool:
        """Whether the log store has the target."""
        target, manifest = self._target, self._manifest
        return target is None or manifest is None or manifest.refresh().position.log > target

    def _assign(
        self,
        connection: Connection,
        runs: SubscriptionRuns,
        wanted: Sequence[Subscription],
        present: Sequence[Subscription],
    ) -> list[Subscription]:
        """Run the agents that no other process runs; return the subscriptions that are left to others."""
        over = {subscription.agent_id for subscription in wanted if runs.is_over(subscription)}
        if self._claims is None or not self._claims.are_at(connection):
            self._claims = SubscriptionClaims(connection)
        claimed = self._claims.take({subscription.agent_id for subscription in wanted} - over)
        runs.follow((found for found in wanted if found.agent_id in over | claimed), present)
        self._claims.keep(runs.at_work)
        left = [found for found in wanted if found.agent_id not in over | claimed]
        self._report_elsewhere(connection, left)
        return [found for found in left if not self._is_delivered(found)]

    def _report_elsewhere(self, connection: Connection, left: Sequence[Subscription]) -> None:
        holders = list_claims(connection) if left else {}
        known = {found.agent_id: holders[found.agent_id] for found in left if found.agent_id in holders}
        for found in left:
            holder = known.get(found.agent_id)
            if holder is not None and self._elsewhere.get(found.agent_id) != holder:
                self._context.watchers.on_elsewhere(DeliveredElsewhere(found, holder))
        self._elsewhere = known

    def _is_delivered(self, subscription: Subscription) -> bool:
        """Whether another process has delivered the target, as far as it has recorded."""
        if self._target is None or self._manifest is None:
            return False
        reader = self._manifest.refresh().readers.get(subscription.reader)
        return reader is None or reader.position.log > self._target

    def _retry_reading(self, error: RowtideError, pause_s: float) -> None:
        self._reading_errors.retry(error)
        self._context.watchers.on_retry(error, pause_s)

    def _begin(self, connection: Connection) -> SubscriptionRuns:
        source = read_source(connection, self._context.url)
        self._manifest = open_own_manifest(source)
        verify_provenance(connection, self._manifest)
        if self._scope.publication is not None:
            publication_records.get_publication(connection, self._scope.publication)
        present = subscription_records.list_subscriptions(connection, self._scope.publication)
        self._scope.require_known(present)
        self._first = frozenset(subscription.agent_id for subscription in present)
        self._target = mark_target(connection) if self._is_once else None
        idle_s = IDLE_AT_BUCKET_S if is_object_url(source.log_store) else IDLE_S
        return SubscriptionRuns(self._context, self._target, idle_s=idle_s)

    def _deactivate_expired(
        self, connection: Connection, runs: SubscriptionRuns, present: Iterable[Subscription]
    ) -> None:
        """Deactivate expired subscriptions; after a pause of all, deliverable ones first get time to catch up."""
        assert self._manifest is not None
        failed = {subscription.agent_id for subscription, _ in runs.failures}
        is_early = time.monotonic() < self._began + _EXPIRY_S
        expirable = [
            subscription
            for subscription in present
            if not is_early or subscription.state is SubscriptionState.INACTIVE or subscription.agent_id in failed
        ]
        for expired in deactivate_expired(connection, self._manifest, expirable, read_server_time(connection)):
            error = SubscriptionDeactivated(expired.publication, expired.subscriber)
            if self._scope.includes(expired):
                runs.report_stopped(expired, error)
            else:
                AgentHistory(self._context.engine, expired).fail(error)
        self._next_expiry = time.monotonic() + _EXPIRY_S

    def _keep_log_store_small(self, connection: Connection) -> None:
        """Remove lost readers and advance the placeholder, at intervals: each may be a manifest entry."""
        if time.monotonic() < self._next_readers or self._manifest is None:
            return
        self._next_readers = time.monotonic() + _READERS_S
        remove_lost_readers(connection, self._manifest)
        # The source is being made or removed: the next step tries again.
        with suppress(LeaseHeld):
            advance_placeholder(self._context.engine, self._manifest)

    def _forget_old_history(self, connection: Connection) -> None:
        """Delete in portions: after a long pause there may be many rows."""
        if time.monotonic() >= self._next_cleanup and definitions.is_made(connection):
            now = datetime.now(UTC)
            has_more = [kind.forget_old(connection, now, limit=_ROWS_FORGOTTEN) for kind in (history, tracers)]
            self._next_cleanup = time.monotonic() + (0 if any(has_more) else _CLEANUP_S)

    def _wanted(self, present: Iterable[Subscription]) -> Iterator[Subscription]:
        """Return the run's that are not paused; with `once`, of those that existed when the run began."""
        for subscription in filter(self._scope.includes, present):
            is_meant = not self._is_once or not self._first.isdisjoint((subscription.agent_id, subscription.joins))
            if is_meant and subscription.state in (SubscriptionState.ACTIVE, SubscriptionState.WAITING):
                yield subscription


def _name_failure(failed: Subscription, error: Exception) -> str:
    """Return which subscription stopped with which error, whose text was reported then."""
    name = f"RT-{error.number}" if isinstance(error, RowtideError) else type(error).__name__
    return f"{failed.publication} to {redact(failed.subscriber)} ({name})"
