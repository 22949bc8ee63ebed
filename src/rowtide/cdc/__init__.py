"""Change data capture: typed change tables in the lake, queryable by LSN."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.agents.loop import RunOutcome
    from rowtide.cdc.api import CaptureRehearsal, ChangeDataCapture
    from rowtide.cdc.capture.capture import CycleReport
    from rowtide.cdc.capture.change_files import InstanceChanges
    from rowtide.cdc.cleanup.cleanup import Cleaned
    from rowtide.cdc.consumers.consumers import ListedConsumer
    from rowtide.cdc.consumers.consuming import Window
    from rowtide.cdc.ddl.retyping import WidenedTable
    from rowtide.cdc.enabling.administration import Disabling, EnabledDatabase
    from rowtide.cdc.enabling.table_rules import RuledTable, TableRule
    from rowtide.cdc.enabling.table_sets import Outcome, TableOutcome
    from rowtide.cdc.gaps.reconciling import BridgedGap, OpenGap
    from rowtide.cdc.gaps.reinitialize import CaptureLoss
    from rowtide.cdc.instances import CapturedColumn, Instance, SeenColumn
    from rowtide.cdc.introspection import ListedColumn, ListedInstance
    from rowtide.cdc.jobs.administration import ListedJob
    from rowtide.cdc.jobs.definitions import HistoricRun, JobChange, JobParameters, JobType, NewJob
    from rowtide.cdc.lake_readers.lake import Lake
    from rowtide.cdc.lake_readers.presentation import ArrowChanges
    from rowtide.cdc.published import LakePublication, ListedChange, MissingTransaction, RecordedInstance
    from rowtide.cdc.queries.lsn_times import Bound
    from rowtide.cdc.queries.windows import PublishedLake, ValidityInterval
    from rowtide.cdc.queries.wrapper_functions import WrapperFunction
    from rowtide.cdc.requests import (
        CleanupOrder,
        ConsumerChange,
        DatabaseToEnable,
        InstanceRequest,
        NewConsumer,
        NewInstance,
        RepeatedSnapshot,
        TablesRequest,
        TablesToEnable,
    )
    from rowtide.cdc.running.context import CaptureWatchers
    from rowtide.cdc.scans.metrics import Engine, ScanError, ScanFigures, ScanSession
    from rowtide.cdc.scans.pace import CaptureOptions, EngineSetting
    from rowtide.cdc.snapshot_requests import ListedSnapshot
    from rowtide.cdc.snapshots.table_copy import SnapshotProgress
    from rowtide.cdc.spark_changes import Changes
    from rowtide.cdc.status import Status
    from rowtide.cdc.widening_removal import MendedTable
    from rowtide.core.tables import BeforeImages, Widened
    from rowtide.databases.postgres.altering_many import AlterationProgress
    from rowtide.databases.postgres.catalogue import ImageCost
    from rowtide.log.errors import TransactionUnreadable
    from rowtide.log.postgres.ddl_triggers import Triggers
    from rowtide.log.source_definition import SourceDefinition

__all__ = [
    "AlterationProgress",
    "ArrowChanges",
    "BeforeImages",
    "Bound",
    "BridgedGap",
    "CaptureLoss",
    "CaptureOptions",
    "CaptureRehearsal",
    "CaptureWatchers",
    "CapturedColumn",
    "ChangeDataCapture",
    "Changes",
    "Cleaned",
    "CleanupOrder",
    "ConsumerChange",
    "CycleReport",
    "DatabaseToEnable",
    "Disabling",
    "EnabledDatabase",
    "Engine",
    "EngineSetting",
    "HistoricRun",
    "ImageCost",
    "Instance",
    "InstanceChanges",
    "InstanceRequest",
    "JobChange",
    "JobParameters",
    "JobType",
    "Lake",
    "LakePublication",
    "ListedChange",
    "ListedColumn",
    "ListedConsumer",
    "ListedInstance",
    "ListedJob",
    "ListedSnapshot",
    "MendedTable",
    "MissingTransaction",
    "NewConsumer",
    "NewInstance",
    "NewJob",
    "OpenGap",
    "Outcome",
    "PublishedLake",
    "RecordedInstance",
    "RepeatedSnapshot",
    "RuledTable",
    "RunOutcome",
    "ScanError",
    "ScanFigures",
    "ScanSession",
    "SeenColumn",
    "SnapshotProgress",
    "SourceDefinition",
    "Status",
    "TableOutcome",
    "TableRule",
    "TablesRequest",
    "TablesToEnable",
    "TransactionUnreadable",
    "Triggers",
    "ValidityInterval",
    "Widened",
    "WidenedTable",
    "Window",
    "WrapperFunction",
]

_HOMES = {
    "AlterationProgress": "rowtide.databases.postgres.altering_many",
    "ArrowChanges": "rowtide.cdc.lake_readers.presentation",
    "BeforeImages": "rowtide.core.tables",
    "Bound": "rowtide.cdc.queries.lsn_times",
    "BridgedGap": "rowtide.cdc.gaps.reconciling",
    "CaptureLoss": "rowtide.cdc.gaps.reinitialize",
    "CaptureOptions": "rowtide.cdc.scans.pace",
    "CaptureRehearsal": "rowtide.cdc.api",
    "CaptureWatchers": "rowtide.cdc.running.context",
    "CapturedColumn": "rowtide.cdc.instances",
    "ChangeDataCapture": "rowtide.cdc.api",
    "Changes": "rowtide.cdc.spark_changes",
    "Cleaned": "rowtide.cdc.cleanup.cleanup",
    "CleanupOrder": "rowtide.cdc.requests",
    "ConsumerChange": "rowtide.cdc.requests",
    "CycleReport": "rowtide.cdc.capture.capture",
    "DatabaseToEnable": "rowtide.cdc.requests",
    "Disabling": "rowtide.cdc.enabling.administration",
    "EnabledDatabase": "rowtide.cdc.enabling.administration",
    "Engine": "rowtide.cdc.scans.metrics",
    "EngineSetting": "rowtide.cdc.scans.pace",
    "HistoricRun": "rowtide.cdc.jobs.definitions",
    "ImageCost": "rowtide.databases.postgres.catalogue",
    "Instance": "rowtide.cdc.instances",
    "InstanceChanges": "rowtide.cdc.capture.change_files",
    "InstanceRequest": "rowtide.cdc.requests",
    "JobChange": "rowtide.cdc.jobs.definitions",
    "JobParameters": "rowtide.cdc.jobs.definitions",
    "JobType": "rowtide.cdc.jobs.definitions",
    "Lake": "rowtide.cdc.lake_readers.lake",
    "LakePublication": "rowtide.cdc.published",
    "ListedChange": "rowtide.cdc.published",
    "ListedColumn": "rowtide.cdc.introspection",
    "ListedConsumer": "rowtide.cdc.consumers.consumers",
    "ListedInstance": "rowtide.cdc.introspection",
    "ListedJob": "rowtide.cdc.jobs.administration",
    "ListedSnapshot": "rowtide.cdc.snapshot_requests",
    "MendedTable": "rowtide.cdc.widening_removal",
    "MissingTransaction": "rowtide.cdc.published",
    "NewConsumer": "rowtide.cdc.requests",
    "NewInstance": "rowtide.cdc.requests",
    "NewJob": "rowtide.cdc.jobs.definitions",
    "OpenGap": "rowtide.cdc.gaps.reconciling",
    "Outcome": "rowtide.cdc.enabling.table_sets",
    "PublishedLake": "rowtide.cdc.queries.windows",
    "RecordedInstance": "rowtide.cdc.published",
    "RepeatedSnapshot": "rowtide.cdc.requests",
    "RuledTable": "rowtide.cdc.enabling.table_rules",
    "RunOutcome": "rowtide.agents.loop",
    "ScanError": "rowtide.cdc.scans.metrics",
    "ScanFigures": "rowtide.cdc.scans.metrics",
    "ScanSession": "rowtide.cdc.scans.metrics",
    "SeenColumn": "rowtide.cdc.instances",
    "SnapshotProgress": "rowtide.cdc.snapshots.table_copy",
    "SourceDefinition": "rowtide.log.source_definition",
    "Status": "rowtide.cdc.status",
    "TableOutcome": "rowtide.cdc.enabling.table_sets",
    "TableRule": "rowtide.cdc.enabling.table_rules",
    "TablesRequest": "rowtide.cdc.requests",
    "TablesToEnable": "rowtide.cdc.requests",
    "TransactionUnreadable": "rowtide.log.errors",
    "Triggers": "rowtide.log.postgres.ddl_triggers",
    "ValidityInterval": "rowtide.cdc.queries.windows",
    "Widened": "rowtide.core.tables",
    "WidenedTable": "rowtide.cdc.ddl.retyping",
    "Window": "rowtide.cdc.consumers.consuming",
    "WrapperFunction": "rowtide.cdc.queries.wrapper_functions",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
