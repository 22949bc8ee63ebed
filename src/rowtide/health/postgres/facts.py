"""What is known of a PostgreSQL database before its health is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.cdc.status import CaptureStatus, CleanupStatus
from rowtide.findings.place_facts import Place
from rowtide.findings.postgres.facts import CaptureFacts, ServerFacts, TableFacts, TrackingFacts
from rowtide.health.facts import MergeFacts, ReadingFacts, Unread
from rowtide.replication.status import ArticlesStatus, DeliveryStatus
from rowtide.targets.listing import ListedTarget

if TYPE_CHECKING:
    from rowtide.cdc.ddl.history import ListedChange
    from rowtide.cdc.instances import Instance
    from rowtide.cdc.status.outdated import RowsLeft


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What is read through the log; `cleanup` and `capturing` are None where only publications read it.

    `tables` are the captured ones; `outdated` the statements that left no change rows of what they changed,
    `lost_keys` the instances whose keys no longer identify rows, `rows_left` the damaged tables of disabled instances.
    """

    capture: CaptureFacts
    reading: ReadingFacts | Unread
    tables: tuple[TableFacts, ...]
    capturing: CaptureStatus | Unread | None
    cleanup: CleanupStatus | Unread | None
    delivery: DeliveryStatus | Unread | None
    articles: ArticlesStatus | Unread
    places: tuple[Place, ...]
    targets: tuple[ListedTarget, ...] | Unread = ()
    outdated: tuple[ListedChange, ...] | Unread = ()
    lost_keys: tuple[Instance, ...] | Unread = ()
    rows_left: tuple[RowsLeft, ...] | Unread = ()


@dataclass(frozen=True, slots=True)
class DatabaseHealthFacts:
    """Everything that is judged; `log` is None where the log is read for nothing.

    `delivered_here` are publications of other databases whose changes are delivered into this one; `left_prepared` the
    transactions that their delivery prepared more than a minute ago.
    """

    server: ServerFacts
    log: LogFacts | Unread | None
    merge: MergeFacts | Unread | None
    tracking: TrackingFacts | Unread
    delivered_here: tuple[str, ...] | Unread
    left_prepared: tuple[str, ...] | Unread = ()
