"""Alter a merged table of a PostgreSQL database, and its parts beside columns and keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, text

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.planned_code import effects_condition
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn
from rowtide.merge.errors.publishing import ColumnsCollide, SchemaChangeRefused
from rowtide.merge.nodes.check_differences import differs_on_servers
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.table_definitions import (
    HAS_EFFECTS,
    ON_ANOTHER_DATABASE,
    TRIGGERS_STAY,
    Omission,
    Part,
    PartKind,
    TableChange,
    for_postgres,
)
from rowtide.merge.nodes.untyped_values import server_type

Session = psycopg.Connection[tuple[Any, ...]]
_OF_SEQUENCE = "nextval("


def parts_requests(table: int) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the queries of the parts of the table with an oid; `read_parts` reads their rows."""
    return [(query, {"table": table}) for query in (_COLUMNS, _CONSTRAINTS, _INDEXES, _TRIGGERS)]


def read_parts(
    columns: Sequence[Any], constraints: Sequence[Any], indexes: Sequence[Any], triggers: Sequence[Any]
) -> Iterator[Part]:
    """Yield the parts of a table."""
    for row in columns:
        yield from _of_column(
            row.name,
            row.expression,
            row.identity,
            row.generated,
            row.collation,
            row.type_text,
            has_effects=row.has_effects,
        )
    for row in constraints:
        kind = PartKind.CHECK if row.kind == "c" else PartKind.EXCLUSION
        yield Part(kind, row.name, row.expression or "", statement=row.definition, has_effects=row.has_effects)
    for row in indexes:
        # An access method of its own has no counterpart in other databases.
        terms = tuple(row.terms) if row.method == "btree" else ()
        yield Part(
            PartKind.INDEX, row.name, terms=terms, where=row.where, is_unique=row.unique, statement=row.definition
        )
    for (name,) in triggers:
        yield Part(PartKind.TRIGGER, name)


def _of_column(
    name: str,
    expression: str | None,
    identity: str,
    generated: str,
    collation: str | None,
    type_text: str,
    *,
    has_effects: bool,
) -> Iterator[Part]:
    if generated:
        yield Part(PartKind.GENERATED, name, expression or "", type_text=type_text)
    elif identity or (expression or "").startswith(_OF_SEQUENCE):
        yield Part(PartKind.IDENTITY, name, "always" if identity == "a" else "by default")
    elif expression is not None:
        yield Part(PartKind.DEFAULT, name, expression, type_text=type_text, has_effects=has_effects)
    if collation is not None:
        yield Part(PartKind.COLLATION, name, collation)


def make_parts(session: Session, article: Article, description: TableDescription) -> Iterator[Omission]:
    """Create a table's parts, in the caller's transaction; yield what the database refuses."""
    for part in description.parts:
        if part.kind is PartKind.COLLATION and description.kind is DatabaseKind.POSTGRESQL:
            continue  # made with the column
        statement, difference = part_statement(article, description.kind, part)
        reason = difference if statement is None else _refusal(session, statement)
        if reason is not None:
            yield Omission(description.name, part, reason)
    for key in keys_of_parts(article, description):
        columns = ", ".join(map(quote, key))
        reason = _refusal(session, f"alter table {table_of(article)} add unique ({columns})")
        if reason is not None:
            yield Omission(description.name, Part(PartKind.INDEX, columns, is_unique=True), reason)


def keys_of_parts(article: Article, description: TableDescription) -> Sequence[tuple[str, ...]]:
    """Return the unique keys that have generated columns, which are made after the table."""
    names = {column.name for column in article.columns}
    return [key for key in description.unique_keys if not names.issuperset(key)]


def _refusal(session: Session, statement: str) -> str | None:
    """Run a statement; return why the database refuses it, None if it does not."""
    try:
        with session.transaction():
            session.execute(sql.SQL(statement))
    except psycopg.Error as error:
        return error.diag.message_primary or str(error)
    return None


def part_statement(article: Article, kind: DatabaseKind, part: Part) -> tuple[str | None, str]:
    """Return the statement that creates a part, or why there is none; `kind` is that of the database that has it."""
    table, name = table_of(article), quote(part.name)
    if part.has_effects:
        return None, HAS_EFFECTS
    is_same = kind is DatabaseKind.POSTGRESQL
    types = {column.name: column.type_text for column in article.columns}
    expression: str | None = part.sql
    if not is_same and part.sql:
        expression = for_postgres(part.sql, types.get(part.name, ""))
    match part.kind:
        case PartKind.TRIGGER:
            return None, TRIGGERS_STAY
        case PartKind.DEFAULT if expression:
            return f"alter table {table} alter column {name} set default {expression}", ""
        case PartKind.IDENTITY:
            return f"alter table {table} alter column {name} add generated {part.sql} as identity", ""
        case PartKind.GENERATED if expression:
            return (
                f"alter table {table} add column {name} {part.type_text} generated always as ({expression}) stored",
                "",
            )
        case PartKind.CHECK | PartKind.EXCLUSION if is_same:
            return f"alter table {table} add constraint {name} {part.statement}", ""
        case PartKind.CHECK if expression:
            if (difference := differs_on_servers(expression)) is not None:
                return None, difference
            return f"alter table {table} add constraint {name} check ({expression})", ""
        case PartKind.INDEX if is_same:
            return part.statement, ""
        case PartKind.INDEX if part.terms:
            unique = "unique " * part.is_unique
            return f"create {unique}index {name} on {table} ({', '.join(part.terms)})", ""
        case _:
            return None, ON_ANOTHER_DATABASE


def collation_of(description: TableDescription, name: str) -> str:
    """Return the clause of a column's collation; empty if it has the type's."""
    if description.kind is not DatabaseKind.POSTGRESQL:
        return ""
    found: Sequence[str] = [
        part.sql for part in description.parts if part.kind is PartKind.COLLATION and part.name == name
    ]
    return f" collate {quote(found[0])}" if found else ""


_COLUMNS = f"""
select a.attname::text as name, pg_get_expr(d.adbin, d.adrelid) as expression, a.attidentity::text as identity,
       a.attgenerated::text as generated, format_type(a.atttypid, a.atttypmod) as type_text,
       case when a.attcollation <> t.typcollation then c.collname::text end as collation,
       {effects_condition("d.adbin")} as has_effects
from pg_attribute a join pg_type t on t.oid = a.atttypid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
left join pg_collation c on c.oid = a.attcollation
where a.attrelid = :table and a.attnum > 0 and not a.attisdropped and a.attname <> '{ROWGUID}'
  and a.attname not like '\\_\\_sys%' order by a.attnum
"""
_CONSTRAINTS = f"""
select conname::text as name, contype::text as kind, pg_get_expr(conbin, conrelid) as expression,
       pg_get_constraintdef(oid) as definition, {effects_condition("conbin")} as has_effects
from pg_constraint where conrelid = :table and contype in ('c', 'x') order by conname
"""
_INDEXES = f"""
select r.relname::text as name, m.amname::text as method, i.indisunique as unique,
       pg_get_expr(i.indpred, i.indrelid) as where, pg_get_indexdef(i.indexrelid) as definition,
       array(select pg_get_indexdef(i.indexrelid, n, true) from generate_series(1, i.indnkeyatts) n order by n) as terms
from pg_index i join pg_class r on r.oid = i.indexrelid join pg_am m on m.oid = r.relam
where i.indrelid = :table and i.indisvalid and not i.indisprimary
  and not exists (select 1 from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('u', 'x'))
  and not exists (select 1 from pg_attribute a where a.attrelid = i.indrelid and a.attnum = any(i.indkey)
                  and a.attname = '{ROWGUID}')
order by r.relname
"""
_TRIGGERS = """
select t.tgname::text from pg_trigger t join pg_proc p on p.oid = t.tgfoid join pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = :table and not t.tgisinternal and n.nspname not like 'rowtide%' order by t.tgname
"""


_LATER = "rowtide_later_"


class PostgresTableAlteration:
    """See `TableAlteration`."""

    def __init__(
        self, connection: Connection, session: BatchingConnection, change: TableChange, execution: Execution
    ) -> None:
        self._connection = connection
        self._session = session
        self._change = change
        self._execution = execution
        self._table = table_of(change.after)
        self._triggers: list[tuple[str, str]] = []
        self.omissions: list[Omission] = []
        self.defaulted: set[str] = set()
        self.adopted = self._find_adopted()

    def begin(self) -> None:
        change = self._change
        self._triggers = [tuple(row) for row in self._connection.execute(text(_FIRING_TRIGGERS), {"name": self._table})]
        for name, _ in self._triggers:
            self._alter(f"disable trigger {quote(name)}")
        for name in change.parts_gone(PartKind.CHECK):
            self._alter(f"drop constraint if exists {quote(change.renamed.get(name, name))}")
        gone = change.names_until_dropped(str)
        for name, until_then in gone.items():
            if name != until_then:
                self._alter(f"rename column {quote(name)} to {quote(until_then)}")
        self._rename()
        for name in (*change.parts_gone(PartKind.GENERATED), *gone.values()):
            self._alter(f"drop column if exists {quote(name)}")
        for column in change.loosened:
            self._alter(f"alter column {quote(column.name)} drop not null")
        for column in change.retyped:
            self._retype(column)
        for column in change.added:
            self._add(column)

    def finish(self) -> None:
        change = self._change
        for column in dict.fromkeys((*change.retyped, *change.redefaulted)):
            self._set_default(column)
        for column in dict.fromkeys((*change.added, *change.retyped, *change.tightened)):
            if not column.is_nullable:
                self._tighten(column)
        for kind in (PartKind.GENERATED, PartKind.CHECK):
            for part in change.parts_new(kind):
                self._make(part)
        for column in change.added:
            for part in change.parts_of(column):
                if part.kind is PartKind.IDENTITY:
                    self._make(part)
        for name, state in self._triggers:
            self._alter(f"enable {'always ' * (state == 'A')}trigger {quote(name)}")

    def _find_adopted(self) -> frozenset[str]:
        change = self._change
        found = self._connection.execute(text(_COLUMN_TYPES), {"name": table_of(change.before)})
        present = {name: (type_text, is_generated) for name, type_text, is_generated in found}
        leaving = {*change.renamed, *(column.name for column in change.dropped)}
        adopted: set[str] = set()
        for column in change.added:
            if column.name not in present or column.name in leaving:
                continue
            type_text, is_generated = present[column.name]
            wanted = self._connection.execute(text(_TYPE), {"type": server_type(column)}).scalar()
            types = (type_text, str(wanted))
            is_same = len({each.partition("(")[0] for each in types}) == 1
            if is_generated or not (is_same or set(map(kind_of, types)) == {TypeKind.TEXT}):
                raise ColumnsCollide(change.after.qualified_name, column.name, type_text, server_type(column))
            adopted.add(column.name)
        return frozenset(adopted)

    def _rename(self) -> None:
        renamed = self._change.renamed
        steps = list(renamed.items())
        # Columns may exchange their names: each gets one that no other has first.
        if set(renamed) & set(renamed.values()):
            steps = [(was, f"{_LATER}{index}") for index, was in enumerate(renamed)]
            steps += [(f"{_LATER}{index}", now) for index, now in enumerate(renamed.values())]
        for was, now in steps:
            self._alter(f"rename column {quote(was)} to {quote(now)}")

    def _retype(self, column: ArticleColumn) -> None:
        """Give a column another type; values that do not fit become null until the hub's are written."""
        name, type_text = quote(column.name), server_type(column)
        # The server does not cast a default of the former type by itself, and refuses the new one.
        if self._change.default_of(column) is not None or column in self._change.redefaulted:
            self._alter(f"alter column {name} drop default")
        if self._attempt(f"alter column {name} type {type_text} using {name}::pg_catalog.text::{type_text}") is None:
            return
        self._alter(f"alter column {name} drop not null")
        self._alter(f"alter column {name} type {type_text} using null")

    def _add(self, column: ArticleColumn) -> None:
        """Add a column that the table has not; rows without a value get the default."""
        name, default = quote(column.name), self._change.default_of(column)
        if column.name in self.adopted:
            self._alter(
                f"alter column {name} type {server_type(column)} using {name}::pg_catalog.text::{server_type(column)}"
            )
        else:
            collations = [part.sql for part in self._change.parts_of(column) if part.kind is PartKind.COLLATION]
            collated = f" collate {quote(collations[0])}" if collations and self._is_here else ""
            self._alter(f"add column {name} {server_type(column)}{collated}")
        if default is not None and self._make(default):
            self._run(f"update {self._table} set {name} = default where {name} is null")
            self.defaulted.add(column.name)

    def _set_default(self, column: ArticleColumn) -> None:
        default = self._change.default_of(column)
        if default is not None:
            self._make(default)
        else:
            self._alter(f"alter column {quote(column.name)} drop default")

    def _tighten(self, column: ArticleColumn) -> None:
        name = quote(column.name)
        if self._change.default_of(column) is not None:
            self._run(f"update {self._table} set {name} = default where {name} is null")
        refusal = self._attempt(f"alter column {name} set not null")
        if refusal is not None:
            part = Part(PartKind.CHECK, f"{column.name} not null")
            self.omissions.append(Omission(self._change.after.qualified_name, part, refusal))

    @property
    def _is_here(self) -> bool:
        """Whether parts are written as this kind of database has them."""
        return self._change.kind is DatabaseKind.POSTGRESQL

    def _make(self, part: Part) -> bool:
        """Create a part, and return whether the database has it."""
        made, reason = part_statement(self._change.after, self._change.kind, part)
        refusal = reason if made is None else self._savepoint(made)
        if refusal is not None:
            self.omissions.append(Omission(self._change.after.qualified_name, part, refusal))
        return refusal is None

    def _attempt(self, action: str) -> str | None:
        return self._savepoint(f"alter table {self._table} {action}")

    def _savepoint(self, each: str) -> str | None:
        """Run a statement; return why the database refuses it, None if it does not."""
        try:
            with self._session.transaction():
                for statement in self._execution.statements(each):
                    self._session.execute(sql.SQL(statement))
        except psycopg.Error as error:
            return error.diag.message_primary or str(error)
        return None

    def _alter(self, action: str) -> None:
        self._run(f"alter table {self._table} {action}")

    def _run(self, each: str) -> None:
        refusal = self._savepoint(each)
        if refusal is not None:
            raise SchemaChangeRefused(self._change.after.qualified_name, each, refusal)


_FIRING_TRIGGERS = """
select t.tgname::text, t.tgenabled::text from pg_trigger t join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = to_regclass(:name) and not t.tgisinternal and t.tgenabled in ('O', 'A')
  and n.nspname not like 'rowtide%' order by t.tgname
"""
_COLUMN_TYPES = """
select attname::text, format_type(atttypid, atttypmod), attgenerated <> '' from pg_attribute
where attrelid = to_regclass(:name) and attnum > 0 and not attisdropped
"""
_TYPE = "select format_type(to_regtype(:type), null)"
