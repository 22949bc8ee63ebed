"""Alter a merged table of a PostgreSQL database, as the hub's was altered. The user's triggers do not fire."""

from __future__ import annotations

import psycopg
from psycopg import sql
from sqlalchemy import Connection, text

from rowtide.databases.kinds import DatabaseKind
from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ArticleColumn
from rowtide.merge.errors.schema_changes import ColumnsCollide, SchemaChangeRefused
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.tables.parts import part_statement
from rowtide.merge.nodes.table_changes import TableChange
from rowtide.merge.nodes.table_parts import Omission, Part, PartKind
from rowtide.merge.nodes.untyped_values import server_type

_LATER = "rowtide_later_"
_TEXTS = {"text", "character varying"}


class PostgresTableAlteration:
    """See `PostgresTableAlteration` of `nodes.node`."""

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
        self._triggers = [tuple(row) for row in self._connection.execute(text(_TRIGGERS), {"name": self._table})]
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
        found = self._connection.execute(text(_COLUMNS), {"name": table_of(change.before)})
        present = {name: (type_text, is_generated) for name, type_text, is_generated in found}
        leaving = {*change.renamed, *(column.name for column in change.dropped)}
        adopted: set[str] = set()
        for column in change.added:
            if column.name not in present or column.name in leaving:
                continue
            type_text, is_generated = present[column.name]
            wanted = self._connection.execute(text(_TYPE), {"type": server_type(column)}).scalar()
            kinds = {each.partition("(")[0] for each in (type_text, str(wanted))}
            if is_generated or (len(kinds) > 1 and not kinds <= _TEXTS):
                raise ColumnsCollide(change.after.qualified_name, column.name, type_text, server_type(column))
            adopted.add(column.name)
        return frozenset(adopted)

    def _rename(self) -> None:
        renamed = self._change.renamed
        steps = list(renamed.items())
        if set(renamed) & set(renamed.values()):
            steps = [(was, f"{_LATER}{place}") for place, was in enumerate(renamed)]
            steps += [(f"{_LATER}{place}", now) for place, now in enumerate(renamed.values())]
        for was, now in steps:
            self._alter(f"rename column {quote(was)} to {quote(now)}")

    def _retype(self, column: ArticleColumn) -> None:
        """Give a column another type; values that do not fit become null until the hub's are written."""
        name, type_text = quote(column.name), server_type(column)
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


_TRIGGERS = """
select t.tgname::text, t.tgenabled::text from pg_trigger t join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where t.tgrelid = to_regclass(:name) and not t.tgisinternal and t.tgenabled in ('O', 'A')
  and n.nspname not like 'rowtide%' order by t.tgname
"""
_COLUMNS = """
select attname::text, format_type(atttypid, atttypmod), attgenerated <> '' from pg_attribute
where attrelid = to_regclass(:name) and attnum > 0 and not attisdropped
"""
_TYPE = "select format_type(to_regtype(:type), null)"
