"""Instances and their columns from the catalogue, with the columns of SQL Server's procedures.

Only instances that the connection's role may read are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cached_property

from sqlalchemy import Connection, Row, Table, select

from rowtide.cdc import published
from rowtide.cdc.access import read_role_access
from rowtide.cdc.definitions import captured_columns, change_tables, index_columns, list_enabled
from rowtide.cdc.errors.enabling import TableNameIncomplete
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ListedChange, read_histories
from rowtide.cdc.recorded_snapshots import SnapshotState, read_snapshots
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.names import format_column_list
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.query_memo import make_once
from rowtide.databases.postgres.values import describe_type
from rowtide.delta.errors import LakeReadFailed, TableUnreadable
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.stores import locate
from rowtide.log.catalogue import members_table, present_name, present_schema


@frozen
class ListedInstance:
    """A row of sp_cdc_help_change_data_capture.

    `object_id` is the instance's number in `cdc.change_tables`. `start_lsn`, the low endpoint, is in the lake: None if
    the lake was not read. `end_lsn` and `filegroup_name` are always None. The lists are names in [].
    """

    source_schema: str
    source_table: str
    capture_instance: str
    object_id: int
    source_object_id: int
    start_lsn: CommitLsn | None
    end_lsn: CommitLsn | None
    supports_net_changes: bool
    has_drop_pending: bool
    role_name: str | None
    index_name: str | None
    filegroup_name: str | None
    create_date: datetime
    index_column_list: str | None
    captured_column_list: str


@frozen
class ListedColumn:
    """A row of sp_cdc_get_captured_columns; the type is the one that the column had when the instance was enabled.

    `column_ordinal` is the column's bit in update masks. Precisions and lengths are those of the information schema.
    """

    source_schema: str
    source_table: str
    capture_instance: str
    column_name: str
    column_id: int
    column_ordinal: int
    data_type: str
    character_maximum_length: int | None
    numeric_precision: int | None
    numeric_precision_radix: int | None
    numeric_scale: int | None
    datetime_precision: int | None


def list_instances(
    connection: Connection,
    source_schema: str | None,
    source_name: str | None,
    low_endpoints: Mapping[str, CommitLsn],
) -> tuple[ListedInstance, ...]:
    """Return the instances, or those of one table, oldest first. Raises `TableNameIncomplete`."""
    if (source_schema is None) != (source_name is None):
        raise TableNameIncomplete
    columns, member = change_tables.c, members_table.c
    query = (
        select(change_tables, present_schema.label("source_schema"), present_name.label("source_name"))
        .join(members_table, member.member_id == columns.member_id)
        .order_by(columns.object_id)
    )
    if source_schema is not None:
        query = query.where(present_schema == source_schema, present_name == source_name)
    reader = read_role_access(connection)
    keys = _name_lists(connection, index_columns, "index_ordinal")
    captured = _name_lists(connection, captured_columns, "column_ordinal")
    return tuple(
        _listed_instance(row, keys.get(row.object_id), captured[row.object_id], low_endpoints)
        for row in connection.execute(query)
        # An instance that is enabled meanwhile is in the next listing.
        if row.object_id in captured and reader.may_read(row.capture_instance)
    )


def name_instances(connection: Connection, table: str) -> tuple[str, ...]:
    """Return the names of a table's instances, oldest first. Raises `TableNotFound`, and `InstanceUnknown` for none."""
    found = find_table(connection, table)
    names = tuple(one.capture_instance for one in list_enabled(connection) if one.source_id == found.source_id)
    if not names:
        raise InstanceUnknown(f"of table {found.qualified_name}")
    return names


def list_columns(connection: Connection, capture_instance: str) -> tuple[ListedColumn, ...]:
    """Return the captured columns of an instance, by ordinal. Raises `InstanceNotReadable`."""
    columns, member = captured_columns.c, members_table.c
    query = (
        select(captured_columns, present_schema.label("source_schema"), present_name.label("source_name"))
        .join(change_tables, change_tables.c.object_id == columns.object_id)
        .join(members_table, member.member_id == change_tables.c.member_id)
        .where(change_tables.c.capture_instance == capture_instance)
        .order_by(columns.column_ordinal)
    )
    reader = read_role_access(connection)
    rows = connection.execute(query).all()
    reader.require_known(capture_instance)
    return tuple(_listed_column(row, capture_instance) for row in rows)


def _listed_instance(
    row: Row[tuple[object, ...]], key: str | None, captured: str, low_endpoints: Mapping[str, CommitLsn]
) -> ListedInstance:
    return ListedInstance(
        source_schema=row.source_schema,
        source_table=row.source_name,
        capture_instance=row.capture_instance,
        object_id=row.object_id,
        source_object_id=row.source_object_id,
        start_lsn=low_endpoints.get(row.capture_instance),
        end_lsn=None,
        supports_net_changes=row.supports_net_changes,
        has_drop_pending=row.has_drop_pending,
        role_name=row.role_name,
        index_name=row.index_name,
        filegroup_name=None,
        create_date=row.create_date,
        index_column_list=key,
        captured_column_list=captured,
    )


def _listed_column(row: Row[tuple[object, ...]], capture_instance: str) -> ListedColumn:
    details = describe_type(row.column_type)
    return ListedColumn(
        source_schema=row.source_schema,
        source_table=row.source_name,
        capture_instance=capture_instance,
        column_name=row.column_name,
        column_id=row.column_id,
        column_ordinal=row.column_ordinal,
        data_type=details.data_type,
        character_maximum_length=details.character_maximum_length,
        numeric_precision=details.numeric_precision,
        numeric_precision_radix=details.numeric_precision_radix,
        numeric_scale=details.numeric_scale,
        datetime_precision=details.datetime_precision,
    )


def _name_lists(connection: Connection, names: Table, ordinal: str) -> dict[int, str]:
    """Return the names of each instance's columns in their order."""
    columns = names.c
    found: dict[int, list[str]] = {}
    query = select(columns.object_id, columns.column_name).order_by(columns.object_id, columns[ordinal])
    for object_id, name in connection.execute(query):
        found.setdefault(object_id, []).append(name)
    return {object_id: format_column_list(listed) for object_id, listed in found.items()}


_READ = ("lsn_time_mapping", "instances", "ddl_history")
"""The tables that every lake has from its first cycle on, and that are read here."""


@frozen
class RowsLeft:
    """A table of a disabled instance that cannot be read, so that its rows cannot be removed."""

    capture_instance: str
    error: RowtideError


class LakeStatus:
    """Facts from a lake's tables, each read once; every method raises `LakeReadFailed` and `TableUnreadable`."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def require_tables(self) -> None:
        """Raise `LakeReadFailed` if a table is gone that a lake has in which cycles were published."""
        for path in (published.system_table_path(self._lake, name) for name in _READ):
            if SmallTable.open(path) is None:
                raise LakeReadFailed(path, "it is not there")

    def find_outdated(self) -> tuple[ListedChange, ...]:
        """Return the last statement that left no change rows of what it changed, of each instance copied before it.

        An instance that is copied again meanwhile is omitted.
        """
        return tuple(self._find_outdated())

    def list_schema_changes(self) -> Mapping[str, tuple[ListedChange, ...]]:
        """Return the DDL on the tables of enabled instances that have any, in log order, by the instance."""
        found = ((one.instance, self._histories.get(one.instance.member_id, ())) for one in self.list_enabled())
        return {instance.capture_instance: changes for instance, changes in found if changes}

    def find_lost_keys(self) -> tuple[Instance, ...]:
        """Return the instances whose keys no longer identify rows."""
        return tuple(
            one.instance
            for one in self._recorded
            if one.state == published.ENABLED and one.instance.key_lost_at is not None
        )

    def find_rows_left(self) -> tuple[RowsLeft, ...]:
        """Return the damaged tables of disabled instances."""
        return tuple(self._find_rows_left())

    def list_enabled(self) -> tuple[published.RecordedInstance, ...]:
        """Return the enabled instances that capture has read."""
        return tuple(one for one in self._recorded if one.state == published.ENABLED)

    @cached_property
    def publication(self) -> published.LakePublication | None:
        """The last publication that readers may see, None before the first."""
        return published.read_visible_publication(self._lake)

    @cached_property
    def _recorded(self) -> tuple[published.RecordedInstance, ...]:
        publication = self.publication
        if publication is None:
            return ()
        return make_once(
            "published instances",
            lambda: tuple(published.read_instances(self._lake, publication.cycle).values()),
            self._version_of("instances", publication),
        )

    @cached_property
    def _histories(self) -> Mapping[str, tuple[ListedChange, ...]]:
        publication = self.publication
        if publication is None:
            return {}
        return make_once(
            "histories",
            lambda: read_histories(self._lake, publication.cycle),
            self._version_of("ddl_history", publication),
        )

    def _version_of(self, name: str, publication: published.LakePublication) -> tuple[object, ...]:
        """Return a value that is equal for equal rows up to a publication, which most polls find unchanged."""
        table = SmallTable.open(published.system_table_path(self._lake, name))
        return self._lake, publication.cycle, table and (table.identity, table.version)

    def _find_rows_left(self) -> Iterator[RowsLeft]:
        for recorded in self._recorded:
            name = recorded.instance.capture_instance
            for path in (published.change_table_path(self._lake, name), published.base_table_path(self._lake, name)):
                if recorded.state == published.DISABLED:
                    try:
                        open_snapshot(locate(path))
                    except (LakeReadFailed, TableUnreadable) as error:
                        yield RowsLeft(name, error)

    def _find_outdated(self) -> Iterator[ListedChange]:
        if self.publication is None:
            return
        rewrites = {
            member_id: changed[-1]
            for member_id, changes in self._histories.items()
            if (changed := [change for change in changes if change.rewrites_values])
        }
        snapshots = read_snapshots(self._lake) if rewrites else {}
        for recorded in self._recorded if rewrites else ():
            member_id = recorded.instance.member_id
            copies = [
                copy.begin
                for copy in snapshots.get(member_id, ())
                if copy.is_whole and copy.state is not SnapshotState.CANCELLED
            ]
            last = rewrites.get(member_id)
            if recorded.state == published.ENABLED and last is not None and copies and max(copies) < last.ddl_lsn:
                yield last
