"""Where the stamps of a table's rows are stored, and the SQL that triggers and queries need for each place.

Stamps in the row: three added columns, as in SQL Server Compact. Stamps in a separate table, by packed key: the tracked
table gets triggers, but no column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import BSN, CONTEXT_SETTING, SCHEMA, SEEN_SETTING
from rowtide.databases.postgres.quoting import quote, quote_body, quote_qualified
from rowtide.databases.postgres.values import text_of, value_of
from rowtide.databases.source_table import SourceTable, TableKind
from rowtide.tracking.options import Storage, TrackingOptions
from rowtide.tracking.postgres.tracked_tables import CHANGE_BSN, CONTEXT, INSERT_BSN, STAMPS, PostgresSubject
from rowtide.tracking.postgres.triggers import (
    OF_OTHERS,
    ROW_CONTEXT,
    AroundRelation,
    burial,
    function,
    function_name,
    trigger,
    truncate_triggers,
    truncating,
)

# The stamping functions run with the rights of the writing role, under the path of that session: each name and operator
# has its schema. A `set search_path` clause would cost more than the functions themselves.
_CONTEXT_OF_ROW = f"({ROW_CONTEXT})::pg_catalog.uuid"
_STAMP_INSERT = f"""
begin
    -- A row that an update moves to another partition comes with the update's stamps, and keeps them.
    if (new.{quote(CHANGE_BSN)} operator(pg_catalog.=) {BSN}) is not true or new.{quote(INSERT_BSN)} is null then
        new.{quote(CHANGE_BSN)} := {BSN};
        new.{quote(INSERT_BSN)} := {BSN};
        new.{quote(CONTEXT)} := {_CONTEXT_OF_ROW};
    end if;
    new.{quote(CONTEXT)} := coalesce(new.{quote(CONTEXT)}, {_CONTEXT_OF_ROW});
    return new;
end
"""
_STAMP_UPDATE = f"""
declare
    seen pg_catalog.text;
begin
    new.{quote(CHANGE_BSN)} := {BSN};
    new.{quote(INSERT_BSN)} := old.{quote(INSERT_BSN)};
    -- Few writers have a context: for the others nothing more is asked.
    if pg_catalog.current_setting('{CONTEXT_SETTING}', true) operator(pg_catalog.<>) '' then
        new.{quote(CONTEXT)} := {_CONTEXT_OF_ROW};
        seen := pg_catalog.current_setting('{SEEN_SETTING}', true);
        -- A reader that filters out this context has not seen what another session did to the row.
        if seen operator(pg_catalog.<>) ''
            and (old.{quote(CONTEXT)} operator(pg_catalog.=) new.{quote(CONTEXT)}) is not true
            and not pg_catalog.pg_visible_in_snapshot(
                old.{quote(CHANGE_BSN)}::pg_catalog.text::pg_catalog.xid8, seen::pg_catalog.pg_snapshot)
        then
            new.{quote(CONTEXT)} := '{OF_OTHERS}';
        end if;
    else
        new.{quote(CONTEXT)} := null;
    end if;
    return new;
end
"""
_STAMP_KEY = f"""
begin
    new.{quote(INSERT_BSN)} := case when tg_argv[0] operator(pg_catalog.=) 'insert' then {BSN} end;
    return new;
end
"""


@frozen
class PostgresRowStamps:
    """Three columns of the table, set before a row is written."""

    subject: PostgresSubject

    @property
    def source(self) -> str:
        return self.subject.rows

    @property
    def holder(self) -> tuple[str, str]:
        return self.subject.table.schema, self.subject.table.name

    def is_there(self, connection: Connection) -> bool:  # noqa: ARG002 - of the protocol
        return {column.name for column in self.subject.table.columns} >= set(STAMPS)

    def creations(self) -> list[str]:
        present = {column.name for column in self.subject.table.columns}
        added = [f"add column {quote(name)} {kind}" for name, kind in STAMPS.items() if name not in present]
        return [f"alter table {self.subject.quoted} {', '.join(added)}"] if added else []

    def removals(self) -> list[str]:
        present = [quote(name) for name in STAMPS if any(column.name == name for column in self.subject.table.columns)]
        drops = ", ".join(f"drop column {name}" for name in present)
        return [f"alter table {self.subject.quoted} {drops}"] if drops else []

    def trigger_creations(self) -> list[str]:
        burying = self._burying() if TrackingOptions.DELETE in self.subject.options else []
        return [*_shared_functions(), *self._stamping(), *burying]

    def _stamping(self) -> list[str]:
        table, statements = self.subject.quoted, []
        if TrackingOptions.INSERT in self.subject.options:
            # Defaults stamp an insert without calling a function.
            defaults = ", ".join(f"alter column {quote(name)} set default {BSN}" for name in (CHANGE_BSN, INSERT_BSN))
            is_unstamped = f"new.{quote(CHANGE_BSN)} is distinct from {BSN} or ({ROW_CONTEXT}) is not null"
            call = f"for each row when ({is_unstamped}) execute function {SCHEMA}.stamp_insert()"
            statements += [f"alter table {table} {defaults}", *trigger("insert", "before insert", table, call)]
        if TrackingOptions.UPDATE in self.subject.options:
            call = f"for each row execute function {SCHEMA}.stamp_update()"
            statements += trigger("update", "before update", table, call)
            argument = "'insert'" if TrackingOptions.INSERT in self.subject.options else ""
            call = f"for each row when ({self.subject.key_differs()}) execute function {SCHEMA}.stamp_key({argument})"
            statements += trigger("update_key", "before update", table, call)
        return statements

    def _burying(self) -> list[str]:
        """Return the triggers that write tombstones: per statement, and per row for partitions and changed keys."""
        subject = self.subject
        whole = self._burial("gone", "from gone")
        burying_row = f"begin {self._burial('old')}; return null; end"
        bury, bury_row = (function_name(subject, what) for what in ("bury", "bury_row"))
        by_row = f"for each row execute function {bury_row}()"
        at_once = f"referencing old table as gone for each statement execute function {bury}()"
        changed = f"for each row when ({subject.key_differs()}) execute function {bury_row}()"
        return [
            *function(subject, "bury", f"begin {whole}; return null; end"),
            *function(subject, "bury_row", burying_row, is_cloned=subject.is_partitioned),
            *truncating(subject, AroundRelation(self._burial("gone", "from "), " gone")),
            *trigger("delete", "after delete", subject.quoted, by_row if subject.is_partitioned else at_once),
            *trigger("key", "after update", subject.quoted, changed),
            *truncate_triggers(subject),
        ]

    def _burial(self, row: str, source: str = "") -> str:
        # The table's owner could have altered the type of the stamps, and defined a cast of it.
        inserted = value_of(f"({text_of(f'{row}.{quote(INSERT_BSN)}', 'bigint')})", "bigint")
        return burial(self.subject, row, inserted, source)


def _shared_functions() -> list[str]:
    """Return the statements that create the functions shared by all tables."""
    bodies = {"stamp_insert": _STAMP_INSERT, "stamp_update": _STAMP_UPDATE, "stamp_key": _STAMP_KEY}
    return [
        f"create or replace function {SCHEMA}.{name}() returns trigger language plpgsql as {quote_body(body)}"
        for name, body in bodies.items()
    ]


_KEY = '"__sysRK"'
_OWN_CONTEXT = f"({ROW_CONTEXT})::uuid"


@frozen
class PostgresSideStamps:
    """A separate table, written after each row, in the order of writes: one statement may write a row several times.

    `merge` deletes a row and inserts another with its key; an update moves keys one further. A transition table has the
    rows without their order, so one does not say which stamps a key has in the end; deletes of stamps in the
    rows are written from one, a statement at a time, for a third of the cost. Stamps are found by the key's text:
    comparing values of users' types in a function with its owner's rights would lend these rights to any role that can
    create an operator.
    """

    subject: PostgresSubject

    @property
    def source(self) -> str:
        stamps = ", ".join(f"s.{quote(name)}" for name in STAMPS)
        same = self.subject.key_condition("t", f"s.{_KEY}")
        return f"(select t.*, {stamps} from {self._rows} s join {self.subject.rows} t on {same})"

    @property
    def holder(self) -> tuple[str, str]:
        return SCHEMA, f"__sysRows_{self.subject.table.source_id}"

    @property
    def _rows(self) -> str:
        return quote_qualified(*self.holder)

    def is_there(self, connection: Connection) -> bool:
        found = connection.execute(text("select to_regclass(:name)"), {"name": self._rows})
        return found.scalar() is not None

    def creations(self) -> list[str]:
        columns = ", ".join(f"{quote(name)} {kind}" for name, kind in STAMPS.items())
        return [f"create table if not exists {self._rows} ({_KEY} text[] primary key, {columns})"]

    def removals(self) -> list[str]:
        return [f"drop table if exists {self._rows}"]

    def trigger_creations(self) -> list[str]:
        subject, options = self.subject, self.subject.options
        bodies = {"delete": f"{self._bury()} {self._forget('old')}"}
        events = {"delete": "after delete", "key": "after update"}
        conditions = {"key": f"when ({subject.key_differs()})", "update": f"when (not ({subject.key_differs()}))"}
        bodies["key"] = f"{self._bury()} {self._stamp_moved()} {self._forget('old')}"
        if TrackingOptions.INSERT in options:
            bodies["insert"], events["insert"] = self._stamp_new(), "after insert"
        if TrackingOptions.UPDATE in options:
            bodies["update"], events["update"] = self._stamp_changed(), "after update"
        statements = [
            made for what, body in bodies.items() for made in function(subject, what, f"begin {body} return null; end")
        ]
        for what, event in events.items():
            call = f"for each row {conditions.get(what, '')} execute function {function_name(subject, what)}()"
            statements += trigger(what, event, subject.quoted, call)
        burying = self._burial_of_truncated() if TrackingOptions.DELETE in options else None
        truncate = truncating(subject, burying, forgetting=f"delete from {self._rows}")
        return [*statements, *truncate, *truncate_triggers(subject)]

    def _bury(self) -> str:
        if TrackingOptions.DELETE not in self.subject.options:
            return ""
        stamp = f"(select {quote(INSERT_BSN)} from {self._rows} where {_KEY} = {self.subject.packed_key('old')})"
        return f"{burial(self.subject, 'old', stamp)};"

    def _burial_of_truncated(self) -> AroundRelation:
        before = burial(self.subject, "gone", f"s.{quote(INSERT_BSN)}", "from ")
        return AroundRelation(before, f" gone left join {self._rows} s on s.{_KEY} = {self.subject.packed_key('gone')}")

    def _forget(self, row: str) -> str:
        return f"delete from {self._rows} where {_KEY} = {self.subject.packed_key(row)};"

    def _stamp_new(self, context: str = _OWN_CONTEXT) -> str:
        """Return the statement that stamps row `new` as inserted."""
        inserted = BSN if TrackingOptions.INSERT in self.subject.options else "null"
        names = (CHANGE_BSN, INSERT_BSN, CONTEXT)
        return self._upsert(inserted, context, {name: f"excluded.{quote(name)}" for name in names})

    def _stamp_moved(self) -> str:
        """Return the same for a row that had the key of `old`."""
        of_old = (
            f"select from {self._rows} s where s.{_KEY} = {self.subject.packed_key('old')} and {_unseen_condition('s')}"
        )
        return self._stamp_new(f"case when exists ({of_old}) then '{OF_OTHERS}' else {_OWN_CONTEXT} end")

    def _stamp_changed(self) -> str:
        """Return the statement that stamps row `new` as updated; a row from before tracking has no stamps yet."""
        context = f"case when {_unseen_condition('kept')} then '{OF_OTHERS}' else excluded.{quote(CONTEXT)} end"
        return self._upsert("null", _OWN_CONTEXT, {CHANGE_BSN: f"excluded.{quote(CHANGE_BSN)}", CONTEXT: context})

    def _upsert(self, inserted: str, context: str, stamped_before: Mapping[str, str]) -> str:
        names = ", ".join(map(quote, (CHANGE_BSN, INSERT_BSN, CONTEXT)))
        again = ", ".join(f"{quote(name)} = {value}" for name, value in stamped_before.items())
        return (
            f"insert into {self._rows} as kept ({_KEY}, {names}) "
            f"values ({self.subject.packed_key('new')}, {BSN}, {inserted}, {context}) "
            f"on conflict ({_KEY}) do update set {again};"
        )


def find_blocker(table: SourceTable, key: Collection[str]) -> str | None:
    """Return why the stamps of a table with this key cannot be beside its rows, None if they can.

    Two rows may have one deferrable key until commit. A row that moves to another partition is deleted there and
    inserted here, and whether its writer had seen others' changes is in the stamps that went with the delete.
    """
    if table.kind is TableKind.PARTITIONED:
        return "it is partitioned"
    is_deferrable = any(set(index.columns) == set(key) and not index.is_immediate for index in table.indexes)
    return "its key is deferrable" if is_deferrable else None


def _unseen_condition(stamps: str) -> str:
    """Return the condition that the writer has a context, and has not seen another's last change of the row."""
    seen = f"nullif(pg_catalog.current_setting('{SEEN_SETTING}', true), '')"
    return (
        f"{_OWN_CONTEXT} is not null and {seen} is not null "
        f"and {stamps}.{quote(CONTEXT)} is distinct from {_OWN_CONTEXT} "
        f"and not pg_catalog.pg_visible_in_snapshot({stamps}.{quote(CHANGE_BSN)}::text::xid8, {seen}::pg_snapshot)"
    )


class PostgresStamps(Protocol):
    """The SQL of one way to store stamps."""

    @property
    def source(self) -> str:
        """The `from` clause for the rows with their stamps."""

    @property
    def holder(self) -> tuple[str, str]:
        """The schema and name of the table that has the stamps as columns."""

    def is_there(self, connection: Connection) -> bool:
        """Whether the columns or the table of stamps exist; the index is not checked."""

    def creations(self) -> list[str]:
        """Return the statements that create the columns or the table of stamps, if missing."""

    def removals(self) -> list[str]:
        """Return the statements that remove them."""

    def trigger_creations(self) -> list[str]:
        """Return the statements that create the triggers and their functions."""


_STAMPS: Mapping[Storage, Callable[[PostgresSubject], PostgresStamps]] = {
    Storage.ROW: PostgresRowStamps,
    Storage.SIDE: PostgresSideStamps,
}


def stamps_of(subject: PostgresSubject) -> PostgresStamps:
    """Return how a table's stamps are stored."""
    return _STAMPS[subject.storage](subject)
