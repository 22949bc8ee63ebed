"""The distribution database: where it is, and its tables of publications, articles, subscriptions and agents.

Tables and columns have SQL Server's names (specification 2.5), in the schema `distribution`. They hold definitions; how
far delivery is, only the subscriber knows.
"""

from __future__ import annotations

from enum import IntEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    ForeignKey,
    Identity,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    text,
)

from rowtide.core.formats import Requirement, StoreFormat, parse_definition, require
from rowtide.databases.postgres.functions import recorded_definition
from rowtide.databases.postgres.query_memo import make_once
from rowtide.replication.distributor.location import (
    SCHEMA,
    distributor,
    find_place,
    follow_move,
    is_elsewhere,
    schema_of,
)
from rowtide.replication.errors.delivery import DistributionMissing

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
    Column("latency_threshold_s", Integer, comment="changes that wait for longer are a warning; null: the default"),
    Column(
        "expiration_threshold",
        Integer,
        comment="percent of the retention after which waiting changes are a warning; null: the default",
    ),
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
FORMAT = StoreFormat("distribution database")


def is_made(connection: Connection) -> bool:
    """Return whether there is a distribution database.

    Raises `DistributionMissing` if it is recorded to be elsewhere, and is not there.
    """
    is_made = is_there(connection) or (follow_move(connection) and is_there(connection))
    if not is_made and is_elsewhere(connection):
        place = find_place(connection)
        assert place is not None
        raise DistributionMissing(place.url, place.schema)
    return is_made


def is_there(connection: Connection) -> bool:
    """Return whether the distribution database has its tables. Raises `FormatNewer`, `FormatOutdated`."""
    readable = StoreFormat.require_readable
    return make_once(("distribution", schema_of(connection)), lambda: _look(connection, readable))


def require_writable(connection: Connection) -> None:
    """Raise `FormatNewer`, `FormatOutdated` unless this build may write to the distribution database."""
    _look(connection, StoreFormat.require_writable)


def _look(connection: Connection, requirement: Requirement) -> bool:
    """One of two tables may have been dropped since: then a query of it says so.

    What has no format is the publisher's metadata, too, which is refused before (`find_source`).
    """
    schema = schema_of(connection)
    state = distributor(connection).execute(text(_STATE.format(recorded_definition(schema))), {"schema": schema}).one()
    stored = parse_definition(state.definition)
    if state.is_there and stored is not None:
        require(requirement, FORMAT, f"{state.place}, schema {schema}", stored)
    return bool(state.is_there)


_STATE = f"""
select exists (
           select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = :schema
           and c.relname in ('{publications.name}', '{agents.name}') and c.relkind in ('r', 'p')) as is_there,
       current_database()::text as place, {{}} as definition
"""  # noqa: S608
