"""Tables of a SQLite node: its metadata, and the merged tables."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import MetaData

from rowtide.core.formats import FormatUnnumbered
from rowtide.databases.source_table import RunAs
from rowtide.databases.sqlite.catalogue import Column, Table, find_table
from rowtide.databases.sqlite.connect import path_of
from rowtide.databases.sqlite.guarding import read_format
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import type_of_declaration
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn, JoinFilter
from rowtide.merge.catalogue import list_merged
from rowtide.merge.errors.nodes import NodeOutdated, UnsentByOtherBuild
from rowtide.merge.errors.publishing import ArticleTableNotFound, FilterRefused, ResolverRefused, TableNotAltered
from rowtide.merge.nodes import node_tables
from rowtide.merge.nodes.sqlite.metadata import node_form, system_tables
from rowtide.merge.nodes.sqlite.metadata.node_form import make_views
from rowtide.merge.nodes.sqlite.rows import NO_FUNCTIONS
from rowtide.merge.nodes.sqlite.session import SqliteSession
from rowtide.merge.nodes.sqlite.tables.altering import SqliteTableAlteration
from rowtide.merge.nodes.sqlite.tables.making import list_parts, load, make_table, read_statement
from rowtide.merge.nodes.sqlite.tables.rebuilt_tables import (
    add_rowguid,
    drop_rowguid,
    has_own_rowguid,
    require_fit_rowguid,
    require_uuids,
)
from rowtide.merge.nodes.sqlite.tables.triggers import (
    all_trigger_names,
    find_rewriting,
    trigger_name,
    trigger_names,
    trigger_statements,
    written_columns,
)
from rowtide.merge.nodes.table_definitions import Omission, TableChange
from rowtide.merge.partitions.filters import parent_name
from rowtide.merge.versions.changes import Row

_SYSTEM = "__sys"
"""What the columns of change tracking begin with."""


class SqliteTables:
    """See `NodeTables`."""

    def __init__(self, node: SqliteSession) -> None:
        self._format = node.format
        self._connection = node.connection
        self._session = node.session
        self._transaction = node.transaction

    def prepare(self) -> None:
        if not node_form.is_there(self._session):
            with self._transaction():
                node_form.create(self._connection, self._session)
            return
        self.accept()
        self._format.require_writable()

    def add(self, later: MetaData) -> None:
        later.create_all(self._connection)

    def accept(self) -> None:
        """Take metadata that are there for use: views and triggers of another build are replaced by this one's.

        Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` or `UnsentByOtherBuild` for another format, and
        `NodeOutdated` if the file may not be written.
        """
        path, stored = path_of(self._session), read_format(self._session, node_form.FORMAT_VIEW)
        try:
            self._format.accept(path, stored)
        except FormatUnnumbered as error:
            if node_form.has_unsent(self._session):
                raise UnsentByOtherBuild(path) from error
            raise
        if node_form.is_complete(self._session) or not self._format.is_own:
            return
        if not os.access(path, os.W_OK):
            raise NodeOutdated(path, "the file may not be written")
        with self._transaction():
            node_form.renew(self._session)
            for article in list_merged(self._connection):
                self._renew_triggers(article)

    def _renew_triggers(self, article: Article) -> None:
        """Give a table this build's triggers, if it has those of an earlier one and its columns are the article's."""
        table = find_table(self._session, article.file_table)
        if table is None or not article.is_tracked or self._find_damage(article, table) is not None:
            return
        self.track(article)

    def is_prepared(self) -> bool:
        return node_form.is_prepared(self._session)

    def read_documented(
        self, name: str, rowguids: Sequence[str] | None = None
    ) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        make_views(self._connection, self._session)
        condition = "" if rowguids is None else " where rowguid in (select value from json_each(?))"
        listed = () if rowguids is None else (json.dumps(list(rowguids)),)
        found = self._session.execute(f"select * from temp.{quote(name)}{condition}", listed)
        return tuple(column[0] for column in found.description), found.fetchall()

    def renew_views(self) -> None:
        """Do nothing: the file's views name no article."""

    def find_original(self) -> node_tables.Original | None:
        """Return None: a moved file cannot be distinguished from a copy."""
        return None

    def record_identity(self) -> None:
        """See `find_original`."""

    def remove(self) -> None:
        node_form.drop_views(self._session)
        system_tables.drop(self._connection, self._session)

    def describe_all(self, articles: Sequence[Article]) -> Mapping[Article, node_tables.TableDescription]:
        return {article: self.describe(article.qualified_name) for article in articles}

    def describe(self, name: str) -> node_tables.TableDescription:
        table = self._find(name)
        columns = tuple(_published(column) for column in table.columns if _is_published(column))
        keys = {tuple(term.expression for term in key.terms) for key in table.unique_keys if key.is_of_columns}
        own = {column.name: column for column in table.columns}
        primary = [quote(column.name) for column in table.key_columns]
        return node_tables.TableDescription(
            kind=DatabaseKind.SQLITE,
            name=table.name,
            schema="",
            table=table.name,
            columns=columns,
            unique_keys=tuple(
                tuple(name for name in own if quote(name) in key)
                for key in sorted(keys)
                if sorted(key) != sorted(primary) and quote(ROWGUID) not in key and key[0] in map(quote, own)
            ),
            references=self._references(table),
            parts=tuple(list_parts(self._session, table)),
            statement=read_statement(self._session, table),
            fingerprint=self._fingerprint(table),
        )

    def find_damage(self, article: Article) -> str | None:
        return self._find_damage(article, find_table(self._session, article.file_table))

    def _find_damage(self, article: Article, table: Table | None) -> str | None:
        if table is None:
            return node_tables.NOT_THERE
        named = "select name from main.sqlite_master where type = 'trigger' and tbl_name = ?"
        triggers = {name for (name,) in self._session.execute(named, (table.name,))}
        there = {column.name for column in table.columns}
        return node_tables.say_damage(
            [name for name in (*(column.name for column in article.columns), ROWGUID) if name not in there],
            [name for name in trigger_names(article) if name not in triggers],
        )

    def find_rewriting(self, article: Article) -> Sequence[node_tables.RewritingTrigger]:
        return find_rewriting(self._session, article)

    def examine(self, articles: Sequence[Article]) -> node_tables.Examination:
        tables = {article: find_table(self._session, article.file_table) for article in articles}
        found = {article.nickname: self._find_damage(article, table) for article, table in tables.items()}
        damages = {nickname: damage for nickname, damage in found.items() if damage is not None}
        return node_tables.Examination(
            self.find_original(),
            damages,
            is_recorded=False,
            fingerprints={
                article.nickname: self._fingerprint(table) for article, table in tables.items() if table is not None
            },
            unsent={
                article.nickname: _unsent(article, table) for article, table in tables.items() if table is not None
            },
        )

    def require_owners(self, articles: Sequence[Article], run_as: RunAs | None = None) -> None:
        pass

    def lock(self, article: Article) -> None:
        """Nothing: the transaction has the file for itself."""

    def find_renames(self, article: Article, description: node_tables.TableDescription) -> Mapping[str, str]:
        # SQLite writes a column's new name into the triggers that name it.
        found = "select sql from main.sqlite_schema where type = 'trigger' and name = ?"
        row = self._session.execute(found, (trigger_name(article, "upd"),)).fetchone()
        if row is None:
            return {}
        there = {column.name for column in description.columns}
        was = [column.name for column in article.columns]
        return {
            name: renamed
            for name, renamed in zip(was, written_columns(row[0]), strict=False)
            if name not in there and renamed in there and renamed not in was
        }

    def run_alter(self, article: Article, clause: str) -> None:
        statement = f"alter table {quote(article.file_table)} {clause}"
        self._session.execute("savepoint merge_alter")
        try:
            try:
                self._session.execute(statement)
            except sqlite3.Error:
                # Our triggers may name a column that is to be dropped.
                self._drop_triggers(article)
                self._session.execute(statement)
        except sqlite3.Error as error:
            self._session.execute("rollback to merge_alter")
            raise TableNotAltered(article.qualified_name, str(error)) from error
        finally:
            self._session.execute("release merge_alter")

    def alter(self, change: TableChange) -> SqliteTableAlteration:
        return SqliteTableAlteration(self._session, change)

    def _fingerprint(self, table: Table) -> str:
        """Return a digest of the statement that creates the table."""
        found = "select sql from main.sqlite_schema where type = 'table' and name = ?"
        statement = str(self._session.execute(found, (table.name,)).fetchone()[0])
        return hashlib.sha256(statement.encode()).hexdigest()[:32]

    def attach_partitions(self, article: Article) -> bool:  # noqa: ARG002 - a table of a file has none
        return False

    def is_there(self, article: Article) -> bool:
        return find_table(self._session, article.file_table) is not None

    def make(
        self,
        tables: Sequence[tuple[Article, node_tables.TableDescription]],
        *,
        present: Sequence[Article] = (),
        refers_later: bool = False,  # noqa: ARG002 - foreign keys are part of a table
    ) -> Sequence[Omission]:
        names = {article.qualified_name: article.file_table for article, _ in tables}
        return [
            omission
            for article, description in tables
            if article not in present
            for omission in make_table(self._session, article, description, names)
        ]

    def refer(
        self, tables: Sequence[tuple[Article, node_tables.TableDescription]], *, present: Sequence[Article] = ()
    ) -> None:
        """Nothing: `make` has done it."""

    def load(self, article: Article, rows: Iterable[Sequence[tuple[str, Row]]]) -> int:
        return sum(load(self._session, article, batch) for batch in rows)

    def clear(self, article: Article) -> None:
        self._session.execute(f"delete from {quote(article.file_table)}")

    def check_filter(self, article: Article, condition: str) -> None:
        # What an index may be limited by is of the row alone; the copy has the name that the condition may use.
        name = quote(article.file_table)
        self._check(
            article,
            str(article.subset_filter),
            f"create temporary table {name} as select * from main.{name} limit 0",
            f"create index temp.rowtide_filter on {name} ({quote(article.columns[0].name)}) where {condition}",
        )

    def check_join(self, child: Article, join: JoinFilter, parent: Article, condition: str) -> None:
        tables = f"{quote(child.file_table)}, {quote(parent.file_table)} as {quote(parent_name(child, parent))}"
        self._check(child, join.condition, f"select 1 from {tables} where {condition} limit 0")

    def _check(self, article: Article, written: str, *statements: str) -> None:
        self._session.execute("savepoint rowtide_filter")
        try:
            for statement in statements:
                self._session.execute(statement)
        except sqlite3.Error as error:
            raise FilterRefused(article.qualified_name, written, str(error)) from error
        finally:
            self._session.execute("rollback to rowtide_filter")
            self._session.execute("release rowtide_filter")

    def check_procedure(self, article: Article) -> None:
        raise ResolverRefused(article.resolver, article.name, NO_FUNCTIONS)

    def has_rowguid(self, article: Article) -> bool:
        return has_own_rowguid(self._find(article.file_table))

    def add_rowguid(self, article: Article) -> None:
        with self._transaction():
            table = self._find(article.file_table)
            require_fit_rowguid(table)
            if has_own_rowguid(table):
                require_uuids(self._session, table)
            else:
                add_rowguid(self._session, article)

    def drop_rowguid(self, article: Article) -> None:
        drop_rowguid(self._session, article)

    def track(self, article: Article) -> None:
        self._drop_triggers(article)
        table = self._find(article.file_table)
        for statement in trigger_statements(article, table, self._references(table)).values():
            self._session.execute(statement)

    def untrack(self, article: Article) -> None:
        self._drop_triggers(article)
        system_tables.forget(self._session, article.nickname)

    def _drop_triggers(self, article: Article) -> None:
        for name in all_trigger_names(article):
            self._session.execute(f"drop trigger if exists {quote(name)}")

    def _find(self, name: str) -> Table:
        table = find_table(self._session, name)
        if table is None:
            raise ArticleTableNotFound(name)
        return table

    def _references(self, table: Table) -> tuple[node_tables.TableReference, ...]:
        found: dict[int, list[tuple[str, str, str | None]]] = {}
        actions: dict[int, tuple[str, str]] = {}
        rows = self._session.execute(f"pragma main.foreign_key_list({quote(table.name)})").fetchall()
        for number, _, referenced, column, referenced_column, on_update, on_delete, _ in sorted(
            rows, key=lambda row: row[:2]
        ):
            found.setdefault(number, []).append((referenced, column, referenced_column))
            actions[number] = (on_delete.lower(), on_update.lower())
        return tuple(self._reference(columns, *actions[number]) for number, columns in found.items())

    def _reference(
        self, columns: Sequence[tuple[str, str, str | None]], on_delete: str, on_update: str
    ) -> node_tables.TableReference:
        referenced = find_table(self._session, columns[0][0])
        name = columns[0][0] if referenced is None else referenced.name
        # Where no columns are named, it is the primary key that is referred to.
        keys = [] if referenced is None else [column.name for column in referenced.key_columns]
        named = [column for _, _, column in columns if column is not None] or keys
        return node_tables.TableReference(
            tuple(column for _, column, _ in columns), name, tuple(named), on_delete, on_update
        )


def _unsent(article: Article, table: Table) -> list[str]:
    published = {column.name for column in article.columns}
    return [column.name for column in table.columns if _is_published(column) and column.name not in published]


def _is_published(column: Column) -> bool:
    return not (column.is_generated or column.name == ROWGUID or column.name.startswith(_SYSTEM))


def _published(column: Column) -> ArticleColumn:
    return ArticleColumn(column.name, type_of_declaration(column.type_text), column.is_nullable, column.key_ordinal)
