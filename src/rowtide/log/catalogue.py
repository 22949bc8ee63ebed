"""The log layer's metadata in the source database: schema `rowtide`.

It holds definitions only. Positions are never stored here: in a database that was restored or failed over, they would
be those of an earlier time.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    literal_column,
    select,
)

from rowtide.core.formats import Requirement, StoreFormat
from rowtide.databases.postgres.catalogue import has_table, running_through
from rowtide.databases.urls import name_of
from rowtide.log import membership, source_definition
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.features import CAPTURE
from rowtide.log.source_definition import SourceDefinition

SCHEMA = membership.SCHEMA
metadata = MetaData(schema=SCHEMA)

source_table = Table(
    "source",
    metadata,
    Column("source_id", Text, primary_key=True, comment="new each time it is made: names everything made under it"),
    Column("system_identifier", Text, nullable=False),
    Column("publication", Text, nullable=False),
    Column("publication_id", BigInteger, nullable=False),
    Column("publication_version", Text, comment="writer and owner of the publication's row in the catalogue"),
    Column("slot", Text, nullable=False),
    Column("log_store", Text, nullable=False),
    Column("lake", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

members_table = Table(
    "members",
    metadata,
    Column("member_id", Text, primary_key=True),
    Column("feature", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("source_table_id", BigInteger, nullable=False),
    Column("source_schema", Text, nullable=False),
    Column("source_name", Text, nullable=False),
    Column(
        "publication_entry_id", BigInteger, nullable=False, comment="changes when the table is dropped and re-added"
    ),
)

dropped_table = Table(
    "dropped_members",
    metadata,
    Column("member_id", Text, primary_key=True),
    Column("feature", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("source_schema", Text, nullable=False),
    Column("source_name", Text, nullable=False),
    Column("dropped_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    comment="members that ended because their tables were dropped, for a month",
)

present_schema: ColumnElement[str] = func.coalesce(
    literal_column(
        "(select n.nspname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.oid = rowtide.members.source_table_id)"
    ),
    members_table.c.source_schema,
)
present_name: ColumnElement[str] = func.coalesce(
    literal_column("(select c.relname::text from pg_class c where c.oid = rowtide.members.source_table_id)"),
    members_table.c.source_name,
)
"""The present name of a member's table; of a dropped table the name at the member's beginning."""

identities_table = Table(
    "identities",
    metadata,
    Column("source_table_id", BigInteger, primary_key=True),
    Column(
        "identity", Text, nullable=False, comment="the replica identity before the first member, put back by the last"
    ),
    Column("identity_index", Text),
    Column("captured_table_id", BigInteger, nullable=False, comment="whose members: the table's own, or its root's"),
)


publications_table = Table(
    "table_publications",
    metadata,
    Column("publication", Text, primary_key=True, comment="of one table alone, beside the publication of all members"),
    Column(
        "publication_entry_id", BigInteger, nullable=False, comment="changes when the table is dropped and re-added"
    ),
)

features_table = Table(
    "features",
    metadata,
    Column("feature", Text, primary_key=True, comment="for what the log is read: the last one takes the source away"),
)
LOG = "log"
"""The value of `feature` in the row of `members` for the table of announcements, which belongs to no feature."""


def find_source(connection: Connection, require: Requirement = StoreFormat.require_writable) -> SourceDefinition | None:
    """Return the definition of this database's source, None if there is none.

    Raises `DatabaseCopied`; as `require` for another format.
    """
    return source_definition.find_source(running_through(connection), connection.engine.url.database or "", require)


def find_original(connection: Connection, source: SourceDefinition) -> str | None:
    """Return the database in which a source was made, None if it was this one."""
    return source_definition.find_original(running_through(connection), source)


def find_recorded(connection: Connection) -> SourceDefinition | None:
    """Return the source that is recorded here, whether it is this database's or that of the database it was copied
    from.
    """
    return source_definition.find_recorded(running_through(connection))


def read_source(
    connection: Connection, database: str, require: Requirement = StoreFormat.require_writable
) -> SourceDefinition:
    """Return the definition of this database's source. Raises `DatabaseNotEnabled`, and as `find_source`."""
    source = find_source(connection, require)
    if source is None:
        raise DatabaseNotEnabled(name_of(database))
    return source


def record_feature(connection: Connection, feature: str) -> None:
    """Record that a feature reads the log. Idempotent."""
    if feature not in list_features(connection):
        connection.execute(insert(features_table).values(feature=feature))


def forget_feature(connection: Connection, feature: str) -> None:
    """Record that a feature no longer reads the log. Idempotent."""
    if has_table(connection, SCHEMA, features_table.name):
        connection.execute(delete(features_table).where(features_table.c.feature == feature))


def forget_features(connection: Connection) -> None:
    """Record that no feature reads the log, because the source is being removed."""
    features_table.create(connection, checkfirst=True)
    connection.execute(delete(features_table))


def list_features(connection: Connection) -> frozenset[str]:
    """Return the features that read the log."""
    if not has_table(connection, SCHEMA, features_table.name):
        # A source from before formats had numbers, which can only be removed: capture was the first feature.
        return frozenset({CAPTURE})
    return frozenset(connection.execute(select(features_table.c.feature)).scalars())


def is_read_beside(connection: Connection, feature: str) -> bool:
    """Return whether members of other features read the log too."""
    return bool(list_other_members(connection, feature))


def list_other_members(connection: Connection, feature: str) -> tuple[str, ...]:
    """Return the names of other features' members; the log's own member belongs to no feature."""
    others = select(members_table.c.name).where(members_table.c.feature.not_in([feature, LOG]))
    return tuple(connection.execute(others.order_by(members_table.c.name)).scalars())
