"""Tables of a PostgreSQL node: its metadata, and the merged tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import psycopg
from psycopg import sql
from sqlalchemy import MetaData, text, true
from sqlalchemy.exc import DBAPIError

from rowtide.core.formats import parse_definition
from rowtide.databases.postgres.alterations import LOCK_TIMEOUT_S, create_tables
from rowtide.databases.postgres.batching import DEFERS, execute_together
from rowtide.databases.postgres.catalogue import find_table_ids, read_tables
from rowtide.databases.postgres.functions import guard_schema
from rowtide.databases.postgres.quoting import quote, quote_qualified, statement
from rowtide.databases.postgres.rowguid import identifies_rows, is_made_here, is_uuid, make_rowguid
from rowtide.databases.source_table import RunAs, SourceTable
from rowtide.merge.articles import ROWGUID, Article, JoinFilter
from rowtide.merge.catalogue import select_articles
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.errors import publishing as errors
from rowtide.merge.errors.nodes import NodeOutdated
from rowtide.merge.nodes.node_tables import (
    Examination,
    Original,
    RewritingTrigger,
    TableDescription,
)
from rowtide.merge.nodes.postgres.default_schema import here
from rowtide.merge.nodes.postgres.execution import TRUSTED
from rowtide.merge.nodes.postgres.metadata import identity, node_form, system_tables
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.procedures import require_procedure
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.stored_tables import advance_sequences, find_sequences, highest_in_table
from rowtide.merge.nodes.postgres.tables.altering import (
    PostgresTableAlteration,
    make_parts,
)
from rowtide.merge.nodes.postgres.tables.attached_partitions import attach_partitions
from rowtide.merge.nodes.postgres.tables.description import (
    creation,
    damage_request,
    description_requests,
    foreign_keys,
    names_of,
    read_damages,
    read_description,
)
from rowtide.merge.nodes.postgres.tables.identity_triggers import unbounding
from rowtide.merge.nodes.postgres.tables.triggers import (
    find_rewriting,
    function_name,
    function_statements,
    removal_statements,
    trigger_statements,
)
from rowtide.merge.nodes.postgres.writing.writer import load
from rowtide.merge.nodes.table_definitions import Omission, TableChange
from rowtide.merge.nodes.untyped_values import server_type
from rowtide.merge.partitions.filters import parent_name
from rowtide.merge.versions.changes import Row

MAKER = "rowtide merge replication"
"""Noted at a column `rowguid` that was added, and goes with the article."""


class PostgresTables:
    """See `NodeTables`."""

    def __init__(self, node: PostgresSession) -> None:
        self._node = node
        self.places = node.places
        self._connection = node.connection
        self._session = node.session
        self._executions = node.executions

    def is_prepared(self) -> bool:
        return self._node.is_prepared()

    def prepare(self) -> None:
        with self._session.transaction():
            # The program that made it may have declared that it is complete.
            self._run(guard_schema(SCHEMA))
            is_there, form, place, definition = self._connection.execute(text(node_form.STATE)).one()
            if not is_there:
                node_form.create(self._connection, self.places.fill)
                return
            self._node.format.accept(place, parse_definition(definition))
            self._node.format.require_writable()
            if form != node_form.OWN_FORM:
                self._renew()

    def add(self, later: MetaData) -> None:
        create_tables(self._connection, later)
        owner = self._connection.execute(text(_OTHER_OWNER), {"schema": SCHEMA}).first()
        if owner is None:
            return
        for table in later.sorted_tables:
            name, role = quote_qualified(SCHEMA, table.name), quote(owner.name)
            # Members of the owner share what it owns; whose membership is without SET gives it the rights alone.
            given = f"alter table {name} owner to {role}" if owner.may_be_it else f"grant all on table {name} to {role}"
            self._connection.execute(statement(given))

    def accept(self, form: str | None, place: str, definition: str | None) -> None:
        """Take metadata that are there for use: views and functions of another build are replaced by this one's.

        Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` for another format, and `NodeOutdated` if the role or
        the server may not replace them.
        """
        self._node.format.accept(place, parse_definition(definition))
        if form == node_form.OWN_FORM or not self._node.format.is_own:
            return
        try:
            with self._session.transaction():
                self._renew()
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) in node_form.OUTDATED:
                raise NodeOutdated(self._session.info.dbname, " ".join(str(error.orig).split())) from error
            raise

    def _renew(self) -> None:
        node_form.renew(self._connection, self.places.fill)
        for row in self._connection.execute(select_articles(true())).mappings().all():
            article = self.places.fill(Article.decode(row["definition"]))
            named = {"function": function_name(article), "table": table_of(article)}
            has_functions, is_partitioned = self._connection.execute(text(_FUNCTIONS), named).one()
            if has_functions:
                for each in function_statements(article, is_partitioned=is_partitioned):
                    self._connection.execute(statement(each))

    def read_documented(
        self, name: str, rowguids: Sequence[str] | None = None
    ) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        condition = "" if rowguids is None else " where rowguid = any(cast(:listed as uuid[]))"
        listed = {} if rowguids is None else {"listed": list(rowguids)}
        found = self._connection.execute(text(f"select * from {quote_qualified(SCHEMA, name)}{condition}"), listed)
        rows = [[str(value) if isinstance(value, UUID) else value for value in row] for row in found]
        return tuple(found.keys()), rows

    def renew_views(self) -> None:
        with self._session.transaction():
            node_form.renew_members(self._connection, self.places.fill)

    def find_original(self) -> Original | None:
        return identity.find_original(self._connection)

    def record_identity(self) -> None:
        identity.record_identity(self._connection)

    def remove(self) -> None:
        system_tables.drop(self._connection)

    def describe(self, name: str) -> TableDescription:
        return self._describe([name])[0]

    @here
    def describe_all(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        found = self._describe([article.qualified_name for article in articles])
        return dict(zip(articles, found, strict=True))

    def _describe(self, names: Sequence[str]) -> Sequence[TableDescription]:
        ids = find_table_ids(self._connection, names, execute_together)
        for name, table_id in zip(names, ids, strict=True):
            if table_id is None:
                raise errors.ArticleTableNotFound(name)
        known = [table_id for table_id in ids if table_id is not None]
        tables = {table.source_id: table for table in read_tables(self._connection, known, execute_together)}
        requests = [request for table_id in known for request in description_requests(table_id)]
        answers = execute_together(self._connection, requests) if requests else []
        width = len(answers) // max(1, len(known))
        return [
            read_description(tables[table_id], *answers[index * width : (index + 1) * width])
            for index, table_id in enumerate(known)
        ]

    @here
    def find_damage(self, article: Article) -> str | None:
        return self._find_damages([article]).get(article.nickname)

    @here
    def find_rewriting(self, article: Article) -> Sequence[RewritingTrigger]:
        return find_rewriting(self._session, article)

    @here
    def examine(self, articles: Sequence[Article]) -> Examination:
        try:
            (found,), owners, *parts = self._session.read(
                (identity.REQUEST, None), self._executions.request(articles), *map(damage_request, articles)
            )
        except psycopg.errors.InsufficientPrivilege:
            # The role may not read which server this is.
            return Examination(None, self._find_damages(articles), is_recorded=True)
        self._executions.take(owners)
        original, is_recorded = identity.compare_identity(*found)
        found_columns = {article.nickname: answer[0] for article, answer in zip(articles, parts, strict=True)}
        return Examination(
            original,
            read_damages(articles, parts),
            is_recorded,
            {nickname: fingerprint for nickname, (*_, fingerprint, _) in found_columns.items() if fingerprint},
            {
                article.nickname: sorted(set(found_columns[article.nickname][-1]) - names_of(article))
                for article in articles
            },
        )

    @here
    def require_owners(self, articles: Sequence[Article], run_as: RunAs | None = None) -> None:
        for article in articles:
            self._executions.require(article, run_as)

    @here
    def lock(self, article: Article) -> None:
        # Before what the transaction reads of tables as it begins, which takes its snapshot.
        self._session.put_first(
            f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'",
            f"lock table {table_of(article)} in share row exclusive mode",
        )

    def find_renames(self, article: Article, description: TableDescription) -> Mapping[str, str]:
        if article.table_id != description.table_id:
            return {}
        now = {column.attnum: column.name for column in description.columns}
        was = {column.name: now[column.attnum] for column in article.columns if column.attnum in now}
        return {name: renamed for name, renamed in was.items() if name != renamed}

    @here
    def run_alter(self, article: Article, clause: str) -> None:
        try:
            with self._session.transaction():
                execution = self._executions.of(article)
                for each in execution.statements(f"alter table {table_of(article)} {clause}"):
                    self._session.execute(sql.SQL(each))
        except psycopg.Error as error:
            raise errors.TableNotAltered(article.qualified_name, error.diag.message_primary or str(error)) from error

    @here
    def alter(self, change: TableChange) -> PostgresTableAlteration:
        return PostgresTableAlteration(self._connection, self._session, change, self._executions.of(change.before))

    def _find_damages(self, articles: Sequence[Article]) -> Mapping[int, str]:
        return read_damages(articles, self._session.read(*map(damage_request, articles)))

    @here
    def attach_partitions(self, article: Article) -> bool:
        return self.is_there(article) and attach_partitions(self._node.alterations, article)

    @here
    def is_there(self, article: Article) -> bool:
        found = text("select to_regclass(:name) is not null")
        return bool(self._connection.execute(found, {"name": table_of(article)}).scalar())

    @here
    def make(
        self,
        tables: Sequence[tuple[Article, TableDescription]],
        *,
        present: Sequence[Article] = (),
        refers_later: bool = False,
    ) -> Sequence[Omission]:
        omissions: list[Omission] = []
        made = [(article, description) for article, description in tables if article not in present]
        for article, description in made:
            self._require_types(article)
            if article.schema:
                self._run(f"create schema if not exists {quote(article.schema)}")
            self._run(creation(article, description))
            omissions += make_parts(self._session, article, description)
        if not refers_later:
            self._refer(tables, present, "")
        return omissions

    @here
    def refer(self, tables: Sequence[tuple[Article, TableDescription]], *, present: Sequence[Article] = ()) -> None:
        self._run("set constraints all immediate")
        self._refer(tables, present, " not valid")

    def _refer(
        self, tables: Sequence[tuple[Article, TableDescription]], present: Sequence[Article], validity: str
    ) -> None:
        names = {article.qualified_name: article for article, _ in tables}
        for article, description in tables:
            if article not in present:
                for constraint in foreign_keys(article, description, names):
                    self._run(constraint + validity)

    @here
    def load(self, article: Article, rows: Iterable[Sequence[tuple[str, Row]]]) -> int:
        loaded = load(self._session, article, rows, self._executions.of(article))
        sequences = find_sequences(self._session, article)
        advance_sequences(self._session, sequences, highest_in_table(article, sequences))
        return loaded

    @here
    def clear(self, article: Article) -> None:
        for each in self._executions.of(article).statements(f"delete from {table_of(article)}"):
            self._run(each)

    @here
    def check_filter(self, article: Article, condition: str) -> None:
        # What an index may be limited by is of the row alone; the copy has the name that the condition may use. What a
        # column may be generated from is, too, but there the server compares constants without a collation, and fails.
        self._require_types_of_filter(article, str(article.subset_filter), condition, article)
        name = quote(article.table)
        self._check(
            article,
            str(article.subset_filter),
            f"create temporary table {name} (like {table_of(article)})",
            f"create index on pg_temp.{name} ((true)) where {condition}",
        )

    @here
    def check_join(self, child: Article, join: JoinFilter, parent: Article, condition: str) -> None:
        for each in (child, parent):
            self._require_types_of_filter(child, join.condition, condition, each)
        tables = f"{table_of(child)}, {table_of(parent)} as {quote(parent_name(child, parent))}"
        self._check(child, join.condition, f"select 1 from {tables} where {condition} limit 0")

    def _require_types_of_filter(self, article: Article, written: str, condition: str, of: Article) -> None:
        """Raise `FilterRefused` if a filter uses types whose casts and operators another role defines.

        They would run with the rights of the role that evaluates the filter.
        """
        if self._executions.of(of) == TRUSTED:
            return
        names = [column.name for column in of.columns if quote(column.name) in condition]
        found = self._connection.execute(text(_TYPES_OF_OTHERS), {"table": table_of(of), "names": names}).first()
        if found is not None:
            reason = f'column {found.column_name} has a type of "{found.owner}", whose casts would run as this role'
            raise errors.FilterRefused(article.qualified_name, written, reason)

    def _check(self, article: Article, written: str, *statements: str) -> None:
        try:
            with self._session.transaction(force_rollback=True):
                for each in statements:
                    self._session.execute(sql.SQL(each))
        except psycopg.Error as error:
            reason = error.diag.message_primary or str(error)
            raise errors.FilterRefused(article.qualified_name, written, reason) from error

    @here
    def check_procedure(self, article: Article) -> None:
        require_procedure(self._session, article, self._executions.of(article))

    @here
    def has_rowguid(self, article: Article) -> bool:
        return identifies_rows(self._find(article))

    @here
    def add_rowguid(self, article: Article) -> None:
        table = self._find(article)
        unfit = next((column for column in table.columns if column.name == ROWGUID and not is_uuid(column)), None)
        if unfit is not None:
            raise errors.RowguidUnfit(article.qualified_name, f"of type {unfit.type_text} where a UUID belongs")
        if not identifies_rows(table):
            make_rowguid(self._node.alterations, table, MAKER, self._executions.of(article).filling)

    @here
    def drop_rowguid(self, article: Article) -> None:
        if not is_made_here(self._connection, self._find(article), MAKER):
            return
        try:
            with self._session.transaction():
                execution = self._executions.of(article)
                for each in execution.statements(f"alter table {table_of(article)} drop column {ROWGUID}"):
                    self._run(each)
                self._session.flush()
        except (DBAPIError, psycopg.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            if not isinstance(cause, psycopg.errors.DependentObjectsStillExist):
                raise

    @here
    def track(self, article: Article) -> None:
        # A table with checks to come cannot be altered.
        table = self._find(article)
        waiting = ("set constraints all immediate", *removal_statements(article), *trigger_statements(article, table))
        for each in waiting:
            self._connection.execute(statement(each), execution_options=DEFERS)
        self._session.flush()

    @here
    def untrack(self, article: Article) -> None:
        for removal in removal_statements(article):
            self._run(removal)
        if article.identity_range:
            self._run(unbounding(article))
        system_tables.forget(self._connection, article.nickname)

    def _require_types(self, article: Article) -> None:
        for column in article.columns:
            found = text("select to_regtype(:type) is not null")
            if not self._connection.execute(found, {"type": server_type(column)}).scalar():
                raise errors.UnsupportedColumnType(article.qualified_name, column.name, column.type_text)

    def _find(self, article: Article) -> SourceTable:
        (table_id,) = find_table_ids(self._connection, [f"{article.schema or article.place}.{article.table}"])
        found = () if table_id is None else read_tables(self._connection, [table_id], execute_together)
        if not found:
            raise errors.ArticleTableNotFound(article.qualified_name)
        return found[0]

    def _run(self, each: str) -> None:
        self._connection.execute(statement(each))


_OTHER_OWNER = """
select r.rolname::text as name, pg_has_role(r.oid, 'set') as may_be_it
from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = :schema and r.rolname <> current_user
"""
_TYPES_OF_OTHERS = """
select a.attname::text as column_name, o.rolname::text as owner
from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_roles o on o.oid = t.typowner
where a.attrelid = to_regclass(:table) and a.attname = any(:names) and t.typtype <> 'd'
  and o.rolname <> current_user and not o.rolsuper
order by a.attnum
"""
_FUNCTIONS = """
select to_regproc(:function) is not null,
       coalesce((select relkind = 'p' from pg_class where oid = to_regclass(:table)), false)
"""
