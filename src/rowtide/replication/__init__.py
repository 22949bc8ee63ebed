"""Transactional replication: publications of a PostgreSQL database, delivered to subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.core.operations import Operation
    from rowtide.core.tables import BeforeImages
    from rowtide.databases.source_table import RunAs
    from rowtide.log.postgres.ddl_triggers import Triggers
    from rowtide.log.postgres.provision import OpenedSource
    from rowtide.log.source_definition import SourceDefinition
    from rowtide.replication.api import TransactionalReplication
    from rowtide.replication.articles.articles import ArticleType
    from rowtide.replication.articles.call_formats import CallFormat, Command, KeyUpdates
    from rowtide.replication.articles.requests import (
        ArticleChange,
        ArticleRequest,
        CommandRange,
        CompareOptions,
        MovedPartitions,
        NewArticle,
        NewPublication,
        PublicationThresholds,
        RowRepair,
        RowValidation,
    )
    from rowtide.replication.conflict_comments import ConflictComment
    from rowtide.replication.conflict_decisions import (
        ConflictOutcome,
        ConflictState,
        ConflictWinner,
        KeptConflict,
        ListedConflicts,
        SettledRow,
    )
    from rowtide.replication.conflicts import Resolver
    from rowtide.replication.distribution.run_context import (
        DeliveredElsewhere,
        DeliveryReport,
        DroppedTable,
        SkippedCommand,
        Trouble,
        Watchers,
    )
    from rowtide.replication.distributor.definitions import SubscriptionState
    from rowtide.replication.distributor.history import HistoricError, HistoricState
    from rowtide.replication.distributor.publication_records import Thresholds
    from rowtide.replication.distributor.repair_records import RepairedRow
    from rowtide.replication.distributor.subscription_records import Subscription
    from rowtide.replication.distributor.tracers import TracerArrival
    from rowtide.replication.inspection.comparing import ArticleValidation
    from rowtide.replication.inspection.differences import RowDifference
    from rowtide.replication.inspection.listings import ListedArticle, ListedPublication, ListedSubscription
    from rowtide.replication.inspection.row_places import BrowsedCommand, RowPlace
    from rowtide.replication.kept_conflicts import KeptConflicts, UnreadSubscriber
    from rowtide.replication.publishing.handle import ReplicationRehearsal
    from rowtide.replication.publishing.publications import LogEnding
    from rowtide.replication.publishing.publisher_log import DeliveryLoss
    from rowtide.replication.publishing.whole_schemas import AddedArticle
    from rowtide.replication.repairing import Repair
    from rowtide.replication.running.custom_scripts import ScriptedChange
    from rowtide.replication.running.spark_backlogs import DeliveredBacklog
    from rowtide.replication.snapshot.agent import SnapshotReport
    from rowtide.replication.status import SubscriptionStatus
    from rowtide.replication.subscribing.pausing import recover
    from rowtide.replication.subscription_settings import (
        Constraints,
        IfExists,
        RequestedSubscription,
        SettingsChanges,
        SubscriptionRequest,
        SubscriptionSettings,
        SyncType,
    )
    from rowtide.replication.targets.subscriber_kind import RecoveredTransaction, SyncedSequence

__all__ = [
    "AddedArticle",
    "ArticleChange",
    "ArticleRequest",
    "ArticleType",
    "ArticleValidation",
    "BeforeImages",
    "BrowsedCommand",
    "CallFormat",
    "Command",
    "CommandRange",
    "CompareOptions",
    "ConflictComment",
    "ConflictOutcome",
    "ConflictState",
    "ConflictWinner",
    "Constraints",
    "DeliveredBacklog",
    "DeliveredElsewhere",
    "DeliveryLoss",
    "DeliveryReport",
    "DroppedTable",
    "HistoricError",
    "HistoricState",
    "IfExists",
    "KeptConflict",
    "KeptConflicts",
    "KeyUpdates",
    "ListedArticle",
    "ListedConflicts",
    "ListedPublication",
    "ListedSubscription",
    "LogEnding",
    "MovedPartitions",
    "NewArticle",
    "NewPublication",
    "OpenedSource",
    "Operation",
    "PublicationThresholds",
    "RecoveredTransaction",
    "Repair",
    "RepairedRow",
    "ReplicationRehearsal",
    "RequestedSubscription",
    "Resolver",
    "RowDifference",
    "RowPlace",
    "RowRepair",
    "RowValidation",
    "RunAs",
    "ScriptedChange",
    "SettingsChanges",
    "SettledRow",
    "SkippedCommand",
    "SnapshotReport",
    "SourceDefinition",
    "Subscription",
    "SubscriptionRequest",
    "SubscriptionSettings",
    "SubscriptionState",
    "SubscriptionStatus",
    "SyncType",
    "SyncedSequence",
    "Thresholds",
    "TracerArrival",
    "TransactionalReplication",
    "Triggers",
    "Trouble",
    "UnreadSubscriber",
    "Watchers",
    "recover",
]

_HOMES = {
    "AddedArticle": "rowtide.replication.publishing.whole_schemas",
    "ArticleChange": "rowtide.replication.articles.requests",
    "ArticleRequest": "rowtide.replication.articles.requests",
    "ArticleType": "rowtide.replication.articles.articles",
    "ArticleValidation": "rowtide.replication.inspection.comparing",
    "BeforeImages": "rowtide.core.tables",
    "BrowsedCommand": "rowtide.replication.inspection.row_places",
    "CallFormat": "rowtide.replication.articles.call_formats",
    "Command": "rowtide.replication.articles.call_formats",
    "CommandRange": "rowtide.replication.articles.requests",
    "CompareOptions": "rowtide.replication.articles.requests",
    "ConflictComment": "rowtide.replication.conflict_comments",
    "ConflictOutcome": "rowtide.replication.conflict_decisions",
    "ConflictState": "rowtide.replication.conflict_decisions",
    "ConflictWinner": "rowtide.replication.conflict_decisions",
    "Constraints": "rowtide.replication.subscription_settings",
    "DeliveredBacklog": "rowtide.replication.running.spark_backlogs",
    "DeliveredElsewhere": "rowtide.replication.distribution.run_context",
    "DeliveryLoss": "rowtide.replication.publishing.publisher_log",
    "DeliveryReport": "rowtide.replication.distribution.run_context",
    "DroppedTable": "rowtide.replication.distribution.run_context",
    "HistoricError": "rowtide.replication.distributor.history",
    "HistoricState": "rowtide.replication.distributor.history",
    "IfExists": "rowtide.replication.subscription_settings",
    "KeptConflict": "rowtide.replication.conflict_decisions",
    "KeptConflicts": "rowtide.replication.kept_conflicts",
    "ListedConflicts": "rowtide.replication.conflict_decisions",
    "KeyUpdates": "rowtide.replication.articles.call_formats",
    "ListedArticle": "rowtide.replication.inspection.listings",
    "ListedPublication": "rowtide.replication.inspection.listings",
    "ListedSubscription": "rowtide.replication.inspection.listings",
    "LogEnding": "rowtide.replication.publishing.publications",
    "MovedPartitions": "rowtide.replication.articles.requests",
    "NewArticle": "rowtide.replication.articles.requests",
    "NewPublication": "rowtide.replication.articles.requests",
    "OpenedSource": "rowtide.log.postgres.provision",
    "Operation": "rowtide.core.operations",
    "PublicationThresholds": "rowtide.replication.articles.requests",
    "RecoveredTransaction": "rowtide.replication.targets.subscriber_kind",
    "Repair": "rowtide.replication.repairing",
    "RepairedRow": "rowtide.replication.distributor.repair_records",
    "ReplicationRehearsal": "rowtide.replication.publishing.handle",
    "RequestedSubscription": "rowtide.replication.subscription_settings",
    "Resolver": "rowtide.replication.conflicts",
    "RowDifference": "rowtide.replication.inspection.differences",
    "RowPlace": "rowtide.replication.inspection.row_places",
    "RowRepair": "rowtide.replication.articles.requests",
    "RowValidation": "rowtide.replication.articles.requests",
    "RunAs": "rowtide.databases.source_table",
    "ScriptedChange": "rowtide.replication.running.custom_scripts",
    "SettingsChanges": "rowtide.replication.subscription_settings",
    "SettledRow": "rowtide.replication.conflict_decisions",
    "SkippedCommand": "rowtide.replication.distribution.run_context",
    "SnapshotReport": "rowtide.replication.snapshot.agent",
    "SourceDefinition": "rowtide.log.source_definition",
    "Subscription": "rowtide.replication.distributor.subscription_records",
    "SubscriptionRequest": "rowtide.replication.subscription_settings",
    "SubscriptionSettings": "rowtide.replication.subscription_settings",
    "SubscriptionState": "rowtide.replication.distributor.definitions",
    "SubscriptionStatus": "rowtide.replication.status",
    "SyncType": "rowtide.replication.subscription_settings",
    "SyncedSequence": "rowtide.replication.targets.subscriber_kind",
    "Thresholds": "rowtide.replication.distributor.publication_records",
    "TracerArrival": "rowtide.replication.distributor.tracers",
    "TransactionalReplication": "rowtide.replication.api",
    "Triggers": "rowtide.log.postgres.ddl_triggers",
    "Trouble": "rowtide.replication.distribution.run_context",
    "UnreadSubscriber": "rowtide.replication.kept_conflicts",
    "Watchers": "rowtide.replication.distribution.run_context",
    "recover": "rowtide.replication.subscribing.pausing",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
