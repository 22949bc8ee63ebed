"""Whether a subscriber has what the log store has below its position: the publisher may have been restored without it.

A publisher and its log store that were restored together write other transactions at LSNs that the subscriber knows.
Those are younger than the subscriber's last batch. Ages are compared, each by the clock of its own server, so that the
clocks need not agree.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Engine, text

from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import translated
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import segments_between
from rowtide.replication.distribution.delivery import DeliveryProgress
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import SubscriberOfAnotherHistory

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
