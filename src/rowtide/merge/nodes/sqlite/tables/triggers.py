"""Triggers that log which rows of a SQLite table change (SQL Server: MSmerge_ins_, _upd_, _del_).

They run in any program that writes to the file, and so use only SQLite's built-in functions and tables of the main
schema. They log the agent's writes too, and the agent removes those entries; see `writer`. Triggers of programs that
change the row they fire for are found (`RewritingTrigger`).

Some follow what REPLACE does to a row: it deletes rows, and no trigger sees which. Taken literally, a device that
changes a customer would delete it and create another: refused where the customer has orders, or a cascade. Programs
mean an update, so the row with the written primary key keeps its rowguid. The trigger before a write notes the rows
that the new one conflicts with, the one after it finds which are gone; notes carry the key and the statement's moment,
so that programs' triggers may write rows of the table in between. IGNORE and DO UPDATE have a trigger before the insert
alone: the next write that looks forgets what they noted. Looking twice costs 0.4 µs for each inserted row.

A delete and an insert of one key are two rows: triggers know no transaction, and the insert may be another program's.

An existing file gets triggers that were changed here only if `TRIGGERS_FORM` of `node_form` is raised with them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence

from rowtide.databases.sqlite.catalogue import Column, Table
from rowtide.databases.sqlite.displacement import Displacement, new_value
from rowtide.databases.sqlite.sql_text import TOKEN, concatenated, packing_expression, quote, quote_literal, unquote
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn
from rowtide.merge.definitions import identity_ranges
from rowtide.merge.errors.nodes import ChangeProhibited
from rowtide.merge.nodes.node_tables import RewritingTrigger, TableReference
from rowtide.merge.nodes.sqlite.metadata.system_tables import AGENT, DISPLACED, LOG
from rowtide.merge.versions.apply import Logged

KINDS = ("ins_displaces", "upd_displaces", "ins_displaced", "upd_displaced", "replaced")
KEPT_KINDS = ("del_kept", "upd_kept")

IS_ANY_DISPLACED = f"exists (select 1 from {DISPLACED})"
_NOW = "julianday('now')"
"""It is the same for all of a statement's rows."""
_CASCADE, _SETS = "cascade", ("set null", "set default")

Body = tuple[str, str]
"""When a trigger fires, and its statements."""


def bodies_of_replace(article: Article, displacement: Displacement) -> Mapping[str, Body]:
    """Return the triggers that note displaced rows and find which are gone, by kind."""
    table = quote(displacement.table.name)
    displaced = displacement.condition
    others = f"{displaced} and r.{ROWGUID} is not old.{ROWGUID}"
    # A rowguid stays as it is, but for what these triggers do themselves.
    columns = [name for name in displacement.displacing_columns if name != quote(ROWGUID)]
    updated = f"update of {', '.join(columns)}"
    noting, finding = _noting(article, displacement), _finding(article, displacement)
    return {
        "ins_displaces": (_before("insert", table, displaced), noting(displaced, "null")),
        "upd_displaces": (_before(updated, table, others), noting(others, f"old.{ROWGUID}")),
        "ins_displaced": (f"after insert on {table} when {IS_ANY_DISPLACED}", finding),
        "upd_displaced": (f"after {updated} on {table} when {IS_ANY_DISPLACED}", finding),
        "replaced": (f"after update of {ROWGUID} on {table} when {IS_ANY_DISPLACED}", _replaced(article, displacement)),
    }


def kept_bodies(
    article: Article, displacement: Displacement, references: Sequence[TableReference]
) -> Mapping[str, Body]:
    """Return the triggers that keep the values of rows which foreign keys' actions change, by kind."""
    table = quote(displacement.table.name)
    set_columns = [name for each in references if each.on_delete in _SETS for name in each.columns]
    found = {}
    if any(each.on_delete == _CASCADE for each in references):
        names = [column.name for column in displacement.columns if not column.is_generated]
        found["del_kept"] = (f"after delete on {table} when {IS_ANY_DISPLACED}", _kept(article, names, "null"))
    if set_columns:
        columns = list(dict.fromkeys(set_columns))
        event = f"after update of {', '.join(map(quote, columns))} on {table} when {IS_ANY_DISPLACED}"
        found["upd_kept"] = (event, _kept(article, columns, packing_expression([f"new.{quote(c)}" for c in columns])))
    return found


def changed_columns(article: Article, old: Callable[[str], str], new: Callable[[str], str]) -> str:
    """Return the expression of a text with 1 for each changed column, else 0; `old` and `new` are values by name."""
    return concatenated([_change_condition(old(column.name), new(column.name)) for column in article.columns])


def base_of(column: ArticleColumn, row: str) -> str:
    """Return the expression of an additive column's value, as it is logged."""
    return f"cast({row}.{quote(column.name)} as text)"


def _change_condition(old: str, new: str) -> str:
    # By bytes and storage class: a column's collation may say that two texts are equal, and SQLite that 1 and 1.0 are.
    return f"({old} collate binary is not {new} or typeof({old}) <> typeof({new}))"


def _before(event: str, table: str, condition: str) -> str:
    found = f"exists (select 1 from {table} r where {condition})"
    return f"before {event} on {table} when {found} or {IS_ANY_DISPLACED}"


def _noting(article: Article, displacement: Displacement) -> Callable[[str, str], str]:
    """Return the statements that note the rows of a condition, and forget those that IGNORE left; also given is the
    rowguid of the row that is written, if it is there.

    Those of the same statement stay: a program's trigger may write other rows before this one is written.
    """
    written = packed_key(displacement)
    columns = base = "null"
    if article.column_tracking:
        values = {column.name: new_value(column) for column in displacement.columns}
        columns = changed_columns(article, lambda name: f"r.{quote(name)}", values.__getitem__)
    if article.additive_column is not None:
        base = base_of(article.additive_column, "r")
    # Each condition is a range of the table's index.
    forgotten = [f"moment < {_NOW}", f"moment > {_NOW}", _written_now(article, displacement)]
    place = f"(select coalesce(max(rowid), 0) from {LOG})"
    values_of_row = (
        f"{article.nickname}, r.{ROWGUID}, {written}, {_NOW}, {place}, {displacement.key_condition}, {columns}, {base}"
    )
    table = quote(displacement.table.name)
    return lambda condition, own: "; ".join(
        [
            *(f"delete from {DISPLACED} where {each}" for each in forgotten),
            (
                f"insert into {DISPLACED} (tablenick, rowguid, written, moment, place, has_key, columns, base, own) "
                f"select {values_of_row}, {own} from {table} r where {condition}"
            ),
        ]
    )


def _finding(article: Article, displacement: Displacement) -> str:
    """Return the statements that find which of the noted rows are gone.

    The row with the key was replaced by itself: what is written is that row, changed, and gets its rowguid. They are
    few: SQLite prepares room for all of a trigger's statements whenever it looks at the condition.
    """
    table, nickname, replaced = quote(displacement.table.name), article.nickname, _row_replaced(article, displacement)
    gone = f"from {DISPLACED} d where d.tablenick = {nickname} and {_absence_condition(displacement)}"
    return "; ".join(
        [
            (
                f"update {table} set {ROWGUID} = (select d.rowguid {replaced}) "
                f"where {ROWGUID} = new.{ROWGUID} and exists (select 1 {replaced})"
            ),
            (
                f"insert into {LOG} (tablenick, rowguid, kind) "
                f"select {nickname}, d.rowguid, {Logged.DELETED.value} {gone}"
            ),
            f"delete from {DISPLACED} where tablenick = {nickname} and rowguid in (select d.rowguid {gone})",
        ]
    )


def _replaced(article: Article, displacement: Displacement) -> str:
    """Return the statements that log a row which was replaced by itself: `new` has its rowguid, `old` that given up.

    An updated row that takes the place of another one is deleted, and the other one changed.
    """
    nickname, replaced = article.nickname, _row_replaced(article, displacement)
    line = f"insert into {LOG} (tablenick, rowguid, kind, columns, base)"
    given_up = f"case when d.own is null then old.{ROWGUID} else d.rowguid end"
    return "; ".join(
        [
            f"{line} select {nickname}, d.own, {Logged.DELETED.value}, null, null {replaced} and d.own is not null",
            f"{line} select {nickname}, d.rowguid, {Logged.UPDATED.value}, d.columns, d.base {replaced}",
            f"{line} select {nickname}, {given_up}, {Logged.REPLACED.value}, d.rowguid, d.place {replaced}",
            f"delete from {DISPLACED} where {_written_now(article, displacement)} and has_key",
        ]
    )


def _row_replaced(article: Article, displacement: Displacement) -> str:
    """Return what follows `select` to get, as `d`, the noted row with the primary key of `new`, if that is gone."""
    is_gone = _absence_condition(displacement)
    return f"from {DISPLACED} d where {_written_now(article, displacement)} and d.has_key and {is_gone}"


def _absence_condition(displacement: Displacement) -> str:
    """Return the condition that no row but `new` has the rowguid of a noted row `d`."""
    table = quote(displacement.table.name)
    return f"not exists (select 1 from {table} t where t.{ROWGUID} = d.rowguid and t.{ROWGUID} <> new.{ROWGUID})"


def _written_now(article: Article, displacement: Displacement) -> str:
    written = packed_key(displacement)
    return f"moment = {_NOW} and written = {written} and tablenick = {article.nickname}"


def packed_key(displacement: Displacement) -> str:
    """Return the expression of the primary key of `new`."""
    return packing_expression([new_value(column) for column in displacement.table.key_columns]) or "''"


def _kept(article: Article, names: Sequence[str], after: str) -> str:
    """Return the statement that logs a row's values in some columns, with their names, and those that it has now."""
    named = [each for name in names for each in (quote_literal(name), f"old.{quote(name)}")]
    return (
        f"insert into {LOG} (tablenick, rowguid, kind, columns, base) "
        f"values ({article.nickname}, old.{ROWGUID}, {Logged.KEPT.value}, {packing_expression(named)}, {after})"
    )


_KINDS = ("ins", "upd", "del", *KINDS, "rowguid")
_IDENTITY = "identity"
"""The kind of the trigger that keeps to identity ranges."""
_PROHIBITIONS = {"prohibit_ins": "insert", "prohibit_upd": "update", "prohibit_del": "delete"}


def trigger_statements(article: Article, table: Table, references: Sequence[TableReference]) -> dict[str, str]:
    """Return the statements that create a table's triggers, by trigger name; `references` are its foreign keys."""
    quoted = quote(table.name)
    # To write a row's rowguid again is to change that row. Only where columns are followed is that not enough.
    is_by_column = article.column_tracking or article.additive_column is not None
    displacement = Displacement(table, _in_order(article, table), None if is_by_column else ROWGUID)
    kept = kept_bodies(article, displacement, references)
    bodies = {
        "ins": (f"after insert on {quoted}", _logged(article, Logged.INSERTED)),
        "upd": (
            f"after update of {', '.join(_written(article, table, displacement))} on {quoted}",
            _logged(article, Logged.UPDATED),
        ),
        "del": (f"after delete on {quoted}", _logged(article, Logged.DELETED, row="old")),
        **bodies_of_replace(article, displacement),
        **kept,
        "rowguid": (
            (
                f"before update of {ROWGUID} on {quoted} when new.{ROWGUID} is not old.{ROWGUID} and not exists "
                f"(select 1 from {DISPLACED} where tablenick = {article.nickname} and rowguid = new.{ROWGUID})"
            ),
            "select raise(abort, 'the column rowguid of a merged table stays as it is')",
        ),
    }
    for kind, event in _PROHIBITIONS.items():
        refusal = f"select raise(abort, {quote_literal(str(ChangeProhibited(article.table)))})"
        bodies[kind] = (f"before {event} on {quoted} when not exists (select 1 from {quote(AGENT)})", refusal)
    if article.identity_range:
        bodies[_IDENTITY] = _require_range(article, quoted)
    kinds = (*_kinds(article), *(kept if article.is_tracked else ()))
    return {
        name: f"create trigger {quote(name)} {event} begin {statement}; end"
        for name, event, statement in ((trigger_name(article, kind), *bodies[kind]) for kind in kinds)
    }


def written_columns(statement: str) -> list[str]:
    """Return the names in the list of columns of the trigger for updates; SQLite renames them with the columns."""
    tokens = [found for found in TOKEN.finditer(statement) if found.lastgroup != "blank"]
    words = [token.group().lower() for token in tokens]
    listed = tokens[words.index("of") + 1 : words.index("on")]
    return [unquote(token.group()) for token in listed if token.group() != ","]


def _in_order(article: Article, table: Table) -> list[Column]:
    """Return a table's columns, the article's first, in its order."""
    places = {column.name: index for index, column in enumerate(article.columns)}
    own = (column for column in table.columns if column.name != ROWGUID)
    return sorted(own, key=lambda column: places.get(column.name, len(places)))


def trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names of the triggers that an article's table must have."""
    return tuple(trigger_name(article, kind) for kind in _kinds(article))


def all_trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names that triggers of an article's table have with any options."""
    return tuple(trigger_name(article, kind) for kind in (*_KINDS, *KEPT_KINDS, *_PROHIBITIONS, _IDENTITY))


def _kinds(article: Article) -> tuple[str, ...]:
    """Return the kinds of an article's triggers; without tracking the rowguids alone are kept, or all rows."""
    if article.is_prohibited and not article.is_tracked:
        return tuple(_PROHIBITIONS)
    ranges = (_IDENTITY,) if article.identity_range else ()
    return (*_KINDS, *ranges) if article.is_tracked else ("rowguid", *ranges)


def trigger_name(article: Article, kind: str) -> str:
    return f"MSmerge_{kind}_{article.nickname}"


def _logged(article: Article, kind: Logged, *, row: str = "new") -> str:
    """Return the statement that logs a change: the changed columns, and the old value of an additive column."""
    names, values = "", ""
    if kind is Logged.UPDATED and article.column_tracking:
        changed = changed_columns(article, lambda name: f"old.{quote(name)}", lambda name: f"new.{quote(name)}")
        names, values = ", columns", f", {changed}"
    if kind is Logged.UPDATED and article.additive_column is not None:
        names += ", base"
        values += f", {base_of(article.additive_column, 'old')}"
    return (
        f"insert into {LOG} (tablenick, rowguid, kind{names}) "
        f"values ({article.nickname}, {row}.{ROWGUID}, {kind.value}{values})"
    )


def _require_range(article: Article, table: str) -> tuple[str, str]:
    """Return the event and the statement that refuse a number beyond the node's identity ranges."""
    (column,) = article.key_columns
    end = (
        f"select next_range_end from {identity_ranges.name} where artid = {article.nickname} and is_own "
        "and is_pub_range = 0"
    )
    fact = f"the identity ranges of {article.file_table} are used up"
    message = f"RT-8053: {fact}: synchronise this file, which gives it new ones"
    is_of_program = f"not exists (select 1 from {AGENT})"
    return (
        f"after insert on {table} when new.{quote(column.name)} > ({end}) and {is_of_program}",
        f"select raise(abort, {quote_literal(message)})",
    )


def _written(article: Article, table: Table, displacement: Displacement) -> list[str]:
    """Return the names that a logged update can set: not those of unpublished columns."""
    published = {column.name for column in article.columns}
    unpublished = {quote(column.name) for column in table.columns if column.name not in published}
    names = displacement.written_columns
    return [name for name in names if not article.vertical_partition or name not in unpublished]


_EXEMPTION = f'not exists (select 1 from "{AGENT}")'
_WRITING = frozenset(("insert", "update"))


def find_rewriting(session: sqlite3.Connection, article: Article) -> list[RewritingTrigger]:
    """Return the triggers of an article's table that write to it after an insert or update, by merge too."""
    own = {name.lower() for name in all_trigger_names(article)}
    listed = "select name, sql from main.sqlite_master where type = 'trigger' and lower(tbl_name) = lower(?) order by 1"
    return [
        RewritingTrigger(name, article.name, _EXEMPTION)
        for name, sql in session.execute(listed, (article.file_table,))
        if name.lower() not in own and is_rewriting(sql, article.file_table)
    ]


def is_rewriting(sql: str, table: str) -> bool:
    """Whether a trigger for inserts or updates writes to its own table, and does not ask whether the agent writes."""
    words = [unquote(found.group()).lower() for found in TOKEN.finditer(sql) if found.lastgroup != "blank"]
    if AGENT.lower() in words or "begin" not in words:
        return False
    head, body = words[: words.index("begin")], words[words.index("begin") + 1 :]
    event = next((word for word in head[3:] if word in (*_WRITING, "delete")), None)
    return event in _WRITING and table.lower() in _names_written(body)


def _names_written(words: list[str]) -> Iterator[str]:
    """Yield the tables that statements insert into or update."""
    for index, word in enumerate(words):
        if word == "into" or (word == "update" and words[index - 1 : index] != ["do"]):
            following = words[index + 1 :]
            if following[:1] == ["or"]:
                following = following[2:]
            if following[1:2] == ["."]:
                following = following[2:]
            yield from following[:1]
