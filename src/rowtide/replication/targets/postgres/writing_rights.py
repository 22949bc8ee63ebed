"""Whose rights a session's statements have at a PostgreSQL subscriber's tables, and how their keys are compared.

A table's triggers, defaults, checks and index expressions run with the rights of its owner, unless the owner is the
session's role or a superuser, or the subscription says `--run-as agent`. See
`rowtide.databases.postgres.owner_functions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from rowtide.core.operations import Operation
from rowtide.databases.postgres import owner_functions
from rowtide.databases.postgres.errors import RowsHidden, UnexpectedSqlError, translated
from rowtide.databases.postgres.functions import USERS_PATH
from rowtide.databases.postgres.owner_functions import Owner, read_owners
from rowtide.databases.postgres.quoting import operators_query, quote, quote_qualified, running
from rowtide.databases.postgres.session_settings import pin_again
from rowtide.databases.source_table import RunAs
from rowtide.replication.articles.articles import Article
from rowtide.replication.errors.subscribing import (
    OwnerTriggersDeferred,
    PartitionsOfOthers,
    ProcedureOwnerNotTrusted,
    TableOwnerNotHeld,
)
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.calls.written_table import ColumnEquality, Writer, WrittenTable
from rowtide.replication.targets.postgres.connecting import settings_of


class WrittenTables:
    """The tables of a subscription's articles, as a session writes them."""

    def __init__(self, connection: psycopg.Connection, subscriber: str, run_as: RunAs) -> None:
        self._connection = connection
        self._subscriber = subscriber
        self._run_as = run_as
        self._tables: dict[str, WrittenTable] = {}
        self._replaceable: dict[str, tuple[str, int]] = {}
        with translated():
            role_id, name, replication_role, row_security = connection.execute(_OWN).fetchall()[0]
        self.own = Writer(
            Owner(role_id, name, is_trusted=True, is_held=True),
            quote_qualified(SCHEMA, f"execute_{role_id}"),
            quote_qualified(SCHEMA, f"query_{role_id}"),
            is_other=False,
        )
        self._settings = settings_of({"session_replication_role": replication_role, "row_security": row_security})

    @property
    def has_others(self) -> bool:
        """Whether code of other roles runs in the session, and may change its settings and prepared statements."""
        return any(table.is_others for table in self._tables.values())

    def knows(self, article: Article) -> bool:
        """Return whether an article's table was read."""
        return article.article_id in self._tables

    def of(self, article: Article) -> WrittenTable:
        """Return how the table of an article is written that was read before."""
        return self._tables[article.article_id]

    def writer_of(self, article: Article) -> Writer:
        """Return who writes an article's table."""
        return self.of(article).writer or self.own

    def read(self, articles: Sequence[Article]) -> None:
        """Read articles' tables, and create the functions that write them.

        Raises `TableOwnerNotHeld`, `OwnerTriggersDeferred`, `RowsHidden`, `SchemaOfOthers`, `PartitionsOfOthers`,
        `ProcedureOwnerNotTrusted`.
        """
        names = {quote_qualified(article.schema, article.table): article for article in articles}
        run = running(self._connection)
        with translated():
            found = read_owners(run, list(names))
            typed = run(_COLUMNS, names=list(names))
        comparisons: dict[str, dict[str, ColumnEquality]] = {name: {} for name in names}
        for row in typed:
            comparisons[row.name][row.column_name] = ColumnEquality(row.operator, row.type_text)
        writers = {name: self._choose(names[name], owner) for name, owner in found.items()}
        self._require_procedures(articles, found)
        for name, article in names.items():
            self._replaceable.pop(article.article_id, None)
            owner = found.get(name)
            if owner is not None and owner.replaceable is not None and self._run_as is RunAs.OWNER:
                self._replaceable[article.article_id] = name, owner.replaceable
        others = {writer.role for writer in writers.values() if writer.is_other}
        if others:
            self._require_seen([name for name, writer in writers.items() if writer.is_other])
            self._require_none_deferred()
        self._make([*others])
        for name, article in names.items():
            self._tables[article.article_id] = WrittenTable(writers.get(name, self.own), comparisons[name])
        if self.has_others:
            # Code of others could give a prepared statement's name to another one.
            self._connection.prepare_threshold = None

    def _choose(self, article: Article, owner: Owner) -> Writer:
        if self._run_as is RunAs.AGENT:
            return self.own
        if owner.others:
            writing = self.own.role if owner.is_trusted else owner
            raise PartitionsOfOthers(article.qualified_name, writing.name, ", ".join(owner.others))
        if owner.is_trusted:
            return self.own
        if not owner.is_held:
            names = owner.name, self.own.role.name
            raise TableOwnerNotHeld(article.qualified_name, *names, self._subscriber, *map(quote, names))
        return Writer(owner, owner.executing, owner.querying, is_other=True)

    def _require_procedures(self, articles: Sequence[Article], found: Mapping[str, Owner]) -> None:
        """Raise `ProcedureOwnerNotTrusted` for a custom procedure that others could replace: it runs as their table's.

        Of all procedures of the name: which one a call finds, the server alone knows.
        """
        if self._run_as is RunAs.AGENT:
            return
        for article in articles:
            owner = found.get(quote_qualified(article.schema, article.table))
            for operation in (Operation.INSERT, Operation.UPDATE, Operation.DELETE):
                procedure = article.command(operation).procedure
                if procedure is not None:
                    with translated():
                        given = (procedure, "" if owner is None else owner.name)
                        row = self._connection.execute(_PROCEDURE_OWNERS, given).fetchone()
                    if row is not None:
                        raise ProcedureOwnerNotTrusted(procedure, row[0], article.qualified_name)

    def _require_seen(self, names: Sequence[str]) -> None:
        with translated():
            hidden = self._connection.execute(_FORCED, [list(names)]).fetchall()
        if hidden:
            tables = ", ".join(name for (name,) in hidden)
            raise RowsHidden(f"{tables} at the subscriber has policies that are forced on its owner, who writes it")

    def _require_none_deferred(self) -> None:
        with translated():
            found = owner_functions.find_deferred(running(self._connection))
        if found:
            raise OwnerTriggersDeferred(found[0])

    def _make(self, others: Sequence[Owner]) -> None:
        """Create the functions that are missing, or are not as this build makes them, in the caller's transaction."""
        with translated():
            (path,) = self._connection.execute(_USERS_PATH).fetchall()[0]
            rows = self._connection.execute(_FUNCTIONS, [SCHEMA, owner_functions.SCHEMA]).fetchall()
            made = {(schema, name, role_id): tuple(rest) for schema, name, role_id, *rest in rows}
            own = self.own.role
            missing: list[str] = []
            if not _has_functions(made, SCHEMA, own, path, is_definer=False):
                missing += owner_functions.own_creations(own, SCHEMA)
            lacking = [
                each for each in others if not _has_functions(made, owner_functions.SCHEMA, each, path, is_definer=True)
            ]
            missing += (statement for each in lacking for statement in owner_functions.creations(each))
            checking = made.get((SCHEMA, "refuse_deferred", own.role_id), ())
            if others and owner_functions.deferred_check_source() not in checking:
                missing += _CHECK_CREATION
            if not missing:
                return
            with self._connection.transaction():
                for statement in missing:
                    self._connection.execute(sql.SQL(statement))

    @property
    def pinning(self) -> str:
        """The statement after code of other roles has run, before the next one of rowtide's own within a batch."""
        return pin_again({name: value for name, value in self._settings.items() if not name.endswith("_timeout")})

    @property
    def beginning(self) -> Sequence[str]:
        """The statements at the beginning of a transaction."""
        pinned = [pin_again(self._settings)] if self.has_others else []
        return [*pinned, *owner_functions.guard_places(self._replaceable.values())]

    @property
    def ending(self) -> Sequence[str]:
        """The last statements before a transaction commits or is prepared."""
        refusing = [owner_functions.deferred_check(SCHEMA)] if self.has_others else []
        return [*refusing, USERS_PATH]

    @contextmanager
    def transaction(self, connection: psycopg.Connection) -> Iterator[None]:
        """Run a block in one transaction, which may run code of other roles; it ends before rowtide's own continues."""
        with connection.transaction():
            for statement in self.beginning:
                connection.execute(sql.SQL(statement))
            yield
            self.pin()
            self.end(connection)
        self.pin()

    def end(self, connection: psycopg.Connection) -> None:
        """Run the last statements of a connection's transaction. Raises `OwnerTriggersDeferred`."""
        try:
            with translated():
                for statement in self.ending:
                    connection.execute(sql.SQL(statement))
        except UnexpectedSqlError as error:
            if error.sqlstate == owner_functions.DEFERRED:
                raise OwnerTriggersDeferred(error.reason) from error
            raise

    def execute(self, article: Article, statement: str, values: Sequence[str | None] | None = None) -> int:
        """Execute a statement by the function of an article's writer; return how many rows it changed."""
        with translated():
            return self.run(article, statement, values)

    def run(self, article: Article, statement: str, values: Sequence[str | None] | None = None) -> int:
        """As `execute`; raises psycopg's errors."""
        given = (statement, None if values is None else list(values))
        query = f"select {self.writer_of(article).executing}(%s, %s::text[])"
        ((changed,),) = self._connection.execute(sql.SQL(query), given).fetchall()
        if self.has_others:
            self._connection.execute(sql.SQL(self.pinning))
        return int(changed)

    def pin(self) -> None:
        """Pin the session's settings, if code of other roles may have run."""
        if self.has_others:
            with translated():
                self._connection.execute(sql.SQL(self.pinning))


def open_written(
    connection: psycopg.Connection, subscriber: str, articles: Sequence[Article], run_as: RunAs
) -> WrittenTables:
    """Return a session's tables. Raises as `WrittenTables.read`."""
    tables = WrittenTables(connection, subscriber, run_as)
    tables.read(articles)
    return tables


def _has_functions(
    made: Mapping[tuple[str, str, int], tuple[object, ...]], schema: str, role: Owner, path: str, *, is_definer: bool
) -> bool:
    executing, querying = owner_functions.sources(role)
    settings = [f"search_path={path}", "standard_conforming_strings=on"]
    names = (f"execute_{role.role_id}", executing), (f"query_{role.role_id}", querying)
    return all(made.get((schema, name, role.role_id)) == (is_definer, settings, source) for name, source in names)


_CHECK_CREATION = (
    owner_functions.deferred_check_creation(SCHEMA),
    f"revoke all on function {SCHEMA}.refuse_deferred() from public",
)
_OWN = """
select oid::bigint, rolname::text, current_setting('session_replication_role'), current_setting('row_security')
from pg_roles where rolname = current_user
"""
USERS_FUNCTIONS_PATH = """
(select case setting.reset_val when '' then 'pg_temp' else setting.reset_val || ', pg_temp' end
 from pg_settings setting where setting.name = 'search_path')
"""
"""SQL expression of the path that is attached to functions with users' code: see `owner_functions.functions_path`."""
_USERS_PATH = f"select {USERS_FUNCTIONS_PATH}"
_FUNCTIONS = """
select n.nspname::text, p.proname::text, p.proowner::bigint, p.prosecdef, p.proconfig, p.prosrc
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = any(array[%s, %s]) and p.proname ~ '^(execute_|query_|refuse_deferred)'
"""
_PROCEDURE_OWNERS = """
select r.rolname::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
join pg_roles r on r.oid = p.proowner, parse_ident(%s) name
where p.proname = name[cardinality(name)] and (cardinality(name) = 1 or n.nspname = name[1])
    and r.rolname <> current_user and not r.rolsuper and r.rolname <> %s
"""
_FORCED = """
select name from unnest(%s::text[]) name join pg_class c on c.oid = to_regclass(name)
where c.relrowsecurity and c.relforcerowsecurity
"""
# A type of users' own without an index here is compared by its default operator class, if it has one.
_COLUMNS = f"""
select given.name, a.attname::text as column_name, format_type(a.atttypid, a.atttypmod) as type_text, coalesce(
    indexed.operators[3],
    (select format('operator(%I.%s)', n.nspname, o.oprname)
     from pg_opclass class
     join pg_am method on method.oid = class.opcmethod and method.amname = 'btree'
     join pg_amop m on m.amopfamily = class.opcfamily and m.amoplefttype = class.opcintype
         and m.amoprighttype = class.opcintype and m.amopstrategy = 3
     join pg_operator o on o.oid = m.amopopr join pg_namespace n on n.oid = o.oprnamespace
     where class.opcdefault and class.opcintype = coalesce(nullif(y.typbasetype, 0), y.oid)),
    'operator(pg_catalog.=)') as operator
from unnest(cast(:names as text[])) given (name)
join pg_attribute a on a.attrelid = to_regclass(given.name) and a.attnum > 0 and not a.attisdropped
join pg_type y on y.oid = a.atttypid
left join lateral ({operators_query("given.name")}) indexed on indexed.column_name = a.attname::text
"""
