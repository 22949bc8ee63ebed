"""Rules for new capture instances, which users request, or targets that follow columns; and the keys of their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, Executable, exists, insert, select

from rowtide.cdc import definitions
from rowtide.cdc.errors import enabling as errors
from rowtide.cdc.instances import CapturedColumn, Instance, SeenColumn, encode_instance, name_for_readers, name_in_lake
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import SourceColumn, SourceIndex, SourceTable, TableKind
from rowtide.log.membership import Member


@frozen
class RowKey:
    """The columns that identify a row, in the order of their index; without an index, no columns and no name.

    `problem` is why the primary key does not identify rows at every moment, and is omitted; None if it does.
    """

    index_name: str | None
    columns: tuple[str, ...]
    is_primary: bool
    problem: str | None

    @property
    def identity_index(self) -> str | None:
        """The index that is the replica identity of the key, None for the primary key's."""
        return None if self.is_primary else self.index_name


def choose_key(table: SourceTable, index_name: str | None) -> RowKey:
    """Return the key of the named index, else the primary key's, else none.

    Raises `IndexUnknown`, `IndexInvalid`, `IndexNotUsable`.
    """
    if index_name is None or index_name == table.key_name:
        return _primary_key(table)
    index = table.find_index(index_name)
    if index is None:
        raise errors.IndexUnknown(table.qualified_name, index_name)
    if not index.is_valid:
        raise errors.IndexInvalid(table.qualified_name, index_name, quote_qualified(table.schema, index_name))
    problem = find_problem(table, index)
    if problem is not None:
        raise errors.IndexNotUsable(table.qualified_name, index_name, problem)
    return RowKey(index.name, _names(index), is_primary=False, problem=None)


def decide_net_changes(table: SourceTable, key: RowKey, wanted: bool | None) -> bool:  # noqa: FBT001 - the option
    """Return whether an instance supports net changes; if None, whether it can. Raises `NetChangesNeedKey`."""
    problem = key.problem or ("it has no primary key" if not key.columns else None)
    if wanted and problem is not None:
        raise errors.NetChangesNeedKey(table.qualified_name, problem)
    return problem is None if wanted is None else wanted


def require_images(table: SourceTable, key: RowKey, before_images: BeforeImages) -> None:
    """Raise `BeforeImagesNeedKey` or `KeyImagesOfPartitions` if the log cannot carry the keys of old rows."""
    if before_images is BeforeImages.FULL:
        return
    if not key.columns:
        raise errors.BeforeImagesNeedKey(table.qualified_name)
    if key.identity_index is not None and table.kind is TableKind.PARTITIONED:
        raise errors.KeyImagesOfPartitions(table.qualified_name, key.identity_index)


def is_key_kept(table: SourceTable, columns: Iterable[str]) -> bool:
    """Return whether an index of the table guarantees that rows differ in these columns."""
    wanted = set(columns)
    return any(
        index.is_valid and find_problem(table, index) is None and set(_names(index)) <= wanted
        for index in table.indexes
    )


def find_problem(table: SourceTable, index: SourceIndex) -> str | None:
    """Return why an index does not identify rows at every moment; None if it does."""
    if not index.is_unique:
        return "it is not unique"
    if not index.is_immediate:
        return "it is checked at commit only: it is deferrable"
    if index.is_partial:
        return "it is of some rows only"
    columns = {column.name: column for column in table.columns}
    for name in index.columns:
        if name is None:
            return "it is on an expression"
        if name in columns and columns[name].is_nullable:
            return f"its column {name} may be null"
        if name in columns and columns[name].is_generated:
            return f"its column {name} is generated, which the log does not carry"
    return None


def _primary_key(table: SourceTable) -> RowKey:
    names = tuple(column.name for column in table.key_columns)
    index = table.find_index(table.key_name)
    problem = find_problem(table, index) if index is not None else None
    if problem is not None:
        # It is no key: rows may have equal values in it for a moment, or the log does not carry it.
        return RowKey(None, (), is_primary=False, problem=problem)
    return RowKey(table.key_name, names, is_primary=True, problem=None)


def _names(index: SourceIndex) -> tuple[str, ...]:
    return tuple(name for name in index.columns if name is not None)


MAX_NAME_LENGTH = 100
MAX_INSTANCES_PER_TABLE = 2
_SYSTEM_SCHEMAS = ("cdc", "rowtide", "pg_catalog", "information_schema")
_NAME = re.compile(r"[\w-]+")
RESERVED_NAMES = frozenset(
    f"__${name}" for name in ["start_lsn", "end_lsn", "seqval", "operation", "update_mask", "absent_mask", "exact"]
)


def define_instance(table: SourceTable, request: InstanceRequest, member_id: str) -> Instance:
    """Return the definition of a new instance. Raises the errors of names, columns, indexes and kinds of table."""
    _require_capturable(table)
    key = choose_key(table, request.index_name)
    require_images(table, key, request.before_images)
    _require_loggable(table, request.before_images)
    columns = _choose_columns(table, request.columns, key)
    capture_instance = _choose_name(table, request.capture_instance)
    if not columns:
        raise errors.NoColumns(table.qualified_name)
    _require_free_names(table, columns)
    ordinals = {name: ordinal for ordinal, name in enumerate(key.columns, 1)}
    reader_names = name_for_readers(column.name for column in columns)
    captured = tuple(
        CapturedColumn(
            name=column.name,
            column_id=column.number,
            type_text=column.type_text,
            type_code=column.type_code,
            type_modifier=column.type_modifier,
            lake_name=name_in_lake(reader_name),
            is_computed=column.is_generated,
            index_ordinal=ordinals.get(column.name),
            base_type_text=column.base_type_text,
            reader_name=reader_name,
        )
        for column, reader_name in zip(columns, reader_names, strict=True)
    )
    return Instance(
        capture_instance=capture_instance,
        member_id=member_id,
        database_kind="postgres",
        source_id=table.source_id,
        source_schema=table.schema,
        source_table=table.name,
        supports_net_changes=decide_net_changes(table, key, request.supports_net_changes),
        index_name=key.index_name,
        columns=captured,
        refuses_truncate=request.refuses_truncate,
        before_images=request.before_images,
        is_partitioned=table.kind is TableKind.PARTITIONED,
        role_name=request.role_name,
        seen_columns=tuple(
            SeenColumn(column.name, column.type_code, column.type_modifier, is_generated=column.is_generated)
            for column in table.columns
        ),
    )


def require_room(
    instance: Instance,
    enabled: Sequence[definitions.EnabledTable],
    counted: Sequence[definitions.EnabledTable] | None = None,
) -> None:
    """Raise `InstanceNameTaken` or `TwoInstancesExist` if the database has no room for a new instance.

    `counted` are those that count for the limit of a table, by default all.
    """
    if any(other.capture_instance.lower() == instance.capture_instance.lower() for other in enabled):
        raise errors.InstanceNameTaken(instance.capture_instance)
    same_table = [
        other.capture_instance
        for other in (enabled if counted is None else counted)
        if other.source_id == instance.source_id
    ]
    if len(same_table) >= MAX_INSTANCES_PER_TABLE:
        raise errors.TwoInstancesExist(f"{instance.source_schema}.{instance.source_table}", ", ".join(same_table))


def require_distinct_names(table: SourceTable, enabled: Sequence[definitions.EnabledTable]) -> None:
    """Raise `PartitionCapturedToo` if an instance of a table above or below this one has its rows already."""
    relatives = {*table.ancestors, *(partition.source_id for partition in table.partitions)}
    for other in enabled:
        if other.source_id in relatives:
            raise errors.PartitionCapturedToo(table.qualified_name, other.capture_instance)


def require_same_key(instance: Instance, enabled: Sequence[definitions.EnabledTable]) -> None:
    """Raise `KeyImagesDiffer` if two indexes of a table would be needed as its replica identity."""
    for other in enabled:
        is_beside = other.source_id == instance.source_id and other.before_images is instance.before_images
        if is_beside and instance.before_images is BeforeImages.KEY and other.index_name != instance.index_name:
            table = f"{instance.source_schema}.{instance.source_table}"
            raise errors.KeyImagesDiffer(table, instance.index_name or "", other.index_name or "")


def as_member(instance: Instance) -> Member:
    """Return the instance as the log sees it."""
    return Member(
        member_id=instance.member_id,
        feature=definitions.FEATURE,
        name=instance.capture_instance,
        source_id=instance.source_id,
        schema=instance.source_schema,
        table=instance.source_table,
        columns=tuple(column.name for column in instance.columns if not column.is_computed),
        column_numbers=tuple(column.column_id for column in instance.columns if not column.is_computed),
        definition=encode_instance(instance),
        computed_numbers=tuple(column.column_id for column in instance.columns if column.is_computed),
    )


def _choose_name(table: SourceTable, wanted: str | None) -> str:
    name = (wanted if wanted is not None else f"{table.schema}_{table.name}").rstrip()
    if len(name) > MAX_NAME_LENGTH:
        raise errors.InstanceNameTooLong(name, MAX_NAME_LENGTH)
    if _NAME.fullmatch(name) is None:
        raise errors.InstanceNameInvalid(name)
    return name


def _choose_columns(table: SourceTable, wanted: tuple[str, ...] | None, key: RowKey) -> tuple[SourceColumn, ...]:
    if wanted is None:
        return table.columns
    known = {column.name for column in table.columns}
    for place, name in enumerate(wanted):
        if name not in known:
            raise errors.ColumnUnknown(table.qualified_name, name)
        if name in wanted[:place]:
            raise errors.ColumnListedTwice(table.qualified_name, name)
    for name in key.columns:
        if name not in wanted:
            raise errors.KeyColumnMissing(table.qualified_name, name)
    return tuple(column for column in table.columns if column.name in wanted)


def _require_free_names(table: SourceTable, columns: Iterable[SourceColumn]) -> None:
    for column in columns:
        if column.name.lower() in RESERVED_NAMES:
            raise errors.ColumnNameReserved(table.qualified_name, column.name)


def _require_capturable(table: SourceTable) -> None:
    if table.schema in _SYSTEM_SCHEMAS:
        raise errors.SystemTable(table.qualified_name)
    if table.kind not in (TableKind.ORDINARY, TableKind.PARTITIONED):
        raise errors.TableNotCapturable(table.qualified_name, table.kind.value)
    for partition in table.row_holders:
        if partition.kind is not TableKind.ORDINARY:
            raise errors.PartitionNotCapturable(table.qualified_name, partition.qualified_name, partition.kind.value)


def _require_loggable(table: SourceTable, before_images: BeforeImages) -> None:
    for column in table.columns:
        if column.is_virtual and before_images is BeforeImages.FULL:
            raise errors.VirtualColumnUnloggable(table.qualified_name, column.name)


# Instances that are made for targets that follow columns, and which of them are superseded. They do not count towards a
# table's limit of two instances.


def list_followed(connection: Connection) -> frozenset[str]:
    """Return the member ids of these instances."""
    return frozenset(connection.execute(select(definitions.followed_instances.c.member_id)).scalars())


def mark_steps(member_id: str) -> Sequence[Executable]:
    """Return the step that makes a new instance one of them."""
    return [insert(definitions.followed_instances).values(member_id=member_id)]


def list_superseded(connection: Connection) -> tuple[definitions.EnabledTable, ...]:
    """Return those of them that no consumer reads any more, while some consumer reads a later one of the same table."""
    own, later, own_mark, later_mark = (
        definitions.change_tables.alias(),
        definitions.change_tables.alias(),
        definitions.followed_instances.alias(),
        definitions.followed_instances.alias(),
    )
    consumed, consumed_later = definitions.consumer_instances.alias(), definitions.consumer_instances.alias()
    query = (
        select(own.c.member_id)
        .join(own_mark, own_mark.c.member_id == own.c.member_id)
        .where(
            ~exists().where(consumed.c.member_id == own.c.member_id),
            exists().where(
                later.c.source_object_id == own.c.source_object_id,
                later.c.object_id > own.c.object_id,
                later_mark.c.member_id == later.c.member_id,
                consumed_later.c.member_id == later.c.member_id,
            ),
        )
    )
    found = set(connection.execute(query).scalars())
    return tuple(one for one in definitions.list_enabled(connection) if one.member_id in found)
