"""The named places where the fault sweep kills, and those that the program has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rowtide

LOG_READER_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("segment_sync", "manifest_entry", "slot_confirmation") for side in ("before", "after")
)
DECLARED_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("declared_removal", "declared_addition") for side in ("before", "after")
)
ACTION_FAILPOINTS = ("action.before", "action.after")
UPGRADE_FAILPOINTS = ("upgrade_step.before", "upgrade_step.after")
PART_FAILPOINTS = ("part_entry.before", "part_entry.after")
EARLY_DELIVERY_FAILPOINTS = ("early_part.before", "early_part.after")
CAPTURE_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("cycle_record", "change_table_append", "publication") for side in ("before", "after")
)
CLEANUP_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("cleanup_record", "low_endpoints", "rows_removal") for side in ("before", "after")
)
ROLLING_FAILPOINTS = tuple(f"{step}.{side}" for step in ("roll_forward", "fold") for side in ("before", "after"))
RETYPING_FAILPOINTS = ("types_carried.before", "types_carried.after")
MENDING_FAILPOINTS = ("table_mended.before", "table_mended.after")
EPOCH_FAILPOINTS = tuple(f"{step}.{side}" for step in ("slot_renewal", "epoch_opening") for side in ("before", "after"))
LOG_BRIDGE_FAILPOINTS = (*EPOCH_FAILPOINTS, "segment_sync.before", "segment_sync.after")
SKIP_FAILPOINTS = ("transaction_skipped.before", "transaction_skipped.after")
SQLITE_FAILPOINTS = ("sqlite_commit.before", "sqlite_commit.after")
POSTGRES_TRACKING_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("clock_commit", "postgres_purge", "tracking_commit") for side in ("before", "after")
)

SOURCE_FAILPOINTS = (
    "source_record.before",
    "source_record.after",
    "slot_creation.after",
    "log_store_opening.after",
    "placeholder_reader.after",
)
SOURCE_REMOVAL_FAILPOINTS = (
    "source_removal.before",
    "publication_removal.after",
    "slot_removal.after",
    "log_store_removal.after",
    "source_removal.after",
)
"""Each step follows the one before: behind one is in front of the next."""
DISOWNING_FAILPOINTS = ("disowning.before", "disowning.after")
ADOPTION_FAILPOINTS = ("adoption_record.before", "adoption_record.after")
LOG_RESTART_FAILPOINTS = (
    "publication_renewal.after",
    "slot_renewal.after",
    "epoch_opening.before",
    "epoch_opening.after",
)
SUBSCRIPTION_FAILPOINTS = ("subscription_reader.before", "subscription_reader.after")
PREPARATION_FAILPOINTS = ("subscriber_preparation.before", "subscriber_preparation.after")
SUBSCRIBER_REMOVAL_FAILPOINTS = ("subscriber_removal.before", "subscriber_removal.after")
CAPTURE_ADDITION_FAILPOINTS = ("capture_addition.before", "capture_addition.after")
SUSPENSION_FAILPOINTS = ("article_suspension.before", "article_suspension.after")
OMITTING_FAILPOINTS = ("transaction_omitted.before", "transaction_omitted.after")
DELIVERY_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("subscriber_commit", "reader_advance") for side in ("before", "after")
)
STREAM_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("stream_prepare", "stream_decision", "stream_commit") for side in ("before", "after")
)
STREAM_RECOVERY_FAILPOINTS = ("stream_settlement.before", "stream_settlement.after")
SNAPSHOT_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("snapshot_chunk", "hand_over", "snapshot_end") for side in ("before", "after")
)
JOINING_FAILPOINTS = tuple(
    f"{step}.{side}"
    for step in ("article_preparation", "article_readiness", "article_joining")
    for side in ("before", "after")
)
REPAIR_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("repair_commit", "repair_record", "repair_forget") for side in ("before", "after")
)
SETTLING_FAILPOINTS = ("conflict_settling.before", "conflict_settling.after")
DISTRIBUTOR_FAILPOINTS = (
    "distributor_record.after",
    "distributor_commit.before",
    "distributor_commit.after",
    "article_record.before",
    "distribution_copy.after",
)
LEAVING_FAILPOINTS = ("article_detachment.before", "article_detachment.after")
ARTICLE_COPY_FAILPOINTS = ("article_copy.before", "article_copy.after")
BASE_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("snapshot_event", "base_chunk", "snapshot_request") for side in ("before", "after")
)
BASE_REMOVAL_FAILPOINTS = ("snapshot_removal.before", "snapshot_removal.after")
DEACTIVATION_FAILPOINTS = ("deactivation.before", "deactivation.after")
SQLITE_DELIVERY_FAILPOINTS = ("sqlite_subscriber_commit.before", "sqlite_subscriber_commit.after")

DELTA_FAILPOINTS = (
    *(
        f"{step}.{side}"
        for step in ("delta_creation", "delta_file", "delta_commit", "delta_checkpoint")
        for side in ("before", "after")
    ),
    "delta_last_checkpoint.after",
)
CHANGE_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("delta_file", "delta_commit", "delta_checkpoint") for side in ("before", "after")
)
COPY_FAILPOINTS = ("lake_copy.before", "lake_copy.after")
SWITCH_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("log_store_closing", "lake_switch") for side in ("before", "after")
)
VACUUM_FAILPOINTS = ("delta_vacuum.before", "delta_vacuum.after")
TARGET_FAILPOINTS = tuple(f"{step}.{side}" for step in ("target_commit", "target_set") for side in ("before", "after"))
FOLLOWING_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("followed_instance", "superseded_instance") for side in ("before", "after")
)
"""Of targets that follow columns."""
BRANCH_FAILPOINTS = ("target_branch.after", "target_forward.before")
"""Of Iceberg tables, which follow a branch."""
CUSTOM_TARGET_FAILPOINTS = ("custom_apply.before", "custom_apply.after")
MERGE_FAILPOINTS = tuple(
    f"{step}.{side}" for step in ("sqlite_merge_commit", "postgres_merge_commit") for side in ("before", "after")
)
GATEWAY_FAILPOINTS = ("gateway_file.before", "gateway_file.after", "gateway_answer.before")
DEVICE_FAILPOINTS = tuple(f"{step}.{side}" for step in ("first_file", "device_token") for side in ("before", "after"))
"""Of devices behind a gateway."""
MERGE_SCHEMA_FAILPOINTS = tuple(f"merge_schema_change.{step}" for step in ("noticed", "altered", "filled"))


_CAPTURING = (
    "cdc/capture/*.py",
    "cdc/cleanup/*.py",
    "cdc/ddl/*.py",
    "cdc/snapshots/*.py",
    "cdc/system_tables.py",
    "cdc/widening_removal.py",
    "delta/**/*.py",
    "log/reader.py",
    "log/store/*.py",
)
"""The modules whose steps `rowtide cdc run` and its log reader take, but for those of `rowtide cdc skip`."""


def find_capture_failpoints() -> list[str]:
    """Return the failpoints that `rowtide cdc run` and its log reader pass."""
    return sorted({name for place in _CAPTURING for name in find_failpoints(place)} - set(SKIP_FAILPOINTS))


def find_failpoints(modules: str = "**/*.py") -> Iterator[str]:
    """Yield the name that each call of `failpoint` in the program, or in some modules, gives."""
    places = list(Path(rowtide.__file__).parent.glob(modules))
    # A folder that was moved would otherwise take its steps out of the sweeps without a word.
    assert places, f"no module is at {modules}"
    for module in places:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "failpoint":
                yield ast.literal_eval(node.args[0])
