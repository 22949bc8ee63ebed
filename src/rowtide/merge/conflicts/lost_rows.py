"""Rows that a delete at the hub deletes or changes by foreign keys' actions: each becomes a conflict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ArticleColumn, ArticleReference, Publication
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, identify, record
from rowtide.merge.errors.rows import CHILDREN_NOT_SEEN
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import AnyPlace, Place, Reach, by_nickname, read_all
from rowtide.merge.versions.changes import KnownVersion, Row, reference_indexes

_NO_ARTICLE = 0
"""The nickname, in conflicts, of a table that is no article."""
_REASON = "a row that it references was deleted: the foreign key's action reached it"


@frozen
class Lost:
    """A row that deletes may reach, as it is before them; `deleted` are those deletes.

    `parents` are the rows that it references and that are lost, too: they can be restored together.
    """

    deleted: frozenset[Place]
    article: Article
    rowguid: str
    row: Row
    known: KnownVersion | None
    parents: tuple[str | None, ...] = ()


def describe_lost(
    node: Node,
    articles: Mapping[int, Article],
    lost: Mapping[AnyPlace, frozenset[Place]],
    reach: Reach,
    known: Mapping[Place, KnownVersion],
) -> list[Lost]:
    """Return what will be recorded of rows, given with the deletes that reach them, within a transaction."""
    rows = {nickname: node.rows.read(articles[nickname], listed) for nickname, listed in by_nickname(lost).items()}
    found: list[Lost] = []
    for (key, rowguid), deleted in lost.items():
        if isinstance(key, str):
            found.append(_of_other_table(key, reach.others[key, rowguid], deleted))
        elif rowguid in rows[key]:
            article, row = articles[key], rows[key][rowguid]
            parents = tuple(_parent(article, each, articles, row, rows) for each in article.references)
            found.append(Lost(deleted, article, rowguid, row, known.get((key, rowguid)), parents))
    return found


def keep_lost(node: Node, publication: Publication, lost: Sequence[Lost], source: int) -> dict[Place, int]:
    """Record those of the rows that are gone or changed, once the deletes of node `source` are written.

    Return the number of rows by delete.
    """
    present = read_all(
        node.rows, ((each.article, each.rowguid) for each in lost if each.article.nickname != _NO_ARTICLE)
    )
    counts: dict[Place, int] = {}
    for each in lost:
        row = present.get(each.article.nickname, {}).get(each.rowguid)
        if row != each.row:
            record(node.connection, _conflict(publication, each, row, source))
            counts[min(each.deleted)] = counts.get(min(each.deleted), 0) + 1
    return counts


def _parent(
    article: Article,
    reference: ArticleReference,
    articles: Mapping[int, Article],
    row: Row,
    rows: Mapping[int, Mapping[str, Row]],
) -> str | None:
    key = [row[place] for place in reference_indexes(article, reference)]
    for rowguid, parent in rows.get(reference.parent, {}).items():
        places = [articles[reference.parent].index_of(name) for name in reference.parent_columns]
        if [parent[place] for place in places if place is not None] == key:
            return rowguid
    return None


def _conflict(publication: Publication, lost: Lost, row: Row | None, source: int) -> ConflictRecord:
    version = None if lost.known is None else lost.known.version
    made_by = None if version is None else version.last
    conflict_type = ConflictType.UPDATE_DELETE_WINS_CONFLICT
    if row is not None:
        is_tracked = lost.article.column_tracking
        conflict_type = ConflictType.COLUMN_UPDATE_CONFLICT if is_tracked else ConflictType.UPDATE_CONFLICT
    return ConflictRecord(
        identify(lost.rowguid, b"" if made_by is None else made_by.encode(), b"action"),
        publication.pubid,
        lost.article,
        lost.rowguid,
        conflict_type,
        source if made_by is None else made_by.nickname,
        CHILDREN_NOT_SEEN,
        _REASON,
        lost.row,
        row,
        b"" if version is None else version.lineage.encode(),
        publication.name,
        lost.parents,
    )


def _of_other_table(table: str, values: Mapping[str, str | None], deleted: frozenset[Place]) -> Lost:
    """Return a row of a table that is no article: it has no rowguid, and is identified by its values."""
    columns = tuple(ArticleColumn(name, "text", is_nullable=True, key_ordinal=None) for name in values)
    rowguid = str(uuid5(NAMESPACE_OID, json.dumps([table, values], sort_keys=True)))
    return Lost(deleted, Article(table, "", table, _NO_ARTICLE, columns), rowguid, tuple(values.values()), None)
