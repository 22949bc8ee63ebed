"""The tables in which each node keeps what is merged, with whom, and how far; the same on every database.

Names are SQL Server's (specification 3.6). On PostgreSQL they are in the schema `rowtide_merge`. `MSmerge_contents` and
`MSmerge_tombstone`, which triggers write, are made by each database's own statements.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    RowMapping,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from rowtide.merge.articles import Article, Publication, SubscriberType, Subscription
from rowtide.merge.errors import PublicationUnknown

SCHEMA = "rowtide_merge"
"""Of the tables, where the database has schemas."""

metadata = MetaData()

replinfo = Table(
    "MSmerge_replinfo",
    metadata,
    Column("nickname", BigInteger, primary_key=True, comment="this node's own"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("purgedgen", BigInteger, nullable=False, server_default="0", comment="metadata up to it are gone"),
    Column("metadatacleanuptime", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

publications = Table(
    "sysmergepublications",
    metadata,
    Column("pubid", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("publisher", BigInteger, nullable=False, comment="the hub's nickname"),
    Column("retention", Integer, nullable=False, comment="days; 0: for ever"),
)

articles = Table(
    "sysmergearticles",
    metadata,
    Column("pubid", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("nickname", Integer, nullable=False, comment="the table's, in all metadata"),
    Column("processing_order", Integer, nullable=False),
    Column("column_tracking", Boolean, nullable=False),
    Column("article_resolver", Text, nullable=False),
    Column("definition", Text, nullable=False, comment="JSON: all of it"),
    Column("purged_lineage", LargeBinary, nullable=False, comment="what rows without metadata include"),
    Column("preserve_rowguidcol", Boolean, nullable=False, comment="false: the column rowguid goes with the article"),
)

subscriptions = Table(
    "sysmergesubscriptions",
    metadata,
    Column("subid", Text, primary_key=True),
    Column("pubid", Text, nullable=False),
    Column("subscriber_server", Text, nullable=False, comment="its URL, without a password"),
    Column("replnickname", BigInteger, nullable=False, comment="of the other node"),
    Column("subscriber_type", Integer, nullable=False, comment="1 server, 2 client"),
    Column("priority", Float, nullable=False),
    Column("sentgen", BigInteger, nullable=False),
    Column("recgen", BigInteger, nullable=False),
    Column("replicastate", Text, nullable=False, comment="the mark of the last synchronisation"),
    Column("next_replicastate", Text, comment="the mark that the current one leaves"),
    Column("session", BigInteger, nullable=False),
    Column("settledgen", BigInteger, nullable=False, comment="metadata up to it are not needed for this subscription"),
    Column("last_sync_date", DateTime(timezone=True)),
    Column("last_sync_status", Integer, nullable=False, comment="0 waiting, 2 succeeded, 3 running, 6 failed"),
    Column("last_sync_summary", Text),
)

genhistory = Table(
    "MSmerge_genhistory",
    metadata,
    Column("nickname", BigInteger, primary_key=True, comment="of the node whose generation it is"),
    Column("generation", BigInteger, primary_key=True),
    Column("guidsrc", Text, nullable=False),
    Column("genstatus", Integer, nullable=False, comment="1 closed here, 2 received"),
    Column("snapshot", Text, comment="what a PostgreSQL node sees of its own transactions in it"),
    Column("coldate", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

conflicts_info = Table(
    "MSmerge_conflicts_info",
    metadata,
    Column("conflict_id", Text, primary_key=True, comment="of the row and both its versions: a repeat is known"),
    Column("pubid", Text, nullable=False),
    Column("article", Text, nullable=False),
    Column("tablenick", Integer, nullable=False),
    Column("rowguid", Text, nullable=False),
    Column("conflict_type", Integer, nullable=False),
    Column("origin_datasource", Text, nullable=False, comment="where the losing change was made"),
    Column("origin_datasource_id", BigInteger, nullable=False, comment="that node's nickname"),
    Column("reason_code", Text, nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("losing_row", Text, comment="JSON: its columns and their values as texts; null for a delete"),
    Column("winning_row", Text, comment="in the same way"),
    Column("losing_lineage", LargeBinary, nullable=False, comment="what the losing version includes"),
    Column("MSrepl_create_time", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("resolved_time", DateTime(timezone=True), comment="when somebody changed the resolution"),
)

retries = Table(
    "MSmerge_retries",
    metadata,
    Column("source", BigInteger, primary_key=True, comment="the nickname of the node that is asked again"),
    Column("tablenick", Integer, primary_key=True),
    Column("rowguid", Text, primary_key=True),
    Column("reason_code", Text, nullable=False),
    Column("reason_text", Text, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

sessions = Table(
    "MSmerge_sessions",
    metadata,
    Column("session_id", Integer, primary_key=True, autoincrement=True),
    Column("subid", Text, nullable=False),
    Column("start_time", DateTime(timezone=True), nullable=False),
    Column("duration", Float, nullable=False, comment="seconds"),
    Column("upload_time", Float, nullable=False),
    Column("download_time", Float, nullable=False),
    Column("runstatus", Integer, nullable=False, comment="2 succeeded, 6 failed"),
    Column("message", Text),
)

article_history = Table(
    "MSmerge_articlehistory",
    metadata,
    Column("session_id", Integer, primary_key=True),
    Column("article", Text, primary_key=True),
    Column("phase", Integer, primary_key=True, comment="1 upload, 2 download"),
    Column("inserts", Integer, nullable=False),
    Column("updates", Integer, nullable=False),
    Column("deletes", Integer, nullable=False),
    Column("conflicts", Integer, nullable=False),
    Column("rows_retried", Integer, nullable=False),
    Column("duration", Float, nullable=False),
)


def as_utc(read: datetime) -> datetime:
    """Return a time as UTC: SQLite keeps no zone, and what is written is UTC."""
    return read.replace(tzinfo=read.tzinfo or UTC)


def read_nickname(connection: Connection) -> int:
    """Return a node's own nickname."""
    return int(connection.execute(select(replinfo.c.nickname)).scalar_one())


@dataclass(frozen=True, slots=True)
class Purge:
    """How far a node's metadata were purged, and when that was looked at last."""

    generation: int
    at: datetime


def read_purge(connection: Connection) -> Purge:
    """Return the last purge of a node's metadata."""
    row = connection.execute(select(replinfo)).mappings().one()
    return Purge(row["purgedgen"], as_utc(row["metadatacleanuptime"]))


def set_purge(connection: Connection, generation: int, at: datetime) -> None:
    """Write how far metadata were purged, in the caller's transaction."""
    connection.execute(update(replinfo).values(purgedgen=generation, metadatacleanuptime=at))


def forget_generations(connection: Connection, own: int, bound: int) -> None:
    """Remove generations before one of this node's, and all of others' but the last, in the caller's transaction."""
    is_own = genhistory.c.nickname == own
    connection.execute(delete(genhistory).where(is_own & (genhistory.c.generation < bound)))
    other = genhistory.alias()
    last = select(func.max(other.c.generation)).where(other.c.nickname == genhistory.c.nickname).scalar_subquery()
    connection.execute(delete(genhistory).where(~is_own & (genhistory.c.generation < last)))


def renew_nickname(connection: Connection) -> int:
    """Give the node another nickname, in the caller's transaction, and return it."""
    nickname = new_nickname()
    connection.execute(update(replinfo).values(nickname=nickname))
    return nickname


def new_nickname() -> int:
    """Return a nickname that no other node has, of 48 bits."""
    return 1 + secrets.randbits(47)


def find_publication(connection: Connection, name: str) -> Publication | None:
    """Return a publication by its name."""
    row = connection.execute(select(publications).where(publications.c.name == name)).mappings().one_or_none()
    return None if row is None else _publication(row)


def get_publication(connection: Connection, name: str) -> Publication:
    """As above. Raises `PublicationUnknown`."""
    found = find_publication(connection, name)
    if found is None:
        raise PublicationUnknown(name)
    return found


def list_publications(connection: Connection) -> tuple[Publication, ...]:
    """Return all publications, by name."""
    rows = connection.execute(select(publications).order_by(publications.c.name)).mappings()
    return tuple(map(_publication, rows))


def put_publication(connection: Connection, publication: Publication) -> None:
    """Write a publication, in the caller's transaction."""
    connection.execute(
        insert(publications).values(
            pubid=publication.pubid,
            name=publication.name,
            publisher=publication.publisher,
            retention=publication.retention_days,
        )
    )


def list_articles(connection: Connection, pubid: str) -> tuple[Article, ...]:
    """Return a publication's articles, parents before their children."""
    statement = select(articles.c.definition).where(articles.c.pubid == pubid)
    ordered = statement.order_by(articles.c.processing_order, articles.c.nickname)
    return tuple(map(Article.decode, connection.execute(ordered).scalars()))


def list_merged(connection: Connection) -> tuple[Article, ...]:
    """Return the articles of all publications, each table once, parents before their children."""
    ordered = select(articles.c.definition).order_by(articles.c.processing_order, articles.c.nickname)
    found = map(Article.decode, connection.execute(ordered).scalars())
    return tuple({article.nickname: article for article in found}.values())


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
    """Write an article's definition anew, in the caller's transaction."""
    of_article = (articles.c.pubid == pubid) & (articles.c.name == article.name)
    values = {"definition": article.encode(), "processing_order": article.processing_order}
    connection.execute(update(articles).where(of_article).values(values))


def remove_article(connection: Connection, pubid: str, name: str) -> None:
    """Take an article away, in the caller's transaction."""
    connection.execute(delete(articles).where((articles.c.pubid == pubid) & (articles.c.name == name)))


def remove_publication(connection: Connection, pubid: str) -> None:
    """Take a publication away, and its conflicts, in the caller's transaction."""
    for table in (publications, conflicts_info):
        connection.execute(delete(table).where(table.c.pubid == pubid))


def was_rowguid_there(connection: Connection, nickname: int) -> bool:
    """Whether a merged table had its column `rowguid` before."""
    statement = select(articles.c.preserve_rowguidcol).where(articles.c.nickname == nickname).limit(1)
    return bool(connection.execute(statement).scalar_one())


def read_purged(connection: Connection, nickname: int) -> bytes:
    """Return what rows of a table that have no metadata include, as an encoded lineage."""
    statement = select(articles.c.purged_lineage).where(articles.c.nickname == nickname).limit(1)
    return bytes(connection.execute(statement).scalar_one())


def set_purged(connection: Connection, nickname: int, lineage: bytes) -> None:
    """Say what rows of a table that have no metadata include, in the caller's transaction."""
    connection.execute(update(articles).where(articles.c.nickname == nickname).values(purged_lineage=lineage))


def list_subscriptions(connection: Connection, pubid: str) -> tuple[Subscription, ...]:
    """Return the other nodes of a publication that this one exchanges with."""
    statement = select(subscriptions).where(subscriptions.c.pubid == pubid)
    rows = connection.execute(statement.order_by(subscriptions.c.subscriber_server)).mappings()
    return tuple(map(_subscription, rows))


def put_subscription(connection: Connection, subscription: Subscription) -> None:
    """Write a subscription, in the caller's transaction."""
    connection.execute(
        insert(subscriptions).values(
            subid=subscription.subid,
            pubid=subscription.pubid,
            subscriber_server=subscription.subscriber,
            replnickname=subscription.nickname,
            subscriber_type=int(subscription.subscriber_type),
            priority=subscription.priority,
            sentgen=subscription.sent,
            recgen=subscription.received,
            replicastate=subscription.state,
            session=subscription.session,
            settledgen=subscription.settled,
            last_sync_status=0,
        )
    )


def remove_subscription(connection: Connection, subid: str) -> None:
    """Take a subscription away, in the caller's transaction."""
    connection.execute(delete(subscriptions).where(subscriptions.c.subid == subid))


def get_session(connection: Connection, subid: str) -> int:
    """Return the number of the synchronisation that a subscription's last one is."""
    return int(connection.execute(select(subscriptions.c.session).where(subscriptions.c.subid == subid)).scalar_one())


def set_subscription(connection: Connection, subid: str, **values: object) -> None:
    """Set columns of a subscription, in the caller's transaction."""
    connection.execute(update(subscriptions).where(subscriptions.c.subid == subid).values(values))


def read_last_sync(connection: Connection, subid: str) -> datetime | None:
    """Return when a subscriber last synchronised, by this node's clock; None before the first time."""
    last = connection.execute(select(subscriptions.c.last_sync_date).where(subscriptions.c.subid == subid)).scalar()
    return None if last is None else as_utc(last)


def has_retries(connection: Connection, nickname: int) -> bool:
    """Whether rows of a table are to be asked for again, of any node."""
    return connection.execute(select(retries.c.rowguid).where(retries.c.tablenick == nickname)).first() is not None


def list_retries(connection: Connection, source: int) -> dict[int, list[str]]:
    """Return the rows that a node is to be asked for again, by the table's nickname."""
    found: dict[int, list[str]] = {}
    statement = select(retries.c.tablenick, retries.c.rowguid).where(retries.c.source == source)
    for nickname, rowguid in connection.execute(statement.order_by(retries.c.rowguid)):
        found.setdefault(nickname, []).append(rowguid)
    return found


def list_retry_reasons(connection: Connection, source: int, nickname: int) -> dict[str, str]:
    """Return why rows of a table that a node is asked for again were refused, by their rowguids."""
    of_source = (retries.c.source == source) & (retries.c.tablenick == nickname)
    found = connection.execute(select(retries.c.rowguid, retries.c.reason_text).where(of_source))
    return {row.rowguid: row.reason_text for row in found}


def put_retry(connection: Connection, source: int, nickname: int, rowguid: str, code: str, reason: str) -> None:
    """Note a row that was refused, in the caller's transaction."""
    drop_retries(connection, source, nickname, [rowguid])
    connection.execute(
        insert(retries).values(source=source, tablenick=nickname, rowguid=rowguid, reason_code=code, reason_text=reason)
    )


def remove_retries_of(connection: Connection, source: int) -> None:
    """Forget all that a node was to be asked for again, in the caller's transaction."""
    connection.execute(delete(retries).where(retries.c.source == source))


def drop_retries(connection: Connection, source: int, nickname: int, rowguids: Sequence[str]) -> None:
    """Forget rows that were refused before, in the caller's transaction."""
    of_source = (retries.c.source == source) & (retries.c.tablenick == nickname)
    connection.execute(delete(retries).where(of_source & retries.c.rowguid.in_(rowguids)))


def put_received(connection: Connection, nickname: int, generation: int) -> None:
    """Note a generation of another node as received, in the caller's transaction; a repeat is fine."""
    of_node = (genhistory.c.nickname == nickname) & (genhistory.c.generation == generation)
    if connection.execute(select(genhistory.c.generation).where(of_node)).first() is None:
        connection.execute(
            insert(genhistory).values(nickname=nickname, generation=generation, guidsrc=str(uuid4()), genstatus=2)
        )


def _publication(row: RowMapping) -> Publication:
    return Publication(row["pubid"], row["name"], row["publisher"], row["retention"])


def _subscription(row: RowMapping) -> Subscription:
    return Subscription(
        subid=row["subid"],
        pubid=row["pubid"],
        subscriber=row["subscriber_server"],
        nickname=row["replnickname"],
        subscriber_type=SubscriberType(row["subscriber_type"]),
        priority=row["priority"],
        sent=row["sentgen"],
        received=row["recgen"],
        state=row["replicastate"],
        next_state=row["next_replicastate"],
        session=row["session"],
        settled=row["settledgen"],
    )
