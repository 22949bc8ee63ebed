"""What a node knows of its merges: the part of `rowtide.connect(url).merge` that changes no row."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.merge.articles import DEFAULT_LIMITS
from rowtide.merge.conflicts.records import DescribedConflict, KeptConflict, describe_conflict, list_conflicts
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.errors.rows import ConflictUnknown
from rowtide.merge.inspection.listings import (
    DocumentedTable,
    MergeArticle,
    MergeFilter,
    MergeIdentityRange,
    MergePublication,
    MergeSession,
    list_identity_ranges,
    list_merge_articles,
    list_merge_filters,
    list_merge_publications,
    list_sessions,
    read_table,
)
from rowtide.merge.inspection.procedures import (
    EnumeratedChange,
    MergeGeneration,
    RowMetadata,
    enumerate_changes,
    get_metadata,
    make_generation,
)
from rowtide.merge.inspection.validating import RowReplica, explain
from rowtide.merge.nodes.connecting import MergeHandle, address, knows, open_node
from rowtide.merge.session.pairing import pair
from rowtide.merge.status import MergeStatus, list_status


class MergeInspection(MergeHandle):
    """Lists, documented tables, and the procedures of enumeration."""

    def list_conflicts(self, publication: str | None = None, article: str | None = None) -> Sequence[KeptConflict]:
        """Return the conflicts that this node keeps, oldest first.

        Raises `MergePublicationUnknown`, `MergeArticleUnknown`.
        """
        with open_node(self.url) as node:
            return list_conflicts(node, publication, article) if knows(node, publication) else ()

    conflicts = list_conflicts
    """As `synchronise`."""

    def describe_conflict(self, conflict_id: str) -> DescribedConflict:
        """Return a conflict that this node keeps, with who wrote its versions and when, where that is known.

        Raises `ConflictUnknown`.
        """
        with open_node(self.url) as node:
            if not node.tables.is_prepared():
                raise ConflictUnknown(conflict_id)
            return describe_conflict(node, conflict_id)

    def list_publications(self) -> Sequence[MergePublication]:
        """Return the publications that this node takes part in (SQL Server: sp_helpmergepublication)."""
        with open_node(self.url) as node:
            return list_merge_publications(node) if node.tables.is_prepared() else ()

    def list_articles(self, publication: str | None = None) -> Sequence[MergeArticle]:
        """Return merged tables (SQL Server: sp_helpmergearticle). Raises `MergePublicationUnknown`."""
        with open_node(self.url) as node:
            return list_merge_articles(node, publication) if knows(node, publication) else ()

    def list_identity_ranges(self, publication: str | None = None) -> Sequence[MergeIdentityRange]:
        """Return the identity ranges that this node knows (SQL Server: MSmerge_identity_range).

        Raises `MergePublicationUnknown`.
        """
        with open_node(self.url) as node:
            return list_identity_ranges(node, publication) if knows(node, publication) else ()

    def list_filters(self, publication: str | None = None) -> Sequence[MergeFilter]:
        """Return row and join filters (SQL Server: sp_helpmergefilter). Raises `MergePublicationUnknown`."""
        with open_node(self.url) as node:
            return list_merge_filters(node, publication) if knows(node, publication) else ()

    def status(self, publication: str | None = None) -> Sequence[MergeStatus]:
        """Return publications and subscriptions as this node knows them. Raises `MergePublicationUnknown`."""
        with open_node(self.url) as node:
            return list_status(node, publication) if knows(node, publication) else ()

    def list_history(self, publication: str | None = None) -> Sequence[MergeSession]:
        """Return the sessions of past synchronisations, newest first. Raises `MergePublicationUnknown`."""
        with open_node(self.url) as hub:
            return list_sessions(hub, publication) if knows(hub, publication) else ()

    def read_table(self, name: str) -> DocumentedTable:
        """Return a table that SQL Server documents, such as MSmerge_contents.

        What the agent has yet to look at counts already. Raises `DocumentedTableUnknown`.
        """
        with open_node(self.url) as node:
            return read_table(node, name)

    def make_generation(self) -> MergeGeneration | None:
        """Close the open generation, if it has changes (SQL Server: sp_MSmakegeneration); return the last closed one.

        Synchronisations do this themselves.
        """
        with open_node(self.url) as node:
            return make_generation(node) if node.tables.is_prepared() else None

    def enum_changes(self, publication: str, subscriber: str, *, upload: bool = False) -> Sequence[EnumeratedChange]:
        """Return what the hub has for a subscriber, or with `upload` the subscriber for the hub, without sending it.

        (SQL Server: sp_MSenumchanges.) Nothing is written. Raises `MergePublicationUnknown`,
        `MergeSubscriptionUnknown`.
        """
        with self._open_hub(publication) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
            pairing = pair(hub, node, publication, address(subscriber))
            return enumerate_changes(hub, node, pairing, is_upload=upload)

    def get_metadata(
        self, publication: str, subscriber: str, table: str, rowguids: Sequence[str], *, upload: bool = False
    ) -> Sequence[RowMetadata]:
        """Return whether rows of the hub are inserts, updates or deletes at a subscriber, by their versions.

        (SQL Server: sp_MSgetmetadata.) With `upload`, what rows of the subscriber are at the hub. Nothing is written.
        Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`, `MergeArticleUnknown`.
        """
        with self._open_hub(publication) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
            pairing = pair(hub, node, publication, address(subscriber))
            return get_metadata(hub, node, pairing, table, rowguids, is_upload=upload)

    def list_row_replicas(self, table: str, rowguid: str) -> Sequence[RowReplica]:
        """Return what each node is known to have of a row, and why (SQL Server: sp_showrowreplicainfo).

        Raises `ArticleTableNotFound`.
        """
        with open_node(self.url) as node:
            if not node.tables.is_prepared():
                raise ArticleTableNotFound(table)
            return explain(node, table, rowguid)
