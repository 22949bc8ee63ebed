"""CDC's metadata in the source database: SQL Server's tables in schema `cdc`, one definition for every database.

Columns are SQL Server's (specification, part 1.8); `member_id` ties an instance to the log's members.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
    Executable,
    ForeignKey,
    Identity,
    Integer,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    inspect,
    select,
)

from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.cdc.instances import Instance
from rowtide.core.formats import StoreFormat
from rowtide.core.tables import BeforeImages, Widened
from rowtide.core.values import frozen
from rowtide.databases.format_views import Requirement
from rowtide.databases.postgres.catalogue import has_table, is_begun
from rowtide.databases.postgres.kept_answers import make_once
from rowtide.databases.urls import name_of
from rowtide.log import catalogue
from rowtide.log.catalogue import members_table, present_name, present_schema
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.log.source_definition import SourceDefinition

FEATURE = "cdc"
READER = "cdc"
"""The name of capture's reader of the log store, which keeps what capture has not published."""
SCHEMA = "cdc"
metadata = MetaData(schema=SCHEMA)


change_tables = Table(
    "change_tables",
    metadata,
    Column("object_id", BigInteger, Identity(), primary_key=True),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("source_object_id", BigInteger, nullable=False),
    Column("capture_instance", Text, nullable=False, unique=True),
    Column("start_lsn", BigInteger, comment="the lake keeps the low endpoint; null here"),
    Column("end_lsn", BigInteger),
    Column("supports_net_changes", Boolean, nullable=False),
    Column("has_drop_pending", Boolean, nullable=False, server_default="false"),
    Column("role_name", Text),
    Column("index_name", Text),
    Column("create_date", DateTime(timezone=True), nullable=False, server_default=func.now()),
    # Dropping a table removes its members in the same transaction, and their instances with them.
    Column("member_id", ForeignKey(members_table.c.member_id, ondelete="cascade"), nullable=False, unique=True),
    Column("refuses_truncate", Boolean, nullable=False),
    Column("before_images", Text, nullable=False),
)

captured_columns = Table(
    "captured_columns",
    metadata,
    Column("object_id", BigInteger, ForeignKey(change_tables.c.object_id, ondelete="cascade"), primary_key=True),
    Column("column_name", Text, nullable=False),
    Column("column_id", Integer, nullable=False),
    Column("column_type", Text, nullable=False),
    Column("column_ordinal", Integer, primary_key=True),
    Column("is_computed", Boolean, nullable=False),
)

index_columns = Table(
    "index_columns",
    metadata,
    Column("object_id", BigInteger, ForeignKey(change_tables.c.object_id, ondelete="cascade"), primary_key=True),
    Column("column_name", Text, nullable=False),
    Column("index_ordinal", Integer, primary_key=True),
    Column("column_id", Integer, nullable=False),
)

cleanup_requests = Table(
    "cleanup_requests",
    metadata,
    Column("request_id", BigInteger, Identity(), primary_key=True),
    Column("capture_instance", Text),
    Column("low_water_mark", BigInteger),
    Column("retention_us", BigInteger, nullable=False),
    Column("is_forced", Boolean, nullable=False),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("requested_by", Text, nullable=False, server_default=func.current_user()),
    Column("finished_at", DateTime(timezone=True)),
    Column("outcome", Text, comment="JSON: what was done, or why it was not"),
)


consumers = Table(
    "consumers",
    metadata,
    Column("consumer_name", Text, primary_key=True),
    Column("limit_hours", Integer, nullable=False, comment="so long cleanup waits for it"),
    Column("role_name", Text, comment="whose members may acknowledge, besides the owner"),
    Column("acknowledged_lsn", BigInteger, comment="null before the first acknowledgement"),
    Column("acknowledged_time", DateTime(timezone=True), comment="what was committed up to then is acknowledged"),
    Column("acknowledged_at", DateTime(timezone=True)),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

consumer_instances = Table(
    "consumer_instances",
    metadata,
    Column("consumer_name", Text, ForeignKey(consumers.c.consumer_name, ondelete="cascade"), primary_key=True),
    Column("capture_instance", Text, primary_key=True),
    Column("member_id", Text, nullable=False, comment="the instance's member; enabling the table again makes another"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("request_id", BigInteger, Identity(), primary_key=True),
    Column("capture_instance", Text, nullable=False),
    Column("member_id", ForeignKey(members_table.c.member_id, ondelete="cascade"), nullable=False),
    Column("condition", Text, comment="SQL of the rows that are copied; null: all"),
    Column("state", Text, nullable=False, server_default="requested"),
    Column("is_paused", Boolean, nullable=False, server_default="false"),
    Column("is_cancelled", Boolean, nullable=False, server_default="false"),
    Column("rows_per_second", Integer, comment="null: no limit"),
    Column("snapshot", BigInteger, comment="its number in the lake, once it is planned"),
    Column("chunks", BigInteger, nullable=False, server_default="0", comment="copied so far"),
    Column("of_chunks", BigInteger),
    Column("copied_rows", BigInteger, nullable=False, server_default="0"),
    Column("estimated_rows", BigInteger),
    Column("copied_bytes", BigInteger, nullable=False, server_default="0", comment="as the server sent them"),
    Column("estimated_bytes", BigInteger, comment="of the table at the source"),
    Column("rows_a_second", BigInteger, comment="as last measured"),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("requested_by", Text, nullable=False, server_default=func.current_user()),
    Column("began_at", DateTime(timezone=True)),
    Column("reported_at", DateTime(timezone=True)),
    Column("finished_at", DateTime(timezone=True)),
    Column("outcome", Text, comment="why it waits, began again, or failed"),
)

targets = Table(
    "targets",
    metadata,
    Column("target_name", Text, primary_key=True),
    Column("target_id", Text, nullable=False, unique=True, comment="under which its tables know what they have"),
    Column("consumer_name", Text, ForeignKey(consumers.c.consumer_name), nullable=False, unique=True),
    Column("kind", Text, nullable=False, comment="current, history or python:module.Class"),
    Column("options", Text, nullable=False, comment="JSON: format, place, columns"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
)

widened_columns = Table(
    "widened_columns",
    metadata,
    Column(
        "member_id",
        ForeignKey(members_table.c.member_id, ondelete="cascade"),
        unique=True,
        comment="null: of instances without a setting of their own",
    ),
    Column("setting", Text, nullable=False, comment="auto, rewrite or mark"),
    comment="what is done with tables of the lake whose columns get wider types",
)

followed_instances = Table(
    "followed_instances",
    metadata,
    Column("member_id", ForeignKey(members_table.c.member_id, ondelete="cascade"), primary_key=True),
    comment="instances that were made for targets that follow columns, and end when others have taken their place",
)

mend_requests = Table(
    "mend_requests",
    metadata,
    Column("request_id", BigInteger, Identity(), primary_key=True),
    Column("capture_instance", Text, nullable=False),
    Column("requested_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("requested_by", Text, nullable=False, server_default=func.current_user()),
    Column("finished_at", DateTime(timezone=True)),
    Column("outcome", Text, comment="JSON: what was done, or why it was not"),
)

table_rules = Table(
    "table_rules",
    metadata,
    Column("rule_name", Text, primary_key=True),
    Column("patterns", ARRAY(Text), nullable=False),
    Column("excluding", ARRAY(Text), nullable=False),
    Column("included_expression", Text, nullable=False, comment="of schema, line break, table: a regular expression"),
    Column("excluded_expression", Text),
    Column("refuses_truncate", Boolean, nullable=False),
    Column("before_images", Text, nullable=False),
    Column("role_name", Text),
    Column("supports_net_changes", Boolean, comment="null: where there is a key"),
    Column("copies_rows", Boolean, nullable=False, comment="whether a snapshot is requested"),
    Column("rows_per_second", Integer, comment="of the snapshot; null: no limit"),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    comment="new tables that these match are enabled",
)

ruled_tables = Table(
    "ruled_tables",
    metadata,
    Column("rule_name", Text, ForeignKey(table_rules.c.rule_name, ondelete="cascade"), primary_key=True),
    Column("source_object_id", BigInteger, primary_key=True),
    Column("source_schema", Text, nullable=False),
    Column("source_table", Text, nullable=False),
    Column("outcome", Text, nullable=False, comment="present: before the rule, or enabled by hand; enabled; failed"),
    Column("reason", Text, comment="why it failed"),
    Column("considered_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    comment="tables that a rule has considered: it enables each once",
)

new_tables = Table(
    "new_tables",
    metadata,
    Column("note_id", BigInteger, Identity(), primary_key=True),
    Column("source_object_id", BigInteger, nullable=False),
    comment="of the present transaction alone, which deletes its rows as it commits",
)


def are_made(connection: Connection) -> bool:
    """Return whether the database is enabled for capture; its log may be read for publications only."""
    return has_table(connection, SCHEMA, change_tables.name)


def are_begun(connection: Connection) -> bool:
    """Return whether the database was enabled for capture, also if a table that says so was dropped since."""
    return is_begun(connection, SCHEMA, change_tables.name, made_with=captured_columns.name)


def read_source(
    connection: Connection, database: str, require: Requirement = StoreFormat.require_writable
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


def find_missing(connection: Connection) -> Sequence[str]:
    """Return the tables of `cdc` that were dropped."""
    wanted = {table.name for table in metadata.tables.values()}

    def look() -> Sequence[str]:
        return sorted(wanted.difference(inspect(connection).get_table_names(SCHEMA)))

    return make_once("missing tables of capture", look)


def require_complete(connection: Connection) -> None:
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


def list_enabled(connection: Connection) -> tuple[EnabledTable, ...]:
    """Return all capture instances of the database, oldest first."""
    columns = change_tables.c
    query = select(
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


def list_catalogue(connection: Connection) -> Sequence[tuple[str, str, str]]:
    """Return capture_instance, source_schema and source_table of all instances, oldest first."""
    columns, member = change_tables.c, members_table.c
    query = (
        select(columns.capture_instance, present_schema, present_name)
        .join(members_table, member.member_id == columns.member_id)
        .order_by(columns.object_id)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def read_captured_columns(connection: Connection, member_id: str) -> dict[int, tuple[str, str]]:
    """Return names and types of an instance's columns as recorded, by number, in the order of ordinals."""
    columns = captured_columns.c
    query = (
        select(columns.column_id, columns.column_name, columns.column_type)
        .join(change_tables, change_tables.c.object_id == columns.object_id)
        .where(change_tables.c.member_id == member_id)
        .order_by(columns.column_ordinal)
    )
    return {row.column_id: (row.column_name, row.column_type) for row in connection.execute(query)}


def record_steps(instance: Instance) -> list[Executable]:
    """Return the statements that write an instance into `cdc`."""
    object_id = (
        select(change_tables.c.object_id).where(change_tables.c.member_id == instance.member_id).scalar_subquery()
    )
    columns = [
        insert(captured_columns).values(
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
        insert(index_columns).values(
            object_id=object_id, column_name=column.name, index_ordinal=column.index_ordinal, column_id=column.column_id
        )
        for column in instance.index_columns
    ]
    return [_record_table(instance), *columns, *indexed]


def forget_step(member_id: str) -> Executable:
    """Return the statement that removes an instance from `cdc`."""
    return delete(change_tables).where(change_tables.c.member_id == member_id)


def _record_table(instance: Instance) -> Executable:
    return insert(change_tables).values(
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


def read_widened(connection: Connection, member_id: str | None = None) -> Widened:
    """Return the setting that counts for an instance, by default for those without one of their own."""
    own = read_own(connection, member_id) if member_id is not None else None
    of_database = connection.execute(select(_columns.setting).where(_columns.member_id.is_(None))).scalar()
    return own or Widened(of_database or Widened.AUTO)


def read_own(connection: Connection, member_id: str) -> Widened | None:
    """Return an instance's own setting, None if it has none."""
    found = connection.execute(select(_columns.setting).where(_columns.member_id == member_id)).scalar()
    return Widened(found) if found is not None else None


def own_steps(member_id: str, setting: Widened | None) -> Sequence[Executable]:
    """Return the steps that give a new instance a setting of its own; none without one."""
    return [] if setting is None else [insert(widened_columns).values(member_id=member_id, setting=setting.value)]


def set_of_database(connection: Connection, setting: Widened) -> None:
    """Set what counts for instances without a setting of their own."""
    connection.execute(delete(widened_columns).where(_columns.member_id.is_(None)))
    connection.execute(insert(widened_columns).values(setting=setting.value))
