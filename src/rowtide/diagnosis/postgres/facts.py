"""What is known of a PostgreSQL database before anything is checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from rowtide.cdc.consumers.consumers import ListedConsumer
from rowtide.cdc.enabling.table_rules import RuledTable
from rowtide.cdc.instances import Instance
from rowtide.cdc.status import CaptureStatus, CleanupStatus
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.databases.postgres.owners import Owner
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.capture import ReadingFacts
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.merge import MergeFacts
from rowtide.diagnosis.places import Place
from rowtide.diagnosis.result import Unread
from rowtide.diagnosis.tracked_tables import TrackedFacts
from rowtide.log.errors import DatabaseCopied
from rowtide.log.postgres.partition_truncates import NewPartition
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.state import ManifestState
from rowtide.replication.status import ArticlesStatus, DeliveryStatus
from rowtide.targets.listing import ListedTarget

if TYPE_CHECKING:
    from rowtide.cdc.ddl.history import ListedChange
    from rowtide.cdc.instances import Instance
    from rowtide.cdc.status.lake import RowsLeft


@dataclass(frozen=True, slots=True)
class Settings:
    """The server's settings that capture depends on; None: without limit, switched off, or not in this version.

    `standby_slots` is synchronized_standby_slots, None before PostgreSQL 17. `as_standby` is what the server would need
    as a standby to keep slots.
    """

    replication_slots: int
    wal_senders: int
    wal_keep_bytes: int | None
    idle_slot_timeout_s: int | None
    sender_timeout_s: float | None
    synchronous_standbys: str
    standby_slots: str | None
    as_standby: StandbySettings


@dataclass(frozen=True, slots=True)
class StandbySettings:
    """A server's settings as a standby; `syncs_slots` is sync_replication_slots, None before PostgreSQL 17.

    `names_database`: primary_conninfo has a database to read slots from; None if the role may not see it.
    """

    syncs_slots: bool | None
    has_feedback: bool
    slot: str
    names_database: bool | None


@dataclass(frozen=True, slots=True)
class ConnectedStandby:
    """A standby that receives the server's log, with its physical slot (primary_slot_name), if it uses one.

    `has_feedback` is hot_standby_feedback, known only with a slot.
    """

    name: str
    slot: str | None
    has_feedback: bool | None


@dataclass(frozen=True, slots=True)
class ReplicationSlot:
    """A replication slot of the server, also those of other programs.

    `is_kept`: a standby's copy of the primary's, which outlives a promotion.
    """

    name: str
    is_physical: bool
    is_active: bool
    has_failover: bool
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction of another session; one that `has_written` keeps slots from being made and WAL from being freed."""

    pid: int
    role: str
    application: str
    age_s: float
    has_written: bool


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that was prepared for a two-phase commit and not ended."""

    name: str
    role: str
    database: str
    age_s: float


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server, and what goes on in it.

    `wal_bytes_per_s` is the average since the statistics were reset, None when that was only just now. `refusal` is
    what a replication connection was refused with. `syncs_slots`: a standby is connected that keeps copies of slots;
    None if the role may not see it.
    """

    identity: ServerIdentity
    settings: Settings
    slots: tuple[ReplicationSlot, ...]
    senders_used: int
    wal_bytes_per_s: float | None
    transactions: tuple[OpenTransaction, ...]
    prepared: tuple[PreparedTransaction, ...]
    refusal: RowtideError | None
    standbys: tuple[ConnectedStandby, ...]
    syncs_slots: bool | None


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """The role of the connection and its rights.

    `may_replicate` unless a replication connection was refused for the lack of the right. `others` are the owners, that
    the role is not, of what rowtide made here, by the first word of the commands that only these can run.
    """

    name: str
    may_replicate: bool
    may_create: bool
    is_superuser: bool
    others: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that holds rows, with what the log carries of its old rows."""

    schema: str
    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table that is captured or may come to be.

    `is_wanted`: the user named it, or it is captured. `is_owned`: the role has its owner's rights. `row_width` is the
    average in bytes by the server's statistics, without what is stored out of line; None before the first `analyze`.
    `unique_key` are not-null columns that could be the primary key, if any. `expressions` are those of virtual
    columns, by name.
    """

    table: SourceTable
    owner: str
    owner_is_superuser: bool
    is_owned: bool
    is_wanted: bool
    is_captured: bool
    row_width: int | None
    row_count: int | None
    out_of_line_bytes: int
    unique_key: tuple[str, ...]
    expressions: Mapping[str, str]
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """The slot that enable-db made; sizes in bytes, `safe_bytes` None where nothing limits it."""

    name: str
    wal_status: str
    safe_bytes: int | None
    kept_bytes: int | None


@dataclass(frozen=True, slots=True)
class CapturedInstance:
    """A capture instance of the catalogue; `definition` is None until the log reader has read that it was enabled.

    `read_numbers` are the numbers of the columns that the log reader reads for it now; `is_copied`: it has a snapshot.
    """

    name: str
    schema: str
    table: str
    source_id: int
    is_dropped: bool
    definition: Instance | None
    read_numbers: tuple[int, ...] = ()
    is_copied: bool = False

    @property
    def can_be_compared(self) -> bool:
        """What a gap changed in the table can be found: it has a key and a snapshot."""
        return self.is_copied and self.definition is not None and bool(self.definition.index_columns)


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """What a feature reads of the log: a capture instance, or an article (`publication/article`).

    `recorded` is the name of its table when it began; `table` is the table now, None where it was dropped.
    `has_namesake` says that another table, which the feature does not read, has the recorded name now. `dropped_at` is
    when the member ended because its table was dropped, None where it goes on.
    """

    feature: str
    name: str
    recorded_schema: str
    recorded_name: str
    table: SourceTable | None
    has_namesake: bool
    dropped_at: datetime | None = None

    @property
    def recorded(self) -> str:
        return f"{self.recorded_schema}.{self.recorded_name}"


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """What enable-db and enable-table made; `blockers` are what the log reader would be stopped with.

    `has_triggers` says that the event triggers are there which tell the log of DDL. Where not `is_enabled`, the log is
    read for publications alone: the lake is a folder for its log store, and nothing is captured. `log_reader` reads the
    log now, `state` is that of the log store, None where it cannot be read; `rules` is None without rules. Of
    `new_partitions` a truncate would go unseen.
    """

    source: SourceDefinition
    has_triggers: bool
    slot: SlotFacts | None
    blockers: tuple[RowtideError, ...]
    instances: tuple[CapturedInstance, ...]
    consumers: tuple[ListedConsumer, ...] = ()
    is_enabled: bool = True
    log_reader: str | None = None
    state: ManifestState | None = None
    members: tuple[MemberFacts, ...] = ()
    rules: RuleFacts | None = None
    new_partitions: tuple[NewPartition, ...] = ()
    requests: str | None = None
    """What is asked of the bucket a day, in words."""


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """Rules for new tables, with the tables that they could not enable; `has_triggers`: others join as they are
    created.
    """

    names: tuple[str, ...]
    has_triggers: bool
    failed: tuple[RuledTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Readers:
    """Who gets the columns of a table from the log: publications that list none, and capture.

    Those of all tables are left out.
    """

    publications: tuple[str, ...] = ()
    is_captured: bool = False


@dataclass(frozen=True, slots=True)
class StampFacts:
    """Where a tracked table's stamps are: the size of that in bytes, and what the server's statistics know of them.

    `correlation` is that of the stamps with their places, None before the first `analyze`; `has_whole_index` says that
    the index of tracking is there and valid, `has_row_index` that some index is of single rows.
    """

    holder: str
    byte_count: int
    correlation: float | None
    has_whole_index: bool
    has_row_index: bool


@dataclass(frozen=True, slots=True)
class TrackedTableFacts:
    """A tracked table; what is beyond `base` is empty where it was dropped or its tracking lost.

    `lost_names` are columns that its triggers name and it has not.
    """

    base: TrackedFacts
    table: SourceTable | None
    lost_names: tuple[str, ...]
    stamps: StampFacts | None
    readers: Readers


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """A table that the user named and that is not tracked; `can_have_rowguid`: enabling makes it one."""

    table: SourceTable
    is_trackable: bool
    has_rowguid: bool
    can_have_rowguid: bool
    readers: Readers


@dataclass(frozen=True, slots=True)
class TrackingFacts:
    """What is tracked in the database; `is_readable`: the role may read that.

    `refusal` says why this build does not use what is there; then nothing else is known of tables.
    `whole_publications` are those of all tables.
    """

    is_there: bool
    is_readable: bool
    has_commit_times: bool
    whole_publications: tuple[str, ...]
    refusal: RowtideError | None
    tables: tuple[TrackedTableFacts, ...]
    candidates: tuple[CandidateFacts, ...]


@dataclass(frozen=True, slots=True)
class MergedFacts:
    """The merged tables of owners that the role does not trust, by their quoted names, and who the role is.

    `as_agent` are those whose code has the agent's rights by --run-as; `deferred` is what would run at a commit with
    the rights of the session.
    """

    role: str
    owners: Mapping[str, Owner]
    as_agent: frozenset[str]
    deferred: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
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
    tables: tuple[TableFacts, ...]
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What is read through the log; `cleanup` and `capturing` are None where only publications read it.

    `tables` are the captured ones, `rows_left` the damaged tables of disabled instances.
    """

    capture: CaptureFacts
    reading: ReadingFacts | Unread
    tables: tuple[TableFacts, ...]
    capturing: CaptureStatus | Unread | None
    cleanup: CleanupStatus | Unread | None
    delivery: DeliveryStatus | Unread | None
    articles: ArticlesStatus | Unread | None
    places: tuple[Place, ...]
    lake: LakeFacts = NO_LAKE_FACTS
    rows_left: tuple[RowsLeft, ...] | Unread = ()


@dataclass(frozen=True, slots=True)
class WorkFacts:
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
