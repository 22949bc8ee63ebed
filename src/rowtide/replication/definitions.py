"""The distribution database: publications, articles, subscriptions and their agents.

Tables and columns have SQL Server's names (specification 2.5), in the schema `distribution`. They hold definitions; how
far delivery is, only the subscriber knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Executable,
    ForeignKey,
    Identity,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.catalogue import find_table_id, has_table, list_columns, list_existing
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.replication.articles import Article, decode_article, encode_article
from rowtide.replication.distributor import SCHEMA, distributor, find_place, is_elsewhere, schema_of
from rowtide.replication.errors.distribution import DistributionMissing
from rowtide.replication.errors.publishing import ArticleUnknown, PublicationUnknown
from rowtide.replication.errors.subscribing import SubscriptionUnknown
from rowtide.replication.subscription_settings import SubscriptionSettings
from rowtide.replication.sync_types import Constraints, IfExists, SyncType

metadata = MetaData(schema=SCHEMA)


class SubscriptionState(IntEnum):
    """Whether a subscription is delivered (SQL Server: MSsubscriptions.status)."""

    INACTIVE = 0
    """Set by `pause`, when a drop begins, and for a subscription that is behind the retention."""
    WAITING = 1
    """Set when a joining subscription is added: its subscriber is not prepared yet."""
    ACTIVE = 2
    """Set when it is added, and by `resume`."""
    READY = 3
    """Set by the agent of a joining subscription: its rows are copied and have caught up."""


publications = Table(
    "MSpublications",
    metadata,
    Column("publication_id", Integer, Identity(), primary_key=True),
    Column("publication", Text, nullable=False, unique=True),
    Column("publisher_db", Text, nullable=False),
    Column("replicate_ddl", Boolean, nullable=False, server_default=text("true")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

articles = Table(
    "MSarticles",
    metadata,
    Column("article_id", Text, primary_key=True, comment="the article's member of the log"),
    Column("publication_id", Integer, ForeignKey(publications.c.publication_id), nullable=False),
    Column("article", Text, nullable=False),
    Column("source_object_id", BigInteger, nullable=False),
    Column("source_owner", Text, nullable=False),
    Column("source_object", Text, nullable=False),
    Column("ins_cmd", Text, nullable=False),
    Column("upd_cmd", Text, nullable=False),
    Column("del_cmd", Text, nullable=False),
    Column("ins_proc", Text, nullable=False, unique=True, comment="of the generated one, called or not"),
    Column("upd_proc", Text, nullable=False, unique=True),
    Column("filter_clause", Text),
    Column("del_proc", Text, nullable=False, unique=True),
    Column("definition", Text, nullable=False, comment="JSON: all of it, as it was published"),
)

agents = Table(
    "MSdistribution_agents",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("publication_id", Integer, ForeignKey(publications.c.publication_id), nullable=False),
    Column("subscriber", Text, nullable=False, comment="its URL, without a password"),
    Column(
        "constraints",
        Text,
        comment="whether the subscriber's own act on what is delivered; null: not asked",
    ),
    Column(
        "forwards",
        Boolean,
        nullable=False,
        server_default=text("true"),
        comment="whether changes are delivered too that the publisher has received",
    ),
    Column("resumptions", Integer, nullable=False, server_default=text("0"), comment="how often it was resumed"),
    Column("subscription_guid", Text, nullable=False, unique=True, comment="what the subscriber's progress goes by"),
    Column("settings", Text, comment="JSON: of SubscriptionSettings what is not the default"),
    Column("joins", Integer, comment="the agent whose subscription its article joins; null: it is a subscription"),
    Column("replaces", Text, comment="JSON: the article, as the subscriber has it, whose place its article takes"),
    Column("if_exists", Text, comment="what becomes of the table of a joining article"),
    Column("ready_at", BigInteger, comment="everything of a joining article below this position is delivered"),
)

subscriptions = Table(
    "MSsubscriptions",
    metadata,
    Column("agent_id", Integer, ForeignKey(agents.c.id, ondelete="cascade"), primary_key=True),
    Column("article_id", Text, ForeignKey(articles.c.article_id), primary_key=True),
    Column("sync_type", Text, nullable=False),
    Column("subscription_seqno", BigInteger, nullable=False, comment="changes are delivered from this position on"),
    Column("status", Integer, nullable=False, server_default=text(str(int(SubscriptionState.ACTIVE)))),
    Column("subscription_time", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("definition", Text, comment="JSON: the article as the subscriber has it; null: as MSarticles has it"),
)
_NEW_COLUMNS = (
    (publications.name, "replicate_ddl", "boolean not null default true"),
    (subscriptions.name, "definition", "text"),
    (agents.name, "settings", "text"),
    (agents.name, "forwards", "boolean not null default true"),
    (agents.name, "joins", "integer"),
    (agents.name, "replaces", "text"),
    (agents.name, "if_exists", "text"),
    (agents.name, "ready_at", "bigint"),
)
"""Columns that the tables of an earlier build lack."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscriber's subscription to a publication.

    `starts` are the positions at which its articles' delivery starts. `forwards`: what the publisher has received from
    others is delivered too. One that `joins` another, given by agent id, has a single article, which is copied while
    the other goes on, and becomes one of the other's: the table that is there is treated as `if_exists` says, and what
    it has is whole at `ready_at`.
    """

    agent_id: int
    publication: str
    subscriber: str
    guid: str
    starts: dict[str, Position]
    state: SubscriptionState = SubscriptionState.ACTIVE
    resumptions: int = 0
    constraints: Constraints | None = None
    replicates_ddl: bool = True
    forwards: bool = False
    settings: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    joins: int | None = None
    if_exists: IfExists = IfExists.DROP
    ready_at: Position | None = None

    @property
    def reader(self) -> str:
        """Its name among the readers of the log store."""
        return reader_name(self.guid)


def reader_name(guid: str) -> str:
    """Return the name of a subscription among the readers of the log store."""
    return f"replication/{guid}"


def is_made(connection: Connection) -> bool:
    """Return whether there is a distribution database.

    Raises `DistributionMissing` if it is recorded to be elsewhere, and is not there.
    """
    is_made = is_there(connection)
    if not is_made and is_elsewhere(connection):
        place = find_place(connection)
        assert place is not None
        raise DistributionMissing(place.url, place.schema)
    return is_made


def is_there(connection: Connection) -> bool:
    """Return whether the distribution database has its tables."""
    return has_table(distributor(connection), schema_of(connection), publications.name)


def find_publication(connection: Connection, name: str) -> int | None:
    """Return a publication's id; None if there is none of this name."""
    if not is_made(connection):
        return None
    query = select(publications.c.publication_id).where(publications.c.publication == name)
    return distributor(connection).execute(query).scalar()


def get_publication(connection: Connection, name: str) -> int:
    """Return a publication's id. Raises `PublicationUnknown`."""
    found = find_publication(connection, name)
    if found is None:
        raise PublicationUnknown(name)
    return found


def list_publications(connection: Connection) -> Sequence[str]:
    """Return the names of all publications, oldest first."""
    if not is_made(connection):
        return []
    return (
        distributor(connection)
        .execute(select(publications.c.publication).order_by(publications.c.publication_id))
        .scalars()
        .all()
    )


def drop_publication_step(publication_id: int) -> Executable:
    """Return the statement that deletes a publication's record."""
    return delete(publications).where(publications.c.publication_id == publication_id)


def add_publication_step(name: str, publisher_db: str, *, replicate_ddl: bool) -> Executable:
    """Return the statement that records a publication."""
    return insert(publications).values(publication=name, publisher_db=publisher_db, replicate_ddl=replicate_ddl)


def add_article_step(publication_id: int, article: Article) -> Executable:
    """Return the statement that records an article."""
    return insert(articles).values(
        article_id=article.article_id,
        publication_id=publication_id,
        article=article.name,
        source_object_id=article.source_id,
        source_owner=article.schema,
        source_object=article.table,
        ins_cmd=str(article.insert),
        upd_cmd=str(article.update),
        del_cmd=str(article.delete),
        ins_proc=article.generated_procedure(Operation.INSERT),
        upd_proc=article.generated_procedure(Operation.UPDATE),
        del_proc=article.generated_procedure(Operation.DELETE),
        filter_clause=article.filter_clause,
        definition=encode_article(article),
    )


def complete(connection: Connection) -> None:
    """Add the columns that the tables of an earlier build lack, in the caller's transaction."""
    for name, added, definition in _NEW_COLUMNS:
        present = list_columns(distributor(connection), schema_of(connection), name)
        if added not in present:
            altering = f"alter table {quote_qualified(schema_of(connection), name)} add column {added} {definition}"
            distributor(connection).execute(statement(altering))


def record_followed(connection: Connection, agent_id: int, followed: Sequence[Article]) -> None:
    """Record articles as a subscriber has them after schema changes, in the caller's transaction.

    Later subscribers get the newest; those that are behind keep what they have.
    """
    known = {article.article_id: article for article in list_subscribed(connection, agent_id)}
    changed = [article for article in followed if article != known[article.article_id]]
    if not changed:
        return
    complete(connection)
    for article in changed:
        renew_article(connection, article)
        distributor(connection).execute(hold_article_step(agent_id, article))


def hold_article_step(agent_id: int, article: Article) -> Executable:
    """Return the statement that records an article as a subscriber has it."""
    of_subscription = (subscriptions.c.agent_id == agent_id) & (subscriptions.c.article_id == article.article_id)
    return update(subscriptions).where(of_subscription).values(definition=encode_article(article))


def hold_articles(connection: Connection, guid: str, prepared: Sequence[Article]) -> None:
    """Record articles as the subscriber of a new subscription has them, where others have followed a schema change
    since; nobody else does until the transaction ends.
    """
    query = select(articles.c.article_id, articles.c.definition)
    chosen = query.where(articles.c.article_id.in_([one.article_id for one in prepared]))
    locked = distributor(connection).execute(chosen.with_for_update(read=True)).all()
    now = {row.article_id: decode_article(row.definition) for row in locked}
    of_agent = select(agents.c.id).where(agents.c.subscription_guid == guid)
    agent_id = distributor(connection).execute(of_agent).scalar_one()
    for article in prepared:
        if now[article.article_id] != article:
            distributor(connection).execute(hold_article_step(agent_id, article))


def find_replaced(connection: Connection, agent_id: int) -> Article | None:
    """Return what the subscriber has of a joining article from before; None if it joins for the first time."""
    found = distributor(connection).execute(select(agents.c.replaces).where(agents.c.id == agent_id)).scalar()
    return None if found is None else decode_article(found)


def list_held(connection: Connection) -> tuple[tuple[int, Article], ...]:
    """Return the articles that subscribers have otherwise than as they are for later ones, with their agents."""
    if not is_made(connection):
        return ()
    query = select(subscriptions.c.agent_id, _OWN_DEFINITION).where(_OWN_DEFINITION.is_not(None))
    return tuple(
        (agent_id, decode_article(definition)) for agent_id, definition in distributor(connection).execute(query)
    )


def renew_article(connection: Connection, article: Article) -> None:
    """Record an article as its table is now, for later subscribers, in the caller's transaction.

    Without effect if a newer one is recorded. The tables are complete.
    """
    article = replace(article, joined_at=0)
    of_article = articles.c.article_id == article.article_id
    before = distributor(connection).execute(select(articles.c.definition).where(of_article)).scalar_one()
    if decode_article(before).defined_at >= article.defined_at:
        return
    is_as_before = (subscriptions.c.article_id == article.article_id) & subscriptions.c.definition.is_(None)
    distributor(connection).execute(update(subscriptions).where(is_as_before).values(definition=before))
    values = {
        "source_owner": article.schema,
        "source_object": article.table,
        "filter_clause": article.filter_clause,
        "definition": encode_article(article),
    }
    distributor(connection).execute(update(articles).where(of_article).values(values))


def change_article_steps(before: Article, after: Article) -> list[Executable]:
    """Return the statements that record a changed article; subscriptions keep what they have until they follow."""
    of_article = articles.c.article_id == after.article_id
    is_as_before = (subscriptions.c.article_id == after.article_id) & subscriptions.c.definition.is_(None)
    values = {
        "ins_cmd": str(after.insert),
        "upd_cmd": str(after.update),
        "del_cmd": str(after.delete),
        "filter_clause": after.filter_clause,
        "definition": encode_article(after),
    }
    return [
        update(subscriptions).where(is_as_before).values(definition=encode_article(before)),
        update(articles).where(of_article).values(values),
    ]


def rebind_article_step(article: Article) -> Executable:
    """Return the statement that records an article's new table oid and column numbers."""
    values = {"source_object_id": article.source_id, "definition": encode_article(article)}
    return update(articles).where(articles.c.article_id == article.article_id).values(values)


def list_articles(connection: Connection, publication_id: int) -> tuple[Article, ...]:
    """Return the articles of a publication, by name."""
    query = select(articles.c.definition).where(articles.c.publication_id == publication_id)
    texts = distributor(connection).execute(query.order_by(articles.c.article)).scalars()
    return tuple(decode_article(text) for text in texts)


def list_subscribed(connection: Connection, agent_id: int) -> tuple[Article, ...]:
    """Return the articles of a subscription, as its subscriber has them."""
    query = (
        select(func.coalesce(_OWN_DEFINITION, articles.c.definition))
        .join(subscriptions, subscriptions.c.article_id == articles.c.article_id)
        .where(subscriptions.c.agent_id == agent_id)
    )
    return tuple(decode_article(text) for text in distributor(connection).execute(query).scalars())


def get_held(connection: Connection, agent_id: int, article_id: str) -> Article:
    """Return an article of a subscription, as its subscriber has it."""
    return next(held for held in list_subscribed(connection, agent_id) if held.article_id == article_id)


def get_article(connection: Connection, publication: str, table_name: str) -> Article:
    """Return an article by its table's current name, or its name when it was published.

    Raises `PublicationUnknown`, `ArticleUnknown`.
    """
    publication_id = get_publication(connection, publication)
    source_id = find_table_id(connection, table_name)
    for article in list_articles(connection, publication_id):
        if source_id == article.source_id or table_name in (article.table, f"{article.schema}.{article.table}"):
            return article
    raise ArticleUnknown(table_name, publication)


def list_dropped(connection: Connection) -> tuple[Article, ...]:
    """Return the articles whose tables no longer exist, by publication and name."""
    if not is_made(connection):
        return ()
    known = list_all_articles(connection)
    present = list_existing(connection, [article.source_id for article in known])
    return tuple(article for article in known if article.source_id not in present)


def list_all_articles(connection: Connection) -> tuple[Article, ...]:
    """Return the articles of all publications, by publication and name."""
    if not is_made(connection):
        return ()
    query = select(articles.c.definition).order_by(articles.c.publication_id, articles.c.article)
    return tuple(decode_article(text) for text in distributor(connection).execute(query).scalars())


# Of the whole row: the table of an earlier build lacks the column.
_REPLICATES_DDL: ColumnElement[bool] = literal_column(
    """coalesce((to_jsonb("MSpublications") ->> 'replicate_ddl')::boolean, true)""", Boolean
).label("replicate_ddl")

FORWARDS: ColumnElement[bool] = literal_column(
    """coalesce((to_jsonb("MSdistribution_agents") ->> 'forwards')::boolean, true)""", Boolean
).label("forwards")
"""An earlier build's subscriptions deliver everything."""

_OWN_DEFINITION: ColumnElement[str] = literal_column("""to_jsonb("MSsubscriptions") ->> 'definition'""", Text)

SETTINGS: ColumnElement[str] = literal_column("""to_jsonb("MSdistribution_agents") ->> 'settings'""", Text).label(
    "settings"
)
"""A subscription's settings as stored; null in the table of an earlier build."""

JOINS: ColumnElement[str] = literal_column("""to_jsonb("MSdistribution_agents") ->> 'joins'""", Text)
"""The agent that an article's agent joins; null of a subscription's own, and in the table of an earlier build."""

_JOINING: Sequence[ColumnElement[str]] = tuple(
    literal_column(f"""to_jsonb("MSdistribution_agents") ->> '{name}'""", Text).label(name)
    for name in ("joins", "if_exists", "ready_at")
)


def drop_article_step(article_id: str) -> Executable:
    """Return the statement that deletes an article's record."""
    return delete(articles).where(articles.c.article_id == article_id)


def list_procedures(connection: Connection) -> Sequence[str]:
    """Return the names of all generated procedures."""
    columns = articles.c
    rows = distributor(connection).execute(select(columns.ins_proc, columns.upd_proc, columns.del_proc)).all()
    return [name for row in rows for name in row]


def add_subscription(
    connection: Connection, publication_id: int, subscription: Subscription, sync_type: SyncType
) -> None:
    """Record a subscription to all articles of a publication, in the caller's transaction."""
    complete(connection)
    values = {
        "publication_id": publication_id,
        "subscriber": subscription.subscriber,
        "subscription_guid": subscription.guid,
        "constraints": subscription.constraints,
        "settings": subscription.settings.encode(),
        "forwards": subscription.forwards,
    }
    agent_id = distributor(connection).execute(insert(agents).values(values).returning(agents.c.id)).scalar_one()
    for article_id, position in subscription.starts.items():
        row = {
            "agent_id": agent_id,
            "article_id": article_id,
            "sync_type": sync_type.value,
            "subscription_seqno": position.value,
        }
        distributor(connection).execute(insert(subscriptions).values(row))


def list_subscriptions(connection: Connection, publication: str | None = None) -> tuple[Subscription, ...]:
    """Return the subscriptions of a publication, or of all, oldest first."""
    if not is_made(connection):
        return ()
    query = (
        select(
            agents.c.id,
            publications.c.publication,
            agents.c.subscriber,
            agents.c.subscription_guid,
            subscriptions.c.article_id,
            subscriptions.c.subscription_seqno,
            subscriptions.c.status,
            agents.c.resumptions,
            agents.c.constraints,
            _REPLICATES_DDL,
            FORWARDS,
            SETTINGS,
            *_JOINING,
        )
        .join(publications, publications.c.publication_id == agents.c.publication_id)
        .outerjoin(subscriptions, subscriptions.c.agent_id == agents.c.id)
        .order_by(agents.c.id, subscriptions.c.article_id)
    )
    if publication is not None:
        query = query.where(publications.c.publication == publication)
    found: dict[int, Subscription] = {}
    for row in distributor(connection).execute(query).mappings():
        subscription = found.setdefault(row["id"], _read(row))
        if row["article_id"] is not None:
            subscription.starts[row["article_id"]] = Position(row["subscription_seqno"])
    return tuple(found.values())


def list_joining(connection: Connection, agent_id: int) -> tuple[Subscription, ...]:
    """Return the subscriptions that join a subscription, oldest first."""
    return tuple(one for one in list_subscriptions(connection) if one.joins == agent_id)


def find_subscription(connection: Connection, agent_id: int) -> Subscription | None:
    """Return a subscription; None if it was dropped."""
    return next((one for one in list_subscriptions(connection) if one.agent_id == agent_id), None)


def _read(row: RowMapping) -> Subscription:
    return Subscription(
        agent_id=row["id"],
        publication=row["publication"],
        subscriber=row["subscriber"],
        guid=row["subscription_guid"],
        starts={},
        # One without articles has no row that says so.
        state=SubscriptionState(row["status"] if row["status"] is not None else SubscriptionState.ACTIVE),
        resumptions=row["resumptions"],
        constraints=None if row["constraints"] is None else Constraints(row["constraints"]),
        replicates_ddl=row["replicate_ddl"],
        forwards=row["forwards"],
        settings=SubscriptionSettings.decode(row["settings"]),
        joins=None if row["joins"] is None else int(row["joins"]),
        if_exists=IfExists(row["if_exists"] or IfExists.DROP),
        ready_at=None if row["ready_at"] is None else Position(int(row["ready_at"])),
    )


def get_subscription(connection: Connection, publication: str, subscriber: str) -> Subscription:
    """Return one subscription. Raises `PublicationUnknown`, `SubscriptionUnknown`."""
    get_publication(connection, publication)
    for subscription in list_subscriptions(connection, publication):
        if subscription.subscriber == subscriber and subscription.joins is None:
            return subscription
    raise SubscriptionUnknown(publication, subscriber)


def set_status(connection: Connection, agent_id: int, status: SubscriptionState) -> None:
    """Activate or deactivate a subscription; other processes see it within a second."""
    distributor(connection).execute(
        update(subscriptions).where(subscriptions.c.agent_id == agent_id).values(status=int(status))
    )


def set_settings(connection: Connection, agent_id: int, settings: SubscriptionSettings) -> None:
    """Record a subscription's settings, in the caller's transaction; a run takes them on within a second."""
    complete(connection)
    distributor(connection).execute(update(agents).where(agents.c.id == agent_id).values(settings=settings.encode()))


def count_resumption(connection: Connection, agent_id: int) -> None:
    """Record that a subscription was resumed: a run then restarts it if it has failed."""
    resumed = update(agents).where(agents.c.id == agent_id).values(resumptions=agents.c.resumptions + 1)
    distributor(connection).execute(resumed)


def drop_subscription(connection: Connection, agent_id: int) -> None:
    """Delete a subscription's record."""
    distributor(connection).execute(delete(agents).where(agents.c.id == agent_id))
