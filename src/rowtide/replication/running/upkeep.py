"""What a run of replication does at intervals.

It deactivates expired subscriptions and deletes old history. It removes lost readers from the log store, and advances
its placeholder reader.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine

from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.log.errors import LeaseHeld
from rowtide.log.store.manifest import Manifest
from rowtide.replication.distributor import definitions, history, tracers
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.retention import deactivate_expired
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.publishing.publisher_log import advance_placeholder
from rowtide.replication.subscribing.readers import remove_lost_readers

_CLEANUP_S = 600.0
_EXPIRY_S = 60.0
_READERS_S = 10.0
_ROWS_FORGOTTEN = 1000


class Upkeep:
    """The work of a run at intervals, and when each is due next; over the run's connection to the publisher."""

    def __init__(self, engine: Engine, manifest: Manifest) -> None:
        self._engine = engine
        self._manifest = manifest
        self._began = time.monotonic()
        self._next_cleanup = 0.0
        self._next_expiry = 0.0
        self._next_readers = 0.0

    def deactivate_expired(
        self, connection: Connection, present: Iterable[Subscription], failed: Set[int], *, is_last: bool
    ) -> Sequence[Subscription]:
        """Deactivate expired subscriptions, and return them; at intervals, unless this is the run's last look.

        After a pause of all, those that can be delivered, and have not `failed`, first get time to catch up.
        """
        if not is_last and time.monotonic() < self._next_expiry:
            return ()
        is_early = time.monotonic() < self._began + _EXPIRY_S
        expirable = [
            subscription
            for subscription in present
            if not is_early or subscription.state is SubscriptionState.INACTIVE or subscription.agent_id in failed
        ]
        expired = deactivate_expired(connection, self._manifest, expirable, read_server_time(connection))
        self._next_expiry = time.monotonic() + _EXPIRY_S
        return list(expired)

    def forget_old(self, connection: Connection) -> None:
        """Forget old history, and what the log store needs no longer."""
        self._forget_old_history(connection)
        self._keep_log_store_small(connection)

    def _keep_log_store_small(self, connection: Connection) -> None:
        """Remove lost readers and advance the placeholder, at intervals: each may be a manifest entry."""
        if time.monotonic() < self._next_readers:
            return
        self._next_readers = time.monotonic() + _READERS_S
        remove_lost_readers(connection, self._manifest)
        # The source is being made or removed: the next step tries again.
        with suppress(LeaseHeld):
            advance_placeholder(self._engine, self._manifest)

    def _forget_old_history(self, connection: Connection) -> None:
        """Delete in portions: after a long pause there may be many rows."""
        if time.monotonic() >= self._next_cleanup and definitions.is_made(connection):
            now = datetime.now(UTC)
            has_more = [kind.forget_old(connection, now, limit=_ROWS_FORGOTTEN) for kind in (history, tracers)]
            self._next_cleanup = time.monotonic() + (0 if any(has_more) else _CLEANUP_S)
