"""The triggers of a tracked PostgreSQL table, and what they call.

They fire whatever a session's replication role, so that rows which come by replication are tracked too. What reads or
writes system tables runs with its owner's rights, a fixed search path, and settings under which every value has one
text.
"""

from __future__ import annotations

from rowtide.databases.postgres.clock import BSN, CONTEXT_SETTING, SCHEMA, SEEN_SETTING
from rowtide.databases.postgres.connect import PINNED_SETTINGS
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.tracking.options import TrackingOptions
from rowtide.tracking.postgres.subject import CHANGE_BSN, CONTEXT, INSERT_BSN, STAMPS, Subject
from rowtide.tracking.postgres.system_tables import TOMBSTONES, TRUNCATIONS

TRUNCATED_ROWS = 100_000
"""A truncate of more rows leaves no tombstones: anchors from before it are refused."""

_PREFIX = "__sysTracking_"
_CONTEXT = f"nullif(pg_catalog.current_setting('{CONTEXT_SETTING}', true), '')"
_TEXT_SETTINGS = ("DateStyle", "IntervalStyle", "extra_float_digits", "bytea_output", "TimeZone", "lc_monetary")

_STAMP_INSERT = f"""
begin
    -- A row that an update moves to another partition comes with the update's stamps, and keeps them.
    if new.{quote(CHANGE_BSN)} is distinct from {BSN} or new.{quote(INSERT_BSN)} is null then
        new.{quote(CHANGE_BSN)} := {BSN};
        new.{quote(INSERT_BSN)} := {BSN};
    end if;
    if new.{quote(INSERT_BSN)} = {BSN} then
        new.{quote(CONTEXT)} := {_CONTEXT}::uuid;
    end if;
    return new;
end
"""
_STAMP_UPDATE = f"""
declare
    context uuid := {_CONTEXT};
    seen text := nullif(pg_catalog.current_setting('{SEEN_SETTING}', true), '');
begin
    new.{quote(CHANGE_BSN)} := {BSN};
    new.{quote(INSERT_BSN)} := old.{quote(INSERT_BSN)};
    new.{quote(CONTEXT)} := context;
    -- Whoever passes over rows with this context has not seen what somebody else did to the row.
    if context is not null and seen is not null and old.{quote(CONTEXT)} is distinct from context
        and not pg_catalog.pg_visible_in_snapshot(old.{quote(CHANGE_BSN)}::text::xid8, seen::pg_snapshot)
    then
        new.{quote(CONTEXT)} := null;
    end if;
    return new;
end
"""
_STAMP_KEY = f"""
begin
    new.{quote(INSERT_BSN)} := case when tg_argv[0] = 'insert' then {BSN} end;
    return new;
end
"""


def shared_functions() -> tuple[str, ...]:
    """Return the statements that make the functions of all tables that have their stamps in the row."""
    bodies = {"stamp_insert": _STAMP_INSERT, "stamp_update": _STAMP_UPDATE, "stamp_key": _STAMP_KEY}
    return tuple(
        f"create or replace function {SCHEMA}.{name}() returns trigger language plpgsql as $${body}$$"
        for name, body in bodies.items()
    )


def creations(subject: Subject) -> tuple[str, ...]:
    """Return the statements that make a table's columns, functions and triggers."""
    return (*_columns(subject), _index(subject), *_stamping(subject), *_burying(subject))


def removals(subject: Subject) -> tuple[str, ...]:
    """Return the statements that take them away again."""
    present = [quote(name) for name in STAMPS if any(column.name == name for column in subject.table.columns)]
    drops = ", ".join(f"drop column {name}" for name in present)
    return (*trigger_removals(subject), *([f"alter table {subject.quoted} {drops}"] if drops else []))


def trigger_removals(subject: Subject) -> tuple[str, ...]:
    """Return the statements that take triggers and functions away, and leave the stamps."""
    triggers = (
        f"drop trigger if exists {quote(name)} on {relation}"
        for name, relations in _relations(subject).items()
        for relation in relations
    )
    return (*triggers, *(f"drop function if exists {name}()" for name in _functions(subject).values()))


def _relations(subject: Subject) -> dict[str, tuple[str, ...]]:
    kinds = ("insert", "update", "update_key", "delete", "key")
    leaves = tuple(quote_qualified(leaf.schema, leaf.name) for leaf in subject.table.row_holders)
    truncated = leaves if subject.is_partitioned else (subject.quoted,)
    return {**{_PREFIX + kind: (subject.quoted,) for kind in kinds}, _PREFIX + "truncate": truncated}


def _functions(subject: Subject) -> dict[str, str]:
    """Return the functions of a table alone, by what they do."""
    source_id = subject.table.source_id
    return {what: f"{SCHEMA}.{quote(f'{what}_{source_id}')}" for what in ("bury", "bury_row", "truncate")}


def _columns(subject: Subject) -> list[str]:
    present = {column.name for column in subject.table.columns}
    added = [f"add column {quote(name)} {kind}" for name, kind in STAMPS.items() if name not in present]
    statements = [f"alter table {subject.quoted} {', '.join(added)}"] if added else []
    if TrackingOptions.INSERT in subject.options:
        # For rows to come: an insert is stamped without a function's call.
        defaults = ", ".join(f"alter column {quote(name)} set default {BSN}" for name in (CHANGE_BSN, INSERT_BSN))
        statements.append(f"alter table {subject.quoted} {defaults}")
    return statements


def _index(subject: Subject) -> str:
    # Of ranges of pages: it lets updates stay on their page, which one of single rows does not.
    name = quote(f"__sysChanges_{subject.table.source_id}")
    place = f"{subject.quoted} using brin ({quote(CHANGE_BSN)})"
    return f"create index if not exists {name} on {place} with (autosummarize = on)"


def _stamping(subject: Subject) -> list[str]:
    statements = []
    if TrackingOptions.INSERT in subject.options:
        is_unstamped = f"new.{quote(CHANGE_BSN)} is distinct from {BSN} or {_CONTEXT} is not null"
        call = f"for each row when ({is_unstamped}) execute function {SCHEMA}.stamp_insert()"
        statements += _trigger("insert", "before insert", subject.quoted, call)
    if TrackingOptions.UPDATE in subject.options:
        call = f"for each row execute function {SCHEMA}.stamp_update()"
        statements += _trigger("update", "before update", subject.quoted, call)
        argument = "'insert'" if TrackingOptions.INSERT in subject.options else ""
        call = f"for each row when ({subject.key_differs()}) execute function {SCHEMA}.stamp_key({argument})"
        statements += _trigger("update_key", "before update", subject.quoted, call)
    return statements


def _burying(subject: Subject) -> list[str]:
    """Return what writes tombstones: of a statement's rows at once; of partitions' and of changed keys one by one."""
    if TrackingOptions.DELETE not in subject.options:
        return []
    functions = _functions(subject)
    relations = _relations(subject)[_PREFIX + "truncate"]
    row = f"for each row execute function {functions['bury_row']}()"
    whole = f"referencing old table as gone for each statement execute function {functions['bury']}()"
    changed = f"for each row when ({subject.key_differs()}) execute function {functions['bury_row']}()"
    statements = [
        _function(functions["bury"], f"{_burial(subject, 'gone')} from gone; return null;"),
        _function(functions["bury_row"], f"{_burial(subject, 'old')}; return null;"),
        _function(functions["truncate"], _truncate(subject)),
        *_trigger("delete", "after delete", subject.quoted, row if subject.is_partitioned else whole),
        *_trigger("key", "after update", subject.quoted, changed),
    ]
    for relation in relations:
        call = f"for each statement execute function {functions['truncate']}()"
        statements += _trigger("truncate", "before truncate", relation, call)
    return statements


def _trigger(kind: str, event: str, relation: str, rest: str) -> list[str]:
    name = quote(_PREFIX + kind)
    return [
        f"create trigger {name} {event} on {relation} {rest}",
        f"alter table {relation} enable always trigger {name}",
    ]


def _function(name: str, body: str) -> str:
    settings = " ".join(f"set {setting} = {quote_literal(PINNED_SETTINGS[setting])}" for setting in _TEXT_SETTINGS)
    return (
        f"create or replace function {name}() returns trigger language plpgsql security definer "
        f"set search_path = pg_catalog, pg_temp {settings} as $$begin {body} end$$"
    )


def _burial(subject: Subject, row: str) -> str:
    columns = '"__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext"'
    return (
        f"insert into {TOMBSTONES} ({columns}) select {subject.literal}, {BSN}, {row}.{quote(INSERT_BSN)}, "
        f"{subject.packed_key(row)}, {_CONTEXT}::uuid"
    )


def _truncate(subject: Subject) -> str:
    """Return the body that buries a few rows, and else notes that there were more."""
    rows = "format('%I.%I', tg_table_schema, tg_table_name)"
    counting = f"select count(*) <= {TRUNCATED_ROWS} from (select from "
    burial = quote_literal(f"{_burial(subject, 'gone')} from ")
    return (
        f"declare few boolean; begin "
        f"execute '{counting}' || {rows} || ' limit {TRUNCATED_ROWS + 1}) t' into few; "
        f"if few then execute {burial} || {rows} || ' gone'; "
        f"else insert into {TRUNCATIONS} values ({subject.literal}, {BSN}); end if; return null; end;"
    )
