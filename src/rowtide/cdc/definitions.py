"""CDC's metadata in the source database: SQL Server's tables in schema `cdc`.

Columns are SQL Server's (specification, part 1.8); `member_id` ties an instance to the log's members.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.cdc.instances import Instance
from rowtide.core.formats import Requirement, StoreFormat
from rowtide.core.tables import BeforeImages, Widened
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import has_table, is_begun
from rowtide.databases.postgres.query_memo import make_once
from rowtide.databases.urls import name_of
from rowtide.log import catalogue, features
from rowtide.log.catalogue import members_table, present_name, present_schema
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.source_definition import SourceDefinition

FEATURE = features.CAPTURE
READER = "cdc"
"""The name of capture's reader of the log store, which keeps what capture has not published."""
SCHEMA = features.CHANGE_TABLES.schema
metadata = sa.MetaData(schema=SCHEMA)


change_tables = sa.Table(
    features.CHANGE_TABLES.name,
    metadata,
    sa.Column("object_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("source_object_id", sa.BigInteger, nullable=False),
    sa.Column("capture_instance", sa.Text, nullable=False, unique=True),
    sa.Column("start_lsn", sa.BigInteger, comment="the lake keeps the low endpoint; null here"),
    sa.Column("end_lsn", sa.BigInteger),
    sa.Column("supports_net_changes", sa.Boolean, nullable=False),
    sa.Column("has_drop_pending", sa.Boolean, nullable=False, server_default="false"),
    sa.Column("role_name", sa.Text),
    sa.Column("index_name", sa.Text),
    sa.Column("create_date", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    # Dropping a table removes its members in the same transaction, and the foreign key their instances.
    sa.Column("member_id", sa.ForeignKey(members_table.c.member_id, ondelete="cascade"), nullable=False, unique=True),
    sa.Column("refuses_truncate", sa.Boolean, nullable=False),
    sa.Column("before_images", sa.Text, nullable=False),
)

captured_columns = sa.Table(
    "captured_columns",
    metadata,
    sa.Column(
        "object_id", sa.BigInteger, sa.ForeignKey(change_tables.c.object_id, ondelete="cascade"), primary_key=True
    ),
    sa.Column("column_name", sa.Text, nullable=False),
    sa.Column("column_id", sa.Integer, nullable=False),
    sa.Column("column_type", sa.Text, nullable=False),
    sa.Column("column_ordinal", sa.Integer, primary_key=True),
    sa.Column("is_computed", sa.Boolean, nullable=False),
)

index_columns = sa.Table(
    "index_columns",
    metadata,
    sa.Column(
        "object_id", sa.BigInteger, sa.ForeignKey(change_tables.c.object_id, ondelete="cascade"), primary_key=True
    ),
    sa.Column("column_name", sa.Text, nullable=False),
    sa.Column("index_ordinal", sa.Integer, primary_key=True),
    sa.Column("column_id", sa.Integer, nullable=False),
)

cleanup_requests = sa.Table(
    "cleanup_requests",
    metadata,
    sa.Column("request_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("capture_instance", sa.Text),
    sa.Column("low_water_mark", sa.BigInteger),
    sa.Column("retention_us", sa.BigInteger, nullable=False),
    sa.Column("is_forced", sa.Boolean, nullable=False),
    sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("requested_by", sa.Text, nullable=False, server_default=sa.func.current_user()),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text, comment="JSON: what was done, or why it was not"),
)


consumers = sa.Table(
    "consumers",
    metadata,
    sa.Column("consumer_name", sa.Text, primary_key=True),
    sa.Column("limit_hours", sa.Integer, nullable=False, comment="so long cleanup waits for it"),
    sa.Column("role_name", sa.Text, comment="whose members may acknowledge, besides the owner"),
    sa.Column("acknowledged_lsn", sa.BigInteger, comment="null before the first acknowledgement"),
    sa.Column("acknowledged_time", sa.DateTime(timezone=True), comment="what was committed up to then is acknowledged"),
    sa.Column("acknowledged_at", sa.DateTime(timezone=True)),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

consumer_instances = sa.Table(
    "consumer_instances",
    metadata,
    sa.Column("consumer_name", sa.Text, sa.ForeignKey(consumers.c.consumer_name, ondelete="cascade"), primary_key=True),
    sa.Column("capture_instance", sa.Text, primary_key=True),
    sa.Column(
        "member_id", sa.Text, nullable=False, comment="the instance's member; enabling the table again makes another"
    ),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("request_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("capture_instance", sa.Text, nullable=False),
    sa.Column("member_id", sa.ForeignKey(members_table.c.member_id, ondelete="cascade"), nullable=False),
    sa.Column("condition", sa.Text, comment="SQL of the rows that are copied; null: all"),
    sa.Column("state", sa.Text, nullable=False, server_default="requested"),
    sa.Column("is_paused", sa.Boolean, nullable=False, server_default="false"),
    sa.Column("is_cancelled", sa.Boolean, nullable=False, server_default="false"),
    sa.Column("rows_per_second", sa.Integer, comment="null: no limit"),
    sa.Column("snapshot", sa.BigInteger, comment="its number in the lake, once it is planned"),
    sa.Column("chunks", sa.BigInteger, nullable=False, server_default="0", comment="copied so far"),
    sa.Column("of_chunks", sa.BigInteger),
    sa.Column("copied_rows", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("estimated_rows", sa.BigInteger),
    sa.Column("copied_bytes", sa.BigInteger, nullable=False, server_default="0", comment="as the server sent them"),
    sa.Column("estimated_bytes", sa.BigInteger, comment="of the table at the source"),
    sa.Column("rows_a_second", sa.BigInteger, comment="as last measured"),
    sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("requested_by", sa.Text, nullable=False, server_default=sa.func.current_user()),
    sa.Column("began_at", sa.DateTime(timezone=True)),
    sa.Column("reported_at", sa.DateTime(timezone=True)),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text, comment="why it waits, began again, or failed"),
)

targets = sa.Table(
    "targets",
    metadata,
    sa.Column("target_name", sa.Text, primary_key=True),
    sa.Column("target_id", sa.Text, nullable=False, unique=True, comment="under which its tables know what they have"),
    sa.Column("consumer_name", sa.Text, sa.ForeignKey(consumers.c.consumer_name), nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False, comment="current, history or python:module.Class"),
    sa.Column("options", sa.Text, nullable=False, comment="JSON: format, place, columns"),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
)

widened_columns = sa.Table(
    "widened_columns",
    metadata,
    sa.Column(
        "member_id",
        sa.ForeignKey(members_table.c.member_id, ondelete="cascade"),
        unique=True,
        comment="null: of instances without a setting of their own",
    ),
    sa.Column("setting", sa.Text, nullable=False, comment="auto, rewrite or mark"),
    comment="what is done with tables of the lake whose columns get wider types",
)

followed_instances = sa.Table(
    "followed_instances",
    metadata,
    sa.Column("member_id", sa.ForeignKey(members_table.c.member_id, ondelete="cascade"), primary_key=True),
    comment="instances that were made for targets that follow columns, and end when others have taken their place",
)

mend_requests = sa.Table(
    "mend_requests",
    metadata,
    sa.Column("request_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("capture_instance", sa.Text, nullable=False),
    sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.Column("requested_by", sa.Text, nullable=False, server_default=sa.func.current_user()),
    sa.Column("finished_at", sa.DateTime(timezone=True)),
    sa.Column("outcome", sa.Text, comment="JSON: what was done, or why it was not"),
)

table_rules = sa.Table(
    "table_rules",
    metadata,
    sa.Column("rule_name", sa.Text, primary_key=True),
    sa.Column("patterns", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("excluding", sa.ARRAY(sa.Text), nullable=False),
    sa.Column(
        "included_expression", sa.Text, nullable=False, comment="of schema, line break, table: a regular expression"
    ),
    sa.Column("excluded_expression", sa.Text),
    sa.Column("refuses_truncate", sa.Boolean, nullable=False),
    sa.Column("before_images", sa.Text, nullable=False),
    sa.Column("role_name", sa.Text),
    sa.Column("supports_net_changes", sa.Boolean, comment="null: where there is a key"),
    sa.Column("copies_rows", sa.Boolean, nullable=False, comment="whether a snapshot is requested"),
    sa.Column("rows_per_second", sa.Integer, comment="of the snapshot; null: no limit"),
    sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    comment="new tables that these match are enabled",
)

ruled_tables = sa.Table(
    "ruled_tables",
    metadata,
    sa.Column("rule_name", sa.Text, sa.ForeignKey(table_rules.c.rule_name, ondelete="cascade"), primary_key=True),
    sa.Column("source_object_id", sa.BigInteger, primary_key=True),
    sa.Column("source_schema", sa.Text, nullable=False),
    sa.Column("source_table", sa.Text, nullable=False),
    sa.Column(
        "outcome", sa.Text, nullable=False, comment="present: before the rule, or enabled by hand; enabled; failed"
    ),
    sa.Column("reason", sa.Text, comment="why it failed"),
    sa.Column("considered_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    comment="tables that a rule has considered: it enables each once",
)

new_tables = sa.Table(
    "new_tables",
    metadata,
    sa.Column("note_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("source_object_id", sa.BigInteger, nullable=False),
    comment="of the present transaction alone, which deletes its rows as it commits",
)


def are_made(connection: sa.Connection) -> bool:
    """Return whether the database is enabled for capture; its log may be read for publications only."""
    return has_table(connection, SCHEMA, change_tables.name)


def are_begun(connection: sa.Connection) -> bool:
    """Return whether the database was ever enabled for capture, even if a table of it was dropped since."""
    return is_begun(connection, SCHEMA, change_tables.name, made_with=captured_columns.name)


def read_source(
    connection: sa.Connection, database: str, require: Requirement = StoreFormat.require_writable
) -> SourceDefinition:
    """Return the source of a database that is enabled for capture. Raises `DatabaseNotEnabled`,
    `DefinitionsIncomplete`; as `require` for another format.
    """
    source = catalogue.read_source(connection, database, require)
    if not are_begun(connection):
        raise DatabaseNotEnabled(name_of(database))
    if not are_made(connection):
        raise DefinitionsIncomplete(", ".join(find_missing(connection)))
    return source


def find_missing(connection: sa.Connection) -> Sequence[str]:
    """Return the tables of `cdc` that were dropped."""
    wanted = {table.name for table in metadata.tables.values()}

    def look() -> Sequence[str]:
        return sorted(wanted.difference(sa.inspect(connection).get_table_names(SCHEMA)))

    return make_once("missing tables of capture", look)


def require_complete(connection: sa.Connection) -> None:
    """Raise `DefinitionsIncomplete` if a table of `cdc` was dropped."""
    missing = find_missing(connection)
    if missing:
        raise DefinitionsIncomplete(", ".join(missing))


@frozen
class EnabledTable:
    """A row of `cdc.change_tables`, with its source table."""

    capture_instance: str
    source_id: int
    member_id: str
    refuses_truncate: bool
    before_images: BeforeImages = BeforeImages.FULL
    supports_net_changes: bool = True
    index_name: str | None = None
    role_name: str | None = None


def list_enabled(connection: sa.Connection) -> tuple[EnabledTable, ...]:
    """Return all capture instances of the database, oldest first."""
    columns = change_tables.c
    query = sa.select(
        columns.capture_instance,
        columns.source_object_id,
        columns.member_id,
        columns.refuses_truncate,
        columns.before_images,
        columns.supports_net_changes,
        columns.index_name,
        columns.role_name,
    ).order_by(columns.object_id)
    return tuple(EnabledTable(*row[:4], BeforeImages(row.before_images), *row[5:]) for row in connection.execute(query))


def list_catalogue(connection: sa.Connection) -> Sequence[tuple[str, str, str]]:
    """Return capture_instance, source_schema and source_table of all instances, oldest first."""
    columns, member = change_tables.c, members_table.c
    query = (
        sa.select(columns.capture_instance, present_schema, present_name)
        .join(members_table, member.member_id == columns.member_id)
        .order_by(columns.object_id)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def read_captured_columns(connection: sa.Connection, member_id: str) -> dict[int, tuple[str, str]]:
    """Return names and types of an instance's columns as recorded, by number, in the order of ordinals."""
    columns = captured_columns.c
    query = (
        sa.select(columns.column_id, columns.column_name, columns.column_type)
        .join(change_tables, change_tables.c.object_id == columns.object_id)
        .where(change_tables.c.member_id == member_id)
        .order_by(columns.column_ordinal)
    )
    return {row.column_id: (row.column_name, row.column_type) for row in connection.execute(query)}


def record_steps(instance: Instance) -> list[sa.Executable]:
    """Return the statements that write an instance into `cdc`."""
    object_id = (
        sa.select(change_tables.c.object_id).where(change_tables.c.member_id == instance.member_id).scalar_subquery()
    )
    columns = [
        sa.insert(captured_columns).values(
            object_id=object_id,
            column_name=column.name,
            column_id=column.column_id,
            column_type=column.type_text,
            column_ordinal=ordinal,
            is_computed=column.is_computed,
        )
        for ordinal, column in enumerate(instance.columns, 1)
    ]
    indexed = [
        sa.insert(index_columns).values(
            object_id=object_id, column_name=column.name, index_ordinal=column.index_ordinal, column_id=column.column_id
        )
        for column in instance.index_columns
    ]
    return [_record_table(instance), *columns, *indexed]


def forget_step(member_id: str) -> sa.Executable:
    """Return the statement that removes an instance from `cdc`."""
    return sa.delete(change_tables).where(change_tables.c.member_id == member_id)


def _record_table(instance: Instance) -> sa.Executable:
    return sa.insert(change_tables).values(
        source_object_id=instance.source_id,
        capture_instance=instance.capture_instance,
        supports_net_changes=instance.supports_net_changes,
        role_name=instance.role_name,
        index_name=instance.index_name,
        member_id=instance.member_id,
        refuses_truncate=instance.refuses_truncate,
        before_images=instance.before_images.value,
    )


# What is done with tables whose columns get wider types: of an instance, else of its database. It is looked up when a
# type changes, so that a running capture follows a setting that is changed.

_columns = widened_columns.c


def read_widened(connection: sa.Connection, member_id: str | None = None) -> Widened:
    """Return the setting in force for an instance; without an instance, that for instances without a setting of their
    own.
    """
    own = read_own(connection, member_id) if member_id is not None else None
    of_database = connection.execute(sa.select(_columns.setting).where(_columns.member_id.is_(None))).scalar()
    return own or Widened(of_database or Widened.AUTO)


def read_own(connection: sa.Connection, member_id: str) -> Widened | None:
    """Return an instance's own setting, None if it has none."""
    found = connection.execute(sa.select(_columns.setting).where(_columns.member_id == member_id)).scalar()
    return Widened(found) if found is not None else None


def own_steps(member_id: str, setting: Widened | None) -> Sequence[sa.Executable]:
    """Return the steps that give a new instance a setting of its own; none without one."""
    return [] if setting is None else [sa.insert(widened_columns).values(member_id=member_id, setting=setting.value)]


def set_of_database(connection: sa.Connection, setting: Widened) -> None:
    """Set the default for instances without a setting of their own."""
    connection.execute(sa.delete(widened_columns).where(_columns.member_id.is_(None)))
    connection.execute(sa.insert(widened_columns).values(setting=setting.value))
