"""Lists of publications, articles and filters (SQL Server: sp_helpmergepublication, sp_helpmergearticle).

Also lists of identity ranges (MSmerge_identity_range), past synchronisations (Replication Monitor), and the rows of any
documented table; see `rowtide.merge.documented_views`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Table, select

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication
from rowtide.merge.catalogue import get_publication, list_articles, list_publications, read_nickname
from rowtide.merge.definitions import article_history, identity_ranges, sessions, subscriptions
from rowtide.merge.documented_views.dialect import STORED, view_names
from rowtide.merge.errors.rows import DocumentedTableUnknown
from rowtide.merge.exchange_state import as_utc, list_subscriptions
from rowtide.merge.nodes.node import Node
from rowtide.merge.status import SYNC_STATES


@frozen
class MergePublication:
    """A publication as a node has it (SQL Server: sp_helpmergepublication).

    `run_as`: with whose rights the code of tables of other roles runs that this node writes.
    """

    publication: str
    role: str
    articles: int
    subscriptions: int
    retention_days: int
    run_as: str


@frozen
class MergeArticle:
    """A merged table and its resolver (SQL Server: sp_helpmergearticle)."""

    publication: str
    article: str
    source_owner: str
    source_object: str
    columns: tuple[str, ...]
    column_tracking: bool
    resolver: str
    subset_filter: str | None
    partition_options: int
    subscriber_upload_options: int
    compensate_for_errors: bool
    on_unseen_children: str
    processing_order: int


@frozen
class MergeFilter:
    """A row filter, or a join filter with its parent (SQL Server: sp_helpmergefilter).

    `filter_type`: 1 join filter, 2 link of logical records, 3 both.
    """

    publication: str
    article: str
    parent: str | None
    condition: str
    join_unique_key: bool | None
    filter_type: int | None


def list_merge_publications(node: Node) -> Sequence[MergePublication]:
    """Return the publications that a node takes part in."""
    own = read_nickname(node.connection)
    return tuple(
        MergePublication(
            publication=publication.name,
            role="publisher" if publication.publisher == own else "subscriber",
            articles=len(list_articles(node.connection, publication.pubid)),
            subscriptions=len(list_subscriptions(node.connection, publication.pubid)),
            retention_days=publication.retention_days,
            run_as=publication.run_as.value,
        )
        for publication in list_publications(node.connection)
    )


def list_merge_articles(node: Node, publication: str | None = None) -> Sequence[MergeArticle]:
    """Return the articles of a publication, or of all. Raises `MergePublicationUnknown`."""
    return tuple(
        MergeArticle(
            publication=found.name,
            article=article.name,
            source_owner=article.schema,
            source_object=article.table,
            columns=tuple(column.name for column in article.columns),
            column_tracking=article.column_tracking,
            resolver=article.resolver,
            subset_filter=article.subset_filter,
            partition_options=int(article.partition_options),
            subscriber_upload_options=int(article.subscriber_upload_options),
            compensate_for_errors=article.compensate_for_errors,
            on_unseen_children=article.on_unseen_children.value,
            processing_order=article.processing_order,
        )
        for found, article in _articles(node, publication)
    )


def list_merge_filters(node: Node, publication: str | None = None) -> Sequence[MergeFilter]:
    """Return row filters and join filters of a publication, or of all. Raises `MergePublicationUnknown`."""
    filters = []
    for found, article in _articles(node, publication):
        if article.subset_filter is not None:
            filters.append(MergeFilter(found.name, article.name, None, article.subset_filter, None, None))
        filters += [
            MergeFilter(found.name, article.name, join.parent, join.condition, join.unique_key, int(join.filter_type))
            for join in article.join_filters
        ]
    return tuple(filters)


def _articles(node: Node, publication: str | None) -> Sequence[tuple[Publication, Article]]:
    known = list_publications(node.connection)
    chosen = known if publication is None else (get_publication(node.connection, publication),)
    return [(found, article) for found in chosen for article in list_articles(node.connection, found.pubid)]


@frozen
class DocumentedTable:
    """A documented table as it is now: its columns in the documented order, and its rows by column."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, object]]


def read_table(node: Node, name: str) -> DocumentedTable:
    """Return a documented table by its name, in any case; without columns where nothing is merged.

    Raises `DocumentedTableUnknown`.
    """
    listed = sorted((*view_names(), *STORED))
    found = next((each for each in listed if each.lower() == name.lower()), None)
    if found is None:
        raise DocumentedTableUnknown(name, ", ".join(listed))
    if not node.tables.is_prepared():
        return DocumentedTable(found, (), ())
    columns, rows = _read_stored(node, STORED[found]) if found in STORED else node.tables.read_documented(found)
    return DocumentedTable(found, columns, [dict(zip(columns, row, strict=True)) for row in rows])


def _read_stored(node: Node, table: Table) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
    rows = node.connection.execute(select(table).order_by(*table.primary_key))
    return tuple(rows.keys()), [[as_utc(each) if isinstance(each, datetime) else each for each in row] for row in rows]


def read_rows(node: Node, view: str, rowguids: Sequence[str]) -> list[Mapping[str, object]]:
    """Return the rows of a documented table that are of some rowguids, by column."""
    columns, rows = node.tables.read_documented(view, rowguids)
    return [dict(zip(columns, row, strict=True)) for row in rows]


@frozen
class MergeIdentityRange:
    """A node's numbers of a table: the primary range and the secondary one, both ends included.

    `node` is a subscriber, or None for the publisher. `max_used` is the last number known to be used; of the publisher
    the last one given to any node.
    """

    publication: str
    article: str
    node: str | None
    range_begin: int
    range_end: int
    next_range_begin: int
    next_range_end: int
    is_pub_range: bool
    max_used: int | None


def list_identity_ranges(node: Node, publication: str | None = None) -> Sequence[MergeIdentityRange]:
    """Return the ranges that a node knows, by publication and article, the publisher's first.

    Raises `MergePublicationUnknown`.
    """
    if publication is not None:
        chosen: Sequence[Publication] = [get_publication(node.connection, publication)]
    else:
        chosen = list_publications(node.connection)
    rows = node.connection.execute(select(identity_ranges)).mappings().all()
    found = []
    for each in chosen:
        articles: dict[int, Article] = {one.nickname: one for one in list_articles(node.connection, each.pubid)}
        for row in rows:
            article = articles.get(row["artid"])
            owners = _owners(node, each)
            if article is not None and row["subid"] in owners:
                found.append(
                    MergeIdentityRange(
                        each.name,
                        article.name,
                        owners[row["subid"]],
                        row["range_begin"],
                        row["range_end"],
                        row["next_range_begin"],
                        row["next_range_end"],
                        bool(row["is_pub_range"]),
                        row["max_used"],
                    )
                )
    return sorted(found, key=lambda each: (each.publication, each.article, each.node or "", each.is_pub_range))


def _owners(node: Node, publication: Publication) -> dict[str, str | None]:
    """Return the names of the nodes that have ranges, by their ids; None for the publisher."""
    subscriptions = list_subscriptions(node.connection, publication.pubid)
    is_publisher = publication.publisher == read_nickname(node.connection)
    owners: dict[str, str | None] = {one.subid: one.subscriber for one in subscriptions}
    return owners | ({publication.pubid: None} if is_publisher else {})


_PHASES = {1: "upload", 2: "download"}


@frozen
class MergeSession:
    """One article in one direction of a synchronisation (SQL Server: sp_replmonitorhelpmergesessiondetail).

    Times are in seconds. A synchronisation that moved no row has one entry without an article.
    """

    session_id: int
    subscriber: str
    start_time: datetime
    duration: float
    state: str
    message: str | None
    article: str | None
    phase: str | None
    inserts: int | None
    updates: int | None
    deletes: int | None
    conflicts: int | None
    rows_retried: int | None
    article_duration: float | None


def list_sessions(node: Node, publication: str | None = None) -> Sequence[MergeSession]:
    """Return past synchronisations, newest first. Raises `MergePublicationUnknown`."""
    if not node.tables.is_prepared() and publication is None:
        return ()
    joined = sessions.join(subscriptions, sessions.c.subid == subscriptions.c.subid).outerjoin(
        article_history, article_history.c.session_id == sessions.c.session_id
    )
    statement = select(
        sessions.c.session_id,
        subscriptions.c.subscriber_server,
        sessions.c.start_time,
        sessions.c.duration,
        sessions.c.runstatus,
        sessions.c.message,
        article_history.c.article,
        article_history.c.phase,
        article_history.c.inserts,
        article_history.c.updates,
        article_history.c.deletes,
        article_history.c.conflicts,
        article_history.c.rows_retried,
        article_history.c.duration.label("article_duration"),
    ).select_from(joined)
    if publication is not None:
        found = get_publication(node.connection, publication)
        statement = statement.where(subscriptions.c.pubid == found.pubid)
    newest = (sessions.c.session_id.desc(), article_history.c.phase, article_history.c.article)
    return [
        MergeSession(
            row.session_id,
            row.subscriber_server,
            as_utc(row.start_time),
            round(row.duration, 3),
            SYNC_STATES[row.runstatus],
            row.message,
            row.article,
            _PHASES.get(row.phase),
            row.inserts,
            row.updates,
            row.deletes,
            row.conflicts,
            row.rows_retried,
            None if row.article_duration is None else round(row.article_duration, 3),
        )
        for row in node.connection.execute(statement.order_by(*newest))
    ]
