"""Alter a merged table of a SQLite file, as the hub's was altered.

What SQLite's `alter table` does not do is done by a table in place of the old one, made from its edited text. So what a
program added to the table, its own columns, indexes and triggers, stays. The user's triggers do not fire.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence

from rowtide.databases.sqlite.catalogue import find_table, read_triggers
from rowtide.databases.sqlite.sql_text import TableItem, TableText, fold, item_of, parse_table, quote
from rowtide.databases.sqlite.values import affinity
from rowtide.merge.articles import ArticleColumn
from rowtide.merge.errors.publishing import ColumnsCollide, SchemaChangeRefused
from rowtide.merge.nodes.sqlite.exact_numbers import EXACT
from rowtide.merge.nodes.sqlite.tables.making import column_text, part_clause
from rowtide.merge.nodes.table_definitions import Omission, Part, PartKind, TableChange
from rowtide.merge.nodes.untyped_values import declaration_of

_NEW = "MSmerge_new_table"
_LATER = "MSmerge_later_"
_OURS = "MSmerge_"


class SqliteTableAlteration:
    """Alters one table in the caller's transaction: `begin`, then the hub's values are written, then `finish`."""

    def __init__(self, session: sqlite3.Connection, change: TableChange) -> None:
        self._session = session
        self._change = change
        self._table = change.after.file_table
        self._bare: list[ArticleColumn] = []
        self._is_lenient = False
        self._triggers: dict[str, str] = {}
        self._gone = change.names_until_dropped(str.lower)
        self.omissions: list[Omission] = []
        self.defaulted: set[str] = set()
        self.adopted = _adopted(session, change)

    def begin(self) -> None:
        """Rename, drop, retype and add columns; new ones may be null yet, and have no default."""
        for name in read_triggers(self._session, self._table):
            if name.startswith(_OURS):
                self._run(f"drop trigger {quote(name)}")
        self._set_aside()
        self._rename()
        self._triggers = {name: self._as_named(sql) for name, sql in read_triggers(self._session, self._table).items()}
        for name in self._triggers:
            self._run(f"drop trigger {quote(name)}")
        for column in self._change.added:
            if column.name not in self.adopted:
                self._add(column)
            if column.name in self.adopted or column in self._bare:
                self._fill_by_default(column)
        change = self._change
        if change.dropped or change.retyped or change.loosened or change.parts_gone(PartKind.GENERATED):
            self._rebuild(is_last=False)

    def finish(self) -> None:
        """Give columns their defaults and constraints, and the table its other parts; the triggers are there again."""
        change, adopted = self._change, [each for each in self._change.added if each.name in self.adopted]
        for column in change.tightened:
            self._fill_by_default(column)
        kinds = (PartKind.GENERATED, PartKind.CHECK)
        is_other = any(change.parts_gone(kind) or change.parts_new(kind) for kind in kinds)
        if self._bare or adopted or change.tightened or change.redefaulted or is_other:
            self._rebuild_strictly([*self._bare, *adopted, *change.tightened])
        for statement in self._triggers.values():
            self._run(statement)

    def _rebuild_strictly(self, columns: Sequence[ArticleColumn]) -> None:
        """Rebuild the table with its new constraints, or without those that rows of this file violate."""
        self._session.execute("savepoint merge_strict")
        try:
            self._rebuild(is_last=True)
        except SchemaChangeRefused as error:
            self._session.execute("rollback to merge_strict")
            self._is_lenient = True
            required = [Part(PartKind.CHECK, f"{column.name} not null") for column in columns if not column.is_nullable]
            table = self._change.after.qualified_name
            left_out = (*self._change.parts_new(PartKind.CHECK), *required)
            self.omissions += [Omission(table, part, error.reason) for part in left_out]
            self._rebuild(is_last=True)
        finally:
            self._session.execute("release merge_strict")

    def _set_aside(self) -> None:
        """Rename dropped columns whose names are given to others."""
        for name, until_then in self._gone.items():
            if name != until_then:
                self._run(f"alter table {quote(self._table)} rename column {quote(name)} to {until_then}")
                self._forget_digits(name)

    def _as_named(self, trigger: str) -> str:
        """Return a program's trigger with the names that it has for columns which are set aside."""
        for name, until_then in self._gone.items():
            if name != until_then:
                parts = re.split(rf"""["'`\[]?\b{until_then}\b["'`\]]?""", trigger)
                trigger = quote(name).join(parts)
        return trigger

    def _forget_digits(self, name: str) -> None:
        named = f"delete from {EXACT} where tablenick = ? and name = ?"
        self._session.execute(named, (self._change.after.nickname, name))

    def _rename(self) -> None:
        renamed = self._change.renamed
        steps = [(was, f"{_LATER}{index}") for index, was in enumerate(renamed)]
        steps += [(f"{_LATER}{index}", now) for index, now in enumerate(renamed.values())]
        if not set(renamed) & set(renamed.values()):
            steps = list(renamed.items())
        for was, now in steps:
            self._run(f"alter table {quote(self._table)} rename column {quote(was)} to {quote(now)}")
            named = f"update {EXACT} set name = ? where tablenick = ? and name = ?"
            self._session.execute(named, (now, self._change.after.nickname, was))

    def _add(self, column: ArticleColumn) -> None:
        """Add a column with its default and constraints, or without, if SQLite cannot add such a one."""
        self._session.execute("savepoint merge_column")
        try:
            self._session.execute(f"alter table {quote(self._table)} add column {self._text_of(column)}")
            self.defaulted |= {column.name} if self._default_of(column) is not None else set()
        except sqlite3.Error:
            self._session.execute("rollback to merge_column")
            self._bare.append(column)
            declared = f"{quote(column.name)} {declaration_of(column.type_text)}"
            self._run(f"alter table {quote(self._table)} add column {declared}")
        finally:
            self._session.execute("release merge_column")

    def _text_of(self, column: ArticleColumn) -> str:
        change = self._change
        if change.statement is not None:
            return next(item.text for item in parse_table(change.statement).items if item.column == column.name)
        parts = change.parts_of(column)
        text, omissions = column_text(self._session, change.after, change.kind, column, parts)
        self.omissions += [each for each in omissions if each not in self.omissions]
        return text

    def _fill_by_default(self, column: ArticleColumn) -> None:
        value, name = self._default_of(column), quote(column.name)
        if value is not None:
            self._run(f"update {quote(self._table)} set {name} = {value} where {name} is null")
            self.defaulted.add(column.name)

    def _default_of(self, column: ArticleColumn) -> str | None:
        """Return the expression that the column has as its default here."""
        default = self._change.default_of(column)
        if default is None:
            return None
        clause = part_clause(self._session, self._change.after, self._change.kind, default)[0]
        return None if clause is None else clause.strip().removeprefix("default ")

    def _rebuild(self, *, is_last: bool) -> None:
        """Put a table of another definition in the table's place, with its rows, indexes and numbers."""
        old = parse_table(self._definition("table", self._table))
        new = TableText(tuple(self._edited(old, is_last=is_last)), old.options)
        indexes = self._indexes()
        table = find_table(self._session, self._table)
        assert table is not None
        kept = {fold(item.column) for item in new.items if item.column is not None}
        names = [
            quote(column.name) for column in table.columns if not column.is_generated and fold(column.name) in kept
        ]
        if table.rowid is not None and not table.is_rowid_key:
            names.append(table.rowid)
        numbered = self._last_number()
        listed = ", ".join(names)
        self._session.execute("pragma legacy_alter_table = on")
        try:
            self._run(new.create(_NEW))
            self._run(f"insert into {_NEW} ({listed}) select {listed} from {quote(self._table)}")
            self._run(f"drop table {quote(self._table)}")
            self._run(f"alter table {_NEW} rename to {quote(self._table)}")
        finally:
            self._session.execute("pragma legacy_alter_table = off")
        if numbered is not None:
            self._session.execute(
                "update sqlite_sequence set seq = max(seq, ?) where name = ?", (numbered, self._table)
            )
        for sql in indexes:
            if not any(item_of(sql).mentions(name) for name in self._gone.values()):
                self._run(sql)
        for name, until_then in self._gone.items():
            if name == until_then:
                self._forget_digits(name)

    def _edited(self, old: TableText, *, is_last: bool) -> Iterable[TableItem]:
        """Yield the columns and constraints that the table is to have; before the last time it is less strict."""
        change = self._change
        gone = {fold(name) for name in self._gone.values()}
        not_generated = {fold(name) for name in change.parts_gone(PartKind.GENERATED)}
        unchecked = set(change.parts_gone(PartKind.CHECK))
        rewritten = self._rewritten(is_last=is_last)
        for item in old.items:
            if item.column is not None and fold(item.column) in gone | not_generated:
                continue
            if item.column is None and not item.is_primary_key and any(map(item.mentions, gone)):
                continue
            if item.constraint in unchecked:
                continue
            yield rewritten.get(fold(item.column or ""), item)
        if is_last:
            kinds = (PartKind.GENERATED,) if self._is_lenient else (PartKind.GENERATED, PartKind.CHECK)
            for kind in kinds:
                for part in change.parts_new(kind):
                    yield from self._part(part)

    def _rewritten(self, *, is_last: bool) -> dict[str, TableItem]:
        change = self._change
        adopted = [column for column in change.added if column.name in self.adopted]
        changed = (*change.retyped, *change.loosened, *change.tightened, *change.redefaulted, *self._bare, *adopted)
        found: dict[str, TableItem] = {}
        for column in changed:
            if is_last or column in change.retyped or column in change.loosened:
                item = item_of(self._text_of(column))
                if not column.is_nullable and (self._is_lenient or (not is_last and column in change.tightened)):
                    item = item_of(f"{quote(column.name)} {declaration_of(column.type_text)}")
                found[fold(column.name)] = item
        return found

    def _part(self, part: Part) -> Iterable[TableItem]:
        if self._change.statement is not None:
            items = parse_table(self._change.statement).items
            yield from (item for item in items if item.column == part.name)
            return
        clause, reason = part_clause(self._session, self._change.after, self._change.kind, part)
        if clause is None:
            self.omissions.append(Omission(self._change.after.qualified_name, part, reason or ""))
        else:
            yield item_of(clause)

    def _definition(self, kind: str, name: str) -> str:
        found = "select sql from main.sqlite_schema where type = ? and lower(name) = lower(?)"
        return str(self._session.execute(found, (kind, name)).fetchone()[0])

    def _indexes(self) -> Sequence[str]:
        found = (
            "select sql from main.sqlite_schema where type = 'index' and lower(tbl_name) = lower(?) and sql is not null"
        )
        return [sql for (sql,) in self._session.execute(found, (self._table,))]

    def _last_number(self) -> int | None:
        """Return the last number that AUTOINCREMENT gave; None without it."""
        has = "select 1 from main.sqlite_schema where name = 'sqlite_sequence'"
        if self._session.execute(has).fetchone() is None:
            return None
        found = self._session.execute("select seq from sqlite_sequence where name = ?", (self._table,)).fetchone()
        return None if found is None else int(found[0])

    def _run(self, statement: str) -> None:
        try:
            self._session.execute(statement)
        except sqlite3.Error as error:
            raise SchemaChangeRefused(
                self._change.after.qualified_name, " ".join(statement.split()), str(error)
            ) from error


def _adopted(session: sqlite3.Connection, change: TableChange) -> frozenset[str]:
    """Return the new columns that the table has already. Raises `ColumnsCollide` if one has another type."""
    table = find_table(session, change.before.file_table)
    assert table is not None
    found: set[str] = set()
    for column in change.added:
        present = table.find_column(column.name)
        if present is None or present.name in change.renamed or present.name in {one.name for one in change.dropped}:
            continue
        wanted = declaration_of(column.type_text)
        fits = affinity(present.type_text, is_strict=table.is_strict) is affinity(wanted, is_strict=table.is_strict)
        if not fits or present.is_generated:
            raise ColumnsCollide(change.after.qualified_name, column.name, present.type_text, wanted)
        found.add(column.name)
    return frozenset(found)
