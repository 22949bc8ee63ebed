"""Stamps in the row: three added columns, as in SQL Server Compact."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from rowtide.databases.postgres.clock import BSN, CONTEXT_SETTING, SCHEMA, SEEN_SETTING
from rowtide.databases.postgres.quoting import quote, quote_body
from rowtide.databases.postgres.values import text_of, value_of
from rowtide.tracking.options import TrackingOptions
from rowtide.tracking.postgres.subject import CHANGE_BSN, CONTEXT, INSERT_BSN, STAMPS, Subject
from rowtide.tracking.postgres.trigger_text import (
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

# The stamping functions run with the rights of whoever writes, under the path of that session: each name and operator
# has its schema. To attach a path to them would cost more than what they do.
_OWN_CONTEXT = f"({ROW_CONTEXT})::pg_catalog.uuid"
_STAMP_INSERT = f"""
begin
    -- A row that an update moves to another partition comes with the update's stamps, and keeps them.
    if (new.{quote(CHANGE_BSN)} operator(pg_catalog.=) {BSN}) is not true or new.{quote(INSERT_BSN)} is null then
        new.{quote(CHANGE_BSN)} := {BSN};
        new.{quote(INSERT_BSN)} := {BSN};
        new.{quote(CONTEXT)} := {_OWN_CONTEXT};
    end if;
    new.{quote(CONTEXT)} := coalesce(new.{quote(CONTEXT)}, {_OWN_CONTEXT});
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
        new.{quote(CONTEXT)} := {_OWN_CONTEXT};
        seen := pg_catalog.current_setting('{SEEN_SETTING}', true);
        -- Whoever passes over rows with this context has not seen what somebody else did to the row.
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


@dataclass(frozen=True, slots=True)
class RowStamps:
    """Three columns of the table, set before a row is written."""

    subject: Subject

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
            # An insert is stamped without a function's call.
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
