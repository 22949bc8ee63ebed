"""PostgreSQL tables that are or can be tracked: finding them, their keys, and their names for triggers and queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.catalogue import find_table, read_table, read_tables, running_through
from rowtide.databases.postgres.errors import TableNotFound
from rowtide.databases.postgres.planned_code import find_planned
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_literal, quote_qualified, read_operators
from rowtide.databases.postgres.rowguid import ROWGUID, rowguid_key
from rowtide.databases.postgres.values import is_of_server, text_of, value_of
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.tracking.changes import DeclaredColumn, DeclaredTable
from rowtide.tracking.errors import TableToTrackNotFound, TrackedPlanCallsCode, TrackingKeyMissing
from rowtide.tracking.options import Storage, TrackedTable, TrackingKeyType, TrackingOptions
from rowtide.tracking.postgres.system_tables import list_tracked, read_as_made

CHANGE_BSN = "__sysChangeTxBsn"
INSERT_BSN = "__sysInsertTxBsn"
CONTEXT = "__sysTrackingContext"
STAMPS = {CHANGE_BSN: "bigint", INSERT_BSN: "bigint", CONTEXT: "uuid"}


@frozen
class PostgresSubject:
    """A table, its key for tracking, the tracked operations, and where stamps are stored.

    `equals` are the operators by which rows are found by columns of the key whose types are not the server's; a column
    without one is compared by its text alone.
    """

    table: SourceTable
    key: tuple[SourceColumn, ...]
    options: TrackingOptions
    storage: Storage
    equals: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its exact name in the catalogue of tracking: schema and table."""
        return self.table.qualified_name

    @property
    def table_ids(self) -> list[int]:
        """The oids of the table and of the partitions with its rows."""
        return [self.table.source_id, *(part.source_id for part in self.table.row_holders)]

    @property
    def quoted(self) -> str:
        return quote_qualified(self.table.schema, self.table.name)

    @property
    def rows(self) -> str:
        """The relation to read rows from, without tables that inherit from it, which lack our triggers."""
        return self.quoted if self.is_partitioned else f"only {self.quoted}"

    @property
    def literal(self) -> str:
        """The name as an SQL string literal."""
        return quote_literal(self.name)

    @property
    def is_partitioned(self) -> bool:
        return self.table.kind is TableKind.PARTITIONED

    @property
    def user_columns(self) -> tuple[SourceColumn, ...]:
        """The columns that tracking did not add."""
        return tuple(column for column in self.table.columns if column.name not in STAMPS)

    @property
    def declared(self) -> DeclaredTable:
        """The user's columns with their declared types."""
        return DeclaredTable(
            self.name, tuple(DeclaredColumn(column.name, column.value_type_text) for column in self.user_columns)
        )

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key's columns, quoted."""
        return tuple(quote(column.name) for column in self.key)

    def packed_key(self, row: str) -> str:
        """Return the expression of a row's key in tombstones' form: the texts of its values."""
        texts = (text_of(f"{row}.{quote(column.name)}", column.value_type_text) for column in self.key)
        return f"array[{', '.join(texts)}]"

    def key_differs(self) -> str:
        """Return the condition that an update changed the key's text, even if only from 1.0 to 1.00."""
        return " or ".join(f"({_image_differs(column)})" for column in self.key)

    def key_condition(self, row: str, packed: str) -> str:
        """Return the condition that a row has a packed key: found by its values, then compared by text."""
        same = [
            f"{row}.{quote(column.name)} {equals} {value_of(f'{packed}[{place}]', column.value_type_text)}"
            for place, column in enumerate(self.key, 1)
            if (equals := self._equality(column)) is not None
        ]
        return " and ".join([*same, f"{self.packed_key(row)} {EQUALS} {packed}"])

    def _equality(self, column: SourceColumn) -> str | None:
        return EQUALS if is_of_server(column.value_type_text) else self.equals.get(column.name)


def _image_differs(column: SourceColumn) -> str:
    """Return the condition that a column's value has a different binary image; equal values may differ in text."""
    old, new = (f"{row}.{quote(column.name)}" for row in ("old", "new"))
    if column.type_code in _EQUAL_IF_SAME:
        return f"{old} operator(pg_catalog.<>) {new}"
    if column.type_code in _TEXTS:
        return f'{old} collate "C" operator(pg_catalog.<>) {new} collate "C"'
    return f"row({old})::record operator(pg_catalog.*<>) row({new})::record"


_EQUAL_IF_SAME = frozenset({16, 20, 21, 23, 26, 1082, 1114, 1184, 2950})
"""Type codes whose equal values have the same text: boolean, integers, dates and times, uuid."""
_TEXTS = frozenset({25, 1043})


_TRACKABLE = (TableKind.ORDINARY, TableKind.PARTITIONED)
_KEY_WORDS = {TrackingKeyType.PRIMARY_KEY: "primary key", TrackingKeyType.ROWGUID: f"unique column {ROWGUID}, not null"}
_KEYS: Mapping[TrackingKeyType, Callable[[SourceTable], tuple[SourceColumn, ...]]] = {
    TrackingKeyType.PRIMARY_KEY: lambda table: table.key_columns,
    TrackingKeyType.ROWGUID: rowguid_key,
}


def find_trackable(connection: Connection, name: str) -> SourceTable:
    """Return a table that can be tracked, by the name that a user gives. Raises `TableToTrackNotFound`."""
    try:
        table = find_table(connection, name)
    except TableNotFound as error:
        raise TableToTrackNotFound(name) from error
    if not is_trackable(table):
        raise TableToTrackNotFound(name)
    return table


def is_trackable(table: SourceTable) -> bool:
    """Whether a table's kind can be tracked; partitions are tracked with their root.

    An unlogged table is emptied by a crash. With inheritance, rows of one table appear in another.
    """
    has_place_of_its_own = table.schema != clock.SCHEMA and not table.ancestors and not table.has_relatives
    return table.kind in _TRACKABLE and has_place_of_its_own


def find_tracked(connection: Connection, table: SourceTable) -> TrackedTable | None:
    """Return how a table is tracked; None if it is not."""
    return next((tracked for tracked in list_tracked(connection) if tracked.name == table.qualified_name), None)


def find_present(connection: Connection, tracked: TrackedTable) -> tuple[int, SourceTable | None]:
    """Return the table's oid when it was enabled, and the present table; None if it was dropped.

    A renamed table keeps its oid; in a database restored from a dump, the table is found by name.
    """
    source_id = read_as_made(connection, tracked.name).source_id
    by_id = next(iter(read_tables(connection, [source_id])), None)
    if by_id is not None and by_id.qualified_name == tracked.name:
        return source_id, by_id
    try:
        return source_id, find_table(connection, tracked.name)
    except TableNotFound:
        return source_id, by_id


def subject_of(connection: Connection, tracked: TrackedTable) -> PostgresSubject:
    """Return a tracked table as it is now. Raises `TableNotFound`, `TrackingKeyMissing`."""
    table = read_table(connection, read_as_made(connection, tracked.name).source_id)
    return with_operators(connection, with_key(table, tracked))


def with_operators(connection: Connection, subject: PostgresSubject) -> PostgresSubject:
    """Return a table with the operators of its key's columns of users' types, by which rows are found.

    The parts of a composite, range or array may be domains, whose checks run when a text is read; an implicit cast can
    make an operator ambiguous: their columns get no operator.
    """
    if all(is_of_server(column.value_type_text) for column in subject.key):
        return subject
    named = {"source_id": subject.table.source_id, "names": [column.name for column in subject.key]}
    whole = set(connection.execute(text(_WHOLE_VALUES), named).scalars())
    operators = read_operators(running_through(connection), subject.quoted)
    return replace(subject, equals={name: found.equal for name, found in operators.items() if name in whole})


def require_own_plans(connection: Connection, subjects: Iterable[PostgresSubject]) -> None:
    """Raise `TrackedPlanCallsCode` for tables that cannot be read without running code of less privileged roles."""
    names = {subject.quoted: subject.name for subject in subjects}
    for quoted, functions in find_planned(running_through(connection), names).items():
        raise TrackedPlanCallsCode(names[quoted], functions[0])


def with_key(table: SourceTable, tracked: TrackedTable) -> PostgresSubject:
    """Return a table with the key by which it is, or will be, tracked. Raises `TrackingKeyMissing`."""
    key = _KEYS[tracked.key_type](table)
    if not key:
        raise TrackingKeyMissing(table.qualified_name, _KEY_WORDS[tracked.key_type])
    return PostgresSubject(table, key, tracked.options, tracked.storage)


_WHOLE_VALUES = """
with recursive types (column_name, type_id) as (
    select a.attname, a.atttypid from pg_attribute a where a.attrelid = :source_id and a.attname = any(:names)
    union all
    select types.column_name, t.typbasetype from types join pg_type t on t.oid = types.type_id where t.typtype = 'd')
select types.column_name::text from types join pg_type t on t.oid = types.type_id
where t.typtype in ('b', 'e') and t.typelem = 0 and not exists (
    select from pg_cast k where k.castsource = t.oid and k.castcontext = 'i' and k.castmethod <> 'b')
"""
