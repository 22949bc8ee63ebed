"""Where the stamps of a tracked SQLite table's rows are stored, and the SQL of each place."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import find_table
from rowtide.databases.sqlite.clock import CLOCK_TABLE
from rowtide.databases.sqlite.sql_text import quote
from rowtide.tracking.options import Storage, TrackedTable, TrackingOptions
from rowtide.tracking.sqlite.tracked_tables import CHANGE_BSN, CONTEXT, INSERT_BSN, STAMPS, SqliteSubject


class SqliteStamps(Protocol):
    """The SQL of one way to store stamps; in triggers' statements `new` and `old` are the rows."""

    @property
    def source(self) -> str:
        """The `from` clause for the rows with their stamps."""

    @property
    def stamped_condition(self) -> str:
        """The condition that a row `t` has stamps of its own, whatever became of rows that shared its key."""

    def is_there(self, connection: sqlite3.Connection) -> bool:
        """Whether the columns or the table of stamps exist; the index is not checked."""

    def creations(self) -> list[str]:
        """Return the statements that create the columns or the table of stamps, if missing."""

    def removals(self) -> list[str]:
        """Return the statements that remove them."""

    def of_insert(self) -> list[str]:
        """Return the statement that stamps row `new` as inserted."""

    def of_update(self) -> list[str]:
        """Return the statement that stamps row `new` as updated."""

    def of_key(self) -> list[str]:
        """Return the statement that stamps row `new`, which had the key of `old`, as inserted."""

    def forgetting(self) -> list[str]:
        """Return the statement that removes the stamps of `old`'s key, once no row has that key."""

    def insert_bsn(self, row: str) -> str:
        """Return the expression for the insert stamp of a row."""


@frozen
class SqliteRowStamps:
    """Three columns in the row, as in SQL Server Compact."""

    subject: SqliteSubject

    @property
    def source(self) -> str:
        return self.subject.quoted

    @property
    def stamped_condition(self) -> str:
        return "true"

    def is_there(self, connection: sqlite3.Connection) -> bool:  # noqa: ARG002 - of the protocol
        return all(self.subject.table.find_column(name) for name in STAMPS)

    def creations(self) -> list[str]:
        added = [
            f"alter table {self.subject.quoted} add column {name} {type_text}"
            for name, type_text in STAMPS.items()
            if self.subject.table.find_column(name) is None
        ]
        # Rows from before tracking have no stamp, and are not indexed.
        index = (
            f"create index if not exists {self._index} on {self.subject.quoted} ({CHANGE_BSN}) "
            f"where {CHANGE_BSN} is not null"
        )
        return [*added, index]

    def removals(self) -> list[str]:
        present = (name for name in STAMPS if self.subject.table.find_column(name) is not None)
        columns = [f"alter table {self.subject.quoted} drop column {name}" for name in present]
        return [f"drop index if exists {self._index}", *columns]

    def of_insert(self) -> list[str]:
        values = f"(select __sysBsn, {_inserted(self.subject)}, __sysContext from {CLOCK_TABLE})"
        stamps = f"({CHANGE_BSN}, {INSERT_BSN}, {CONTEXT})"
        return [f"update {self.subject.quoted} set {stamps} = {values} where {self._new_condition}"]

    def of_update(self) -> list[str]:
        values = f"(select __sysBsn, {_context_after('old')} from {CLOCK_TABLE})"
        return [f"update {self.subject.quoted} set ({CHANGE_BSN}, {CONTEXT}) = {values} where {self._new_condition}"]

    def of_key(self) -> list[str]:
        values = f"(select __sysBsn, {_inserted(self.subject)}, {_context_after('old')} from {CLOCK_TABLE})"
        stamps = f"({CHANGE_BSN}, {INSERT_BSN}, {CONTEXT})"
        return [f"update {self.subject.quoted} set {stamps} = {values} where {self._new_condition}"]

    def forgetting(self) -> list[str]:
        return []

    def insert_bsn(self, row: str) -> str:
        return f"{row}.{INSERT_BSN}"

    @property
    def _index(self) -> str:
        return quote(_index_name(self.subject.name))

    @property
    def _new_condition(self) -> str:
        return self.subject.same_row(self.subject.quoted, "new")


@frozen
class SqliteSideStamps:
    """A separate table, by key."""

    subject: SqliteSubject

    @property
    def source(self) -> str:
        stamps = ", ".join(f"s.{name}" for name in STAMPS)
        # The stamps' table comes first: few rows of it are wanted, found by its index.
        joined = f"{self._side} s cross join {self.subject.quoted} t on {self.subject.same_key('t', 's')}"
        return f"(select t.*, {stamps} from {joined})"

    @property
    def stamped_condition(self) -> str:
        return f"exists (select 1 from {self._side} s where {self.subject.same_key('s', 't')})"

    def is_there(self, connection: sqlite3.Connection) -> bool:
        return find_table(connection, self._name) is not None

    def creations(self) -> list[str]:
        columns = ", ".join([*self._key_definitions(), *(f"{name} {type_text}" for name, type_text in STAMPS.items())])
        # Without rowid a key has no nulls; as the primary key of a table with rowids, an integer has none either.
        is_nullable = self.subject.has_nullable_key
        form = "" if is_nullable or self.subject.has_rowid_key else " without rowid"
        key = f"{'unique' if is_nullable else 'primary key'} ({self._keys()})"
        index = f"create index if not exists {self._index} on {self._side} ({CHANGE_BSN})"
        return [f"create table if not exists {self._side} ({columns}, {key}){form}", index]

    def removals(self) -> list[str]:
        return [f"drop table if exists {self._side}"]

    def of_insert(self) -> list[str]:
        stamping = (
            f"insert into {self._side} select {self._keys('new.')}, __sysBsn, {_inserted(self.subject)}, __sysContext "
            f"from {CLOCK_TABLE}"
        )
        return [self._forgetting("new"), stamping]

    def of_update(self) -> list[str]:
        values = f"(select __sysBsn, {_context_after(self._side)} from {CLOCK_TABLE})"
        # A row from before the table was tracked has no stamps yet: then the update, the statement before, found none.
        # Looking for them first would cost each update another lookup.
        stamps = f"{self._keys()}, {CHANGE_BSN}, {CONTEXT}"
        first = f"select {self._keys('new.')}, __sysBsn, __sysContext from {CLOCK_TABLE} where changes() = 0"
        return [
            f"update {self._side} set ({CHANGE_BSN}, {CONTEXT}) = {values} where {self._same_key('new')}",
            f"insert into {self._side} ({stamps}) {first}",
        ]

    def of_key(self) -> list[str]:
        # The stamps of `old` move: they say whether its writer has seen it.
        values = (
            f"(select {self._keys('new.')}, __sysBsn, {_inserted(self.subject)}, {_context_after(self._side)} "
            f"from {CLOCK_TABLE})"
        )
        stamps = f"({self._keys()}, {CHANGE_BSN}, {INSERT_BSN}, {CONTEXT})"
        return [
            f"{self._forgetting('new')} and not ({self._same_key('old')})",
            self._first_stamps("old"),
            f"update {self._side} set {stamps} = {values} where {self._same_key('old')}",
        ]

    def forgetting(self) -> list[str]:
        return [self._forgetting("old")]

    def insert_bsn(self, row: str) -> str:
        return f"(select {INSERT_BSN} from {self._side} where {self._same_key(row)})"

    @property
    def _name(self) -> str:
        return _side_name(self.subject.name)

    @property
    def _side(self) -> str:
        return quote(self._name)

    @property
    def _index(self) -> str:
        return quote(_index_name(self.subject.name))

    def _keys(self, prefix: str = "") -> str:
        return ", ".join(prefix + quote(column.name) for column in self.subject.key)

    def _key_definitions(self) -> list[str]:
        collations = self.subject.key_collations
        return [
            f"{quote(column.name)} {type_text} collate {collation}"
            for column, type_text, collation in zip(self.subject.key, self.subject.key_types, collations, strict=True)
        ]

    def _same_key(self, row: str) -> str:
        return self.subject.same_key(self._side, row)

    def _first_stamps(self, row: str) -> str:
        """Return the statement that gives empty stamps to a row without any."""
        stamped = f"exists (select 1 from {self._side} where {self._same_key(row)})"
        return f"insert into {self._side} ({self._keys()}) select {self._keys(f'{row}.')} where not {stamped}"

    def _forgetting(self, row: str) -> str:
        return f"delete from {self._side} where {self._same_key(row)}"


def removals_of_dropped(name: str) -> list[str]:
    """Return the statements that remove what a dropped or renamed table leaves: its index, or separate stamps."""
    return [f"drop index if exists {quote(_index_name(name))}", f"drop table if exists {quote(_side_name(name))}"]


STAMPS_IN: Mapping[Storage, Callable[[SqliteSubject], SqliteStamps]] = {
    Storage.ROW: SqliteRowStamps,
    Storage.SIDE: SqliteSideStamps,
}


def _index_name(name: str) -> str:
    return f"__sysChanges_{name}"


def _side_name(name: str) -> str:
    return f"__sysRows_{name}"


def _inserted(subject: SqliteSubject) -> str:
    """Return the insert stamp; null if inserts are not tracked."""
    return "__sysBsn" if TrackingOptions.INSERT in subject.options else "null"


def _context_after(stamps: str) -> str:
    """Return the context of a changed row; null if another writer changed it after the given anchor."""
    is_own = f"coalesce({stamps}.{CHANGE_BSN}, 0) <= __sysContextCsn or {stamps}.{CONTEXT} is __sysContext"
    return f"case when {is_own} then __sysContext end"


def stamps_of(subject: SqliteSubject, tracked: TrackedTable) -> SqliteStamps:
    """Return how a table's stamps are stored."""
    return STAMPS_IN[tracked.storage](subject)
