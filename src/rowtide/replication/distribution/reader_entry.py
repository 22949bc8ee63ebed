"""A subscription's entry in the log store: from where delivery resumes, and what may be removed behind it.

Before the first batch it is verified that the subscriber knows this log: a publisher and its log store that were
restored together write other transactions at LSNs that the subscriber has. Those are younger than the subscriber's last
batch. Ages are compared, each by the clock of its own server, so that the clocks need not agree.

`read_log` waits until the log store has the log up to a position.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine, text

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.errors import LeaseHeld
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.lease import find_holder
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.delivery_interface import DeliveryProgress, resume_position
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import LogNotRead
from rowtide.replication.errors.delivery import (
    SubscriberAhead,
    SubscriberBehind,
    SubscriberOfAnotherHistory,
    SubscriptionDeactivated,
)

_ADVANCE_S = 10.0
"""Each advance is an entry of the manifest, which all its readers read."""


class ReaderEntry:
    """The entry of one subscription, which its agent moves."""

    def __init__(self, manifest: Manifest, subscription: Subscription) -> None:
        self._manifest = manifest
        self._subscription = subscription
        self._advanced: Position | None = None
        self._next_advance = 0.0

    def find_start(self, state: ManifestState, progress: DeliveryProgress, articles: Iterable[Article]) -> Position:
        """Return the subscriber's position in the log, past what it recorded if the log had nothing for it.

        Raises `SubscriptionDeactivated`, `SubscriberAhead`, `SubscriberBehind`.
        """
        reader = state.readers.get(self._subscription.reader)
        if reader is None:
            raise SubscriptionDeactivated(self._subscription.publication, self._subscription.subscriber)
        if progress.batch and progress.position > state.position:
            # Before the first batch it is where the subscription begins, which may not be read yet.
            raise SubscriberAhead(self._subscription.subscriber, str(progress.position), str(state.position))
        joined_at = max((article.joined_at for article in articles), default=0)
        start = resume_position(progress, reader, joined_at)
        self.require_kept(state, start)
        return start

    def require_kept(self, state: ManifestState, position: Position) -> None:
        """Raise `SubscriberBehind` if a restored subscriber needs changes that the log store has removed."""
        if position < state.low:
            raise SubscriberBehind(self._subscription.subscriber, str(position), str(state.low))

    def is_registered(self) -> bool:
        """Whether there is one: it may be deactivated or dropped, and to advance it would register it again."""
        return self._subscription.reader in self._manifest.refresh().readers

    def is_due(self, position: Position) -> bool:
        """Whether to advance to a position: rarely, because each time writes an entry that every reader reads."""
        return position != self._advanced and time.monotonic() >= self._next_advance

    def note(self, position: Position) -> None:
        """Treat a position as recorded, so that the next attempt waits for the interval even if this one failed."""
        self._next_advance = time.monotonic() + _ADVANCE_S
        self._advanced = position

    def advance(self, position: Position, held: Position) -> None:
        """Let the log store remove what was delivered, and what was not for this subscription, which has recorded
        `held`.
        """
        # After a power cut the subscriber may be ahead of a log store that lost its last entry. An entry ahead of the
        # log would be refused.
        position = min(position, self._manifest.state.position)
        failpoint("reader_advance.before")
        self._manifest.append(ReaderAdvanced(self._subscription.reader, position, idle_from=held))
        failpoint("reader_advance.after")


_PATIENCE_S = 60
_POLL_S = 0.03


def read_log(engine: Engine, url: str, manifest: Manifest, target: int) -> None:
    """Wait until the log store has the log beyond a position; read it here if no process does. Raises `LogNotRead`."""
    deadline = time.monotonic() + _PATIENCE_S
    while manifest.refresh().position.log <= target:
        _require_time(manifest, deadline)
        with translated(), engine.connect() as connection:
            is_read = find_holder(connection, "log") is not None
        if is_read:
            time.sleep(_POLL_S)
            continue
        # Another process may have begun to read since the look: then it is waited for as before.
        with suppress(LeaseHeld), open_log_reader(url) as reader:
            while manifest.refresh().position.log <= target:
                _require_time(manifest, deadline)
                reader.step()


def _require_time(manifest: Manifest, deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise LogNotRead(str(manifest.state.position), _PATIENCE_S)


CLOCK_STEP_S = 60.0
"""A clock that was set by less between a batch and the next start proves nothing."""


def require_same_history(
    engine: Engine, manifest: Manifest, subscription: Subscription, progress: DeliveryProgress
) -> None:
    """Verify that what the log store has below a subscriber's position is older than the subscriber's last batch.

    It reads one segment, if the log store has not recorded that the subscriber was that far: after a crash, or a
    restore. Raises `SubscriberOfAnotherHistory`, `LogStoreReadFailed`.
    """
    reader = manifest.state.readers.get(subscription.reader)
    # The log store has recorded that the subscriber was that far: it has what the subscriber has.
    if reader is None or progress.age_s is None or progress.position <= reader.position:
        return
    committed_at = _find_last_commit(manifest, reader.position, progress.position)
    if committed_at is None:
        return
    with translated(), engine.connect() as connection:
        now = connection.execute(text("select clock_timestamp()")).scalar_one()
    if (now - committed_at).total_seconds() + CLOCK_STEP_S < progress.age_s:
        raise SubscriberOfAnotherHistory(
            subscription.subscriber, str(progress.position), str(committed_at.astimezone(UTC)), round(progress.age_s)
        )


def _find_last_commit(manifest: Manifest, begin: Position, end: Position) -> datetime | None:
    segments = segments_between(manifest.state, begin, end)
    if not segments:
        return None
    records = read_segment(manifest.store, segments[-1].path, ("commit_lsn", "commit_time"))
    below = records.filter(pc.less(records["commit_lsn"], pa.scalar(end.value, pa.int64())))
    found: datetime | None = pc.max(below["commit_time"]).as_py()
    return found
