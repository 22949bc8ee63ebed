"""What a check may have read, to begin a test with: a database in which nothing is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders.capture.capture_instances import source_table
from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.places import PlaceFacts
from rowtide.diagnosis.postgres.capture_facts import CapturedInstance, CaptureFacts, SlotFacts
from rowtide.diagnosis.postgres.reading import DatabaseFacts
from rowtide.diagnosis.postgres.server_facts import ReplicationSlot, RoleFacts, ServerFacts, Settings, StandbySettings
from rowtide.diagnosis.postgres.table_facts import PostgresTableFacts
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts
from rowtide.log.source_definition import SourceDefinition
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions

GIBIBYTE = 1 << 30
SLOT = "rowtide_5"
USUAL_SETTINGS = Settings(
    replication_slots=10,
    wal_senders=10,
    wal_keep_bytes=64 * GIBIBYTE,
    idle_slot_timeout_s=None,
    sender_timeout_s=60.0,
    synchronous_standbys="",
    standby_slots="",
    as_standby=StandbySettings(syncs_slots=False, has_feedback=False, slot="", names_database=None),
)
SOURCE = SourceDefinition("s1", "7001", SLOT, 99, SLOT, "/lake/log", "/lake")

TRACKED = TrackedTable(
    "public.t1",
    TrackingKeyType.PRIMARY_KEY,
    TrackingOptions.ALL,
    Storage.ROW,
    StampIndex.BRIN,
    min_valid_csn=0,
)


def settings(**changes: Any) -> Settings:
    return replace(USUAL_SETTINGS, **changes)


def server(
    *,
    version: int = 18,
    wal_level: str = "logical",
    in_recovery: bool = False,
    settings: Settings = USUAL_SETTINGS,
    **changes: Any,
) -> ServerFacts:
    usual = ServerFacts(
        identity=ServerIdentity("7001", 1, 5, "shop", in_recovery, wal_level, version),
        settings=settings,
        slots=(),
        senders_used=0,
        wal_bytes_per_s=None,
        transactions=(),
        prepared=(),
        refusal=None,
        standbys=(),
        syncs_slots=False,
    )
    return replace(usual, **changes)


def slot(
    name: str,
    *,
    is_physical: bool = False,
    is_active: bool = False,
    has_failover: bool = False,
    is_kept: bool = False,
) -> ReplicationSlot:
    return ReplicationSlot(name, is_physical, is_active, has_failover, is_kept)


def table(made: SourceTable | None = None, **changes: Any) -> PostgresTableFacts:
    """Return a table that could be enabled, as the owner sees it."""
    usual = PostgresTableFacts(
        table=made if made is not None else source_table(),
        owner="app",
        owner_is_superuser=False,
        is_owned=True,
        is_wanted=False,
        is_captured=False,
        row_width=None,
        row_count=None,
        out_of_line_bytes=0,
        unique_key=(),
        expressions={},
        partitions=(),
    )
    return replace(usual, **changes)


def capture(**changes: Any) -> CaptureFacts:
    usual = CaptureFacts(
        source=SOURCE, has_triggers=True, slot=SlotFacts(SLOT, "reserved", None, 0), blockers=(), instances=()
    )
    return replace(usual, **changes)


def captured_instance(**changes: Any) -> CapturedInstance:
    return replace(CapturedInstance("public_t1", "public", "t1", 16385, False, None), **changes)  # noqa: FBT003


def tracking(**changes: Any) -> TrackingFacts:
    """Return what is known where nothing is tracked."""
    usual = TrackingFacts(
        is_there=False,
        is_readable=True,
        has_commit_times=True,
        whole_publications=(),
        refusal=None,
        tables=(),
        candidates=(),
    )
    return replace(usual, **changes)


def place(subject: str = "lake", **changes: Any) -> PlaceFacts:
    usual = PlaceFacts(
        subject=subject,
        path=f"/{subject}",
        is_missing=False,
        problem=None,
        device=1,
        free_bytes=50 * GIBIBYTE,
        total_bytes=100 * GIBIBYTE,
    )
    return replace(usual, **changes)


def database(**changes: Any) -> DatabaseFacts:
    usual = DatabaseFacts(
        server=server(),
        role=RoleFacts("app", may_replicate=True, may_create=True, is_superuser=True),
        tables=(),
        foreign_tables=(),
        taken_schemas=(),
        capture=None,
        wants_capture=True,
        tracking=tracking(),
        places=(),
        place_blockers=(),
    )
    return replace(usual, **changes)
