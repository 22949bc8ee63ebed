"""What is known of a PostgreSQL database, put together from its parts, before anything is checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from rowtide.cdc.instances import Instance
from rowtide.cdc.status import CaptureStatus, CleanupStatus
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.diagnosis.capture import ReadingFacts
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.places import Place
from rowtide.diagnosis.postgres.access_facts import MergedFacts
from rowtide.diagnosis.postgres.capture_facts import CaptureFacts
from rowtide.diagnosis.postgres.server_facts import RoleFacts, ServerFacts
from rowtide.diagnosis.postgres.table_facts import PostgresTableFacts
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts
from rowtide.diagnosis.result import Unread
from rowtide.log.errors import DatabaseCopied
from rowtide.replication.status import ArticlesStatus, DeliveryStatus
from rowtide.targets.listing import ListedTarget

if TYPE_CHECKING:
    from rowtide.cdc.ddl.history import ListedChange
    from rowtide.cdc.status.lake import RowsLeft


@frozen
class DatabaseFacts:
    """Everything that is checked; `capture` is None before enable-db.

    `wants_capture` is false where tables are tracked, merged or delivered into, none is captured, and no lake was
    named: nobody asked for it.

    `taken_schemas` are schemas of our names that others made, `foreign_tables` are qualified names;
    `place_blockers` are what is wrong with the folder that the log store would have. `copied` says that the metadata
    is another database's; then nothing is said of capture. `unread` has why parts could not be read, by what is then
    said of them.
    """

    server: ServerFacts
    role: RoleFacts
    tables: tuple[PostgresTableFacts, ...]
    foreign_tables: tuple[str, ...]
    taken_schemas: tuple[str, ...]
    capture: CaptureFacts | None
    wants_capture: bool
    tracking: TrackingFacts
    places: tuple[Place, ...]
    place_blockers: tuple[RowtideError, ...]
    copied: DatabaseCopied | None = None
    merged: MergedFacts | None = None
    unread: Mapping[Code, RowtideError] = field(default_factory=dict)


@frozen
class LakeFacts:
    """What the lake says of capture instances, and the tables of targets that follow them.

    `outdated` are statements that left no change rows of what they changed, `lost_keys` instances whose keys no longer
    identify rows.
    """

    targets: tuple[ListedTarget, ...] | Unread = ()
    outdated: tuple[ListedChange, ...] | Unread = ()
    lost_keys: tuple[Instance, ...] | Unread = ()

    def of(self, names: Collection[str]) -> LakeFacts:
        """Return what is said of some instances."""
        targets, outdated, lost = self.targets, self.outdated, self.lost_keys
        return LakeFacts(
            targets if isinstance(targets, Unread) else tuple(one for one in targets if one.instance in names),
            outdated if isinstance(outdated, Unread) else tuple(x for x in outdated if x.capture_instance in names),
            lost if isinstance(lost, Unread) else tuple(one for one in lost if one.capture_instance in names),
        )


NO_LAKE_FACTS = LakeFacts()


@frozen
class LogFacts:
    """What is read through the log; `cleanup` and `capturing` are None where only publications read it.

    `tables` are the captured ones, `rows_left` the damaged tables of disabled instances.
    """

    capture: CaptureFacts
    reading: ReadingFacts | Unread
    tables: tuple[PostgresTableFacts, ...]
    capturing: CaptureStatus | Unread | None
    cleanup: CleanupStatus | Unread | None
    delivery: DeliveryStatus | Unread | None
    articles: ArticlesStatus | Unread | None
    places: tuple[Place, ...]
    lake: LakeFacts = NO_LAKE_FACTS
    rows_left: tuple[RowsLeft, ...] | Unread = ()


@frozen
class PostgresWorkFacts:
    """What rowtide does in a database; `log` is None where the log is read for nothing.

    What nobody asked for is None or empty.

    `delivered_here` are publications of other databases whose changes are delivered into this one; `left_prepared` the
    transactions that their delivery prepared more than a minute ago.
    """

    server: ServerFacts
    log: LogFacts | Unread | None
    merge: MergeFacts | Unread | None
    tracking: TrackingFacts | Unread | None
    delivered_here: tuple[str, ...] | Unread
    left_prepared: tuple[str, ...] | Unread = ()
