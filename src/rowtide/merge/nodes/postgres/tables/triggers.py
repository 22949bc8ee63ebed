"""Triggers that log which rows of a PostgreSQL table change, and give programs numbers of identity ranges.

Each fires once per statement and appends all of the statement's rows to the log. It reads no other table, takes no row
lock and waits for nothing. The triggers fire in every session_replication_role, but not for the agent's own writes.
What a user's trigger or a foreign key action does in the agent's transaction is logged like any other change. Triggers
of programs that change the row they fire for are found here, too (`RewritingTrigger`).

An existing node gets functions that were changed here only if `FUNCTIONS_FORM` of `node_form` is raised with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.functions import ALL_ROWS, DEFINER, close_function
from rowtide.databases.postgres.owner_functions import called_by_plans
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.databases.postgres.values import text_of
from rowtide.databases.source_table import SourceTable, TableKind, TablePartition
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.errors.nodes import ChangeProhibited, PlannedCodeOfOwner
from rowtide.merge.nodes.node_tables import RewritingTrigger
from rowtide.merge.nodes.postgres.execution import AGENT_SETTING
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG, LOG_ORDER
from rowtide.merge.nodes.postgres.tables.identity_triggers import range_function_statements, range_trigger_statements
from rowtide.merge.versions.apply import Logged

_IS_NOT_AGENT = f"pg_catalog.current_setting('{AGENT_SETTING}', true) is distinct from 'on'"
_IS_OF_USER = f"{_IS_NOT_AGENT} or pg_catalog.pg_trigger_depth() > 0"
_OLD, _NEW = "referencing old table as old_rows", "referencing new table as new_rows"
_EVENTS = {
    "ins": f"after insert on {{table}} {_NEW} for each statement",
    "upd": f"after update on {{table}} {_OLD} new table as new_rows for each statement",
    "del": f"after delete on {{table}} {_OLD} for each statement",
    "trunc": "before truncate on {table} for each statement",
    "rowguid": f"before update of {ROWGUID} on {{table}} for each row",
    "again": "before insert on {table} for each row",
}
_PROHIBITIONS = {
    "prohibit": "before insert or update or delete on {table} for each row",
    "prohibit_trunc": "before truncate on {table} for each statement",
}
_UUID = 2950
_LOGGED_ROWGUID = (
    f"case when pg_typeof(n.{ROWGUID}) = {_UUID} then n.{ROWGUID}::uuid else format('%s', n.{ROWGUID})::uuid end"
)
"""A row's rowguid. Its column may be given another type, which has a cast of the table's owner."""
_ALL_EVENTS = _EVENTS | _PROHIBITIONS
_IDENTITY = "identity"
"""The kind of the trigger that keeps to identity ranges."""
_AGAIN = "again"
"""The kind of the trigger that gives a row which a transaction deletes and inserts again its rowguid back.

Taken as two rows, the delete would be refused for the row's children at the hub, and the new row be a conflict. It asks
only in transactions that have deleted rows of the table; a truncate notes no keys.
"""
_OF_ROWS = ("rowguid", "prohibit", _AGAIN)
_OF_STATEMENTS = tuple(kind for kind in _EVENTS if kind not in _OF_ROWS)
_CONDITIONS = {
    "rowguid": f"old.{ROWGUID} is distinct from new.{ROWGUID}",
    **dict.fromkeys(_PROHIBITIONS, _IS_NOT_AGENT),
}


def trigger_statements(article: Article, table: SourceTable) -> Iterator[str]:
    """Yield the statements that create a table's functions and triggers, and those of its partitions."""
    yield from function_statements(article, is_partitioned=table.kind is TableKind.PARTITIONED)
    yield from _triggers(article, quote_qualified(table.schema, table.name), _events(article))
    if _has_ranges(article):
        yield from range_trigger_statements(article, quote(_name(article, _IDENTITY)), _IS_OF_USER)
    for part in table.row_holders if article.is_tracked else ():
        yield from track_partition(article, part)


def function_statements(article: Article, *, is_partitioned: bool) -> Iterator[str]:
    """Yield the statements that create the functions of a table's triggers, or replace those of another build."""
    bodies = _bodies(article)
    for kind in _events(article):
        signature = f"{SCHEMA}.{quote(_name(article, kind))}()"
        reading = f" {ALL_ROWS}" if kind == "trunc" else ""
        yield (
            f"create or replace function {signature} returns trigger language plpgsql "
            f"{DEFINER}{reading} as {quote_body(bodies[kind])}"
        )
        yield close_function(signature, is_cloned=is_partitioned and kind in _OF_ROWS)
    if _has_ranges(article):
        yield from range_function_statements(article, quote(_name(article, _IDENTITY)))


def function_name(article: Article) -> str:
    """Return the qualified name of one of an article's functions, which exists if its table has triggers."""
    return f"{SCHEMA}.{quote(_name(article, next(iter(_events(article)))))}"


def track_partition(article: Article, part: TablePartition) -> Iterator[str]:
    """Yield the statements that create a partition's own triggers; it inherits the row-level ones from its table."""
    yield from _triggers(article, quote_qualified(part.schema, part.name), _OF_STATEMENTS)


def trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names of the triggers that an article's table must have."""
    kinds = (*_events(article), *([_IDENTITY] if _has_ranges(article) else []))
    return tuple(_name(article, kind) for kind in kinds)


def partition_trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names of the triggers that each partition of a table has."""
    return tuple(_name(article, kind) for kind in _OF_STATEMENTS) if article.is_tracked else ()


def removal_statements(article: Article) -> Iterator[str]:
    """Yield the statements that drop the functions and all triggers that call them."""
    for kind in (*_ALL_EVENTS, _IDENTITY):
        yield f"drop function if exists {SCHEMA}.{quote(_name(article, kind))}() cascade"


def _events(article: Article) -> Mapping[str, str]:
    """Return the events of an article's triggers; without tracking the rowguids alone are kept, or all rows."""
    if article.is_tracked:
        return _EVENTS
    return _PROHIBITIONS if article.is_prohibited else {"rowguid": _EVENTS["rowguid"]}


def _has_ranges(article: Article) -> bool:
    """Whether programs that insert rows get their numbers from ranges."""
    return bool(article.identity_range) and (article.is_tracked or not article.is_prohibited)


def _name(article: Article, kind: str) -> str:
    return f"MSmerge_{kind}_{article.nickname}"


def _triggers(article: Article, table: str, kinds: Iterable[str]) -> Iterator[str]:
    for kind in kinds:
        name, condition = quote(_name(article, kind)), _condition(article, kind)
        yield (
            f"create or replace trigger {name} {_ALL_EVENTS[kind].format(table=table)} when ({condition}) "
            f"execute function {SCHEMA}.{name}()"
        )
        yield f"alter table {table} enable always trigger {name}"


def _condition(article: Article, kind: str) -> str:
    if kind == _AGAIN:
        has_deleted = f"pg_catalog.current_setting({quote_literal(_deleting(article))}, true) = 'on'"
        return f"{has_deleted} and ({_IS_OF_USER})"
    return _CONDITIONS.get(kind, _IS_OF_USER)


def _deleting(article: Article) -> str:
    """Return the setting that is on once the transaction has deleted rows of a table."""
    return f"rowtide.deleted_{article.nickname}"


def _bodies(article: Article) -> dict[str, str]:
    truncated = _append(article, Logged.DELETED, "{} n").replace("%", "%%").replace("{}", "%1$s")
    refusal = str(ChangeProhibited(article.table))
    unread = (
        f"RT-{PlannedCodeOfOwner.number}: {article.qualified_name} is not truncated: to read it for merge, the planner "
        "would run functions of its owner with other rights. Delete its rows instead"
    )
    return {
        "ins": _function(_append(article, Logged.INSERTED, "new_rows n")),
        "upd": _update(article),
        "del": _delete(article),
        _AGAIN: _again(article),
        "trunc": _function(
            f"if exists ({called_by_plans('tg_relid')}) then raise exception using message = {quote_literal(unread)}; "
            "end if",
            f"execute format({quote_literal(truncated)}, tg_relid::regclass)",
        ),
        "rowguid": "begin raise exception 'the column rowguid of a merged table stays as it is'; end",
        **dict.fromkeys(_PROHIBITIONS, f"begin raise exception using message = {quote_literal(refusal)}; end"),
    }


def _function(*statements: str) -> str:
    return "begin " + "".join(f"{statement}; " for statement in statements) + "return null; end"


def _append(article: Article, kind: Logged, source: str, *, names: str = "", values: str = "") -> str:
    """Return the statement that logs the rows of a source; it calls `pg_current_xact_id` once for all of them."""
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, stamp{names}) "
        f"select {article.nickname}, {_LOGGED_ROWGUID}, {kind.value}, (select {BSN}){values} from {source}"
    )


def _key(article: Article, row: str) -> str:
    """Return the text of a row's primary key."""
    texts = (text_of(f"{row}.{quote(column.name)}", column.type_text) for column in article.key_columns)
    return f"array[{', '.join(texts)}]::pg_catalog.text[]::pg_catalog.text"


def _delete(article: Article) -> str:
    """Return the function that logs deletes with the rows' keys; without, where a column of the key is not there."""
    coarse = _append(article, Logged.DELETED, "old_rows n")
    keyed = _append(article, Logged.DELETED, "old_rows n", names=", key", values=f", {_key(article, 'n')}")
    asked = ", ".join(f"n.{quote(column.name)}" for column in article.key_columns)
    return (
        f"declare is_altered boolean := false; begin begin perform {asked} from old_rows n limit 0; "
        "exception when undefined_column then is_altered := true; end; "
        f"if is_altered then {coarse}; else {keyed}; if found then "
        f"perform pg_catalog.set_config({quote_literal(_deleting(article))}, 'on', true); end if; end if; "
        "return null; end"
    )


def _again(article: Article) -> str:
    """Return the function that gives a row the rowguid of the one with its key that the transaction has deleted.

    What a program deletes and inserts within a transaction is one row to others. The rowguid's column may be given
    another type, and the key's other names; then it is another row.
    """
    found = f"l.kind = {Logged.DELETED.value} and l.stamp = {BSN} and l.key = {_key(article, 'new')}"
    return (
        f"declare was uuid; begin if pg_typeof(new.{ROWGUID}) <> {_UUID} then return new; end if; begin "
        f"select l.rowguid into was from {LOG} l where {found} and l.tablenick = {article.nickname} limit 1; "
        f"exception when undefined_column then null; end; "
        f"if was is not null then new.{ROWGUID} := was; end if; return new; end"
    )


def _update(article: Article) -> str:
    """Return the function that logs updates: the changed columns, and the old value of an additive column.

    Updates of unpublished columns alone are omitted. Between an alteration of the table and the synchronisation that
    notices it, a column may not be there: then all columns count as changed. To ask writes nothing, so that it costs no
    transaction's number.
    """
    if not article.column_tracking and article.additive_column is None and not article.vertical_partition:
        return _function(_append(article, Logged.UPDATED, "new_rows n"))
    every = ", ".join(["true"] * len(article.columns))
    all_columns = (", columns", f", array[{every}]") if article.column_tracking else ("", "")
    coarse = _append(article, Logged.UPDATED, "new_rows n", names=all_columns[0], values=all_columns[1])
    asked = ", ".join(f"o.{quote(column.name)}" for column in article.columns)
    return (
        f"declare is_altered boolean := false; begin begin perform {asked} from old_rows o limit 0; "
        "exception when undefined_column then is_altered := true; end; "
        f"if is_altered then {coarse}; else {_fine_update(article)}; end if; return null; end"
    )


def _fine_update(article: Article) -> str:
    names = values = ""
    if article.column_tracking:
        pairs = (tuple(f"row({row}.{quote(column.name)})::record" for row in "on") for column in article.columns)
        changed = ", ".join(f"{old} operator(pg_catalog.*<>) {new}" for old, new in pairs)
        names, values = ", columns", f", array[{changed}]"
    if article.additive_column is not None:
        names += ", base, ordinal"
        base = text_of(f"o.{quote(article.additive_column.name)}", article.additive_column.type_text)
        values += f", {base}, nextval('{LOG_ORDER}')"
    where = ""
    if article.vertical_partition:
        old, new = (f"row({', '.join(f'{row}.{quote(column.name)}' for column in article.columns)})" for row in "on")
        where = f" where {old}::record operator(pg_catalog.*<>) {new}::record"
    joined = f" join old_rows o on o.{ROWGUID} = n.{ROWGUID}{where}" if names or where else ""
    return _append(article, Logged.UPDATED, f"new_rows n{joined}", names=names, values=values)


_EXEMPTION = "current_setting('rowtide.merge_agent', true) is distinct from 'on'"
_ROW, _BEFORE, _INSERT_OR_UPDATE = 1, 2, 4 | 16
"""Bits of `pg_trigger.tgtype`."""
_SETS_NEW = r'(^|;|\mbegin|\mthen|\melse|\mloop|\minto|\minto\s+strict)\s*new\s*\.\s*"?\w+"?\s*(:?=|\mfrom\M|;|,)'
_WRITES = r'\m(update|insert\s+into)\s+(only\s+)?("?\w+"?\s*\.\s*)?"?'

# A trigger's function in another language says nothing that could be read, but for the extension that is made for this.
_REQUEST = rf"""
select t.tgname::text from pg_trigger t join pg_proc p on p.oid = t.tgfoid join pg_class c on c.oid = t.tgrelid
cross join regexp_replace(regexp_replace(p.prosrc, '--[^\n]*', ' ', 'g'), '/[*].*?[*]/', ' ', 'g') body
where t.tgrelid = %s::regclass and not t.tgisinternal and t.tgenabled in ('O', 'A')
  and left(t.tgname, 8) <> 'MSmerge_' and t.tgtype & {_ROW} <> 0 and t.tgtype & {_INSERT_OR_UPDATE} <> 0
  and position('rowtide.merge_agent' in pg_get_triggerdef(t.oid)) = 0
  and position('rowtide.merge_agent' in p.prosrc) = 0
  and case when t.tgtype & {_BEFORE} <> 0
      then p.prosrc = 'moddatetime' or body ~* '{_SETS_NEW}'
      else body ~* concat('{_WRITES}', regexp_replace(c.relname, '\W', '\\\&', 'g'), '"?\M') end
order by 1"""


def find_rewriting(session: BatchingConnection, article: Article) -> list[RewritingTrigger]:
    """Return the triggers of an article's table that change rows which are inserted or updated, by merge too."""
    (rows,) = session.read((_REQUEST, [table_of(article)]), texts=True)
    return [RewritingTrigger(name, article.name, _EXEMPTION) for (name,) in rows]
