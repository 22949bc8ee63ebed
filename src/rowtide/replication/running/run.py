"""Running replication: the log reader, and an agent for each subscription, unless another process has them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, text

from rowtide.agents.log_reader_process import LogReaderProcess
from rowtide.agents.loop import RunOutcome, report_retry, run_agent
from rowtide.core.errors import RowtideError
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_session
from rowtide.databases.postgres.errors import ConnectionFailed, UnexpectedSqlError, translated
from rowtide.log.postgres import slot
from rowtide.log.postgres.control_table import mark_target
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.manifest import Manifest
from rowtide.replication.distribution.run_context import DeliveredElsewhere, DeliveryContext, Trouble
from rowtide.replication.distributor import definitions, publication_records, subscription_records
from rowtide.replication.distributor.claims import SubscriptionClaims, list_claims
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.location import follow_move, forget_companion
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import (
    DistributionMissing,
    DistributorUnreachable,
    SubscriptionDeactivated,
    SubscriptionsFailed,
)
from rowtide.replication.errors.subscribing import SubscriberUnknown, SubscriptionUnknown
from rowtide.replication.running.agent_history import AgentHistory, LogReaderErrors
from rowtide.replication.running.subscription_runs import SubscriptionRun
from rowtide.replication.running.upkeep import Upkeep
from rowtide.replication.targets.kinds import kind_of
from rowtide.storage.places import is_object_url


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
_DISTRIBUTOR_PAUSE_S = 5.0
_IDLE_S = 0.03
_IDLE_AT_BUCKET_S = 0.1
"""Each look at a log store in a bucket is a request that is paid for."""
_STOP_PATIENCE_S = 5.0


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
    _manifest: Manifest

    def __init__(self, context: DeliveryContext, scope: RunScope, *, is_once: bool) -> None:
        self._context = context
        self._scope = scope
        self._is_once = is_once
        self._target: int | None = None
        self._idle_s = _IDLE_S
        self._elsewhere: dict[int, str] = {}
        self._reading_errors = LogReaderErrors(context.engine)
        self._upkeep: Upkeep | None = None
        self._first: frozenset[int] = frozenset()
        self._next_follow = 0.0
        self._runs: dict[int, SubscriptionRun] = {}
        self._rejected: list[tuple[Subscription, RowtideError]] = []
        self._present: Sequence[Subscription] = ()
        self._awaiting: frozenset[int] = frozenset()

    @contextmanager
    def open(self) -> Iterator[ReplicationAgent]:
        """Connect to the publisher, and read its log if no other process does."""
        with translated(), open_session(self._context.engine) as opened:
            self._connection = opened.execution_options(isolation_level="AUTOCOMMIT")
            self._claims = None
            # First: it opens the log while this process reads the subscriptions.
            has_run = self._upkeep is not None
            with LogReaderProcess(self._context.url, self._retry_reading, has_run=has_run) as self._reader:
                self._upkeep = self._upkeep or self._begin(self._connection)
                yield self

    def step(self) -> bool:
        """Keep the log reader running, then follow the subscriptions."""
        assert self._upkeep is not None
        try:
            self._reader.keep_running()
        except RowtideError as error:
            self._reading_errors.fail(error)
            raise
        if time.monotonic() < self._next_follow:
            return False
        try:
            with translated():
                return self._follow(self._connection, self._upkeep)
        except (ConnectionFailed, DistributionMissing, DistributorUnreachable) as error:
            self._wait_for_distributor(error)
            return False
        except UnexpectedSqlError:
            # Its tables may just have gone.
            with translated():
                if not follow_move(self._connection):
                    raise
            return True

    @property
    def present(self) -> Sequence[Subscription]:
        return self._present

    def has_failed(self, subscription: Subscription) -> bool:
        run = self._runs.get(subscription.agent_id)
        return run is not None and run.outcome is RunOutcome.FAILED

    def awaits_joining(self, agent_id: int) -> bool:
        return agent_id in self._awaiting

    def note_rejected(self, subscription: Subscription, error: RowtideError) -> None:
        self._rejected.append((subscription, error))

    def _wait_for_distributor(self, error: ConnectionFailed | DistributionMissing | DistributorUnreachable) -> None:
        """Continue to read the log and to deliver without the distribution database.

        Raises the error if it is the publisher that cannot be reached.
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
        """Stop all runs and wait briefly; a thread that waits for a lock is left, and its batch rolls back."""
        for run in self._runs.values():
            run.request_stop()
        self._wait(_STOP_PATIENCE_S)

    def raise_failures(self) -> None:
        """Raise if all subscriptions have failed; with `once`, if any has."""
        if not (self._is_once or self._have_all_failed):
            return
        failures = self._failures
        if len(failures) == 1:
            raise failures[0][1]
        if failures:
            named = "; ".join(_name_failure(failed, error) for failed, error in failures)
            raise SubscriptionsFailed(len(failures), named)

    def _follow(self, connection: Connection, upkeep: Upkeep) -> bool:
        """Start and stop runs as subscriptions change; end this one when all have ended.

        Return whether to be called again at once: with `once`, after waiting for the subscriptions to end.
        """
        present = subscription_records.list_subscriptions(connection, self._scope.publication)
        wanted = list(self._wanted(present))
        claimed = self._claim(connection, wanted)
        self._start_and_stop({found.agent_id: found for found in wanted if found.agent_id in claimed}, present)
        assert self._claims is not None
        # Subscriptions whose run has ended are released, so that another process can deliver them.
        self._claims.keep(frozenset(agent_id for agent_id, run in self._runs.items() if not run.has_ended))
        elsewhere = self._find_elsewhere(connection, [found for found in wanted if found.agent_id not in claimed])
        # Without subscriptions `once` still reads the log up to its target, so that the publisher can remove it.
        has_ended = self._is_once and self._have_ended and self._is_read()
        is_over = not elsewhere and (self._have_all_failed or has_ended)
        if present:
            failed = {subscription.agent_id for subscription, _ in self._failures}
            for expired in upkeep.deactivate_expired(connection, present, failed, is_last=is_over):
                self._report_expired(expired)
        upkeep.forget_old(connection)
        if is_over:
            self._leave_log(connection)
            self._context.stop.set()
        elif self._is_once and self._have_ended:
            self._context.stop.wait(_READ_POLL_S)
        elif self._is_once:
            self._wait(_POLL_S)
        return self._is_once

    def _claim(self, connection: Connection, wanted: Sequence[Subscription]) -> frozenset[int]:
        """Return the agents that no other process runs, and those that have nothing more to do."""
        over = {found.agent_id for found in wanted if self._is_over(found)}
        if self._claims is None or not self._claims.are_at(connection):
            self._claims = SubscriptionClaims(connection)
        # Before each use of the claims: an upgrade may have migrated the distribution database meanwhile.
        definitions.require_writable(connection)
        return frozenset(over | self._claims.take({found.agent_id for found in wanted} - over))

    def _start_and_stop(self, wanted: Mapping[int, Subscription], present: Sequence[Subscription]) -> None:
        """Start what is wanted of all that is present and was not, stop what no longer is, report what has failed.

        What has other settings now is stopped and started. What has failed stays so until it is resumed.
        """
        self._present = present
        self._awaiting = frozenset(self._find_awaiting(wanted))
        for agent_id, run in list(self._runs.items()):
            now = wanted.get(agent_id)
            if now is None or now.settings != run.subscription.settings:
                run.request_stop()
            # Replaced only once its thread has ended: two runs of one subscription would fence each other.
            if run.has_ended and (now is None or run.is_followed(now)):
                if now is not None:
                    run.report_replaced(now)
                del self._runs[agent_id]
        for agent_id, subscription in wanted.items():
            if agent_id not in self._runs:
                self._runs[agent_id] = SubscriptionRun(
                    self._context, subscription, self, target=self._target, idle_s=self._idle_s
                )
        for run in self._runs.values():
            run.report_failure()

    def _find_awaiting(self, wanted: Mapping[int, Subscription]) -> Iterator[int]:
        """Yield the subscriptions that articles are about to join."""
        for one in self._present:
            is_worked_on = one.agent_id in wanted and not self.has_failed(one)
            if one.joins is not None and (is_worked_on or one.state is SubscriptionState.READY):
                yield one.joins

    def _is_over(self, subscription: Subscription) -> bool:
        """Whether its run has delivered what was wanted, or failed and was not resumed."""
        run = self._runs.get(subscription.agent_id)
        return run is not None and run.has_ended and not run.is_followed(subscription)

    @property
    def _failed(self) -> Sequence[tuple[Subscription, Exception]]:
        runs = self._runs.values()
        return [(run.subscription, run.error) for run in runs if run.has_ended and run.error is not None]

    @property
    def _failures(self) -> Sequence[tuple[Subscription, Exception]]:
        """What has stopped with an error, each with its last."""
        return list({failed.agent_id: (failed, error) for failed, error in (*self._failed, *self._rejected)}.values())

    @property
    def _have_ended(self) -> bool:
        """All have delivered what was wanted, or failed."""
        return all(run.has_ended for run in self._runs.values())

    @property
    def _have_all_failed(self) -> bool:
        """There are some, and each has failed."""
        return bool(self._failures) and len(self._failed) == len(self._runs)

    def _wait(self, patience_s: float) -> None:
        """Wait until all runs have ended, or for a timeout."""
        deadline = time.monotonic() + patience_s
        for run in self._runs.values():
            run.wait(max(0.0, deadline - time.monotonic()))

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
        return self._target is None or self._manifest.refresh().position.log > self._target

    def _find_elsewhere(self, connection: Connection, left: Sequence[Subscription]) -> Sequence[Subscription]:
        """Report what is left to other processes; return what these have not delivered yet."""
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
        """Whether another process has recorded that the target is delivered."""
        if self._target is None:
            return False
        reader = self._manifest.refresh().readers.get(subscription.reader)
        return reader is None or reader.position.log > self._target

    def _retry_reading(self, error: RowtideError, pause_s: float) -> None:
        self._reading_errors.retry(error)
        self._context.watchers.on_retry(error, pause_s)

    def _begin(self, connection: Connection) -> Upkeep:
        source = read_source(connection, self._context.url)
        self._manifest = open_own_manifest(source)
        verify_provenance(connection, self._manifest)
        if self._scope.publication is not None:
            publication_records.get_publication(connection, self._scope.publication)
        present = subscription_records.list_subscriptions(connection, self._scope.publication)
        self._scope.require_known(present)
        self._first = frozenset(subscription.agent_id for subscription in present)
        self._target = mark_target(connection) if self._is_once else None
        self._idle_s = _IDLE_AT_BUCKET_S if is_object_url(source.log_store) else _IDLE_S
        return Upkeep(self._context.engine, self._manifest)

    def _report_expired(self, expired: Subscription) -> None:
        """Report a subscription that stays stopped because it was deactivated."""
        error = SubscriptionDeactivated(expired.publication, expired.subscriber)
        AgentHistory(self._context.engine, expired).fail(error)
        if self._scope.includes(expired):
            self.note_rejected(expired, error)
            self._context.watchers.on_trouble(Trouble(expired, error, None))

    def _wanted(self, present: Iterable[Subscription]) -> Iterator[Subscription]:
        """Return the run's that are not paused; with `once`, of those that existed when the run began."""
        for subscription in filter(self._scope.includes, present):
            # An article that joins one of the first subscriptions is a part of what `once` delivers, even if it was
            # added since.
            is_meant = not self._is_once or not self._first.isdisjoint((subscription.agent_id, subscription.joins))
            if is_meant and subscription.state in (SubscriptionState.ACTIVE, SubscriptionState.WAITING):
                yield subscription


def _name_failure(failed: Subscription, error: Exception) -> str:
    """Return which subscription stopped with which error, whose text was reported then."""
    name = f"RT-{error.number}" if isinstance(error, RowtideError) else type(error).__name__
    return f"{failed.publication} to {redact(failed.subscriber)} ({name})"
