"""Create merged tables in a SQLite file with all parts that SQLite has, such as defaults and indexes; fill them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowtide.databases.sqlite.catalogue import Table, read_triggers
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import TypeKind
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn
from rowtide.merge.errors.rows import NOT_UTF_8, RowsRefused
from rowtide.merge.nodes.check_differences import differs_in_files
from rowtide.merge.nodes.node_tables import TableDescription, TableReference
from rowtide.merge.nodes.sqlite.exact_numbers import keep_exact
from rowtide.merge.nodes.sqlite.rows import values_of
from rowtide.merge.nodes.sqlite.tables.rebuilt_tables import DEFINITION, index_name
from rowtide.merge.nodes.table_definitions import (
    ON_ANOTHER_DATABASE,
    TRIGGERS_STAY,
    Omission,
    Part,
    PartKind,
    for_sqlite,
)
from rowtide.merge.nodes.untyped_values import declaration_of, untyped_indexes, with_classes_of
from rowtide.merge.versions.changes import Row

_OWN = re.compile(r"(MSmerge|__)")
_CHECK = re.compile(r"\bcheck\s*\(", re.IGNORECASE)
_COLLATIONS = {"C": "binary", "POSIX": "binary", "ucs_basic": "binary"}
_TRIAL = "temp.rowtide_trial"


def read_statement(session: sqlite3.Connection, table: Table) -> str | None:
    """Return the statement that creates the table in another file; None if columns of other features are in it."""
    if any(column.name.startswith("__sys") for column in table.columns):
        return None
    return _definition(session, table.name)


def _definition(session: sqlite3.Connection, name: str) -> str:
    """Return the statement that created a table or an index; no two of them have the same name."""
    found = "select sql from main.sqlite_schema where type in ('table', 'index') and name = ?"
    return str(session.execute(found, (name,)).fetchone()[0])


def list_parts(session: sqlite3.Connection, table: Table) -> Iterator[Part]:
    """Yield a table's parts."""
    for column in table.columns:
        if column.is_generated:
            yield Part(PartKind.GENERATED, column.name)
        elif column.default is not None and column.name != ROWGUID:
            yield Part(PartKind.DEFAULT, column.name, column.default)
    if table.is_rowid_key:
        yield Part(PartKind.IDENTITY, table.key_columns[0].name, "by default")
    for number, check in enumerate(_checks(_definition(session, table.name)), 1):
        yield Part(PartKind.CHECK, f"{table.name}_check_{number}", check)
    yield from _indexes(session, table)
    for name in read_triggers(session, table.name):
        if not _OWN.match(name):
            yield Part(PartKind.TRIGGER, name)


def _checks(definition: str) -> Iterator[str]:
    """Yield the conditions of a table's checks."""
    for found in _CHECK.finditer(definition):
        depth, start = 1, found.end()
        for index in range(start, len(definition)):
            depth += {"(": 1, ")": -1}.get(definition[index], 0)
            if depth == 0:
                yield definition[start:index]
                break


def _indexes(session: sqlite3.Connection, table: Table) -> Iterator[Part]:
    listed = session.execute(f"pragma main.index_list({quote(table.name)})").fetchall()
    for _, name, is_unique, origin, _ in listed:
        if origin == "c" and not _OWN.match(name):
            statement = _definition(session, name)
            terms = [row[2] for row in session.execute(f"pragma main.index_info({quote(name)})")]
            named = tuple(quote(term) for term in terms if term is not None)
            is_plain = len(named) == len(terms) and " where " not in statement.lower()
            yield Part(
                PartKind.INDEX, name, terms=named if is_plain else (), is_unique=bool(is_unique), statement=statement
            )


def make_table(
    session: sqlite3.Connection, article: Article, description: TableDescription, tables: Mapping[str, str]
) -> list[Omission]:
    """Create a table, in the caller's transaction, and return what it does not get.

    `tables` are the names here of the tables that are made, by their names at the publisher.
    """
    are_here = all(reference.referenced_table in tables for reference in description.references)
    if description.kind is DatabaseKind.SQLITE and description.statement is not None and are_here:
        session.execute(description.statement)
        omissions = [
            Omission(description.name, part, TRIGGERS_STAY)
            for part in description.parts
            if part.kind is PartKind.TRIGGER
        ]
    else:
        omissions = _compose(session, article, description, tables)
    # A table that a program renamed has kept its index.
    session.execute(f"drop index if exists {index_name(article)}")
    session.execute(f"create unique index {index_name(article)} on {quote(article.file_table)} ({ROWGUID})")
    for part in description.parts:
        if part.kind is PartKind.INDEX:
            omissions += _make_index(session, article, description, part)
    return omissions


def _compose(
    session: sqlite3.Connection, article: Article, description: TableDescription, tables: Mapping[str, str]
) -> list[Omission]:
    omissions: list[Omission] = []
    clauses: dict[str, str] = {}
    lines: list[str] = []
    for part in description.parts:
        clause, reason = part_clause(session, article, description.kind, part)
        if reason is not None:
            omissions.append(Omission(description.name, part, reason))
        elif clause is not None and part.kind in (PartKind.CHECK, PartKind.GENERATED):
            lines.append(clause)
        elif clause is not None:
            clauses[part.name] = clauses.get(part.name, "") + clause
    columns = [_column(column, clauses.get(column.name, "")) for column in article.columns]
    generated = [line for line in lines if " generated always as " in line]
    growing = " autoincrement" * bool(article.identity_range)
    constraints = [
        f"primary key ({_names(column.name for column in article.key_columns)}{growing})",
        *(f"unique ({_names(key)})" for key in description.unique_keys),
        *(
            _foreign_key(reference, tables)
            for reference in description.references
            if reference.referenced_table in tables
        ),
        *(line for line in lines if line not in generated),
    ]
    made = ",\n    ".join([*columns, DEFINITION, *generated, *constraints])
    session.execute(f"create table {quote(article.file_table)} (\n    {made}\n)")
    return omissions


def column_text(
    session: sqlite3.Connection, article: Article, kind: DatabaseKind, column: ArticleColumn, parts: Iterable[Part]
) -> tuple[str, list[Omission]]:
    """Return a column of `create table` with its parts, of the hub's kind of database, and those it does not get."""
    clauses = ""
    omissions: list[Omission] = []
    for part in parts:
        clause, reason = part_clause(session, article, kind, part)
        clauses += clause or ""
        if reason is not None:
            omissions.append(Omission(article.qualified_name, part, reason))
    return _column(column, clauses), omissions


def _column(column: ArticleColumn, clauses: str) -> str:
    return f"{_declared(column)}{' not null' * (not column.is_nullable)}{clauses}"


def part_clause(
    session: sqlite3.Connection, article: Article, kind: DatabaseKind, part: Part
) -> tuple[str | None, str | None]:
    """Return a part's clause in `create table`, or why there is none; neither for parts that come later.

    `kind` is that of the database in which the part is written so.
    """
    types = {column.name: column for column in article.columns}
    match part.kind:
        case PartKind.INDEX:
            return None, None
        case PartKind.TRIGGER:
            return None, TRIGGERS_STAY
        case PartKind.IDENTITY:
            is_rowid = [column.name for column in article.key_columns] == [part.name]
            is_made = is_rowid and kind_of(types[part.name].type_text) is TypeKind.WHOLE_NUMBER
            return None, None if is_made else "SQLite numbers only a primary key of one integer column"
        case PartKind.COLLATION:
            found = _COLLATIONS.get(part.sql)
            return (f" collate {found}", None) if found else (None, ON_ANOTHER_DATABASE)
        case PartKind.EXCLUSION | PartKind.UNIQUE | PartKind.FOREIGN_KEY:
            return None, ON_ANOTHER_DATABASE
        case PartKind.DEFAULT | PartKind.CHECK | PartKind.GENERATED:
            type_text = part.type_text or (types[part.name].type_text if part.name in types else "")
            sql = _TRANSLATIONS[kind](part.sql, type_text) if part.sql else None
            if sql is None:
                return None, ON_ANOTHER_DATABASE
            if part.kind is PartKind.CHECK and kind is DatabaseKind.POSTGRESQL:
                difference = differs_in_files(sql, {name: column.type_text for name, column in types.items()})
                if difference is not None:
                    return None, difference
            clause = {
                PartKind.DEFAULT: f" default ({sql})",
                PartKind.CHECK: f"constraint {quote(part.name)} check ({sql})",
                PartKind.GENERATED: (
                    f"{quote(part.name)} {declaration_of(type_text)} generated always as ({sql}) stored"
                ),
            }[part.kind]
            refusal = _try(session, article, part, clause)
            return (clause, None) if refusal is None else (None, refusal)


def _try(session: sqlite3.Connection, article: Article, part: Part, clause: str) -> str | None:
    """Return why SQLite refuses a clause: it is made in a temporary table, and a row of nulls is written."""
    is_default = part.kind is PartKind.DEFAULT
    columns = [_declared(column) + clause * (is_default and column.name == part.name) for column in article.columns]
    lines = columns if is_default else [*columns, clause]
    session.execute("savepoint rowtide_part")
    try:
        session.execute(f"create temporary table {_TRIAL.partition('.')[2]} ({', '.join(lines)})")
        session.execute(f"insert into {_TRIAL} default values")
    except sqlite3.IntegrityError:
        return None
    except sqlite3.Error as error:
        return f"SQLite: {error}"
    finally:
        session.execute("rollback to rowtide_part")
        session.execute("release rowtide_part")
    return None


def _make_index(
    session: sqlite3.Connection, article: Article, description: TableDescription, part: Part
) -> list[Omission]:
    statement = part.statement if description.kind is DatabaseKind.SQLITE else _index(article, part)
    if statement is None:
        return [Omission(description.name, part, ON_ANOTHER_DATABASE)]
    session.execute("savepoint rowtide_part")
    try:
        session.execute(statement)
    except sqlite3.Error as error:
        session.execute("rollback to rowtide_part")
        return [Omission(description.name, part, f"SQLite: {error}")]
    finally:
        session.execute("release rowtide_part")
    return []


def _index(article: Article, part: Part) -> str | None:
    """Return the statement that creates a PostgreSQL table's index here; None if SQLite has none like it."""
    terms = [for_sqlite(term, "") for term in part.terms]
    where = None if part.where is None else for_sqlite(part.where, "")
    if not terms or None in terms or (part.where is not None and where is None):
        return None
    unique = "unique " * part.is_unique
    name = f"{article.file_table}_{part.name}" if article.file_table not in part.name else part.name
    listed = ", ".join(term for term in terms if term is not None)
    condition = "" if where is None else f" where {where}"
    return f"create {unique}index {quote(name)} on {quote(article.file_table)} ({listed}){condition}"


def _declared(column: ArticleColumn) -> str:
    return f"{quote(column.name)} {declaration_of(column.type_text)}".rstrip()


def _foreign_key(reference: TableReference, tables: Mapping[str, str]) -> str:
    return (
        f"foreign key ({_names(reference.columns)}) references {quote(tables[reference.referenced_table])} "
        f"({_names(reference.referenced_columns)}) on delete {reference.on_delete} on update {reference.on_update}"
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote, names))


def _same(expression: str, _type_text: str) -> str | None:
    return expression


_TRANSLATIONS = {DatabaseKind.POSTGRESQL: for_sqlite, DatabaseKind.SQLITE: _same}


def fill(session: sqlite3.Connection, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
    """Write values into the article's columns of rows that exist, in the caller's transaction."""
    settings = ", ".join(f"{quote(column.name)} = ?" for column in article.columns)
    values = values_of(article)
    session.executemany(
        f"update {quote(article.file_table)} set {settings} where {ROWGUID} = ?",
        ([*values(row), rowguid] for rowguid, row in rows),
    )
    keep_exact(session, article, rows)


def load(session: sqlite3.Connection, article: Article, rows: Sequence[tuple[str, Row]]) -> int:
    """Insert rows, and return how many. Raises `RowsRefused`."""
    rows = (
        [(rowguid, with_classes_of(article, row, None)) for rowguid, row in rows] if untyped_indexes(article) else rows
    )
    names = ", ".join([*(quote(column.name) for column in article.columns), ROWGUID])
    marks = ", ".join("?" * (len(article.columns) + 1))
    statement = f"insert into {quote(article.file_table)} ({names}) values ({marks})"
    inserted, values = _LastRow(""), values_of(article)
    try:
        loaded = session.executemany(statement, ([*values(row), inserted.row(rowguid)] for rowguid, row in rows))
    except UnicodeError as error:
        raise inserted.refused(article, *NOT_UTF_8) from error
    except sqlite3.IntegrityError as error:
        raise inserted.refused(article, error.sqlite_errorname, str(error)) from error
    keep_exact(session, article, rows)
    return loaded.rowcount


@dataclass(slots=True)
class _LastRow:
    """The last row that was given to the database, by its rowguid."""

    rowguid: str

    def row(self, rowguid: str) -> str:
        self.rowguid = rowguid
        return rowguid

    def refused(self, article: Article, code: str, reason: str) -> RowsRefused:
        return RowsRefused(article.name, code, f"{reason}; the row has the rowguid {self.rowguid}")
