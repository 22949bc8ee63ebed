"""Merge replication between a hub and its subscribers: rows may be changed at any node, and conflicts are resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.databases.source_table import RunAs
    from rowtide.merge.api import MergeReplication
    from rowtide.merge.articles import (
        Article,
        ArticleColumn,
        ArticleReference,
        DeviceLimits,
        ExchangeType,
        FilterType,
        JoinFilter,
        Partition,
        PartitionOptions,
        Progress,
        Publication,
        SubscriberType,
        Subscription,
        UnseenChildren,
        UploadOptions,
        Waiting,
    )
    from rowtide.merge.conflicts.notes import ConflictNote
    from rowtide.merge.conflicts.outcome_changes import ResolutionPreview, ResolvedRow
    from rowtide.merge.conflicts.resolvers import Winner
    from rowtide.merge.conflicts.stored_conflicts import DescribedConflict, MergeConflict, VersionWriter
    from rowtide.merge.devices.registered import MergeDevice
    from rowtide.merge.fan_out import SyncAllProgress, SyncOutcome, Unreachable
    from rowtide.merge.inspection.handle import EnumeratedChange, MergeGeneration, RowMetadata
    from rowtide.merge.inspection.listings import (
        DocumentedTable,
        MergeArticle,
        MergeFilter,
        MergeIdentityRange,
        MergePublication,
        MergeSession,
    )
    from rowtide.merge.inspection.row_replicas import RowReplica
    from rowtide.merge.inspection.validating import ArticleValidation
    from rowtide.merge.nodes.node_tables import RewritingTrigger, UnsentColumn
    from rowtide.merge.nodes.rows import Refusal
    from rowtide.merge.nodes.table_definitions import Omission, Part, PartKind
    from rowtide.merge.publishing.exchange_requests import (
        DroppedSubscription,
        MergeValidation,
        PartitionChange,
        Recovered,
        Reinitialization,
        RepeatedDownload,
        Synchronisation,
    )
    from rowtide.merge.publishing.handle import MergeRehearsal
    from rowtide.merge.publishing.requests import (
        ArticleRequest,
        Existing,
        ExistingRows,
        ExistingSubscription,
        MergeArticleChanges,
        MergePublicationChanges,
        NewMergeArticle,
        NewMergePublication,
        NewMergeSubscription,
    )
    from rowtide.merge.publishing.schema_changes import SchemaChange, SchemaStatus
    from rowtide.merge.publishing.snapshots import FileKind, PartitionSnapshot, SnapshotFile, SnapshotProgress
    from rowtide.merge.session.history import Phase, Summary
    from rowtide.merge.session.messages import Counts
    from rowtide.merge.session.pending_changes import PendingChanges, PendingRow, Unsent
    from rowtide.merge.session.receiver import Refused
    from rowtide.merge.status import MergeStatus
    from rowtide.merge.versions.changes import Row, RowChange, TombstoneType

__all__ = [
    "Article",
    "ArticleColumn",
    "ArticleReference",
    "ArticleRequest",
    "ArticleValidation",
    "ConflictNote",
    "Counts",
    "DescribedConflict",
    "DeviceLimits",
    "DocumentedTable",
    "DroppedSubscription",
    "EnumeratedChange",
    "ExchangeType",
    "Existing",
    "ExistingRows",
    "ExistingSubscription",
    "FileKind",
    "FilterType",
    "JoinFilter",
    "MergeArticle",
    "MergeArticleChanges",
    "MergeConflict",
    "MergeDevice",
    "MergeFilter",
    "MergeGeneration",
    "MergeIdentityRange",
    "MergePublication",
    "MergePublicationChanges",
    "MergeRehearsal",
    "MergeReplication",
    "MergeSession",
    "MergeStatus",
    "MergeValidation",
    "NewMergeArticle",
    "NewMergePublication",
    "NewMergeSubscription",
    "Omission",
    "Part",
    "PartKind",
    "Partition",
    "PartitionChange",
    "PartitionOptions",
    "PartitionSnapshot",
    "PendingChanges",
    "PendingRow",
    "Phase",
    "Progress",
    "Publication",
    "Recovered",
    "Refusal",
    "Refused",
    "Reinitialization",
    "RepeatedDownload",
    "ResolutionPreview",
    "ResolvedRow",
    "RewritingTrigger",
    "Row",
    "RowChange",
    "RowMetadata",
    "RowReplica",
    "RunAs",
    "SchemaChange",
    "SchemaStatus",
    "SnapshotFile",
    "SnapshotProgress",
    "SubscriberType",
    "Subscription",
    "Summary",
    "SyncAllProgress",
    "SyncOutcome",
    "Synchronisation",
    "TombstoneType",
    "Unreachable",
    "UnseenChildren",
    "Unsent",
    "UnsentColumn",
    "UploadOptions",
    "VersionWriter",
    "Waiting",
    "Winner",
]

_HOMES = {
    "Article": "rowtide.merge.articles",
    "ArticleColumn": "rowtide.merge.articles",
    "ArticleReference": "rowtide.merge.articles",
    "ArticleRequest": "rowtide.merge.publishing.requests",
    "ArticleValidation": "rowtide.merge.inspection.validating",
    "ConflictNote": "rowtide.merge.conflicts.notes",
    "Counts": "rowtide.merge.session.messages",
    "DeviceLimits": "rowtide.merge.articles",
    "DocumentedTable": "rowtide.merge.inspection.listings",
    "DroppedSubscription": "rowtide.merge.publishing.exchange_requests",
    "EnumeratedChange": "rowtide.merge.inspection.handle",
    "ExchangeType": "rowtide.merge.articles",
    "Existing": "rowtide.merge.publishing.requests",
    "ExistingRows": "rowtide.merge.publishing.requests",
    "ExistingSubscription": "rowtide.merge.publishing.requests",
    "FileKind": "rowtide.merge.publishing.snapshots",
    "FilterType": "rowtide.merge.articles",
    "JoinFilter": "rowtide.merge.articles",
    "DescribedConflict": "rowtide.merge.conflicts.stored_conflicts",
    "MergeConflict": "rowtide.merge.conflicts.stored_conflicts",
    "VersionWriter": "rowtide.merge.conflicts.stored_conflicts",
    "MergeArticle": "rowtide.merge.inspection.listings",
    "MergeArticleChanges": "rowtide.merge.publishing.requests",
    "MergeDevice": "rowtide.merge.devices.registered",
    "MergeFilter": "rowtide.merge.inspection.listings",
    "MergeGeneration": "rowtide.merge.inspection.handle",
    "MergeIdentityRange": "rowtide.merge.inspection.listings",
    "MergePublication": "rowtide.merge.inspection.listings",
    "MergePublicationChanges": "rowtide.merge.publishing.requests",
    "MergeRehearsal": "rowtide.merge.publishing.handle",
    "MergeReplication": "rowtide.merge.api",
    "MergeSession": "rowtide.merge.inspection.listings",
    "MergeStatus": "rowtide.merge.status",
    "MergeValidation": "rowtide.merge.publishing.exchange_requests",
    "NewMergeArticle": "rowtide.merge.publishing.requests",
    "NewMergePublication": "rowtide.merge.publishing.requests",
    "NewMergeSubscription": "rowtide.merge.publishing.requests",
    "Omission": "rowtide.merge.nodes.table_definitions",
    "Part": "rowtide.merge.nodes.table_definitions",
    "PartKind": "rowtide.merge.nodes.table_definitions",
    "Partition": "rowtide.merge.articles",
    "PartitionChange": "rowtide.merge.publishing.exchange_requests",
    "PartitionOptions": "rowtide.merge.articles",
    "PartitionSnapshot": "rowtide.merge.publishing.snapshots",
    "PendingChanges": "rowtide.merge.session.pending_changes",
    "PendingRow": "rowtide.merge.session.pending_changes",
    "Phase": "rowtide.merge.session.history",
    "Progress": "rowtide.merge.articles",
    "Publication": "rowtide.merge.articles",
    "Recovered": "rowtide.merge.publishing.exchange_requests",
    "Refusal": "rowtide.merge.nodes.rows",
    "Refused": "rowtide.merge.session.receiver",
    "Reinitialization": "rowtide.merge.publishing.exchange_requests",
    "RepeatedDownload": "rowtide.merge.publishing.exchange_requests",
    "ResolutionPreview": "rowtide.merge.conflicts.outcome_changes",
    "ResolvedRow": "rowtide.merge.conflicts.outcome_changes",
    "RewritingTrigger": "rowtide.merge.nodes.node_tables",
    "Row": "rowtide.merge.versions.changes",
    "RowChange": "rowtide.merge.versions.changes",
    "RowMetadata": "rowtide.merge.inspection.handle",
    "RowReplica": "rowtide.merge.inspection.row_replicas",
    "RunAs": "rowtide.databases.source_table",
    "SchemaChange": "rowtide.merge.publishing.schema_changes",
    "SchemaStatus": "rowtide.merge.publishing.schema_changes",
    "SnapshotFile": "rowtide.merge.publishing.snapshots",
    "SnapshotProgress": "rowtide.merge.publishing.snapshots",
    "SubscriberType": "rowtide.merge.articles",
    "Subscription": "rowtide.merge.articles",
    "Summary": "rowtide.merge.session.history",
    "SyncAllProgress": "rowtide.merge.fan_out",
    "SyncOutcome": "rowtide.merge.fan_out",
    "Synchronisation": "rowtide.merge.publishing.exchange_requests",
    "TombstoneType": "rowtide.merge.versions.changes",
    "Unreachable": "rowtide.merge.fan_out",
    "UnseenChildren": "rowtide.merge.articles",
    "Unsent": "rowtide.merge.session.pending_changes",
    "UnsentColumn": "rowtide.merge.nodes.node_tables",
    "UploadOptions": "rowtide.merge.articles",
    "Waiting": "rowtide.merge.articles",
    "Winner": "rowtide.merge.conflicts.resolvers",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
