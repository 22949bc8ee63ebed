"""Triggers that follow what REPLACE does to a row of a SQLite table: it deletes rows, and no trigger sees which.

`insert or replace`, `update or replace` and a key declared `on conflict replace` delete the rows that the new one
conflicts with. The trigger before the write notes them, the one after it finds which of them are gone. A row with the
new one's primary key keeps its rowguid and counts as updated, the others as deleted. What is noted is of the statement
that writes: IGNORE and DO NOTHING have no trigger after them, and what they leave the next write forgets.

Foreign keys act between the two triggers. What they do to rows of merged tables is logged with the rows' values, by
which the agent undoes it where the row was replaced by itself; see `rowtide.merge.nodes.sqlite.metadata.replaced`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowtide.databases.sqlite.displacement import Displacement, new_value
from rowtide.databases.sqlite.keys import packing_expression
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn
from rowtide.merge.nodes.node_tables import Reference
from rowtide.merge.nodes.sqlite.metadata.system_tables import DISPLACED, LOG
from rowtide.merge.versions.apply import Logged

KINDS = ("ins_displaces", "upd_displaces", "ins_displaced", "upd_displaced", "replaced")
KEPT_KINDS = ("del_kept", "upd_kept")

IS_ANY_DISPLACED = f"exists (select 1 from {DISPLACED})"
_NOW = "julianday('now')"
"""It is the same for all of a statement's rows."""
_CASCADE, _SETS = "cascade", ("set null", "set default")

Body = tuple[str, str]
"""When a trigger fires, and its statements."""


def bodies(article: Article, displacement: Displacement) -> Mapping[str, Body]:
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


def kept_bodies(article: Article, displacement: Displacement, references: Sequence[Reference]) -> Mapping[str, Body]:
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
    return " || ".join(_is_changed(old(column.name), new(column.name)) for column in article.columns)


def base_of(column: ArticleColumn, row: str) -> str:
    """Return the expression of an additive column's value, as it is logged."""
    return f"cast({row}.{quote(column.name)} as text)"


def _is_changed(old: str, new: str) -> str:
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
    gone = f"from {DISPLACED} d where d.tablenick = {nickname} and {_is_gone(displacement)}"
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
    return f"from {DISPLACED} d where {_written_now(article, displacement)} and d.has_key and {_is_gone(displacement)}"


def _is_gone(displacement: Displacement) -> str:
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
