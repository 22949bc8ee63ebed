"""Triggers that log which rows of a SQLite table change (SQL Server: MSmerge_ins_, _upd_, _del_).

They run in any program that writes to the file, and so use only SQLite's built-in functions and tables of the main
schema. They log the agent's writes too, and the agent removes those entries; see `writing`. Those that follow REPLACE
are made in `replacing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.databases.sqlite.catalogue import Column, Table
from rowtide.databases.sqlite.displacement import Displacement
from rowtide.databases.sqlite.index_text import TOKEN
from rowtide.databases.sqlite.quoting import quote, quote_literal, unquote
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.definitions import identity_ranges
from rowtide.merge.errors.nodes import ChangeProhibited
from rowtide.merge.nodes.node_tables import Reference
from rowtide.merge.nodes.sqlite.metadata.system_tables import AGENT, DISPLACED, LOG
from rowtide.merge.nodes.sqlite.tables import replacing
from rowtide.merge.versions.apply import Logged

_KINDS = ("ins", "upd", "del", *replacing.KINDS, "rowguid")
_IDENTITY = "identity"
"""The kind of the trigger that keeps to identity ranges."""
_PROHIBITIONS = {"prohibit_ins": "insert", "prohibit_upd": "update", "prohibit_del": "delete"}


def trigger_statements(article: Article, table: Table, references: Sequence[Reference]) -> dict[str, str]:
    """Return the statements that create a table's triggers, by trigger name; `references` are its foreign keys."""
    quoted = quote(table.name)
    # Whoever writes a row's rowguid again changes that row. Only where columns are followed is that not enough.
    is_by_column = article.column_tracking or article.additive_column is not None
    displacement = Displacement(table, _in_order(article, table), None if is_by_column else ROWGUID)
    kept = replacing.kept_bodies(article, displacement, references)
    bodies = {
        "ins": (f"after insert on {quoted}", _logged(article, Logged.INSERTED)),
        "upd": (
            f"after update of {', '.join(_written(article, table, displacement))} on {quoted}",
            _logged(article, Logged.UPDATED),
        ),
        "del": (f"after delete on {quoted}", _logged(article, Logged.DELETED, row="old")),
        **replacing.bodies(article, displacement),
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
    places = {column.name: place for place, column in enumerate(article.columns)}
    own = (column for column in table.columns if column.name != ROWGUID)
    return sorted(own, key=lambda column: places.get(column.name, len(places)))


def trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names of the triggers that an article's table must have."""
    return tuple(trigger_name(article, kind) for kind in _kinds(article))


def all_trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names that triggers of an article's table have with any options."""
    return tuple(trigger_name(article, kind) for kind in (*_KINDS, *replacing.KEPT_KINDS, *_PROHIBITIONS, _IDENTITY))


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
        changed = replacing.changed_columns(
            article, lambda name: f"old.{quote(name)}", lambda name: f"new.{quote(name)}"
        )
        names, values = ", columns", f", {changed}"
    if kind is Logged.UPDATED and article.additive_column is not None:
        names += ", base"
        values += f", {replacing.base_of(article.additive_column, 'old')}"
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
