"""The definition of a new article, from its table and the request, and the checks that it has to pass."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence

from rowtide.core.options import word_of
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import (
    Article,
    Publication,
    SubscriberType,
    UploadOptions,
)
from rowtide.merge.catalogue import (
    list_all_articles,
    list_articles,
    list_publications,
    read_nickname,
    was_rowguid_there,
)
from rowtide.merge.errors.publishing import (
    KeyNotNumbered,
    MergeArticleExists,
    MergeKeyMissing,
    RepublisherNotServer,
    UploadOptionsRefused,
)
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.table_definitions import PartKind
from rowtide.merge.publishing.requests import ArticleRequest
from rowtide.merge.publishing.schema_changes import define
from rowtide.merge.publishing.vertical_partitions import choose_columns

_NICKNAME_BITS = 31
_AUTOINCREMENT = re.compile(r"\bautoincrement\b", re.IGNORECASE)


def require_direction(article: Article) -> None:
    """Raise `UploadOptionsRefused` if nothing would travel."""
    if article.is_upload_only and article.subscriber_upload_options is not UploadOptions.ALLOWED:
        options = word_of(article.subscriber_upload_options)
        raise UploadOptionsRefused(article.qualified_name, options, "it is upload-only: nothing would be exchanged")


def find_merged(hub: Node, described: TableDescription, merged: Sequence[Article]) -> Article | None:
    """Return the article that has a table already; one from another kind of database has another name for it."""
    return next((article for article in merged if _is_of(article, hub, described)), None)


def _is_of(article: Article, hub: Node, described: TableDescription) -> bool:
    if article.schema and not described.schema:
        return article.file_table.lower() == described.table.lower()
    if described.schema and not article.schema:
        return hub.tables.is_there(article) and hub.tables.describe(article.table).name == described.name
    return article.qualified_name == described.name


def name_apart(described: TableDescription, merged: Iterable[Article]) -> str:
    """Return a table's name with its schema if a table of another schema has its name already; else empty."""
    taken = {one.file_table.lower() for one in merged if one.qualified_name != described.name}
    return f"{described.schema}_{described.table}" if described.schema and described.table.lower() in taken else ""


def define_new(described: TableDescription, merged: Article | None, request: ArticleRequest, apart: str) -> Article:
    if not any(column.key_ordinal for column in described.columns):
        raise MergeKeyMissing(described.name)
    columns = choose_columns(described, request.columns)
    if merged is not None:
        # A publisher of another kind may have richer types.
        known = {column.name: column for column in merged.columns}
        columns = tuple(known.get(column.name, column) for column in columns)
    article = Article(
        name=merged.name if merged is not None else apart or described.table,
        schema=described.schema,
        table=described.table,
        nickname=merged.nickname if merged is not None else 1 + secrets.randbits(_NICKNAME_BITS - 1),
        columns=columns,
        column_tracking=request.column_tracking,
        resolver=request.resolver,
        compensate_for_errors=request.compensate_for_errors,
        subset_filter=request.where,
        partition_options=request.partition_options,
        renumber=request.renumber,
        identity_range=request.identity_range,
        publisher_identity_range=request.publisher_identity_range,
        threshold=request.threshold,
        on_unseen_children=request.on_unseen_children,
        table_in_files=merged.table_in_files if merged is not None else apart,
        subscriber_upload_options=request.upload_options,
        vertical_partition=len(columns) != len(described.columns),
        record_conflict_detection=request.record_conflict_detection,
        record_conflict_resolution=request.record_conflict_resolution,
    )
    return define(described, article if merged is None else merged.as_table_of(article))


def require_new(hub: Node, publication: Publication, article: Article, merged: Article | None) -> None:
    found = next(
        (one for one in list_all_articles(hub.connection, publication.pubid) if one.name == article.name), None
    )
    if found is not None:
        reason = f"publication {publication.name} has an article {article.name}"
        waiting = ", which is dropped once all subscribers have synchronised" if found.is_dropped else ""
        raise MergeArticleExists(article.qualified_name, reason + waiting)
    if merged is not None and merged.column_tracking != article.column_tracking:
        reason = "another publication has it with" + ("out" if article.column_tracking else "") + " column tracking"
        raise MergeArticleExists(article.qualified_name, reason)
    if merged is None:
        return
    if (merged.vertical_partition or article.vertical_partition) and merged.columns != article.columns:
        raise MergeArticleExists(article.qualified_name, "another publication has it with other columns")
    require_directed_alike(hub, publication, article)
    if article.identity_range and any(_numbers(hub, other, article) for other in list_publications(hub.connection)):
        raise MergeArticleExists(article.qualified_name, "another publication has it with identity ranges")


def require_directed_alike(hub: Node, publication: Publication, article: Article) -> None:
    """Raise `MergeArticleExists` if another publication of the hub has the table with other options: a subscriber could
    have both.
    """
    for other in list_publications(hub.connection):
        if other.pubid == publication.pubid or other.publisher != publication.publisher:
            continue
        for one in list_articles(hub.connection, other.pubid):
            is_alike = one.subscriber_upload_options is article.subscriber_upload_options
            if one.nickname == article.nickname and not (is_alike and one.is_directed_as(article)):
                reason = f"publication {other.name} has it with other upload options, or in another direction"
                raise MergeArticleExists(article.qualified_name, reason)


def _numbers(hub: Node, publication: Publication, article: Article) -> bool:
    """Whether a publication of this hub gives the numbers of an article's table."""
    listed = list_articles(hub.connection, publication.pubid)
    is_own = publication.publisher == read_nickname(hub.connection)
    return is_own and any(one.nickname == article.nickname and bool(one.identity_range) for one in listed)


def require_server(hub: Node, publication: Publication, article: Article) -> None:
    """Raise `RepublisherNotServer` if the hub has the table itself as a client of another publisher."""
    for other in list_publications(hub.connection):
        if other.publisher == publication.publisher:
            continue
        if any(one.nickname == article.nickname for one in list_articles(hub.connection, other.pubid)):
            own = list_subscriptions(hub.connection, other.pubid)
            if any(one.subscriber_type is not SubscriberType.SERVER for one in own):
                raise RepublisherNotServer(article.qualified_name, other.name)


def is_preserved(hub: Node, article: Article, *, is_merged: bool) -> bool:
    """Return whether the table had its own column `rowguid` before it was merged."""
    if is_merged:
        return was_rowguid_there(hub.connection, article.nickname)
    return hub.tables.has_rowguid(article)


def require_numbered(described: TableDescription, *, is_growing: bool) -> None:
    """Raise `KeyNotNumbered` unless a table's key is one integer column that the database numbers itself.

    `is_growing`: it never gives a number again, nor one of another row that was deleted.
    """
    key = [column for column in described.columns if column.key_ordinal]
    reason = None
    if len(key) != 1:
        reason = f"its key has {len(key)} columns"
    elif kind_of(key[0].type_text) is not TypeKind.WHOLE_NUMBER:
        reason = f"its key {key[0].name} is of type {key[0].type_text}"
    elif not any(part.kind is PartKind.IDENTITY and part.name == key[0].name for part in described.parts):
        reason = f"its key {key[0].name} is neither identity nor serial"
    elif is_growing and described.kind is DatabaseKind.SQLITE and not _AUTOINCREMENT.search(described.statement or ""):
        reason = f"its key {key[0].name} is not declared with AUTOINCREMENT, without which SQLite counts by itself"
    if reason is not None:
        raise KeyNotNumbered(described.name, reason)
