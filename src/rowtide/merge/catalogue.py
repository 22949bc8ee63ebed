"""A node's nickname, publications and articles, read and written."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, insert, inspect, select, update

from rowtide.databases.source_table import RunAs
from rowtide.merge.articles import PUBLISHER_PRIORITY, Article, Publication, SubscriberType
from rowtide.merge.definitions import (
    articles,
    conflicts_info,
    devices,
    partition_groups,
    publications,
    replinfo,
    schema_changes,
    subscriptions,
)
from rowtide.merge.errors.nodes import read_count, reading
from rowtide.merge.errors.publishing import MergeArticleUnknown, MergePublicationUnknown


def read_nickname(connection: Connection) -> int:
    """Return a node's own nickname."""
    with reading(replinfo.name):
        return read_count(connection.execute(_NICKNAME).scalar())


_NICKNAME = select(replinfo.c.nickname)


def renew_nickname(connection: Connection, nickname: int | None = None) -> int:
    """Give the node, and the publications that it is the hub of, a new nickname, in the caller's transaction.

    Return it. Without a given one, it is random.
    """
    nickname, own = nickname or new_nickname(), read_nickname(connection)
    connection.execute(update(publications).where(publications.c.publisher == own).values(publisher=nickname))
    connection.execute(update(replinfo).values(nickname=nickname))
    return nickname


def new_nickname() -> int:
    """Return a random nickname of 48 bits, unique among nodes."""
    return 1 + secrets.randbits(47)


def find_publication(connection: Connection, name: str) -> Publication | None:
    """Return a publication by its name; None if there is none."""
    row = connection.execute(select_publication(name)).mappings().one_or_none()
    return None if row is None else read_publication(row)


def has_devices(connection: Connection) -> bool:
    """Whether a node has the table of devices, which is created with the first device, or a view of it.

    A session that has found it does not look for it again.
    """
    if not connection.info.get(_HAS_DEVICES):
        schemas = connection.get_execution_options().get("schema_translate_map") or {}
        connection.info[_HAS_DEVICES] = inspect(connection).has_table(devices.name, schema=schemas.get(None))
    return bool(connection.info[_HAS_DEVICES])


_HAS_DEVICES = "rowtide_has_devices"


def get_publication(connection: Connection, name: str) -> Publication:
    """Return a publication by its name. Raises `MergePublicationUnknown`."""
    found = find_publication(connection, name)
    if found is None:
        raise MergePublicationUnknown(name)
    return found


def list_publications(connection: Connection) -> tuple[Publication, ...]:
    """Return all publications, by name."""
    rows = connection.execute(select(publications).order_by(publications.c.name)).mappings()
    return tuple(map(read_publication, rows))


def set_publisher(connection: Connection, pubid: str, publisher: int) -> None:
    """Store the hub's nickname, in the caller's transaction."""
    connection.execute(update(publications).where(publications.c.pubid == pubid).values(publisher=publisher))


def put_publication(connection: Connection, publication: Publication) -> None:
    """Write a publication, in the caller's transaction."""
    connection.execute(
        insert(publications).values(
            pubid=publication.pubid,
            name=publication.name,
            publisher=publication.publisher,
            retention=publication.retention_days,
            replicate_ddl=int(publication.replicates_ddl),
            allow_partition_realignment=int(publication.realigns),
            conflict_retention=publication.conflict_retention_days,
            run_as=publication.run_as.value,
        )
    )


def set_publication(connection: Connection, publication: Publication) -> None:
    """Replace a publication's options except a node's own, in the caller's transaction."""
    options = {"retention": publication.retention_days, "replicate_ddl": int(publication.replicates_ddl)}
    connection.execute(update(publications).where(publications.c.pubid == publication.pubid).values(options))


def set_run_as(connection: Connection, pubid: str, run_as: RunAs) -> None:
    """Store with whose rights the code of tables runs at this node, in the caller's transaction."""
    connection.execute(update(publications).where(publications.c.pubid == pubid).values(run_as=run_as.value))


def list_articles(connection: Connection, pubid: str) -> tuple[Article, ...]:
    """Return a publication's articles, parents before their children, without those that are being dropped."""
    return tuple(article for article in list_all_articles(connection, pubid) if not article.is_dropped)


def list_all_articles(connection: Connection, pubid: str) -> tuple[Article, ...]:
    """Return a publication's articles, parents before their children."""
    rows = connection.execute(select_articles(articles.c.pubid == pubid)).mappings()
    with reading(articles.name):
        return tuple(Article.decode(row["definition"]) for row in rows)


def select_articles(condition: ColumnElement[bool]) -> Select[Any]:
    """Return the query of articles, parents before their children: `definition` is what `Article.decode` reads."""
    listed = select(articles.c.nickname, articles.c.definition, articles.c.purged_lineage).where(condition)
    return listed.order_by(articles.c.processing_order, articles.c.nickname)


def _select_hub_priority() -> Select[Any]:
    pubid = select(publications.c.pubid).where(publications.c.name == bindparam("of_name")).scalar_subquery()
    own = select(replinfo.c.nickname).scalar_subquery()
    published = select(articles.c.nickname).where(articles.c.pubid == pubid)
    received = articles.alias()
    by_others = select(received.c.pubid).where(received.c.nickname.in_(published))
    lowest = func.min(subscriptions.c.priority).label("priority")
    joined = publications.c.pubid == subscriptions.c.pubid
    return (
        select(lowest)
        .select_from(subscriptions.join(publications, joined))
        .where(
            publications.c.publisher != own,
            publications.c.pubid.in_(by_others),
            subscriptions.c.subscriber_type == SubscriberType.SERVER,
        )
    )


SELECT_HUB_PRIORITY = _select_hub_priority()
"""The query of the weight of a publisher's own changes: its priority as a server that publishes again.

`hub_priority_of` reads its rows; the publication's name is the parameter `of_name`.
"""


def hub_priority_of(rows: Sequence[Mapping[Any, Any]]) -> float:
    """Return the weight of a publisher's own changes from the rows of `SELECT_HUB_PRIORITY`."""
    found = [row["priority"] for row in rows if row["priority"] is not None]
    return float(found[0]) if found else PUBLISHER_PRIORITY


def find_article(publication: Publication, listed: Sequence[Article], name: str) -> Article:
    """Return an article by the name that a user gives. Raises `MergeArticleUnknown`."""
    found = next((one for one in listed if one.is_named(name)), None)
    if found is None:
        raise MergeArticleUnknown(publication.name, name)
    return found


def list_merged(connection: Connection) -> tuple[Article, ...]:
    """Return the articles of all publications, each table once, parents before their children."""
    with reading(articles.name):
        found = list(map(Article.decode, connection.execute(_DEFINITIONS).scalars()))
    return tuple({article.nickname: article for article in found}.values())


_DEFINITIONS = select(articles.c.definition).order_by(articles.c.processing_order, articles.c.nickname)


def put_article(
    connection: Connection, pubid: str, article: Article, *, purged_lineage: bytes, preserve_rowguidcol: bool
) -> None:
    """Write an article, in the caller's transaction."""
    connection.execute(
        insert(articles).values(
            pubid=pubid,
            name=article.name,
            nickname=article.nickname,
            processing_order=article.processing_order,
            column_tracking=article.column_tracking,
            article_resolver=article.resolver,
            definition=article.encode(),
            purged_lineage=purged_lineage,
            preserve_rowguidcol=preserve_rowguidcol,
        )
    )


def set_definition(connection: Connection, pubid: str, article: Article) -> None:
    """Replace an article's definition, in the caller's transaction."""
    of_article = (articles.c.pubid == pubid) & (articles.c.name == article.name)
    values = {
        "definition": article.encode(),
        "processing_order": article.processing_order,
        "column_tracking": article.column_tracking,
        "article_resolver": article.resolver,
    }
    connection.execute(update(articles).where(of_article).values(values))


def remove_article(connection: Connection, pubid: str, name: str) -> None:
    """Remove an article, in the caller's transaction."""
    connection.execute(delete(articles).where((articles.c.pubid == pubid) & (articles.c.name == name)))


def remove_publication(connection: Connection, pubid: str) -> None:
    """Remove a publication with its conflicts and partitions, in the caller's transaction."""
    for table in (publications, conflicts_info, partition_groups, schema_changes):
        connection.execute(delete(table).where(table.c.pubid == pubid))


def was_rowguid_there(connection: Connection, nickname: int) -> bool:
    """Whether a merged table had a column `rowguid` before it was published."""
    statement = select(articles.c.preserve_rowguidcol).where(articles.c.nickname == nickname).limit(1)
    return bool(connection.execute(statement).scalar_one())


def read_purged(connection: Connection, nickname: int) -> bytes:
    """Return the encoded lineage of a table's rows that have no metadata."""
    with reading(articles.name, nickname):
        return _lineage(connection.execute(_PURGED, {"of_nickname": nickname}).scalar_one())


def list_purged(connection: Connection) -> dict[int, bytes]:
    """Return what `read_purged` does of all tables, by nickname."""
    listed = connection.execute(select(articles.c.nickname, articles.c.purged_lineage))
    with reading(articles.name):
        return {nickname: _lineage(lineage) for nickname, lineage in listed}


def _lineage(value: object) -> bytes:
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    raise ValueError("the lineage of rows without metadata are no bytes")


_PURGED = select(articles.c.purged_lineage).where(articles.c.nickname == bindparam("of_nickname")).limit(1)


def set_purged(connection: Connection, nickname: int, lineage: bytes) -> None:
    """Store the lineage of a table's rows that have no metadata, in the caller's transaction."""
    connection.execute(update(articles).where(articles.c.nickname == nickname).values(purged_lineage=lineage))


def select_publication(name: str) -> Select[Any]:
    """Return the query of a publication; `read_publication` reads its row."""
    return select(publications).where(publications.c.name == name)


def read_publication(row: Mapping[Any, Any]) -> Publication:
    """Read a row of `select_publication`."""
    return Publication(
        row["pubid"],
        row["name"],
        row["publisher"],
        row["retention"],
        bool(row["replicate_ddl"]),
        bool(row["allow_partition_realignment"]),
        row["conflict_retention"],
        RunAs(row["run_as"]),
    )
